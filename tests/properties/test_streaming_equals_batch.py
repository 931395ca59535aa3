"""Eleven templates under three schedules: however rows arrive and whatever dies, a query gives what the same SQL gives over tables.

The seed is printed; `HEADRACE_SEED` runs with that one.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.harness.doors import RestDoor
from tests.harness.kafka import KafkaClient
from tests.harness.patience import PATIENCE_S, until
from tests.harness.process import HeadraceProcess
from tests.properties.batch import difference, expected_rows, result_rows
from tests.properties.templates import (
    COLUMNS,
    TEMPLATES,
    Row,
    Template,
    end_rows,
    stream_rows,
    version_rows,
)

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

SPAN_MS = 80_000
COUNTS = {"s": 800, "r": 300, "c": 160}
PIECES = 6


@dataclass
class Run:
    """One schedule's server, rows and names. `killed` says that at-least-once results may repeat rows."""

    kafka: KafkaClient
    server: HeadraceProcess
    door: RestDoor
    random_source: random.Random
    name: str
    killed: bool = False
    produced: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COLUMNS, 0))

    def __post_init__(self) -> None:
        draw = self.random_source
        self.rows = {
            "s": stream_rows(draw, COUNTS["s"], SPAN_MS),
            "r": stream_rows(draw, COUNTS["r"], SPAN_MS),
            "c": version_rows(draw, COUNTS["c"], SPAN_MS),
        }

    def topic(self, relation: str) -> str:
        """The topic of a source or of a template's result."""
        return f"{relation}_{self.name}"

    def declare(self) -> None:
        """The store, the sources' topics and relations."""
        self.door.execute(
            f"CREATE DATABASE d{self.name}; USE DATABASE d{self.name};"
            f"CREATE STORE k{self.name} WITH ('type' = KAFKA, 'uris' = '{self.kafka.bootstrap}', 'tls.disabled' = TRUE);"
            f"USE STORE k{self.name};"
        )
        for relation, columns in COLUMNS.items():
            declared = ", ".join(f"{name} {kind}" for name, kind in columns.items())
            kind, key = ("CHANGELOG", ", PRIMARY KEY (k)") if relation == "c" else ("STREAM", "")
            self.door.execute(
                f"CREATE {kind} {relation} ({declared}{key}) WITH ('topic' = '{self.topic(relation)}', "
                "'topic.partitions' = 2, 'topic.replicas' = 1, 'value.format' = JSON, 'timestamp' = 't');"
            )

    def start_queries(self) -> None:
        """All, at once; their results' topics exist when this returns."""
        for template in TEMPLATES:
            self.door.execute(template.create(topic=self.topic(template.name)))

    def until_running(self) -> None:
        """All queries run (again)."""
        until(lambda: all(state == "running" for state in self._states()), "all queries are running")

    def produce(self, share: float) -> None:
        """The next rows of each source, up to this share of them."""
        for relation, rows in self.rows.items():
            end = round(len(rows) * share)
            self._write(relation, rows[self.produced[relation] : end])
            self.produced[relation] = end

    def finish(self) -> None:
        """All the rest, and the rows that move the watermark past everything."""
        self.produce(1.0)
        for relation in COLUMNS:
            self._write(relation, end_rows(relation, SPAN_MS))

    def records(self, template: str) -> int:
        """How many committed records a template's result has."""
        return len(self.kafka.consume(self.topic(template)))

    def differences(self) -> dict[str, str]:
        """Template to how its result differs from the batch; empty when all agree."""
        self._states()
        found = {}
        expected = expected_rows(self.rows)
        for template in TEMPLATES:
            names, batch = expected[template.name]
            streaming = result_rows(template, names, self.kafka.consume(self.topic(template.name)))
            repeats = self.killed and not template.exactly_once and not template.changelog
            if text := difference(batch, streaming, repeats=repeats):
                found[template.name] = text
        return found

    def restart_query(self, template: Template) -> None:
        """RESTART QUERY, in the middle of what it does."""
        rows = self.door.execute("LIST QUERIES;")
        (query,) = (row[0] for row in rows if f" q_{template.name} " in str(row[5]))
        self.door.execute(f"RESTART QUERY {query};")

    def _states(self) -> list[str]:
        rows = self.door.execute("LIST QUERIES;")
        broken = [(row[5], row[9]) for row in rows if row[4] == "errored"]
        assert not broken, broken
        return [str(row[4]) for row in rows]

    def _write(self, relation: str, rows: list[Row]) -> None:
        for partition in sorted({row.partition for row in rows}):
            records = [(None, row.json()) for row in rows if row.partition == partition]
            self.kafka.produce(self.topic(relation), records, partition=partition)


def _whole(run: Run) -> None:
    run.finish()
    run.start_queries()


def _cut(run: Run) -> None:
    run.start_queries()
    run.until_running()
    for share in sorted(run.random_source.random() for _ in range(PIECES)):
        run.produce(share)
        time.sleep(run.random_source.uniform(0.2, 1.5))
    run.finish()


def _restarted(run: Run) -> None:
    run.killed = True
    run.start_queries()
    run.until_running()
    run.produce(0.2)
    until(lambda: run.records("filter"), "the first results")
    run.produce(0.4)
    time.sleep(run.random_source.uniform(0.0, 2.0))
    run.server.kill_driver()
    run.produce(0.5)
    before = run.records("filter")
    until(lambda: run.records("filter") > before, "results after the driver's death")
    run.produce(0.7)
    time.sleep(run.random_source.uniform(0.0, 2.0))
    run.server.kill()
    run.produce(0.8)
    before = run.records("filter")
    run.server.start()
    until(lambda: run.records("filter") > before, "results after the server's death")
    for template in run.random_source.sample(TEMPLATES, 3):
        run.restart_query(template)
    run.finish()


SCHEDULES = {"whole": _whole, "cut": _cut, "restarted": _restarted}


@pytest.fixture
def run(request: pytest.FixtureRequest, kafka: KafkaClient, tmp_path: Path, seed: str) -> Iterator[Run]:
    number = os.environ.get("HEADRACE_SEED") or str(random.randrange(1 << 32))
    sys.stdout.write(f"HEADRACE_SEED={number}\n")
    server = HeadraceProcess(tmp_path / "data").start()
    door = RestDoor(server)
    try:
        yield Run(kafka, server, door, random.Random(f"{number} {request.node.name}"), seed)
    finally:
        door.close()
        server.stop()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_streaming_result_is_the_batch_result(schedule: str, run: Run) -> None:
    run.declare()
    SCHEDULES[schedule](run)
    deadline = time.monotonic() + PATIENCE_S
    while (found := run.differences()) and time.monotonic() < deadline:
        time.sleep(0.5)
    assert not found, found
    # Nothing may come after that either: neither from a batch under way nor from the end of the queries.
    for row in run.door.execute("LIST QUERIES;"):
        run.door.execute(f"TERMINATE QUERY {row[0]};")
    until(
        lambda: {row[4] for row in run.door.execute("LIST QUERIES;")} <= {"terminated"}, "the queries ended"
    )
    assert not run.differences()
