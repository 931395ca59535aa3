"""A query from a topic into a table, exactly once, whose driver is killed inside a batch."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.databricks import Workspace
from harness.kafka import KafkaClient
from harness.patience import PATIENCE_S, until
from harness.snowflake import SnowflakeServer
from headrace.formats.types import name_sql
from headrace.planner.physical import Column, DecodeRows, ReadEntity, SparkPlan, SqlTransform, WriteRows
from headrace.testing.processes import running_after
from tests.driver.control import DriverControl
from tests.driver.plans import STORE, plan
from tests.stores.sinks import SINKS, Sink

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


class TablePipeline:
    """Copies ROWS rows from a topic into a table of a store type, whose server is `server`, in batches of PER_BATCH rows.

    `options` and `environment` are those of each driver, and `checkpoint` is the address of the checkpoint. Each row takes some
    milliseconds if it `is_slow`.
    """

    def __init__(
        self,
        kind: str,
        server: Any,
        kafka: KafkaClient,
        folder: Path,
        seed: str,
        *,
        partitions: int,
        checkpoint: str,
        options: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
        is_slow: bool = False,
    ) -> None:
        self.death, self.sink, self.query = DEATHS[kind], SINKS[kind](server, seed), f"eo-{seed}"
        self._server, self._kafka, self._folder = server, kafka, folder
        self._topic, self._checkpoint = f"events_{seed}", checkpoint
        self._options = {"records_per_batch": PER_BATCH, **(options or {})}
        self._environment, self._is_slow = dict(environment or {}), is_slow
        self._rows = [(n, f"row {n}") for n in range(ROWS)]
        self.sink.create()
        number, text = (column.name for column in self.sink.columns)
        kafka.create(self._topic, partitions=partitions)
        # As many in each partition, which Spark then reads to equal parts: of others it rounds the size of a batch down.
        for partition in range(partitions):
            rows = self._rows[partition::partitions]
            records = [(str(n), json.dumps({number: n, text: value})) for n, value in rows]
            kafka.produce(self._topic, records, partition=partition)

    def check_death(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Let a driver die inside its second batch and another one continue, and compare the table. `meanwhile` is called when the
        first driver has the query."""
        # A query with more to read than a batch can take does not wait for the interval.
        killed = self._start("killed", {"HEADRACE_FAIL_POINT": "inside_transaction:2"}, 3_600_000)
        meanwhile()
        assert killed.process.wait(PATIENCE_S) == -signal.SIGKILL
        killed.close()
        assert len(self.sink.rows()) in self.death.held
        self.death.abandon(self._server)
        survivor = self._start("survivor", {}, 0)
        processes = survivor.processes()
        try:
            until(lambda: len(self.sink.rows()) >= ROWS, lambda: f"all rows, found {len(self.sink.rows())}")
            survivor.stop(self.query)
        finally:
            survivor.close()
            running_after(processes, PATIENCE_S)
        assert self.sink.rows() == self._rows
        self.death.check(self._server, self.sink, self.query)

    def _start(self, name: str, environment: Mapping[str, str], interval_ms: int) -> DriverControl:
        driver = DriverControl(
            self._folder / name, environment={**self._environment, **environment}, **self._options
        )
        stores = {
            STORE: {"uris": self._kafka.bootstrap, "tls.disabled": "TRUE"},
            "sink": self.sink.store(self.sink.port),
        }
        driver.start(self._plan(interval_ms), checkpoint=self._checkpoint, stores=stores, query_id=self.query)
        return driver

    def _plan(self, interval_ms: int) -> SparkPlan:
        columns = [Column(name=column.name, type=str(column.type)) for column in self.sink.columns]
        names = [name_sql(column.name) for column in columns]
        slow = f" WHERE length(sha2(repeat({names[1]}, 1000000), 512)) = 128" if self._is_slow else ""
        return plan(
            ReadEntity(
                id="read", store=STORE, connector="kafka", entity=(self._topic,), starting_position="earliest"
            ),
            DecodeRows(id="decoded", input="read", columns=columns),
            SqlTransform(id="rows", inputs=["decoded"], sql=f"SELECT {', '.join(names)} FROM decoded{slow}"),
            WriteRows(
                id="written",
                input="rows",
                store="sink",
                connector=self.sink.type,
                entity=self.sink.path,
                columns=columns,
                guarantee="exactly_once",
                options={"databricks.commit.interval.ms": str(interval_ms)},
            ),
        )
