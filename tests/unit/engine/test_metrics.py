"""The declared metrics: their values, the tables by label, and the history."""

from __future__ import annotations

import datetime
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from headrace.catalog.objects import Query, QueryKind
from headrace.core.names import RelationName
from headrace.engine.metrics import (
    BUCKET,
    METRICS,
    OPERATOR,
    SPLIT,
    STEP,
    QueryMetrics,
    labelled,
    samples,
    table_of,
)
from headrace.engine.metrics_history import HISTORY, MetricsHistory, PoolSample, TaskHour
from headrace.engine.protocol import OperatorState, QueryProgress, StepRows, TaskTime
from headrace.server.metrics import Metrics
from headrace.server.query_metrics import query_metrics

HOUR_S = 3600
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def progress(**figures: Any) -> QueryProgress:
    given = {"batch_id": 1, "input_rows": 10, "input_rows_per_second": 2.5, "batch_duration_ms": 7, **figures}
    return QueryProgress(query_id="q", **given)


def full() -> QueryMetrics:
    partition = {"entity": "a", "partition": 1, "maxEventTimeMs": 0, "idle": False}
    return QueryMetrics.after(
        None,
        progress(
            output_rows=3,
            input_bytes=100,
            input_bytes_per_second=50.0,
            output_bytes=30,
            output_bytes_per_second=15.0,
            committed_at_ms=1_000,
            checkpoint_bytes=4_096,
            latencies_ms=[50, 51, 4_000_000],
            watermark_ms=20_000,
            lag={"a": {"0": 4, "1": 5}},
            operators={"stateStoreSave": OperatorState(rows=2, bytes=8)},
            steps=[StepRows(step='WHERE a = "b"', input_rows=5, output_rows=1)],
            detail={"durations_ms": {"addBatch": 6}, "watermark": {"sources": [{"partitions": [partition]}]}},
        ),
    )


def test_sums_grow_and_all_else_is_the_last_batch() -> None:
    step = StepRows(step="WHERE a", input_rows=4, output_rows=1)
    first = QueryMetrics.after(
        None, progress(input_rows=10, late_rows=2, batches=3, output_rows=1, steps=[step])
    )
    second = QueryMetrics.after(first, progress(input_rows=5, batch_id=9))
    third = QueryMetrics.after(second, progress(output_rows=2, steps=[step]))
    assert third.output_rows_total == 3
    assert list(table_of(STEP, third)) == [("WHERE a", 8, 2)]
    assert (second.input_rows_total, second.late_rows_total, second.batches_total) == (15, 2, 4)
    assert (second.input_rows, second.late_rows, second.batch_id) == (5, 0, 9)


def test_bytes_are_summed_and_missing_where_they_are_not_known() -> None:
    first = QueryMetrics.after(None, progress(input_bytes=0))
    second = QueryMetrics.after(first, progress(input_bytes=7))
    known = {
        sample.name: sample.value for sample in samples(QueryMetrics.after(second, progress(input_bytes=5)))
    }
    assert known["input_bytes_total"] == 12
    assert not [name for name in known if "output_bytes" in name or "checkpoint" in name]


def test_the_age_of_a_checkpoint_is_that_of_its_last_commit() -> None:
    def age(committed_at_ms: int) -> float:
        metrics = QueryMetrics.after(None, progress(committed_at_ms=committed_at_ms))
        (value,) = [sample.value for sample in samples(metrics) if sample.name == "checkpoint_age_ms"]
        assert isinstance(value, int)
        return value

    now = round(time.time() * 1000)
    assert 60_000 <= age(now - 60_000) < 120_000
    # The clock was set back.
    assert age(now + 60_000) == 0


def test_latencies_are_counted_by_bucket_over_all_batches() -> None:
    metrics = QueryMetrics.after(full(), progress(latencies_ms=[0]))
    buckets: dict[Any, Any] = dict(table_of(BUCKET, metrics))  # type: ignore[arg-type]
    assert [buckets[bound] for bound in ("50", "100", "3600000", "+Inf")] == [2, 3, 3, 4]
    assert (metrics.latency_ms_total, metrics.last_latency_ms) == (4_000_101, 0)
    assert QueryMetrics.after(metrics, progress()).last_latency_ms == 0
    assert list(table_of(BUCKET, QueryMetrics.after(None, progress()))) == []


def test_the_metrics_page_has_a_histogram_of_latencies() -> None:
    query = Query(
        id="q",
        name="sales",
        version=1,
        kind=QueryKind.INSERT_INTO,
        sql="",
        plan="",
        sink=RelationName("d", "s", "r"),
        sources=(),
        compute_pool="p",
        owner="o",
        created_at=NOW,
        updated_at=NOW,
    )
    page = Metrics(lambda: query_metrics([query], lambda _id: full())).page().decode()
    assert "# TYPE headrace_query_latency_ms histogram" in page
    assert 'headrace_query_latency_ms_bucket{le="100",name="sales",query_id="q"} 2.0' in page
    assert 'headrace_query_latency_ms_count{name="sales",query_id="q"} 3.0' in page
    assert 'headrace_query_latency_ms_sum{name="sales",query_id="q"} 4.000101e+06' in page


def test_a_sample_is_named_as_prometheus_names_it() -> None:
    named = {sample.name: sample.value for sample in samples(full())}
    assert named["input_rows_per_second"] == 2.5
    assert named['source_lag{entity="a",split="0"}'] == 4
    assert named["lag_records"] == 9
    assert str(named["watermark"]) == "1970-01-01 00:00:20+00:00"
    assert named['operator_state_bytes{operator="stateStoreSave"}'] == 8
    assert named['batch_phase_ms{phase="addBatch"}'] == 6


def test_every_metric_has_a_value_in_a_full_report() -> None:
    assert {sample.metric.name for sample in samples(full())} == {metric.name for metric in METRICS}


def test_a_table_has_a_row_for_each_label_and_null_for_what_is_not_known() -> None:
    assert [metric.name for metric in labelled(SPLIT)] == ["source_lag", "source_event_time"]
    rows = list(table_of(SPLIT, full()))
    assert [row[:3] for row in rows] == [("a", "0", 4), ("a", "1", 5)]
    assert [str(row[3]) for row in rows] == ["None", "1970-01-01 00:00:00+00:00"]
    assert list(table_of(STEP, full())) == [('WHERE a = "b"', 5, 1)]
    assert list(table_of(OPERATOR, QueryMetrics.after(None, progress()))) == []
    (row,) = table_of((), QueryMetrics.after(None, progress()))
    assert len(row) == len(labelled(()))


def test_the_history_has_the_samples_of_the_last_hours(tmp_path: Path) -> None:
    history = MetricsHistory(tmp_path / "metrics.sqlite", hours=1)
    assert list(history.rows({"q"})) == []
    for hour in (0.0, 0.5, 1.2):
        history.add(hour * HOUR_S, {"q": full(), "other": full()})
    rows = list(history.rows({"q"}))
    assert [str(row[1]) for row in rows] == ["1970-01-01 00:30:00+00:00", "1970-01-01 01:12:00+00:00"]
    values = dict(zip([metric.name for metric in HISTORY], rows[0][2:], strict=True))
    assert (values["input_rows_total"], values["output_rows_total"]) == (10, 3)


def test_the_history_has_the_slots_of_pools_also_in_the_file_of_an_earlier_version(tmp_path: Path) -> None:
    path = tmp_path / "metrics.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE samples (query_id TEXT, seconds REAL, metrics TEXT)")
        database.execute(
            "CREATE TABLE pool_samples (pool_id TEXT, seconds REAL, length_s REAL, slots INTEGER, used INTEGER, "
            "PRIMARY KEY (pool_id, seconds))"
        )
        database.execute("INSERT INTO pool_samples VALUES ('p', 1800, 30, 4, 1)")
    history = MetricsHistory(path, hours=1)
    samples = [PoolSample("p", 30.0, 4, 1, 5000), PoolSample("other", 30.0, 2, None, 0)]
    for hour in (0.1, 1.2):
        history.add(hour * HOUR_S, {}, samples)
    rows = list(history.pool_rows({"p"}))
    assert [(pool, str(time), sample) for pool, time, sample in rows] == [
        ("p", "1970-01-01 00:30:00+00:00", PoolSample("p", 30.0, 4, 1, None)),
        ("p", "1970-01-01 01:12:00+00:00", samples[0]),
    ]


def test_the_history_adds_up_the_time_of_tasks_in_each_full_hour(tmp_path: Path) -> None:
    path = tmp_path / "metrics.sqlite"
    history = MetricsHistory(path, hours=2)

    def add(hour: float, query: str, pool: str, slot_ms: int) -> None:
        time = TaskTime(slot_ms=slot_ms, cpu_ms=slot_ms // 2)
        history.add(hour * HOUR_S, {}, (), [TaskHour.at(hour * HOUR_S, query, pool, time)])

    for hour in (0.5, 1.1, 1.2):
        add(hour, "q", "p", 100)
    add(1.3, "q", "r", 7)
    add(1.4, "other", "p", 3)
    # The server is started again, and the query too: what is in the file remains, and grows.
    history = MetricsHistory(path, hours=2)
    add(1.9, "q", "p", 50)
    expected = [("q", 0, "p", 100), ("q", 1, "p", 250), ("q", 1, "r", 7)]
    rows = [
        (each.query_id, each.hour // HOUR_S, each.pool_id, each.time.slot_ms)
        for each in history.task_hours({"q"})
    ]
    assert rows == expected
    # An hour is kept for as long as a part of it is young enough.
    add(2.99, "other", "p", 3)
    assert [each.time.slot_ms for each in history.task_hours({"q"})] == [100, 250, 7]
    add(3.01, "other", "p", 3)
    assert [each.time.slot_ms for each in history.task_hours({"q"})] == [250, 7]


def test_the_time_of_tasks_is_in_seconds_beside_the_other_sums() -> None:
    tasks = TaskTime(slot_ms=1500, cpu_ms=250)
    values = {sample.name: sample.value for sample in samples(full().with_tasks(tasks))}
    assert (values["slot_seconds_total"], values["processor_seconds_total"]) == (1.5, 0.25)
    values = {sample.name: sample.value for sample in samples(full())}
    assert (values["slot_seconds_total"], values["processor_seconds_total"]) == (0, 0)


@pytest.mark.parametrize("content", [b"no database at all, but longer than a header of SQLite" * 20, b""])
def test_a_damaged_history_is_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "metrics.sqlite"
    path.write_bytes(content)
    history = MetricsHistory(path, hours=1)
    assert list(history.rows({"q"})) == []
    history.add(1.0, {"q": full()})
    history.add(2.0, {"q": full()})
    assert str(list(history.rows({"q"}))[-1][1]) == "1970-01-01 00:00:02+00:00"


def test_a_sample_that_cannot_be_written_does_not_end_the_server(tmp_path: Path) -> None:
    path = tmp_path / "metrics.sqlite"
    history = MetricsHistory(path, hours=1)
    history.add(1.0, {"q": full()})
    MetricsHistory(tmp_path / "missing" / "metrics.sqlite", hours=1).add(2.0, {"q": full()})
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT COUNT(*) FROM samples").fetchone() == (1,)
