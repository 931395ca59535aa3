"""End-to-end latency: from before a record is produced until a reader of committed records has the query's output for it."""

# ruff: noqa: S608 - the names in these statements are made here

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.records import PARTITIONS, Receiver, SteadyProducer
from benchmarks.rig import Figures, Rig

RATE = 100
WARM_UP_S = 5


def latency(rig: Rig) -> Figures:
    """The same projection in real-time mode, in micro-batches, and exactly once."""
    topic = rig.topic("bench_live")
    rig.relation(
        "live",
        f"CREATE STREAM live (sent BIGINT, id BIGINT, note VARCHAR) WITH ('topic' = '{topic}', 'value.format' = JSON);",
    )
    figures: Figures = {}
    for name, mode, guarantee in (
        ("real_time", "real_time", "at_least_once"),
        ("micro_batch", "micro_batch", "at_least_once"),
        ("exactly_once", "micro_batch", "exactly_once"),
    ):
        with _query(rig, mode, guarantee) as sink:
            figures |= _figures(name, _measured(rig, topic, sink))
    return figures


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


def _measured(rig: Rig, topic: str, sink: str) -> list[float]:
    receiver = Receiver(rig.bootstrap, sink, PARTITIONS)
    try:
        with SteadyProducer(rig.bootstrap, topic, rate=RATE):
            begin = time.time() + WARM_UP_S
            return receiver.latencies(since=begin, until=begin + rig.sizes.latency_seconds)
    finally:
        receiver.close()


def _figures(mode: str, latencies: list[float]) -> Figures:
    cuts = statistics.quantiles(latencies, n=100, method="inclusive")
    return {
        f"{mode}_p50_ms": cuts[49],
        f"{mode}_p90_ms": cuts[89],
        f"{mode}_p99_ms": cuts[98],
        f"{mode}_records": float(len(latencies)),
    }
