"""The temporal join, its changelog silent or lively."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, functions

from tests.watermarks.streams import Lab, Watermarks, wait_for

# py4j leaves sockets to the garbage collector.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def temporal_join(lab: Lab, left: DataFrame, right: DataFrame) -> DataFrame:
    joined = lab.spark._jvm.io.headrace.spark.TemporalJoin.join(
        left._jdf, right._jdf, ["k"], ["k"], "ts", "ts", "version", None, "left", 0
    )
    return DataFrame(joined, lab.spark).select("k", "v", functions.col("version.v").alias("version"))


def joined(lab: Lab, name: str) -> dict[str, str | None]:
    return {row.v: row.version for row in lab.spark.table(name).collect()}


def test_orders_flow_on_when_the_changelog_is_silent_and_meet_the_right_versions(lab: Lab, seed: str) -> None:
    orders, changes, name = f"orders-{seed}", f"changes-{seed}", f"joined_{seed}"
    lab.kafka.create(orders)
    lab.kafka.create(changes)
    lab.send(changes, 0, [0], text="first")
    lab.send(changes, 0, [30], text="second")
    lab.send(orders, 0, range(10, 60))
    left = lab.assign(lab.read([orders]), {orders: 1}, Watermarks())
    right = lab.assign(lab.read([changes]), {changes: 1}, Watermarks(idle=3))
    query = lab.start(temporal_join(lab, left, right), name)
    query.processAllAvailable()
    step = 60

    def order() -> bool:
        nonlocal step
        lab.send(orders, 0, [step])
        step += 1
        query.processAllAvailable()
        return "59" in joined(lab, name)

    wait_for(order, "orders to flow past the silent changelog")
    # It speaks again, ahead of the orders: they meet what it says.
    lab.send(changes, 0, [step + 4.5], text="third")
    query.processAllAvailable()
    lab.send(orders, 0, range(step, step + 10))
    query.processAllAvailable()
    lab.send(changes, 0, [step + 100], text="fourth")
    lab.send(orders, 0, [step + 101])
    query.processAllAvailable()
    expected = {
        str(second): "first" if second < 30 else "second" if second < step + 4.5 else "third"
        for second in range(10, step + 10)
    }
    flowed = joined(lab, name)
    # The last order flows only if the changelog has been silent for long enough meanwhile, as on a busy machine.
    flowed.pop(str(step + 101), None)
    assert flowed == expected


@pytest.mark.prove
def test_joins_chain_and_a_replay_meets_the_versions_of_a_batch(lab: Lab, seed: str) -> None:
    orders, prices, owners = f"o-{seed}", f"p-{seed}", f"w-{seed}"
    lab.kafka.create(orders, partitions=2)
    lab.kafka.create(prices)
    lab.kafka.create(owners)
    lab.send(orders, 0, range(1000, 2000, 2))
    lab.send(orders, 1, range(1, 1000, 2))
    for second in range(0, 2000, 100):
        lab.send(prices, 0, [second], text=f"price {second}")
    for second in range(0, 2000, 300):
        lab.send(owners, 0, [second], text=f"owner {second}")

    def source(topic: str, partitions: int) -> DataFrame:
        read = lab.read([topic], per_batch=200)
        return lab.assign(read, {topic: partitions}, Watermarks(all_idle="flush"))

    jvm = lab.spark._jvm.io.headrace.spark.TemporalJoin
    frame = source(orders, 2)._jdf
    for topic in (prices, owners):
        frame = jvm.join(frame, source(topic, 1)._jdf, ["k"], ["k"], "ts", "ts", topic, None, "left", 0)
    joined = DataFrame(frame, lab.spark).select(
        "v", functions.col(f"`{prices}`.v").alias("price"), functions.col(f"`{owners}`.v").alias("owner")
    )
    name = f"chain_{seed}"
    lab.start(joined, name, bounded=True).awaitTermination()
    seconds = [*range(1000, 2000, 2), *range(1, 1000, 2)]
    expected = {
        (str(second), f"price {second // 100 * 100}", f"owner {second // 300 * 300}") for second in seconds
    }
    rows = lab.spark.table(name).collect()
    assert len(rows) == len(seconds)
    assert {tuple(row) for row in rows} == expected
