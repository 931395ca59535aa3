"""Lag of a query behind its sources, from Spark's progress of a batch."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.connectors.checkpoint_store import LocalFolder
from headrace.engine.driver.progress import (
    CheckpointSize,
    committed_at_ms,
    lag,
    latencies_ms,
    measures,
    watermark_ms,
)
from tests.plans.world import planned


def test_lag_is_by_entity_and_split() -> None:
    sources = [
        {"endOffset": {"a": {"0": 7, "1": 5}}, "latestOffset": {"a": {"0": 10, "1": 5, "2": 4}}},
        # Another source of the same query that reads the same entity, further behind.
        {"endOffset": {"a": {"0": 2}}, "latestOffset": {"a": {"0": 10}}},
        # Made anew with fewer records: not less than nothing.
        {"endOffset": {"b": {"0": 9}}, "latestOffset": {"b": {"0": 0}}},
    ]
    assert lag(sources) == {"a": {"0": 8, "1": 0}, "b": {"0": 0}}


def test_stores_that_do_not_count_their_records_have_none() -> None:
    assert lag([{"endOffset": {"s": {"0": "495"}}, "latestOffset": {"s": {"0": "496"}}}]) == {}
    assert lag([{"endOffset": 3, "latestOffset": 4}, {"endOffset": None, "latestOffset": None}, {}]) == {}


@pytest.mark.parametrize(
    ("described", "logged", "expected"),
    [
        ({"active": True, "watermarkMs": -5000}, "1970-01-01T00:00:00.000Z", -5000),
        ({"active": False}, "1969-12-31T23:59:55.500Z", -4500),
        ({"active": True, "watermarkMs": None}, "1970-01-01T00:00:00.000Z", None),
        ({"active": True, "watermarkMs": None}, "0001-01-01T00:00:00.000Z", None),
        # An event of the year 1, less the latency.
        ({"active": True, "watermarkMs": -62_135_596_805_000}, "1970-01-01T00:00:00.000Z", None),
        ({"active": False}, None, None),
    ],
)
def test_a_watermark_may_be_before_1970_and_there_may_be_none(
    described: dict[str, object], logged: str | None, expected: int | None
) -> None:
    batch = {"eventTime": {"watermark": logged}} if logged else {}
    assert watermark_ms(batch, described) == expected


def test_a_latency_is_from_the_oldest_record_of_a_batch_to_the_commit() -> None:
    second = {"batchId": 1, "timestamp": "1970-01-01T00:00:10.000Z", "durationMs": {"triggerExecution": 500}}
    idle = {**second, "batchId": 2}
    assert latencies_ms([second, idle], {"1": 8_000_000}) == [2500]
    # The producer's clock is ahead.
    assert latencies_ms([second], {"1": 11_000_000}) == [0]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("CREATE STREAM s AS SELECT carrier FROM flights", {"input_bytes", "output_bytes"}),
        ("CREATE MATERIALIZED VIEW v AS SELECT carrier FROM flights", {"input_bytes"}),
    ],
)
def test_a_plan_measures_records_only(statement: str, expected: set[str]) -> None:
    assert measures(planned(statement)) == expected


def test_a_checkpoint_was_committed_with_its_last_batch(tmp_path: Path) -> None:
    store = LocalFolder(tmp_path)
    assert committed_at_ms(store, 0) is None
    for batch in (6, 7):
        store.write(f"commits/{batch}", "v1")
        os.utime(tmp_path / "commits" / str(batch), (batch, batch))
    # A trigger without a batch has the number of the next one.
    assert committed_at_ms(store, 7) == committed_at_ms(store, 8) == 7_000


def test_a_checkpoint_is_measured_from_time_to_time(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "1.delta").write_bytes(b"12345")
    (tmp_path / "metadata").write_bytes(b"12")
    size = CheckpointSize(LocalFolder(tmp_path))
    assert size.read() == 7
    (tmp_path / "metadata").unlink()
    assert size.read() == 7
    assert CheckpointSize(LocalFolder(tmp_path / "missing")).read() == 0
