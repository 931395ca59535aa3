"""Each row once, though a driver is killed when it has sent a batch and not committed it, by Spark's own batches; see `test_writing.py`."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from headrace.connectors.snowflake import tables
from headrace.connectors.snowflake.client import Snowflake
from headrace.core.schema import Column
from headrace.core.types import BIGINT
from headrace.planner.physical import WriteRows
from tests.driver.control import DriverControl
from tests.driver.plans import STORE, columns, plan, read
from tests.harness.kafka import KafkaClient
from tests.harness.patience import PATIENCE_S, until
from tests.harness.snowflake import SnowflakeServer

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

ROWS, PER_BATCH = 900, 300


def test_nothing_is_lost_or_doubled_when_the_driver_is_killed_before_it_commits(
    kafka: KafkaClient,
    snowflake: SnowflakeServer,
    store: dict[str, str],
    schema: tuple[str, str],
    tmp_path: Path,
    seed: str,
) -> None:
    topic, path = f"events_{seed}", (*schema, "events")
    kafka.create(topic)
    kafka.produce(topic, [(None, json.dumps({"v": n})) for n in range(ROWS)])
    with Snowflake(store) as session:
        tables.create(session, path, [Column("v", BIGINT)], ())
    sink = WriteRows(
        id="sink",
        input="a",
        store="sf",
        connector="snowflake",
        entity=path,
        columns=columns("v BIGINT"),
        guarantee="exactly_once",
    )
    stores = {STORE: {"uris": kafka.bootstrap, "tls.disabled": "TRUE"}, "sf": store}

    def run(name: str, environment: dict[str, str]) -> DriverControl:
        driver = DriverControl(tmp_path / name, environment=environment, records_per_batch=PER_BATCH)
        steps = plan(*read(topic, "v BIGINT"), sink)
        driver.start(steps, checkpoint=tmp_path / "checkpoint", stores=stores, query_id=f"eo-{seed}")
        return driver

    def kept() -> list[int]:
        return [int(row[0]) for row in snowflake.execute(f"SELECT V FROM {tables.named(path)} ORDER BY V")]

    killed = run("killed", {"HEADRACE_FAIL_POINT": "inside_transaction:2"})
    assert killed.process.wait(PATIENCE_S) == -signal.SIGKILL
    killed.close()
    assert kept() == list(range(PER_BATCH))
    # Snowflake does so itself, when a session says nothing any more.
    snowflake.abort_transactions()

    survivor = run("survivor", {})
    try:
        until(lambda: len(kept()) >= ROWS, lambda: f"all rows, found {len(kept())}")
        survivor.stop(f"eo-{seed}")
    finally:
        survivor.close()
    assert kept() == list(range(ROWS))
