"""Record the data directory of this release, for the tests of later ones.

`python -m tests.releases v0_5_0` runs `statements.sql` on an empty catalog, and the windowed query in a driver until it has a state. It
writes the catalog as SQL and the checkpoint of that query into an archive. Its stores exist as long as it runs.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import sys
import tempfile
from base64 import b64encode
from contextlib import closing
from pathlib import Path
from string import Template

from harness.kafka import KafkaClient
from harness.postgresql import PASSWORD, USER, PostgresServer
from harness.session import Session
from headrace.catalog.catalog import Catalog
from headrace.catalog.keys import GivenKeys
from headrace.connectors.checkpoint_store import LocalFolder
from headrace.core.settings import Settings
from headrace.engine.checkpoint_copy import relocate
from headrace.engine.engine import Engine
from headrace.engine.ports import stores_of
from headrace.planner.physical import SparkPlan
from headrace.runtime.kafka_broker import KafkaBroker
from headrace.session import StatementService
from headrace.statements.base import Services
from tests.driver.control import DriverControl
from tests.releases import ELSEWHERE, FOLDER, KEY, RECORDS, SOURCE, WINDOWED


async def _write_catalog(folder: Path, broker: str, postgresql: str) -> Catalog:
    catalog = Catalog.open(folder, keys=GivenKeys(b64encode(KEY).decode()))
    settings = Settings(data_dir=folder)
    engine = Engine(catalog, settings)
    session = Session(catalog, engine, StatementService(Services(catalog, engine, settings)))
    texts = (FOLDER / "statements.sql").read_text(encoding="utf-8")
    values = {
        "broker": broker,
        "postgresql": postgresql,
        "user": USER,
        "password": PASSWORD.replace("'", "''"),
    }
    for text in Template(texts).substitute(values).splitlines():
        # A semicolon ends a statement, and those of an application end none.
        await session.run(text.replace("||", ";"))
    await engine.stop()
    return catalog


def _run_windowed(folder: Path, catalog: Catalog, kafka: KafkaClient) -> None:
    (query,) = (query for query in catalog.queries() if query.name == WINDOWED)
    plan = SparkPlan.from_json(query.plan)
    kafka.produce(SOURCE, [(None, record) for record in RECORDS])
    driver = DriverControl(folder / "driver", progress_interval_ms=200)
    try:
        checkpoint = folder / "checkpoints" / query.id
        driver.start(plan, checkpoint=checkpoint, stores=stores_of(plan, catalog), query_id=query.id)
        driver.until(lambda: sum(each.input_rows for each in driver.progress(query.id)) >= len(RECORDS))
        driver.stop(query.id)
    finally:
        driver.close()


def _record(folder: Path, archive: Path) -> None:
    recorded = folder / "recorded"
    (checkpoint,) = (folder / "checkpoints").iterdir()
    relocate(checkpoint, recorded / "checkpoint", LocalFolder(ELSEWHERE))
    with closing(sqlite3.connect(folder / "catalog.db")) as stored:
        (recorded / "catalog.sql").write_text("\n".join(stored.iterdump()) + "\n", encoding="utf-8")
    shutil.make_archive(str(archive), "zip", recorded)


def main(version: str) -> None:
    """Record the present release as `version`."""
    with tempfile.TemporaryDirectory(prefix="headrace-release-") as name:
        folder = Path(name)
        (folder / "postgresql").mkdir()
        with (
            KafkaBroker(folder / "kafka") as broker,
            PostgresServer(folder / "postgresql", 16) as postgresql,
        ):
            postgresql.execute("CREATE TABLE discounts (customer text PRIMARY KEY, rate double precision)")
            catalog = asyncio.run(_write_catalog(folder, broker.bootstrap, postgresql.uri))
            _run_windowed(folder, catalog, KafkaClient(broker.bootstrap))
            catalog.close()
        _record(folder, FOLDER / version)


if __name__ == "__main__":
    main(sys.argv[1])
