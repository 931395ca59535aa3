"""Templates in groups, and queries that are made up, under three schedules: however rows arrive and whatever dies, a query gives what
the same SQL gives over tables.

The seed is printed; `HEADRACE_SEED` runs with that one, `HEADRACE_TEMPLATES` (names, with commas) fewer queries,
`HEADRACE_PARTITIONS` topics of other sizes.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from pathlib import Path

import pytest

from harness.kafka import KafkaClient
from harness.patience import PATIENCE_S, until
from harness.process import HeadraceProcess
from headrace.testing.door import RestDoor
from tests.properties.batch import Bag, difference, expected_rows, result_rows
from tests.properties.constructs import GROUPS
from tests.properties.patterns import drawn_pattern
from tests.properties.queries import Queries
from tests.properties.templates import (
    CHANGELOGS,
    COLUMNS,
    PARTITIONS,
    TEMPLATES,
    Row,
    Template,
    changed_rows,
    end_rows,
    late_topic,
    stream_rows,
    version_rows,
)

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

SPAN_MS = 80_000
COUNTS = {"s": 800, "r": 300, "c": 160, "u": 400, "x": 300}
PIECES = 6


RANDOM = "random"
"""The group of queries that are made up from the seed."""
MADE_UP = 20 if os.environ.get("HEADRACE_PROVE") else 8
ALL = {"base": TEMPLATES, **GROUPS, RANDOM: ()}
ONLY = os.environ.get("HEADRACE_TEMPLATES", "").split(",")
"""Names of templates, to run no others."""
PROVE = bool(os.environ.get("HEADRACE_PROVE"))
"""All groups under all schedules, as `make prove` does; else some."""
CASES = int(os.environ.get("HEADRACE_CASES", "1"))
"""How many random sets of rows, apart by their keys, each query is given: `make prove` gives it many."""
PATTERNS = 12
"""Patterns that are made up from the seed, in the group of patterns."""
QUERIES = 4
"""So many of a group, its first and others at random, run unless `PROVE`: starting queries is what takes the time."""


@dataclass
class Run:
    """A schedule's server, rows and names. If `killed`, at-least-once results may repeat rows."""

    kafka: KafkaClient
    server: HeadraceProcess
    door: RestDoor
    random_source: random.Random
    name: str
    templates: Sequence[Template]
    cases: int = CASES
    killed: bool = False
    produced: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COLUMNS, 0))

    def __post_init__(self) -> None:
        self.rows = {relation: self._drawn(relation) for relation in COLUMNS}

    def _drawn(self, relation: str) -> list[Row]:
        """The rows of all cases, one of each in turn: cases share no key."""
        made = {"s": stream_rows, "r": stream_rows, "c": version_rows}.get(relation, changed_rows)
        cases = [f"c{number}" if self.cases > 1 else "" for number in range(self.cases)]
        drawn = [made(self.random_source, COUNTS[relation], SPAN_MS, case) for case in cases]
        return [row for turn in zip_longest(*drawn) for row in turn if row is not None]

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
            primary = CHANGELOGS.get(relation)
            kind, key = ("CHANGELOG", f", PRIMARY KEY ({primary})") if primary else ("STREAM", "")
            deletions = (
                ", 'key.format' = PRIMITIVE, 'key.type' = 'VARCHAR', 'enable.upsert.mode' = TRUE"
                if primary == "id"
                else ""
            )
            self.door.execute(
                f"CREATE {kind} {relation} ({declared}{key}) WITH ('topic' = '{self.topic(relation)}', "
                f"'topic.partitions' = {PARTITIONS}, 'topic.replicas' = 1, 'value.format' = JSON, 'timestamp' = 't'{deletions});"
            )

    def start_queries(self) -> None:
        """All, at once; their results' topics exist when this returns."""
        for template in self.templates:
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

    def records(self) -> int:
        """Return how many committed records the first template's result has."""
        return len(self.kafka.consume(self.topic(self.templates[0].name)))

    @cached_property
    def _expected(self) -> dict[str, tuple[list[str], Bag]]:
        return expected_rows(self.templates, self.rows)

    def differences(self, templates: Sequence[Template]) -> dict[str, str]:
        """Template to how its result differs from the batch; empty when all agree."""
        self._states()
        differences = {}
        for template in templates:
            names, batch = self._expected[template.name]
            topic = self.topic(template.name)
            streaming = result_rows(template, names, self.kafka.consume(topic), self._late(template, topic))
            repeats = self.killed and not template.exactly_once and not template.changelog
            if text := difference(batch, streaming, repeats=repeats):
                differences[template.name] = text
        return differences

    def unread(self) -> list[str]:
        """The topics of which a query has not read, and committed, all that was produced."""
        topics = set()
        for row in self.door.execute("LIST QUERIES;"):
            checkpoint = self.server.data_dir / "checkpoints" / str(row[0])
            committed = max((int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")), default=-1)
            offsets = checkpoint / "offsets" / str(committed)
            # The first two lines are a version and Spark's settings, the others have the offsets of a source each.
            read = (
                [json.loads(line) for line in offsets.read_text().splitlines()[2:]] if committed >= 0 else []
            )
            reached = [(topic, offset) for source in read for topic, offset in source.items()]
            topics |= (
                {topic for topic, offset in reached if offset != self._ends[topic]}
                if reached
                else {str(row[0])}
            )
        return sorted(topics)

    @cached_property
    def _ends(self) -> dict[str, dict[str, int]]:
        """Topic to partition to its end, when everything has been produced."""
        return {self.topic(relation): self.kafka.ends(self.topic(relation)) for relation in COLUMNS}

    def _late(self, template: Template, topic: str) -> list[str | None]:
        """Return the late rows that a template keeps, without repetitions after a kill."""
        if not template.keeps_late_rows:
            return []
        rows = [value for _, value in self.kafka.consume(late_topic(topic))]
        return list(set(rows)) if self.killed else rows

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
            records = [(row.key, row.json()) for row in rows if row.partition == partition]
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
    until(lambda: run.records(), "the first results")
    run.produce(0.4)
    time.sleep(run.random_source.uniform(0.0, 2.0))
    run.server.kill_driver()
    run.produce(0.5)
    before = run.records()
    until(lambda: run.records() > before, "results after the driver's death")
    run.produce(0.7)
    time.sleep(run.random_source.uniform(0.0, 2.0))
    run.server.kill()
    run.produce(0.8)
    before = run.records()
    run.server.start()
    until(lambda: run.records() > before, "results after the server's death")
    for template in run.random_source.sample(list(run.templates), min(3, len(run.templates))):
        run.restart_query(template)
    run.finish()


SCHEDULES = {"whole": _whole, "cut": _cut, "restarted": _restarted}


@pytest.fixture
def run(request: pytest.FixtureRequest, kafka: KafkaClient, tmp_path: Path, seed: str) -> Iterator[Run]:
    number = os.environ.get("HEADRACE_SEED") or str(random.randrange(1 << 32))
    sys.stdout.write(f"HEADRACE_SEED={number}\n")
    # Batches of few records are one task: with many rows at once, let them be many, so that both are held against the batch.
    records = "0" if request.node.callspec.params["schedule"] == "whole" else "2000"
    server = HeadraceProcess(tmp_path / "data", environment={"HEADRACE_SMALL_BATCH_RECORDS": records}).start()
    door = RestDoor(server)
    try:
        drawn = random.Random(f"{number} {request.node.name}")
        queries = Queries(drawn)
        made_up = [queries.template(f"random_{place}") for place in range(MADE_UP if PROVE else QUERIES)]
        is_random = request.param == RANDOM
        group = made_up if is_random else list(ALL[request.param])
        sample = group if PROVE else [group[0], *drawn.sample(group[1:], QUERIES - 1)]
        if request.param == "patterns":
            patterns = [drawn_pattern(drawn, f"pattern_{place}") for place in range(PATTERNS)]
            sample = [*sample, *patterns] if PROVE else [*sample[:-1], patterns[0]]
            group = [*group, *patterns]
        chosen = [template for template in group if template.name in ONLY] or sample
        # Queries that are made up also join by what cases share.
        yield Run(kafka, server, door, drawn, seed, chosen, cases=1 if is_random else CASES)
    finally:
        door.close()
        server.stop()


SAMPLE = [
    ("base", "whole"),
    ("changes", "cut"),
    ("windows", "cut"),
    # Joins of all kinds are among those that are made up.
    (RANDOM, "cut"),
]
EVERY = [(group, schedule) for group in ALL for schedule in SCHEDULES]


@pytest.mark.parametrize(
    ("run", "schedule"),
    # Each has a server of its own: any worker may take it.
    [
        pytest.param(*case, marks=pytest.mark.xdist_group(f"properties {case}"))
        for case in (EVERY if PROVE else SAMPLE)
    ],
    indirect=["run"],
)
def test_a_streaming_result_is_the_batch_result(schedule: str, run: Run) -> None:
    run.declare()
    SCHEDULES[schedule](run)
    # A result may be right before all is read, one without rows from the beginning.
    until(lambda: not run.unread(), lambda: f"all of {run.unread()} to be read")
    deadline = time.monotonic() + PATIENCE_S
    open_ones = run.templates
    while (different := run.differences(open_ones)) and time.monotonic() < deadline:
        open_ones = [template for template in open_ones if template.name in different]
        time.sleep(0.5)
    assert not different, different
    # Nothing may come after that either: neither from a batch under way nor from the end of the queries.
    for row in run.door.execute("LIST QUERIES;"):
        run.door.execute(f"TERMINATE QUERY {row[0]};")
    until(
        lambda: {row[4] for row in run.door.execute("LIST QUERIES;")} <= {"terminated"}, "the queries ended"
    )
    different = run.differences(run.templates)
    assert not different, different
