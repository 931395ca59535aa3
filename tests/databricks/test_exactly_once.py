"""Each row once, though a driver is killed when the warehouse has committed a batch and nobody has noted it; by Delta's own log."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from headrace.connectors.databricks import tables
from headrace.connectors.databricks.warehouse import Warehouse
from headrace.core.schema import Column
from headrace.core.types import BIGINT
from headrace.planner.physical import WriteRows
from tests.driver.control import DriverControl
from tests.driver.plans import STORE, columns, plan, read
from tests.harness.databricks import CATALOG, Workspace
from tests.harness.kafka import KafkaClient
from tests.harness.patience import PATIENCE_S, until

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

ROWS, PER_BATCH = 900, 300


def test_nothing_is_lost_or_doubled_when_the_driver_is_killed_inside_a_batch(
    kafka: KafkaClient, databricks: Workspace, store: dict[str, str], schema: str, tmp_path: Path, seed: str
) -> None:
    topic, path = f"events_{seed}", (CATALOG, schema, "events")
    kafka.create(topic)
    kafka.produce(topic, [(None, json.dumps({"v": n})) for n in range(ROWS)])
    with Warehouse(store) as warehouse:
        tables.create(warehouse, path, [Column("v", BIGINT)], (), f"s3://{databricks.bucket.bucket}/{schema}")
    stores = {STORE: {"uris": kafka.bootstrap, "tls.disabled": "TRUE"}, "dbx": store}

    def run(name: str, environment: dict[str, str], *, interval_ms: int) -> DriverControl:
        sink = WriteRows(
            id="sink",
            input="a",
            store="dbx",
            connector="databricks",
            entity=path,
            columns=columns("v BIGINT"),
            guarantee="exactly_once",
            options={"databricks.commit.interval.ms": str(interval_ms)},
        )
        steps = plan(*read(topic, "v BIGINT"), sink)
        driver = DriverControl(tmp_path / name, environment=environment, records_per_batch=PER_BATCH)
        driver.start(steps, checkpoint=tmp_path / "checkpoint", stores=stores, query_id=f"eo-{seed}")
        return driver

    def commits() -> list[int]:
        """The versions under which Delta's log has this query's batches."""
        found = [line["txn"] for line in databricks.commits(schema) if "txn" in line]
        assert {one["appId"] for one in found} <= {f"headrace-eo-{seed}"}
        return [int(one["version"]) for one in found]

    # A query with more to read than a batch can take does not wait for the interval.
    killed = run("killed", {"HEADRACE_FAIL_POINT": "inside_transaction:2"}, interval_ms=3_600_000)
    assert killed.process.wait(PATIENCE_S) == -signal.SIGKILL
    killed.close()
    # The second was committed by the warehouse: it is what comes again.
    before = commits()
    assert len(before) == 2

    survivor = run("survivor", {}, interval_ms=0)
    try:
        until(lambda: len(commits()) >= 3, lambda: f"a third commit, found {commits()}")
        survivor.stop(f"eo-{seed}")
    finally:
        survivor.close()
    assert commits() == [before[0], before[0] + 1, before[0] + 2]
    sent = [text for text in databricks.front.statements if text.startswith("INSERT") and schema in text]
    assert len(sent) == 4, sent
    found = databricks.execute(
        f"SELECT count(*), count(DISTINCT v), min(v), max(v) FROM {CATALOG}.{schema}.events"
    )
    assert found == [(ROWS, ROWS, 0, ROWS - 1)]
    assert not databricks.bucket.keys(f"headrace/eo-{seed}/")
