"""Queries whose streaming result must equal their batch result, and rows for them.

Each template is the statement that a user types and the same question in DuckDB's SQL over tables `s` and `r` (streams), `c` (all
versions of a changelog), and `u` and `x` (what is left of changelogs in the end), which hold the very rows that were produced, end
rows excepted. Rows are out of order by less than the latency that the queries allow, so nothing may be late; the end rows move the
watermark past every window and version, so nothing may be missing.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LATENCY_MS = 5_000
START_MS = -40_000
"""Before 1970: the rows go over it, since what holds a time goes wrong there first."""
END_KEY = "end"
LATE_TOPIC = "LATE_TOPIC"
PARTITIONS = int(os.environ.get("HEADRACE_PARTITIONS", "2"))
COLUMNS = {
    "s": {"k": "VARCHAR", "v": "BIGINT", "d": "DOUBLE", "t": "BIGINT"},
    "r": {"k": "VARCHAR", "v": "BIGINT", "d": "DOUBLE", "t": "BIGINT"},
    "c": {"k": "VARCHAR", "w": "BIGINT", "t": "BIGINT"},
    "u": {"id": "VARCHAR", "k": "VARCHAR", "w": "BIGINT", "t": "BIGINT"},
    "x": {"id": "VARCHAR", "k": "VARCHAR", "w": "BIGINT", "t": "BIGINT"},
}
CHANGELOGS = {"c": "k", "u": "id", "x": "id"}
"""Their primary keys. Rows of `u` and `x` are updated and deleted: in a batch they are what is left in the end."""

_SOURCE = f"WITH ('starting.position' = 'earliest', 'source.allow.latency.millis' = {LATENCY_MS})"
_LABEL = "UPPER(k) || '-' || CAST(v AS VARCHAR) AS label"
_SIZE = "CASE WHEN v IS NULL THEN -1 WHEN v > 50 THEN 1 ELSE 0 END AS size"


def late_topic(topic: str) -> str:
    """Return the topic of late rows of a template whose results go to `topic`."""
    return f"{topic}_late"


def window(seconds: int) -> str:
    """Return DuckDB's SQL of the start of a row's window."""
    return f"time_bucket(INTERVAL {seconds} SECOND, make_timestamp(t * 1000))"


@dataclass(frozen=True)
class Template:
    """`select` is what follows CREATE … AS; with `changelog`, the last record of each key is the result, else all records are.

    `views` are statements that make the views which it reads. `streaming`, in DuckDB's SQL, says what of the result must be as the batch,
    over `result` (its rows as JSON, in the column `row`) and `late` (the rows of `s` that the query keeps in LATE_TOPIC); unset, all of it.
    `rows` returns the columns and rows of the result for the rows of `s`, where no SQL of DuckDB does.
    """

    name: str
    select: str
    batch: str
    changelog: bool = False
    exactly_once: bool = False
    views: str = ""
    streaming: str = ""
    rows: Callable[[Sequence[Mapping[str, Any]]], tuple[list[str], list[tuple[Any, ...]]]] | None = None

    @property
    def keeps_late_rows(self) -> bool:
        """True if the query writes late rows to a topic beside its result."""
        return LATE_TOPIC in self.select

    def create(self, *, topic: str) -> str:
        """The statements; the last one's relation has the template's name."""
        kind = "CHANGELOG" if self.changelog else "STREAM"
        guarantee = "exactly_once" if self.exactly_once else "at_least_once"
        sink = f"'topic' = '{topic}', 'value.format' = JSON, 'delivery.guarantee' = '{guarantee}'"
        select = self.select.replace(LATE_TOPIC, late_topic(topic))
        return f"{self.views}CREATE {kind} q_{self.name} WITH ({sink}) AS {select};"


TEMPLATES = (
    Template(
        "filter",
        f"SELECT k, v, t FROM s {_SOURCE} WHERE v % 3 = 0 AND k <> '{END_KEY}'",
        "SELECT k, v, t FROM s WHERE v % 3 = 0",
        exactly_once=True,
    ),
    Template(
        "expressions",
        f"SELECT {_LABEL}, {_SIZE}, COALESCE(v, 0) * 2 AS twice, t FROM s {_SOURCE} WHERE k <> '{END_KEY}'",
        f"SELECT {_LABEL}, {_SIZE}, COALESCE(v, 0) * 2 AS twice, t FROM s",
    ),
    Template(
        "union",
        f"SELECT k, v, t FROM s {_SOURCE} WHERE k <> '{END_KEY}' "
        f"UNION ALL SELECT k, v, t FROM r {_SOURCE} WHERE k <> '{END_KEY}'",
        "SELECT k, v, t FROM s UNION ALL SELECT k, v, t FROM r",
        exactly_once=True,
    ),
    Template(
        "tumble",
        "SELECT window_start, window_end, k, COUNT(*) AS n, SUM(v) AS total, MIN(v) AS least "
        f"FROM TUMBLE(s, SIZE 10 SECONDS) {_SOURCE} GROUP BY window_start, window_end, k",
        f"SELECT {window(10)} AS window_start, {window(10)} + INTERVAL 10 SECOND AS window_end, k, "
        "COUNT(*) AS n, SUM(v) AS total, MIN(v) AS least FROM s GROUP BY ALL",
        changelog=True,
        exactly_once=True,
    ),
    Template(
        "hop",
        "SELECT window_start, window_end, COUNT(*) AS n, AVG(d) AS mean "
        f"FROM HOP(s, SIZE 20 SECONDS, ADVANCE BY 10 SECONDS) {_SOURCE} GROUP BY window_start, window_end",
        "SELECT w AS window_start, w + INTERVAL 20 SECOND AS window_end, COUNT(*) AS n, AVG(d) AS mean FROM ("
        f"SELECT d, {window(10)} - INTERVAL 10 SECOND AS w FROM s UNION ALL SELECT d, {window(10)} AS w FROM s) "
        "GROUP BY ALL",
        changelog=True,
    ),
    Template(
        "distinct",
        "SELECT window_start, window_end, COUNT(DISTINCT v) AS kinds, SUM(DISTINCT v) AS total, "
        "AVG(DISTINCT v) AS mean, MAX(DISTINCT v) AS most "
        f"FROM TUMBLE(s, SIZE 30 SECONDS) {_SOURCE} GROUP BY window_start, window_end",
        f"SELECT {window(30)} AS window_start, {window(30)} + INTERVAL 30 SECOND AS window_end, "
        "COUNT(DISTINCT v) AS kinds, SUM(DISTINCT v) AS total, AVG(DISTINCT v) AS mean, MAX(v) AS most FROM s GROUP BY ALL",
        changelog=True,
    ),
    Template(
        "group",
        f"SELECT k, COUNT(*) AS n, SUM(v) AS total, MAX(t) AS latest FROM s {_SOURCE} WHERE k <> '{END_KEY}' GROUP BY k",
        "SELECT k, COUNT(*) AS n, SUM(v) AS total, MAX(t) AS latest FROM s GROUP BY k",
        changelog=True,
    ),
    Template(
        "having",
        f"SELECT k, SUM(v) AS total FROM s {_SOURCE} WHERE k <> '{END_KEY}' GROUP BY k HAVING SUM(v) % 2 = 0",
        "SELECT k, SUM(v) AS total FROM s GROUP BY k HAVING SUM(v) % 2 = 0",
        changelog=True,
        exactly_once=True,
    ),
    Template(
        "temporal_inner",
        f"SELECT s.k AS k, s.v AS v, s.t AS t, c.w AS w FROM s {_SOURCE} "
        f"JOIN c {_SOURCE} ON s.k = c.k WHERE s.k <> '{END_KEY}'",
        "SELECT s.k, s.v, s.t, c.w FROM s ASOF JOIN c ON s.k = c.k AND s.t >= c.t",
        exactly_once=True,
    ),
    Template(
        "temporal_left",
        f"SELECT s.k AS k, s.t AS t, c.w AS w FROM s {_SOURCE} "
        f"LEFT JOIN c {_SOURCE} ON s.k = c.k WHERE s.k <> '{END_KEY}'",
        "SELECT s.k, s.t, c.w FROM s ASOF LEFT JOIN c ON s.k = c.k AND s.t >= c.t",
    ),
    Template(
        "interval",
        f"SELECT a.k AS k, a.t AS left_t, b.t AS right_t, a.v AS v FROM s AS a {_SOURCE} "
        f"JOIN r AS b {_SOURCE} WITHIN 3 SECONDS ON a.k = b.k WHERE a.k <> '{END_KEY}'",
        "SELECT a.k, a.t AS left_t, b.t AS right_t, a.v FROM s AS a JOIN r AS b ON a.k = b.k "
        "AND abs(a.t - b.t) <= 3000",
        exactly_once=True,
    ),
)


@dataclass(frozen=True)
class Row:
    """Row of `s`, `r` or `c`, with its partition."""

    value: dict[str, Any] | None
    partition: int
    key: str | None = None

    def json(self) -> str | None:
        """The record's value; None: a tombstone."""
        return json.dumps(self.value) if self.value is not None else None


def stream_rows(random_source: random.Random, count: int, span_ms: int, case: str = "") -> list[Row]:
    """Rows (k, v, d, t) in the order in which they are produced, out of order by less than `LATENCY_MS`; keys begin with `case`.

    Their times are distinct only by chance: a result that holds one of two equal rows twice and the other not at all is right.
    """
    rows = []
    for number in range(count):
        time_ms = START_MS + number * span_ms // count + random_source.randrange(LATENCY_MS - 1)
        value = {
            "k": f"{case}k{random_source.randrange(12)}",
            "v": None if random_source.random() < 0.05 else random_source.randrange(100),
            "d": random_source.randrange(1000) / 8,
            "t": time_ms,
        }
        rows.append(Row(value, random_source.randrange(PARTITIONS)))
    return rows


def version_rows(random_source: random.Random, count: int, span_ms: int, case: str = "") -> list[Row]:
    """Versions (k, w, t) of the changelog: no two of a key at the same time, a key always in the same partition."""
    times: set[tuple[str, int]] = set()
    rows = []
    for number in range(count):
        key = f"{case}k{random_source.randrange(14)}"
        time_ms = START_MS + number * span_ms // count + random_source.randrange(LATENCY_MS - 1)
        if (key, time_ms) not in times:
            times.add((key, time_ms))
            rows.append(Row({"k": key, "w": number, "t": time_ms}, sum(key.encode()) % PARTITIONS))
    return rows


def changed_rows(random_source: random.Random, count: int, span_ms: int, case: str = "") -> list[Row]:
    """Return versions (id, k, w, t) and deletions of keys, each key in one partition; some repeat the version before."""
    rows: list[Row] = []
    last: dict[str, dict[str, Any]] = {}
    for number in range(count):
        key = f"{case}i{random_source.randrange(40)}"
        partition = sum(key.encode()) % PARTITIONS
        if random_source.random() < 0.15:
            rows.append(Row(None, partition, key))
            continue
        value = {
            "id": key,
            "k": None if random_source.random() < 0.05 else f"{case}k{random_source.randrange(8)}",
            "w": None if random_source.random() < 0.05 else random_source.randrange(20),
            "t": START_MS + number * span_ms // count,
        }
        if random_source.random() < 0.1 and key in last:
            value = last[key]
        last[key] = value
        rows.append(Row(value, partition, key))
    return rows


def left_in_the_end(rows: list[Row]) -> list[Row]:
    """The last version of each key that was not deleted."""
    last = {row.key: row for row in rows}
    return [row for row in last.values() if row.value is not None]


def end_rows(relation: str, span_ms: int) -> list[Row]:
    """Return a row for each partition, far beyond the others, that moves the watermark past them."""
    time_ms = START_MS + span_ms + 20 * LATENCY_MS
    if relation in ("u", "x"):
        return []
    empty = dict.fromkeys(COLUMNS[relation])
    return [Row({**empty, "k": END_KEY, "t": time_ms}, partition) for partition in range(PARTITIONS)]
