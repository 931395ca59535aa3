"""State that does not grow: every stateful operator at once, over keys that come back, for ten minutes."""

from __future__ import annotations

import itertools
import json
import random
import threading
import time

from confluent_kafka import Producer

from benchmarks.records import PARTITIONS
from benchmarks.rig import Figures, Rig, Samples
from benchmarks.shapes import START_MS
from headrace.client import SqlError

KEYS = 500
RATE = 200
# Event time runs faster than the clock, so that ten minutes hold hours of windows and of time to live.
_EVENT_MS_PER_RECORD = 100
_TTL_MS = 60_000
_EVERY_S = 2.0

_STREAM = "at BIGINT, k INTEGER, v INTEGER"
_WINDOWED = "SELECT window_start, window_end, k, COUNT(*) AS n, SUM(v) AS total FROM"
_PLACED = "FROM (SELECT k, v, at, ROW_NUMBER() OVER (PARTITION BY k ORDER BY"
_TOP, _LAST = f"SELECT k, v, at, place {_PLACED}", f"SELECT k, v, at {_PLACED}"
OPERATORS = {
    "tumble": ("CHANGELOG", f"{_WINDOWED} TUMBLE(left_rows, SIZE 10 SECONDS) GROUP BY window_start, window_end, k"),
    "hop": (
        "CHANGELOG",
        f"{_WINDOWED} HOP(left_rows, SIZE 10 SECONDS, ADVANCE BY 2 SECONDS) GROUP BY window_start, window_end, k",
    ),
    "interval_join": (
        "STREAM",
        "SELECT l.k, l.v, r.v AS other FROM left_rows AS l JOIN right_rows AS r WITHIN 5 SECONDS ON l.k = r.k",
    ),
    "temporal_join": ("STREAM", "SELECT l.k, l.v, c.v AS other FROM left_rows AS l LEFT JOIN versions AS c ON l.k = c.k"),
    "group_by": ("CHANGELOG", "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM left_rows GROUP BY k"),
    "changelog_group_by": ("CHANGELOG", "SELECT v, COUNT(*) AS n FROM versions GROUP BY v"),
    "changelog_join": ("CHANGELOG", "SELECT c.k, c.v, d.v AS other FROM versions AS c JOIN other_versions AS d ON c.k = d.k"),
    "stream_join": ("STREAM", "SELECT l.k, l.v, r.v AS other FROM left_rows AS l JOIN right_rows AS r ON l.k = r.k AND l.v = r.v"),
    "top_n": ("CHANGELOG", f"{_TOP} v DESC, at) AS place FROM left_rows) AS x WHERE place <= 3"),
    "match_recognize": (
        "STREAM",
        "SELECT * FROM left_rows MATCH_RECOGNIZE (PARTITION BY k ORDER BY at MEASURES a.v AS v, c.v AS other "
        "PATTERN (a b+ c) WITHIN 10 SECONDS DEFINE b AS b.v > a.v, c AS c.v <= a.v) AS m",
    ),
    "keep_last": ("CHANGELOG", f"{_LAST} at DESC) AS place FROM left_rows) AS x WHERE place = 1"),
}  # fmt: skip
WITH_TTL = ("changelog_group_by", "changelog_join", "stream_join", "top_n", "keep_last")


def state(rig: Rig) -> Figures:
    """Rows of state of each operator, and the driver's memory: a third of the time warms up, the halves of the rest are compared."""
    for relation, kind in _RELATIONS.items():
        topic = rig.topic(f"bench_state_{relation}")
        key = ", PRIMARY KEY (k)" if kind == "CHANGELOG" else ""
        rig.relation(
            relation,
            f"CREATE {kind} {relation} ({_STREAM}{key}) WITH ('topic' = '{topic}', 'value.format' = JSON, 'timestamp' = 'at');",
        )
    queries = _started(rig)
    rows = {name: Samples() for name in queries}
    memory = Samples()
    began = time.monotonic()
    with _Rows(rig):
        while (passed := time.monotonic() - began) < rig.sizes.state_seconds:
            time.sleep(_EVERY_S)
            if passed < rig.sizes.state_seconds / 3:
                continue
            for name, query in queries.items():
                rows[name].values.append(float(rig.execute(f"DESCRIBE QUERY STATE {query};")[0][1] or 0))
            memory.values.append(rig.driver_mb())
    for query in queries.values():
        rig.check(query)
        rig.terminate(query)
    figures = memory.figures("driver", "rss_mb")
    for name, samples in rows.items():
        figures |= samples.figures(name, "state_rows")
    return figures


def _started(rig: Rig) -> dict[str, str]:
    """Return the query of each operator; print the queries that this version refuses, and leave them out."""
    queries = {}
    for name, (kind, select) in OPERATORS.items():
        properties = {"state_ttl_millis": str(_TTL_MS)} if name in WITH_TTL else {}
        try:
            queries[name] = rig.running(
                f"CREATE {kind} {rig.name(f'state_{name}')} AS {select}", **properties
            )
        except SqlError as error:
            rig.say(f"    {name} REFUSED: {error.sqlstate} {error.message}")
    return queries


_RELATIONS = {
    "left_rows": "STREAM",
    "right_rows": "STREAM",
    "versions": "CHANGELOG",
    "other_versions": "CHANGELOG",
}


class _Rows:
    """Writes a row into each relation's topic `RATE` / 4 times a second, from a thread, while it is entered."""

    def __init__(self, rig: Rig) -> None:
        self._producer = Producer({"bootstrap.servers": rig.bootstrap, "linger.ms": 20})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> _Rows:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.flush(10)

    def _run(self) -> None:
        draw, due, relations = random.Random(1), time.monotonic(), len(_RELATIONS)
        for number, relation in enumerate(itertools.cycle(_RELATIONS)):
            if self._stop.is_set():
                return
            key = draw.randrange(KEYS)
            at = START_MS + number // relations * _EVENT_MS_PER_RECORD
            value = json.dumps({"at": at, "k": key, "v": draw.randrange(20)})
            # A key is always in one partition, and both partitions of all topics move on.
            self._producer.produce(f"bench_state_{relation}", value, partition=key % PARTITIONS)
            self._producer.poll(0)
            due += 1 / RATE
            time.sleep(max(0.0, due - time.monotonic()))
