"""A bounded, windowed count from Kafka to files, in a process of its own that can be killed.

Arguments: bootstrap servers, topic, number of partitions, folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

from harness.spark import start_spark
from tests.watermarks.streams import Watermarks, assign, read_topics, windowed


def main(bootstrap: str, topic: str, partitions: str, folder: str) -> None:
    """Runs to the end of the topic."""
    place = Path(folder)
    spark = start_spark(place / "local")
    checkpoint = str(place / "checkpoint")
    spark._jvm.io.headrace.spark.PartitionWatermark.resume(spark._jsparkSession, checkpoint)
    rows = read_topics(spark, bootstrap, [topic], per_batch=150)
    watermarked = assign(spark, rows, {topic: int(partitions)}, Watermarks(delay=10, all_idle="flush"))
    query = (
        windowed(watermarked)
        .writeStream.format("json")
        .option("path", str(place / "result"))
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
