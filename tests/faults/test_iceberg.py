"""A table of Iceberg holds each row once, though the driver dies between the table's commit and Spark's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.doors import RestDoor
from tests.harness.iceberg import Lake
from tests.harness.kafka import KafkaClient
from tests.harness.patience import until
from tests.harness.process import HeadraceProcess

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

ROWS = 50
"""In each of two batches."""


def test_a_batch_that_comes_again_is_left_out(
    kafka: KafkaClient, lake: Lake, seed: str, tmp_path: Path
) -> None:
    table, topic = f"s{seed}.t", f"n_{seed}"
    kafka.create(topic)

    def write(first: int) -> None:
        kafka.produce(topic, [(None, f'{{"n": {first + n}}}') for n in range(ROWS)])

    def held() -> list[int]:
        return sorted(row["n"] for row in lake.rows(table))

    write(0)
    # Of its own: each of its drivers dies when it has committed to a table for the first time.
    server = HeadraceProcess(tmp_path).start(HEADRACE_FAIL_POINT="after_sink_before_commit")
    try:
        door = RestDoor(server)
        door.execute(
            f"CREATE DATABASE d; USE DATABASE d; {lake.rest('lake')} CREATE ENTITY s{seed} IN STORE lake;"
            f"CREATE STORE k WITH ('type' = KAFKA, 'uris' = '{kafka.bootstrap}', 'tls.disabled' = TRUE);"
            f"CREATE STREAM n (n BIGINT) WITH ('store' = 'k', 'topic' = '{topic}', 'value.format' = 'json');"
            f"CREATE TABLE t WITH ('store' = 'lake', 'iceberg.namespace.name' = 's{seed}', 'iceberg.commit.interval.ms' = 0, "
            "'delivery.guarantee' = 'exactly_once') AS SELECT n FROM n WITH ('starting.position' = 'earliest');"
        )
        door.close()
        until(lambda: held() == list(range(ROWS)), lambda: f"the first rows; the table has {held()}")
        (first,) = lake.table(table).metadata.snapshots
        server.stop()
        write(ROWS)
        server.start()
        until(lambda: len(held()) >= 2 * ROWS, lambda: f"all rows; the table has {held()}")
        assert held() == list(range(2 * ROWS))
        # The same batch was given again, and the next one has the next number.
        epochs = [
            one.summary["headrace.epoch"] for one in lake.table(table).metadata.snapshots if one.summary
        ]
        assert first.summary is not None
        assert epochs == [first.summary["headrace.epoch"], str(int(first.summary["headrace.epoch"] or 0) + 1)]
    finally:
        server.stop()
