"""Each row once, though a driver is killed inside its second batch: Spark's own batches, and the table as another tool reads it.

PostgreSQL has its own in `tests/faults`, where moments are many; `test_faults.py` is about batches without Spark.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.databricks import Workspace
from harness.faults import some
from harness.kafka import KafkaClient
from harness.patience import PATIENCE_S, until
from harness.snowflake import SnowflakeServer
from headrace.planner.physical import Column, DecodeRows, ReadEntity, WriteRows
from tests.driver.control import DriverControl
from tests.driver.plans import STORE, plan
from tests.stores.sinks import SINKS, Sink

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

ROWS, PER_BATCH = 900, 300


def _delta_has_each_batch_once(workspace: Workspace, sink: Sink, query: str) -> None:
    """Check Delta's own log; the batch that was committed and not noted was repeated."""
    schema = sink.path[1]
    transactions = [
        line["txn"] for line in workspace.commits(f"managed/{schema}.db/{sink.path[2]}") if "txn" in line
    ]
    assert {one["appId"] for one in transactions} == {f"headrace-{query}"}
    versions = [int(one["version"]) for one in transactions]
    assert versions == [versions[0], versions[0] + 1, versions[0] + 2]
    sent = [text for text in workspace.front.statements if text.startswith("INSERT") and schema in text]
    assert len(sent) == 4, sent
    assert not workspace.bucket.keys(f"headrace/{query}/")


@dataclass(frozen=True)
class Death:
    """Expected rows of a table, its server's treatment of a lost writer, and the final condition."""

    held: range
    partitions: int = 1
    abandon: Callable[[Any], None] = lambda *_: None
    check: Callable[[Any, Sink, str], None] = lambda *_: None


DEATHS: Mapping[str, Death] = {
    # A part of a batch, which is an insert for each partition, is taken and not noted.
    "clickhouse": Death(range(1, ROWS), partitions=2),
    # The batch is sent and not committed; Snowflake aborts it itself, when a session says nothing any more.
    "snowflake": Death(range(PER_BATCH, PER_BATCH + 1), abandon=SnowflakeServer.abort_transactions),
    # The batch is committed by the warehouse and not noted.
    "databricks": Death(range(2 * PER_BATCH, 2 * PER_BATCH + 1), check=_delta_has_each_batch_once),
}


@pytest.mark.parametrize("kind", some(DEATHS))
def test_nothing_is_lost_or_doubled_when_the_driver_is_killed_inside_a_batch(
    kind: str, request: pytest.FixtureRequest, kafka: KafkaClient, tmp_path: Path, seed: str
) -> None:
    death, server = DEATHS[kind], request.getfixturevalue(kind)
    sink, query, topic = SINKS[kind](server, seed), f"eo-{seed}", f"events_{seed}"
    sink.create()
    rows = [(n, f"row {n}") for n in range(ROWS)]
    number, text = (column.name for column in sink.columns)
    kafka.create(topic, partitions=death.partitions)
    kafka.produce(topic, [(str(n), json.dumps({number: n, text: said})) for n, said in rows])
    stores = {STORE: {"uris": kafka.bootstrap, "tls.disabled": "TRUE"}, "sink": sink.store(sink.port)}
    columns = [Column(name=column.name, type=str(column.type)) for column in sink.columns]

    def run(name: str, environment: dict[str, str], *, interval_ms: int) -> DriverControl:
        steps = plan(
            ReadEntity(
                id="read", store=STORE, connector="kafka", entity=(topic,), starting_position="earliest"
            ),
            DecodeRows(id="rows", input="read", columns=columns),
            WriteRows(
                id="written",
                input="rows",
                store="sink",
                connector=sink.type,
                entity=sink.path,
                columns=columns,
                guarantee="exactly_once",
                options={"databricks.commit.interval.ms": str(interval_ms)},
            ),
        )
        driver = DriverControl(tmp_path / name, environment=environment, records_per_batch=PER_BATCH)
        driver.start(steps, checkpoint=tmp_path / "checkpoint", stores=stores, query_id=query)
        return driver

    # A query with more to read than a batch can take does not wait for the interval.
    killed = run("killed", {"HEADRACE_FAIL_POINT": "inside_transaction:2"}, interval_ms=3_600_000)
    assert killed.process.wait(PATIENCE_S) == -signal.SIGKILL
    killed.close()
    assert len(sink.rows()) in death.held
    death.abandon(server)

    survivor = run("survivor", {}, interval_ms=0)
    try:
        until(lambda: len(sink.rows()) >= ROWS, lambda: f"all rows, found {len(sink.rows())}")
        survivor.stop(query)
    finally:
        survivor.close()
    assert sink.rows() == rows
    death.check(server, sink, query)
