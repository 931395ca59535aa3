"""A query of each kind over shared topics, and what they must have written, computed in Python from the same rows.

The rows come in disorder, but never late: the disorder within a partition is smaller than the latency that the sources allow.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.kafka import KafkaClient
from harness.patience import until
from harness.postgresql import PASSWORD, USER, PostgresServer
from headrace.testing.door import RestDoor
from tests.faults.workload import ONCE, START_MS, SteadyWriter, differences, text

PER_SECOND = 100
STEP_MS = 10
LATENCY_MS = 500
WINDOW_MS = 5_000
WITHIN_MS = 2_000
PAUSE_MS = 20_000
"""Before the rows that close all windows and matches: longer than each of them."""
GROUPS, CURRENCIES, LABELS = 8, 6, 5
PARTITIONS = 2
TOP = 3


@dataclass(frozen=True)
class Event:
    """Row of the stream `events`."""

    n: int
    g: int
    v: int
    t: int


@dataclass(frozen=True)
class Answer:
    """Row of the stream `answers`: the `m`-th one, about the event `n`."""

    m: int
    n: int
    t: int


@dataclass(frozen=True)
class Rate:
    """Row of the changelog `rates`, by `g`; the version of `g` from the time `t` on."""

    g: int
    rate: int
    k: str
    t: int


class Sources(SteadyWriter):
    """Writes the rows of all sources, and keeps them."""

    def __init__(self, bootstrap: str, name: str) -> None:
        super().__init__(bootstrap, per_second=PER_SECOND)
        self._name = name
        self._now_ms = START_MS
        self.events: list[Event] = []
        self.answers: list[Answer] = []
        self.rates: list[Rate] = []
        self.labels: dict[str, str] = {}
        self.horizon_ms = START_MS
        """The watermark after `close`."""

    def send(self, number: int) -> None:
        """Write an event and an answer, and now and then a rate and a label."""
        self._now_ms += STEP_MS
        now_ms = self._now_ms
        self._event(
            Event(
                number, number % GROUPS, number * 7919 % 101 + number, now_ms + (number * 31 % 29 - 14) * 10
            ),
            int(number % 3 > 0),
        )
        about = number + (number * 53 % 61 - 30) * 10
        self._answer(Answer(number, about, now_ms + (number * 17 % 23 - 11) * 10), number % 2)
        if number % 4 == 0:
            key, label = number // 4 % CURRENCIES, f"k{number * 13 % LABELS}"
            self._rate(Rate(key, number % 97, label, now_ms + (number * 11 % 13 - 6) * 10))
        if number % 16 == 0:
            self._label(number // 16)

    def close(self) -> None:
        """Write rows to each partition, so late that all windows and matches of earlier rows end."""
        at_ms = (self._now_ms + PAUSE_MS) // WINDOW_MS * WINDOW_MS + WINDOW_MS // 2
        for partition in range(PARTITIONS):
            number = self.count
            self._event(Event(number, number % GROUPS, number, at_ms), partition)
            self._answer(Answer(number, -1, at_ms), partition)
            self._rate(Rate(partition, -1, "k0", at_ms))
            self.count += 1
        self.flush()
        self._now_ms = at_ms + WINDOW_MS
        self.horizon_ms = at_ms - LATENCY_MS

    def _event(self, event: Event, partition: int) -> None:
        self.events.append(event)
        self.write(f"events_{self._name}", {**vars(event)}, partition)

    def _answer(self, answer: Answer, partition: int) -> None:
        self.answers.append(answer)
        self.write(f"answers_{self._name}", {**vars(answer)}, partition)

    def _rate(self, rate: Rate) -> None:
        self.rates.append(rate)
        self.write(f"rates_{self._name}", {**vars(rate)}, rate.g % PARTITIONS)

    def _label(self, number: int) -> None:
        key = number % LABELS
        k, topic = f"k{key}", f"labels_{self._name}"
        if number % 7 == 3:
            self.labels.pop(k, None)
            self.write(topic, None, key % PARTITIONS, k)
        else:
            self.labels[k] = f"label {number}"
            self.write(topic, {"k": k, "label": self.labels[k]}, key % PARTITIONS, k)


@dataclass(frozen=True)
class Kind:
    """Query of a kind: its sink, its SELECT, and what a compatible replacement adds at `{}`, such as a condition that all rows satisfy.

    `expected` computes its rows, or those that its changelog contains in the end.
    """

    sink: str
    select: str
    addition: str
    expected: Callable[[Sources], Iterable[tuple[object, ...]]]

    def sql(self, *, replaced: bool) -> str:
        """Return the SELECT, with the addition if the query was replaced."""
        return self.select.replace("{}", self.addition if replaced else "")


def _stateless(rows: Sources) -> Iterable[tuple[object, ...]]:
    return ((event.n, event.n * 2) for event in rows.events)


def _windows(rows: Sources) -> Iterable[tuple[object, ...]]:
    windows: dict[tuple[int, int], list[int]] = defaultdict(list)
    for event in rows.events:
        start = event.t // WINDOW_MS * WINDOW_MS
        if start + WINDOW_MS <= rows.horizon_ms:
            windows[start, event.g].append(event.v)
    return ((text(start), g, len(values), sum(values)) for (start, g), values in windows.items())


def _groups(rows: Sources) -> Iterable[tuple[object, ...]]:
    return ((g, len(group), sum(event.v for event in group)) for g, group in _by_group(rows.events).items())


def _interval(rows: Sources) -> Iterable[tuple[object, ...]]:
    times = {event.n: event.t for event in rows.events}
    for answer in rows.answers:
        if answer.n in times and abs(times[answer.n] - answer.t) <= WITHIN_MS:
            yield answer.n, answer.m


def _temporal(rows: Sources) -> Iterable[tuple[object, ...]]:
    versions: dict[int, list[Rate]] = defaultdict(list)
    for rate in sorted(rows.rates, key=lambda rate: rate.t):
        versions[rate.g].append(rate)
    for event in rows.events:
        if event.t < rows.horizon_ms:
            place = bisect_right(versions[event.g], event.t, key=lambda rate: rate.t)
            yield event.n, versions[event.g][place - 1].rate if place else None


def _changelogs(rows: Sources) -> Iterable[tuple[object, ...]]:
    for rate in {rate.g: rate for rate in rows.rates}.values():
        if rate.k in rows.labels:
            yield rate.g, rate.rate, rate.k, rows.labels[rate.k]


def _top(rows: Sources) -> Iterable[tuple[object, ...]]:
    for g, group in _by_group(rows.events).items():
        best = sorted(group, key=lambda event: (-event.v, event.n))[:TOP]
        yield from ((g, place, event.n, event.v) for place, event in enumerate(best, 1))


def _matches(rows: Sources) -> Iterable[tuple[object, ...]]:
    for g, group in _by_group(rows.events).items():
        ordered = sorted((e for e in group if e.t < rows.horizon_ms), key=lambda event: (event.t, event.n))
        place = 0
        while place + 2 < len(ordered):
            low, top, fall = ordered[place : place + 3]
            if low.v < top.v > fall.v and fall.t - low.t < WITHIN_MS:
                yield g, low.n, top.n, fall.n
                place += 3
            else:
                place += 1


def _table(rows: Sources) -> Iterable[tuple[object, ...]]:
    return ((event.n, event.n * 3) for event in rows.events)


def _by_group(events: Sequence[Event]) -> dict[int, list[Event]]:
    groups: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        groups[event.g].append(event)
    return groups


KINDS = {
    "stateless": Kind("STREAM", "SELECT n, n * 2 AS twice FROM events {}", "WHERE n > -1", _stateless),
    "windows": Kind(
        "CHANGELOG",
        "SELECT window_start, window_end, g, COUNT(*) AS number, SUM(v) AS total "
        f"FROM TUMBLE(events, SIZE {WINDOW_MS // 1000} SECONDS) GROUP BY window_start, window_end, g "
        "{}",
        "HAVING COUNT(*) > -1",
        _windows,
    ),
    "grouped": Kind(
        "CHANGELOG",
        # Not HAVING: groups that can be deleted have another state.
        "SELECT g, COUNT(*) {} AS number, SUM(v) AS total FROM events GROUP BY g",
        "+ 0",
        _groups,
    ),
    "near": Kind(
        "STREAM",
        f"SELECT e.n, a.m FROM events e JOIN answers a WITHIN {WITHIN_MS // 1000} SECONDS ON e.n = a.n {{}}",
        "WHERE e.n + a.m > -1",
        _interval,
    ),
    "rated": Kind(
        "STREAM",
        "SELECT e.n, r.rate FROM events e LEFT JOIN rates r ON e.g = r.g {}",
        "WHERE e.n + COALESCE(r.rate, 0) > -1",
        _temporal,
    ),
    "labelled": Kind(
        "CHANGELOG",
        "SELECT r.g, r.rate, r.k, l.label FROM rates r {} JOIN labels l ON r.k = l.k",
        # Its rows get their key behind the join, by another operator with state: no condition can be added.
        "WITH ('starting.position' = 'latest')",
        _changelogs,
    ),
    "best": Kind(
        "CHANGELOG",
        "SELECT g, place, n, v FROM (SELECT g, n, v, ROW_NUMBER() OVER (PARTITION BY g ORDER BY v DESC, n) AS place FROM events) "
        f"WHERE place <= {TOP} "
        "{}",
        "AND v > -1",
        _top,
    ),
    "peaks": Kind(
        "STREAM",
        "SELECT m.g, m.before_it, m.peak, m.after_it FROM events MATCH_RECOGNIZE (PARTITION BY g ORDER BY t, n "
        "MEASURES a.n AS before_it, b.n AS peak, c.n AS after_it ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW "
        f"PATTERN (a b c) WITHIN {WITHIN_MS // 1000} SECONDS DEFINE b AS b.v > a.v, c AS c.v < b.v) AS m "
        "{}",
        "WHERE m.peak > -1",
        _matches,
    ),
    "sums": Kind(
        "MATERIALIZED VIEW",
        "SELECT g, COUNT(*) AS number, SUM(v) AS total FROM events GROUP BY g {}",
        "HAVING COUNT(*) > -1",
        _groups,
    ),
    "stored": Kind("TABLE", "SELECT n, n * 3 AS thrice FROM events {}", "WHERE n > -1", _table),
}
"""The kinds of continuous queries by their relations."""


class Grid:
    """The queries, under a stream of rows."""

    def __init__(self, kafka: KafkaClient, door: RestDoor, postgresql: PostgresServer, name: str) -> None:
        self._kafka = kafka
        self._door = door
        self._postgresql = postgresql
        self._name = name
        self._is_replaced = False
        self.sources = Sources(kafka.bootstrap, name)

    def start(self) -> None:
        """Declare the sources in the present database and store, and start the queries."""
        password = PASSWORD.replace("'", "''")
        topic = "'topic.partitions' = 2, 'topic.replicas' = 1, 'value.format' = JSON, 'starting.position' = 'earliest'"
        timed = f"{topic}, 'timestamp' = 't', 'source.allow.latency.millis' = {LATENCY_MS}"
        self._door.execute(
            f"""
            CREATE STORE pg WITH ('type' = POSTGRESQL, 'uris' = '{self._postgresql.uri}', 'postgres.username' = '{USER}',
                'postgres.password' = '{password}', 'tls.disabled' = TRUE);
            CREATE STREAM events (n BIGINT, g BIGINT, v BIGINT, t BIGINT) WITH ('topic' = 'events_{self._name}', {timed});
            CREATE STREAM answers (m BIGINT, n BIGINT, t BIGINT) WITH ('topic' = 'answers_{self._name}', {timed});
            CREATE CHANGELOG rates (g BIGINT, rate BIGINT, k VARCHAR, t BIGINT, PRIMARY KEY (g))
                WITH ('topic' = 'rates_{self._name}', {timed});
            CREATE CHANGELOG labels (k VARCHAR, label VARCHAR, PRIMARY KEY (k)) WITH ('topic' = 'labels_{self._name}', {topic},
                'key.format' = PRIMITIVE, 'key.type' = 'VARCHAR', 'enable.upsert.mode' = TRUE);
            """
        )
        for relation, kind in KINDS.items():
            self._door.execute(
                f"CREATE {kind.sink} {relation} {self._properties(relation)} AS {kind.sql(replaced=False)} "
                f"QUERY WITH ('query.name' = {self.query(relation)});"
            )

    def query(self, relation: str) -> str:
        """Return the name of the query that writes a relation."""
        return f"{relation}_{self._name}"

    def facts(self, relation: str) -> dict[str, str]:
        """Return DESCRIBE QUERY of the query that writes a relation."""
        rows = self._door.execute(f"DESCRIBE QUERY {self.query(relation)};")
        return {str(row[0]): row[1] or "" for row in rows}

    def until_state(self, state: str) -> None:
        """Wait until all queries are in a state."""
        for relation in KINDS:
            self._until_state(relation, state)

    def until_written(self) -> None:
        """Wait until a query has written a record after this call."""
        topic = self.query("stateless")
        before = sum(self._kafka.ends(topic).values())
        # The end of a transaction that was aborted takes one place.
        until(lambda: sum(self._kafka.ends(topic).values()) > before + 2, "the queries are at work")

    def move(self) -> None:
        """Let each query end with a savepoint, and another one continue from it: into its relation, or a view that is created again."""
        for relation in KINDS:
            self._door.execute(f"TERMINATE QUERY {self.query(relation)} WITH SAVEPOINT {relation};")
        for relation, kind in KINDS.items():
            self._until_state(relation, "terminated")
            start = f"INSERT INTO {relation} WITH ({ONCE})"
            if kind.sink == "MATERIALIZED VIEW":
                start = f"DROP MATERIALIZED VIEW {relation}; CREATE MATERIALIZED VIEW {relation} AS"
            self._door.execute(
                f"{start} {kind.sql(replaced=self._is_replaced)} QUERY WITH ("
                f"'query.name' = {self.query(relation)}, 'resume.from.savepoint' = {relation}); DROP SAVEPOINT {relation};"
            )

    def replace(self) -> None:
        """Replace each query by one with the same results, or that query by the first one."""
        self._is_replaced = not self._is_replaced
        for relation, kind in KINDS.items():
            replacement = f"ALTER QUERY {self.query(relation)} AS {kind.sql(replaced=self._is_replaced)}"
            ((class_, *_), *_) = self._door.execute(f"EXPLAIN {replacement};")
            assert class_ == "Replacement: compatible", (relation, class_)
            self._door.execute(f"{replacement};")

    def failed_versions(self) -> list[str]:
        """Return the queries of which a version failed, so that the one before runs again."""
        return [
            relation
            for relation in KINDS
            if "failed" in str(self._door.execute(f"DESCRIBE QUERY VERSIONS {self.query(relation)};"))
        ]

    def until_exact(self) -> None:
        """Assert that each row of the sources had its effect exactly once."""
        assert all(any(True for _ in kind.expected(self.sources)) for kind in KINDS.values())
        for relation in KINDS:
            self._until_exact(relation)
        assert self.faults(KINDS) == []

    def faults(self, relations: Iterable[str]) -> list[str]:
        """Return missing and superfluous rows of relations as texts; empty when all is right."""
        faults = differences(
            [
                (relation, Counter(KINDS[relation].expected(self.sources)), self._seen(relation))
                for relation in relations
            ]
        )
        return [*faults, *(self._falling() if "grouped" in relations else [])]

    def _until_state(self, relation: str, state: str) -> None:
        until(
            lambda: self.facts(relation)["state"] == state,
            lambda: f"the query of {relation} to be {state}: {self.facts(relation)}",
        )

    def _until_exact(self, relation: str) -> None:
        until(lambda: not self.faults([relation]), lambda: f"{relation} is exact: {self.faults([relation])}")

    def _properties(self, relation: str) -> str:
        if KINDS[relation].sink == "MATERIALIZED VIEW":
            return ""
        if KINDS[relation].sink == "TABLE":
            table = f"'postgresql.table.name' = '{self.query(relation)}', 'postgresql.schema.name' = 'public'"
            return f"WITH ('store' = 'pg', {table}, {ONCE})"
        return (
            f"WITH ('topic' = '{self.query(relation)}', 'topic.partitions' = 2, 'topic.replicas' = 1, {ONCE})"
        )

    def _seen(self, relation: str) -> Counter[object]:
        match KINDS[relation].sink:
            case "MATERIALIZED VIEW":
                rows = self._door.execute(f"SELECT g, number, total FROM {relation};")
                return Counter(tuple(int(cell or -1) for cell in row) for row in rows)
            case "TABLE":
                return Counter(self._postgresql.execute(f'SELECT n, thrice FROM "{self.query(relation)}"'))
        records = self._kafka.consume(self.query(relation))
        if KINDS[relation].sink == "CHANGELOG" and relation != "windows":
            # The last record of each key; all records of a key are in one partition.
            records = list(dict(records).items())
        columns = COLUMNS[relation]
        values = (json.loads(value) for _, value in records if value is not None)
        return Counter(tuple(value[column] for column in columns) for value in values)

    def _falling(self) -> list[str]:
        """Return the counts of groups that do not grow: records of a changelog that are written twice change nothing in its last state."""
        counts: dict[str, list[int]] = defaultdict(list)
        for key, value in self._kafka.consume(self.query("grouped")):
            counts[str(key)].append(json.loads(value or "")["number"])
        return [
            f"group {key}: {earlier} and then {later}"
            for key, group in counts.items()
            for earlier, later in pairwise(group)
            if later <= earlier
        ]


COLUMNS = {
    "stateless": ("n", "twice"),
    "windows": ("window_start", "g", "number", "total"),
    "grouped": ("g", "number", "total"),
    "near": ("n", "m"),
    "rated": ("n", "rate"),
    "labelled": ("g", "rate", "k", "label"),
    "best": ("g", "place", "n", "v"),
    "peaks": ("g", "before_it", "peak", "after_it"),
}
"""The columns of the records that are compared."""
