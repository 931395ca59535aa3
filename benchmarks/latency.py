"""End-to-end latency: from before a record is produced until a reader of committed records has the query's output for it."""

# ruff: noqa: S608 - the names in these statements are made here

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.driver_rig import DriverRig, plan_of
from benchmarks.records import Receiver, SteadyProducer
from benchmarks.rig import PARTITIONS, Rig
from benchmarks.throughput import Figures

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
    with _query(rig, "at_least_once") as sink:
        figures |= _figures("real_time", _measured(rig, topic, sink))
    with _query(rig, "exactly_once") as sink:
        figures |= _figures("exactly_once", _measured(rig, topic, sink))
    plan = plan_of(rig, _statement(rig.name("echo"), "at_least_once"))
    driver = DriverRig(rig)
    try:
        sink = rig.name("bench_echo")
        with driver.running(plan, sink, "at_least_once"):
            figures |= _figures("micro_batch", _measured(rig, topic, sink))
    finally:
        driver.close()
    return figures


@contextmanager
def _query(rig: Rig, guarantee: str) -> Iterator[str]:
    sink = rig.name("echo")
    query = rig.running(_statement(sink, guarantee))
    yield sink
    rig.terminate(query)


def _statement(sink: str, guarantee: str) -> str:
    return (
        f"CREATE STREAM {sink} WITH ('delivery.guarantee' = {guarantee}) AS "
        "SELECT sent, id, upper(note) AS note FROM live WHERE id >= 0"
    )


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
