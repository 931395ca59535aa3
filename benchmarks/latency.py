"""End-to-end latency: from before a record is produced until a reader of committed records has the query's output for it."""

# ruff: noqa: S608 - the names in these statements are made here

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.records import PARTITIONS, Receiver, SteadyProducer
from benchmarks.rig import Figures, Rig

RATE = 100
SPARSE_RATE = 4
STATEFUL_RATE = 1000
WARM_UP_S = 5
STATEFUL_WARM_UP_S = 60
"""The JVM's compiler takes half a core of a young driver: what a query has for good comes after that."""
KEYS = 1000
SLOTS = 10
PHASES = {
    "offsets": ("latestOffset", "getBatch"),
    "planning": ("queryPlanning",),
    "logs": ("walCommit", "commitOffsets"),
    "tasks_and_sink": ("addBatch",),
}
"""What of Spark's `durationMs` makes up a batch; the state's commit is a part of the tasks."""


def latency(rig: Rig) -> Figures:
    """The same projection in real-time mode, in micro-batches, and exactly once; the last two also over a topic with few records."""
    topic = rig.topic("bench_live")
    rig.relation(
        "live",
        f"CREATE STREAM live (sent BIGINT, id BIGINT, note VARCHAR) WITH ('topic' = '{topic}', 'value.format' = JSON);",
    )
    figures: Figures = {}
    for name, mode, guarantee, rate in (
        ("real_time", "real_time", "at_least_once", RATE),
        ("micro_batch", "micro_batch", "at_least_once", RATE),
        ("exactly_once", "micro_batch", "exactly_once", RATE),
        ("sparse_micro_batch", "micro_batch", "at_least_once", SPARSE_RATE),
        ("sparse_exactly_once", "micro_batch", "exactly_once", SPARSE_RATE),
    ):
        with _query(rig, mode, guarantee) as sink:
            figures |= percentiles(name, _measured(rig, topic, sink, rate))
    return figures


def stateful_latency(rig: Rig) -> Figures:
    """Measure the latency of rows of 1,000 groups and of one-second windows, and the phases of a batch.

    A window's latency counts from the newest record of a group, at most 10 ms before the end of the window.
    """
    topic = rig.topic("bench_live_state")
    rig.relation(
        "taps",
        "CREATE STREAM taps (sent BIGINT, at BIGINT, id BIGINT, note VARCHAR) "
        f"WITH ('topic' = '{topic}', 'value.format' = JSON, 'timestamp' = 'at');",
    )
    figures: Figures = {}
    for name, select in (
        (
            "group_by",
            f"SELECT id % {KEYS} AS k, COUNT(*) AS n, MAX(sent) AS sent FROM taps GROUP BY id % {KEYS}",
        ),
        (
            "tumble",
            f"SELECT window_start, id % {SLOTS} AS k, COUNT(*) AS n, MAX(sent) AS sent FROM TUMBLE(taps, SIZE 1 SECOND) "
            f"GROUP BY window_start, window_end, id % {SLOTS}",
        ),
    ):
        sink = rig.name(name)
        query = rig.running(f"CREATE CHANGELOG {sink} AS {select}")
        receiver = Receiver(rig.bootstrap, sink, PARTITIONS)
        try:
            with SteadyProducer(rig.bootstrap, topic, rate=STATEFUL_RATE):
                begin = receiver.first_sent_after(time.time()) + STATEFUL_WARM_UP_S
                latencies = receiver.latencies(since=begin, until=begin + rig.sizes.latency_seconds)
                figures |= percentiles(name, latencies) | _phases(rig, name, query)
        finally:
            receiver.close()
        rig.terminate(query)
    return figures


def _phases(rig: Rig, name: str, query: str) -> Figures:
    """Medians of some batches; the state's commit is the sum over tasks, which run at the same time."""
    batches = []
    for _ in range(10):
        time.sleep(1)
        metrics = dict(rig.execute(f"DESCRIBE QUERY METRICS {query};"))
        batches.append(json.loads(metrics["detail"] or "{}"))
    taken = {
        f"{name}_{phase}_ms": [sum(batch["durations_ms"].get(part, 0) for part in parts) for batch in batches]
        for phase, parts in PHASES.items()
    }
    taken[f"{name}_state_commit_ms"] = [batch["state_ms"]["commit"] for batch in batches]
    return {figure: float(statistics.median(values)) for figure, values in taken.items()}


@contextmanager
def _query(rig: Rig, mode: str, guarantee: str) -> Iterator[str]:
    sink = rig.name("echo")
    query = rig.running(
        f"CREATE STREAM {sink} WITH ('delivery.guarantee' = {guarantee}) AS "
        "SELECT sent, id, upper(note) AS note FROM live WHERE id >= 0",
        execution_mode=mode,
    )
    yield sink
    rig.terminate(query)


def _measured(rig: Rig, topic: str, sink: str, rate: int) -> list[float]:
    receiver = Receiver(rig.bootstrap, sink, PARTITIONS)
    try:
        with SteadyProducer(rig.bootstrap, topic, rate=rate):
            begin = time.time() + WARM_UP_S
            return receiver.latencies(since=begin, until=begin + rig.sizes.latency_seconds)
    finally:
        receiver.close()


def percentiles(mode: str, latencies: list[float]) -> Figures:
    """Return percentiles of milliseconds, in order, and their count."""
    cuts = statistics.quantiles(latencies, n=100, method="inclusive")
    return {
        f"{mode}_p50_ms": cuts[49],
        f"{mode}_p90_ms": cuts[89],
        f"{mode}_p99_ms": cuts[98],
        f"{mode}_records": float(len(latencies)),
    }
