"""Common part of the gate tests: rows in Kafka partitions, queries over them, and the answers of a batch."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.streaming.query import StreamingQuery

from harness.kafka import KafkaClient
from harness.patience import PATIENCE_S

EPOCH = 1_700_000_040
"""A whole minute, in seconds."""
WINDOW_S = 60


@dataclass(frozen=True)
class Watermarks:
    """A source's watermark settings; times in seconds."""

    delay: float = 0
    idle: float = 0
    all_idle: str = "last"


@dataclass(frozen=True)
class Lab:
    """A broker and a Spark session, and the few things that the tests do with them."""

    kafka: KafkaClient
    spark: SparkSession
    folder: Path

    def send(
        self, topic: str, partition: int, seconds: Iterable[float], key: str = "k", text: str = ""
    ) -> None:
        """Rows with these event times, counted from `EPOCH`, into one partition."""
        rows = [
            (key, json.dumps({"ts": EPOCH + second, "k": key, "v": text or str(second)}))
            for second in seconds
        ]
        self.kafka.produce(topic, rows, partition=partition)

    def read(self, topics: Iterable[str], *, per_batch: int = 1_000_000) -> DataFrame:
        """The topics from their beginning: topic, partition, ts, k, v."""
        return read_topics(self.spark, self.kafka.bootstrap, topics, per_batch=per_batch)

    def assign(self, frame: DataFrame, partitions: Mapping[str, int], watermarks: Watermarks) -> DataFrame:
        """The frame with a watermark that follows the partitions."""
        return assign(self.spark, frame, partitions, watermarks)

    def start(self, frame: DataFrame, name: str, *, bounded: bool = False) -> StreamingQuery:
        """Run `frame` into the memory table `name`."""
        writer = (
            frame.writeStream.format("memory")
            .queryName(name)
            .outputMode("append")
            .option("checkpointLocation", str(self.folder / name))
        )
        return (writer.trigger(availableNow=True) if bounded else writer).start()

    def counts(self, name: str) -> Counter[int]:
        """Return a windowed count's rows in `name`: window start, counted from `EPOCH` -> rows."""
        result: Counter[int] = Counter()
        for row in self.spark.table(name).collect():
            assert row.start not in result, "a window came out twice"
            result[row.start] = row.rows
        return result

    def describe(self, query: StreamingQuery) -> dict[str, Any]:
        """The watermark's own account of itself."""
        described = self.spark._jvm.io.headrace.spark.PartitionWatermark.describe(str(query.runId))
        result: dict[str, Any] = json.loads(described)
        return result


def read_topics(spark: SparkSession, bootstrap: str, topics: Iterable[str], *, per_batch: int) -> DataFrame:
    """Read as `Lab.read` does, for a process without a lab."""
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.metadata.max.age.ms", "500")
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", per_batch)
        .load()
    )
    value = functions.from_json(functions.col("value").cast("string"), "ts double, k string, v string")
    row = records.select("topic", "partition", value.alias("row"))
    return row.select(
        "topic", "partition", functions.col("row.ts").cast("timestamp").alias("ts"), "row.k", "row.v"
    )


def assign(
    spark: SparkSession, frame: DataFrame, partitions: Mapping[str, int], watermarks: Watermarks
) -> DataFrame:
    """Assign as `Lab.assign` does, for a process without a lab."""
    assigned = spark._jvm.io.headrace.spark.PartitionWatermark.assign(
        frame._jdf,
        "source",
        "ts",
        "topic",
        "partition",
        {topic: list(range(count)) for topic, count in partitions.items()},
        False,
        int(watermarks.delay * 1000),
        int(watermarks.idle * 1000),
        watermarks.all_idle,
        None,
        0,
        0,
        0,
        None,
        0,
    )
    return DataFrame(assigned, spark)


def windowed(frame: DataFrame) -> DataFrame:
    """Rows per minute: start (seconds from `EPOCH`), rows."""
    counted = frame.groupBy(functions.window("ts", f"{WINDOW_S} seconds")).agg(
        functions.count(functions.lit(1)).alias("rows")
    )
    return counted.select((functions.unix_seconds("window.start") - EPOCH).alias("start"), "rows")


def counted(*seconds: Iterable[float]) -> Counter[int]:
    """The same count by plain Python."""
    return Counter(int(second // WINDOW_S) * WINDOW_S for part in seconds for second in part)


def dropped(query: StreamingQuery) -> int:
    """Rows that Spark dropped as late."""
    return sum(
        operator.numRowsDroppedByWatermark
        for batch in query.recentProgress
        for operator in batch.stateOperators
    )


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Wait until `condition` holds; fails after three minutes."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for: {what}"
        time.sleep(0.1)
