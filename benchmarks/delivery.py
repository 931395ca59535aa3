"""Cost of exactly-once delivery: one plan, 50,000 records a batch, with either guarantee, in turns."""

# ruff: noqa: S608 - the names in these statements are made here

from __future__ import annotations

from benchmarks.driver_rig import RECORDS_PER_BATCH, DriverRig, Guarantee, plan_of
from benchmarks.records import PARTITIONS, Sink, preload
from benchmarks.rig import Figures, Rig, batch_ends_s
from benchmarks.shapes import orders, orders_definition
from headrace.planner.physical import SparkPlan

COLD_BATCHES = 2


def delivery(rig: Rig) -> Figures:
    """Milliseconds a batch with each guarantee, at-least-once first, the same again; the first batches of each do not count."""
    count = rig.sizes.delivery_records
    topic = rig.topic("bench_delivery", lambda name: preload(rig.bootstrap, name, orders(count)))
    rig.relation("deliveries", orders_definition("deliveries", topic))
    plan = plan_of(
        rig,
        f"CREATE STREAM {rig.name('delivered')} AS SELECT at, id, item, price, note "
        "FROM deliveries WITH ('starting.position' = 'earliest')",
    )
    return compared(rig, DriverRig(rig), plan)


def compared(rig: Rig, driver: DriverRig, plan: SparkPlan, *, partitions: int = PARTITIONS) -> Figures:
    """Return the milliseconds a batch of a plan that reads `delivery_records`, with each guarantee; closes the driver."""
    turns: tuple[Guarantee, ...] = ("at_least_once", "exactly_once") * 2
    seconds: dict[Guarantee, list[float]] = {"at_least_once": [], "exactly_once": []}
    try:
        for guarantee in turns:
            seconds[guarantee].append(_batch_s(rig, driver, plan, guarantee, partitions))
    finally:
        driver.close()
    # Of two turns the faster: the first one also compiled.
    at_least_once, exactly_once = min(seconds["at_least_once"]), min(seconds["exactly_once"])
    return {
        "at_least_once_batch_ms": at_least_once * 1000,
        "exactly_once_batch_ms": exactly_once * 1000,
        "exactly_once_cost_percent": (exactly_once / at_least_once - 1) * 100,
    }


def _batch_s(rig: Rig, driver: DriverRig, plan: SparkPlan, guarantee: Guarantee, partitions: int) -> float:
    topic = rig.name("bench_delivered")
    batches = rig.sizes.delivery_records // RECORDS_PER_BATCH
    with driver.running(plan, topic, guarantee, partitions=partitions) as checkpoint:
        sink = Sink(rig.bootstrap, topic, partitions)
        sink.wait(rig.sizes.delivery_records, within=300)
        sink.close()
        rig.until(lambda: len(batch_ends_s(checkpoint)) >= batches)
        ends = batch_ends_s(checkpoint)
    return (ends[batches - 1] - ends[COLD_BATCHES - 1]) / (batches - COLD_BATCHES)
