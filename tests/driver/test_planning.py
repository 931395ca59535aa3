"""A query whose planning takes too long ends alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.kafka import KafkaClient
from headrace.planner.physical import SparkPlan
from tests.driver.control import DriverControl
from tests.driver.plans import plan, read, results, sql

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

Stores = dict[str, dict[str, str]]

# Each record belongs to thousands of windows, and Spark writes an expression for each: many seconds of analysis.
SLOW_TO_ANALYSE = "SELECT v, window(timestamp_seconds(v), '1 day', '15 seconds') AS w FROM a"
# Fast to analyse and slow to optimise: Spark folds constants in the first batch.
SLOW_TO_OPTIMISE = "SELECT v FROM a WHERE levenshtein(repeat('a', 40000), repeat('b', 40000)) > 0"


def _steps(source: str, text: str) -> SparkPlan:
    return plan(*read(source, "v BIGINT"), sql("b", ["a"], text), results("b", "v BIGINT"))


@pytest.fixture
def source(kafka: KafkaClient, topic: Callable[..., str]) -> str:
    name = topic()
    kafka.produce(name, [(None, '{"v":1}')])
    return name


@pytest.mark.parametrize("text", [SLOW_TO_ANALYSE, SLOW_TO_OPTIMISE], ids=["analysis", "first batch"])
def test_a_query_that_takes_too_long_to_plan_ends_and_no_other_does(
    driver: DriverControl, stores: Stores, source: str, tmp_path: Path, text: str
) -> None:
    bystander = driver.start(_steps(source, "SELECT v FROM a"), checkpoint=tmp_path / "other", stores=stores)
    assert driver.rows(bystander, 1) == [["1"]]
    query = driver.start(
        _steps(source, text), checkpoint=tmp_path / "slow", stores=stores, planning_timeout_ms=2500
    )
    ended = driver.ended(query)
    assert (ended.sqlstate, ended.domain) == ("57014", "user"), driver.log()
    assert "more than 2.5 s of processor time" in (ended.error or "")
    assert ended.hint
    again = driver.start(_steps(source, "SELECT v FROM a"), checkpoint=tmp_path / "again", stores=stores)
    assert driver.rows(again, 1) == [["1"]]
    for other in (bystander, again):
        assert driver.stop(other).error is None
    assert len(driver.of(type(ended), query)) == 1


def test_a_query_that_is_being_planned_is_stopped_at_once_and_never_starts(
    driver: DriverControl, stores: Stores, source: str, tmp_path: Path
) -> None:
    started = time.monotonic()
    query = driver.start(_steps(source, SLOW_TO_ANALYSE), checkpoint=tmp_path / "slow", stores=stores)
    driver.until(lambda: time.monotonic() > started + 1)
    assert driver.stop(query).error is None
    assert not (tmp_path / "slow").exists()
