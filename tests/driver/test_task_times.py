"""The time of tasks, which a driver reports by query."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.kafka import KafkaClient
from headrace.engine.protocol import PoolTasks, TaskTime
from headrace.planner.physical import SparkPlan
from headrace.testing.topics import Pair
from tests.driver.control import DriverControl
from tests.driver.plans import plan, read, results, write

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

Stores = dict[str, dict[str, str]]
Topic = Callable[..., str]
SLOTS = 32
"""Slots of a driver by default."""


def spent(driver: DriverControl, query: str) -> TaskTime:
    """Return what the driver has reported of a query."""
    reports = driver.of(PoolTasks)
    return sum((report.queries.get(query, TaskTime()) for report in reports), TaskTime())


def test_tasks_of_queries_with_parts_and_with_a_reader_count_as_theirs(
    driver: DriverControl,
    kafka: KafkaClient,
    stores: Stores,
    topic: Topic,
    tmp_path: Path,
    consumed: Callable[..., list[Pair]],
) -> None:
    source, first, second = topic(2), topic(), topic()
    kafka.produce(source, [(None, json.dumps({"v": n})) for n in range(500)])
    start_s = time.monotonic()
    two = SparkPlan(
        steps=[
            *read(source, "v BIGINT"),
            *write(first, "a", "v BIGINT", name="first"),
            *read(source, "v BIGINT", name="b"),
            *write(second, "b", "v BIGINT", name="second"),
        ],
        outputs=["first", "second"],
    )
    assert len(two.parts()) == 2
    query = driver.start(two, checkpoint=tmp_path / "two", stores=stores)
    assert [len(consumed(target, 500)) for target in (first, second)] == [500, 500]
    shown = plan(*read(source, "v BIGINT"), results("a", "v BIGINT"))
    reader = driver.start(shown, checkpoint=tmp_path / "reader", stores=stores)
    driver.rows(reader, 500)
    for each in (query, reader):
        assert driver.stop(each).error is None
        driver.until(lambda each=each: spent(driver, each).cpu_ms > 0)  # type: ignore[misc]
    elapsed_ms = (time.monotonic() - start_s) * 1000
    for each in (query, reader):
        assert 0 < spent(driver, each).slot_ms <= SLOTS * (elapsed_ms + 1000)
        assert spent(driver, each).cpu_ms <= SLOTS * (elapsed_ms + 1000)
    # The parts have no times of their own.
    names = {name for report in driver.of(PoolTasks) for name in report.queries}
    assert not any(name.startswith(f"{query}-") for name in names)


def test_a_task_that_goes_on_counts_before_its_batch_has_ended(
    driver: DriverControl,
    kafka: KafkaClient,
    stores: Stores,
    topic: Topic,
    checkpoint: Path,
    consumed: Callable[..., list[Pair]],
) -> None:
    source, target = topic(2), topic()
    query = driver.start(
        plan(*read(source, "v BIGINT"), *write(target, "a", "v BIGINT"), mode="real_time"),
        checkpoint=checkpoint,
        stores=stores,
        checkpoint_interval_ms=3_600_000,
    )
    kafka.produce(source, [(None, '{"v": 1}')])
    assert consumed(target, 1) == [(None, '{"v":1}')]
    before = spent(driver, query).slot_ms
    # Two tasks, one for each partition of the topic, which run for the whole hour.
    driver.until(lambda: spent(driver, query).slot_ms >= before + 400)
    assert spent(driver, query).cpu_ms == 0
    assert list((checkpoint / "commits").glob("[0-9]*")) == []
    assert driver.stop(query).error is None
