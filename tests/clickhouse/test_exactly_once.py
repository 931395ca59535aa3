"""Each row once, though a driver is killed when ClickHouse has taken a part of a batch and nobody has noted it."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from headrace.connectors.clickhouse import tables
from headrace.connectors.clickhouse.client import ClickHouse
from headrace.core.schema import Column
from headrace.core.types import BIGINT
from headrace.planner.physical import WriteRows
from tests.driver.control import DriverControl
from tests.driver.plans import STORE, columns, plan, read
from tests.harness.clickhouse import ClickHouseServer
from tests.harness.kafka import KafkaClient
from tests.harness.patience import PATIENCE_S, until

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

ROWS, PER_BATCH = 10_000, 2_000


def test_nothing_is_lost_or_doubled_when_the_driver_is_killed_inside_a_batch(
    kafka: KafkaClient, clickhouse: ClickHouseServer, store: dict[str, str], tmp_path: Path, seed: str
) -> None:
    topic, table = f"events_{seed}", f"events_{seed}"
    kafka.create(topic, partitions=2)
    kafka.produce(topic, [(str(n), json.dumps({"v": n})) for n in range(ROWS)])
    with ClickHouse(store) as client:
        tables.create(client, (table,), [Column("v", BIGINT)], ())
    sink = WriteRows(
        id="sink",
        input="a",
        store="facts",
        connector="clickhouse",
        entity=(table,),
        columns=columns("v BIGINT"),
        guarantee="exactly_once",
    )
    steps = plan(*read(topic, "v BIGINT"), sink)
    stores = {STORE: {"uris": kafka.bootstrap, "tls.disabled": "TRUE"}, "facts": store}

    def run(name: str, environment: dict[str, str]) -> DriverControl:
        driver = DriverControl(tmp_path / name, environment=environment, records_per_batch=PER_BATCH)
        driver.start(steps, checkpoint=tmp_path / "checkpoint", stores=stores, query_id=f"eo-{seed}")
        return driver

    def count() -> int:
        return int(clickhouse.execute(f"SELECT count() FROM {table}")[0][0])

    killed = run("killed", {"HEADRACE_FAIL_POINT": "inside_transaction:2"})
    assert killed.process.wait(PATIENCE_S) == -signal.SIGKILL
    killed.close()
    assert 0 < count() < ROWS

    survivor = run("survivor", {})
    try:
        until(lambda: count() >= ROWS, lambda: f"all of {ROWS} rows, found {count()}")
        survivor.stop(f"eo-{seed}")
    finally:
        survivor.close()
    assert clickhouse.execute(f"SELECT count(), uniqExact(v), min(v), max(v) FROM {table}") == [
        (ROWS, ROWS, 0, ROWS - 1)
    ]
