"""Metrics of continuous queries, each declared once.

DESCRIBE QUERY METRICS, the system relations, their history, `/metrics` and the documentation derive from `METRICS`: a new metric is a
field of `QueryProgress`, which the driver measures, and a row here.
"""

from __future__ import annotations

import datetime
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter
from typing import Any

from pydantic import Field

from headrace.core.types import BIGINT, DOUBLE, TIMESTAMP, DataType
from headrace.engine.protocol import SUMMED, QueryProgress, StepRows, TaskTime

Value = int | float | datetime.datetime
Labels = tuple[str, ...]

SPLIT: Labels = ("entity", "split")
PHASE: Labels = ("phase",)
OPERATOR: Labels = ("operator",)
STEP: Labels = ("step",)
BUCKET: Labels = ("le",)
"""Upper bound of a bucket of a histogram, inclusive, as Prometheus names it."""

LATENCY_MS = (50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000, 3_600_000)
"""Upper bounds of the buckets of latencies; the last bucket has none."""


class QueryMetrics(QueryProgress):
    """A query's last batch, and sums since the server started."""

    batches_total: int = 0
    input_rows_total: int = 0
    late_rows_total: int = 0
    timeless_rows_total: int = 0
    bad_records_total: int = 0
    future_rows_total: int = 0
    function_failures_total: int = 0
    output_rows_total: int = 0
    input_bytes_total: int | None = None
    output_bytes_total: int | None = None
    steps_total: dict[str, StepRows] = Field(default_factory=dict)
    latency_counts: list[int] = Field(
        default_factory=lambda: [0] * (len(LATENCY_MS) + 1),
        description="Number of batches in each bucket of `LATENCY_MS` alone.",
    )
    latency_ms_total: int = 0
    last_latency_ms: int | None = None
    tasks: TaskTime = Field(TaskTime(), description="Time of the query's tasks since the server started.")
    received_at: float = Field(0.0, description="When the last report came, in seconds since the epoch.")

    @staticmethod
    def after(earlier: QueryMetrics | None, message: QueryProgress) -> QueryMetrics:
        """Return metrics with `message` as the last batch, and the sums of `earlier` and `message`."""
        totals = {
            f"{name}_total": getattr(message, name) + (getattr(earlier, f"{name}_total") if earlier else 0)
            for name in SUMMED
        }
        totals["output_rows_total"] = (earlier.output_rows_total if earlier else 0) + (
            message.output_rows or 0
        )
        for name in ("input_bytes", "output_bytes"):
            known = getattr(earlier, f"{name}_total") if earlier else None
            new = getattr(message, name)
            totals[f"{name}_total"] = None if new is None else (known or 0) + new
        steps = dict(earlier.steps_total) if earlier else {}
        for step in message.steps:
            before = steps.get(step.step) or StepRows(step=step.step, input_rows=0, output_rows=0)
            steps[step.step] = StepRows(
                step=step.step,
                input_rows=before.input_rows + step.input_rows,
                output_rows=before.output_rows + step.output_rows,
            )
        counts = list(earlier.latency_counts) if earlier else [0] * (len(LATENCY_MS) + 1)
        for latency in message.latencies_ms:
            counts[bisect_left(LATENCY_MS, latency)] += 1
        last_latency_ms = earlier.last_latency_ms if earlier else None
        return QueryMetrics(
            **dict(message),
            **totals,
            steps_total=steps,
            latency_counts=counts,
            latency_ms_total=(earlier.latency_ms_total if earlier else 0) + sum(message.latencies_ms),
            last_latency_ms=message.latencies_ms[-1] if message.latencies_ms else last_latency_ms,
            received_at=time.time(),
        )

    def with_tasks(self, tasks: TaskTime) -> QueryMetrics:
        """Return these metrics with the time of the query's tasks."""
        return self.model_copy(update={"tasks": tasks})


@dataclass(frozen=True)
class Metric:
    """Metric of a query: its name, the type of its values, what it measures, and how it is read.

    A metric without `labels` has one value, under the key `()`. Others have one for each of the labels' values, such as an entity and a
    split. A value that is not known yet is missing. `is_counter` marks a sum that only grows while the server runs.

    A histogram has the label `le` and a `total`, the sum of what was observed. Each value counts the observations up to its bound.
    """

    name: str
    type: DataType
    help: str
    read: Callable[[QueryMetrics], Mapping[Labels, Value]]
    labels: Labels = ()
    is_counter: bool = False
    total: Callable[[QueryMetrics], int] | None = None

    @property
    def is_number(self) -> bool:
        """False for a moment."""
        return self.type is not TIMESTAMP

    @property
    def is_exported(self) -> bool:
        """True if it is on the metrics page: a number without text of a statement, which whoever reads the page need not know."""
        return self.is_number and self.labels != STEP


@dataclass(frozen=True)
class Sample:
    """A value of a metric, and the values of its labels."""

    metric: Metric
    labels: Labels
    value: Value

    @property
    def name(self) -> str:
        """Name and labels, as Prometheus writes them: `source_lag{entity="orders",split="0"}`."""
        if not self.labels:
            return self.metric.name
        pairs = zip(self.metric.labels, self.labels, strict=True)
        written = ",".join(f'{name}="{value}"' for name, value in pairs)
        return f"{self.metric.name}{{{written}}}"


def samples(metrics: QueryMetrics) -> Iterator[Sample]:
    """Yield the present values of all metrics of a query."""
    for metric in METRICS:
        for labels, value in metric.read(metrics).items():
            yield Sample(metric, labels, value)


def labelled(labels: Labels) -> tuple[Metric, ...]:
    """Return the metrics with these labels, in order."""
    return tuple(metric for metric in METRICS if metric.labels == labels)


def table_of(labels: Labels, metrics: QueryMetrics) -> Iterator[tuple[object, ...]]:
    """Yield a row for each value of the labels: the labels, then the values of `labelled(labels)`, None for one that is not known."""
    values = [metric.read(metrics) for metric in labelled(labels)]
    for place in dict.fromkeys(place for column in values for place in column):
        yield (*place, *(column.get(place) for column in values))


def _field(name: str) -> Callable[[QueryMetrics], Mapping[Labels, Value]]:
    return _one(attrgetter(name))


def _one(value: Callable[[QueryMetrics], Value | None]) -> Callable[[QueryMetrics], Mapping[Labels, Value]]:
    def read(metrics: QueryMetrics) -> Mapping[Labels, Value]:
        known = value(metrics)
        return {} if known is None else {(): known}

    return read


def _moment(milliseconds: int | None) -> datetime.datetime | None:
    return (
        None if milliseconds is None else datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC)
    )


def _lag(metrics: QueryMetrics) -> Mapping[Labels, Value]:
    return {(entity, split): behind for entity, of in metrics.lag.items() for split, behind in of.items()}


def _lag_of_all_splits(metrics: QueryMetrics) -> int | None:
    lags = _lag(metrics).values()
    return sum(map(int, lags)) if lags else None  # type: ignore[arg-type] # whole numbers


def _watermark_partitions(metrics: QueryMetrics) -> Iterator[tuple[Labels, dict[str, Any]]]:
    described: Any = metrics.detail.get("watermark", {})
    for source in described.get("sources", ()):
        for partition in source["partitions"]:
            yield (partition["entity"], str(partition["partition"])), partition


def _event_times(metrics: QueryMetrics) -> Mapping[Labels, Value]:
    moments = {
        place: _moment(partition["maxEventTimeMs"]) for place, partition in _watermark_partitions(metrics)
    }
    return {place: moment for place, moment in moments.items() if moment is not None}


def _phases(metrics: QueryMetrics) -> Mapping[Labels, Value]:
    durations: Any = metrics.detail.get("durations_ms", {})
    return {(phase,): milliseconds for phase, milliseconds in durations.items()}


def _latencies(metrics: QueryMetrics) -> Mapping[Labels, Value]:
    if not any(metrics.latency_counts):
        return {}
    bounds = [*map(str, LATENCY_MS), "+Inf"]
    return {(le,): count for le, count in zip(bounds, accumulate(metrics.latency_counts), strict=True)}


METRICS: tuple[Metric, ...] = (
    Metric(
        "batch_id",
        BIGINT,
        "Number of the last batch; of an application, the sum of its queries'.",
        _field("batch_id"),
    ),
    Metric("batch_duration_ms", BIGINT, "Duration of the last batch.", _field("batch_duration_ms")),
    Metric(
        "batch_age_ms",
        BIGINT,
        "Time since the last batch was reported.",
        _one(lambda metrics: max(0, round((time.time() - metrics.received_at) * 1000))),
    ),
    Metric(
        "batches_total", BIGINT, "Batches since the server started.", _field("batches_total"), is_counter=True
    ),
    Metric("input_rows", BIGINT, "Rows read in the last batch.", _field("input_rows")),
    Metric(
        "input_rows_per_second",
        DOUBLE,
        "Rows read per second in the last batch.",
        _field("input_rows_per_second"),
    ),
    Metric(
        "input_rows_total",
        BIGINT,
        "Rows read since the server started.",
        _field("input_rows_total"),
        is_counter=True,
    ),
    Metric(
        "output_rows_total",
        BIGINT,
        "Rows passed to the sink since the server started.",
        _field("output_rows_total"),
        is_counter=True,
    ),
    Metric(
        "input_bytes_per_second",
        DOUBLE,
        "Bytes of the keys and values of records, without headers, read per second in the last batches. Missing if a source has rows "
        "instead of records, such as a table.",
        _field("input_bytes_per_second"),
    ),
    Metric(
        "input_bytes_total",
        BIGINT,
        "Bytes of the keys and values of records that were read since the server started. Missing as `input_bytes_per_second`.",
        _field("input_bytes_total"),
        is_counter=True,
    ),
    Metric(
        "output_bytes_per_second",
        DOUBLE,
        "Bytes of the keys and values of records, without headers, passed to the sink per second in the last batches. Missing if the sink "
        "is a table or a view, and for statements of an application that share their source.",
        _field("output_bytes_per_second"),
    ),
    Metric(
        "output_bytes_total",
        BIGINT,
        "Bytes of the keys and values of records that were passed to the sink since the server started. Missing as "
        "`output_bytes_per_second`.",
        _field("output_bytes_total"),
        is_counter=True,
    ),
    Metric(
        "watermark",
        TIMESTAMP,
        "The watermark: no earlier event time is expected. Missing while there is none.",
        _one(lambda metrics: _moment(metrics.watermark_ms)),
    ),
    Metric(
        "watermark_lag_ms",
        BIGINT,
        "How far the watermark is behind the clock.",
        _one(
            lambda metrics: (
                None if metrics.watermark_ms is None else round(time.time() * 1000) - metrics.watermark_ms
            )
        ),
    ),
    Metric(
        "last_latency_ms",
        BIGINT,
        "End-to-end latency of the last batch with records: from the time that the store has for its oldest record to its commit.",
        _one(lambda metrics: metrics.last_latency_ms),
    ),
    Metric("state_rows", BIGINT, "Rows of state that are kept.", _field("state_rows")),
    Metric("state_bytes", BIGINT, "Memory that the state uses.", _field("state_bytes")),
    Metric("state_file_bytes", BIGINT, "Size of the files of the state.", _field("state_file_bytes")),
    Metric(
        "checkpoint_age_ms",
        BIGINT,
        "Time since the last batch was committed to the checkpoint. Missing before the first one.",
        _one(
            lambda metrics: (
                None
                if metrics.committed_at_ms is None
                else max(0, round(time.time() * 1000) - metrics.committed_at_ms)
            )
        ),
    ),
    Metric(
        "checkpoint_bytes",
        BIGINT,
        "Size of the files of the checkpoint: positions, state, and what the sink keeps there. Measured every 30 s at most.",
        _field("checkpoint_bytes"),
    ),
    Metric(
        "slot_seconds_total",
        DOUBLE,
        "Time for which tasks of the query occupied slots of its compute pool since the server started, running tasks included. Two tasks "
        "at once count twice.",
        _one(lambda metrics: metrics.tasks.slot_ms / 1000),
        is_counter=True,
    ),
    Metric(
        "processor_seconds_total",
        DOUBLE,
        "Processor time of the threads of the query's tasks since the server started, without other threads and processes, such as those "
        "of functions in Python. It is counted when a task ends.",
        _one(lambda metrics: metrics.tasks.cpu_ms / 1000),
        is_counter=True,
    ),
    Metric(
        "late_rows_total",
        BIGINT,
        "Rows dropped as too late since the server started.",
        _field("late_rows_total"),
        is_counter=True,
    ),
    Metric(
        "timeless_rows_total",
        BIGINT,
        "Rows without an event time since the server started.",
        _field("timeless_rows_total"),
        is_counter=True,
    ),
    Metric(
        "bad_records_total",
        BIGINT,
        "Unreadable records that were skipped since the server started.",
        _field("bad_records_total"),
        is_counter=True,
    ),
    Metric(
        "future_rows_total",
        BIGINT,
        "Records too far ahead of the clock that were skipped since the server started.",
        _field("future_rows_total"),
        is_counter=True,
    ),
    Metric(
        "function_failures_total",
        BIGINT,
        "Rows for which a function of a user failed without ending the query, since the server started.",
        _field("function_failures_total"),
        is_counter=True,
    ),
    Metric(
        "backlog_bytes",
        BIGINT,
        "Size of the log that stores retain because the query has not confirmed reading it, such as that of a replication slot.",
        _one(lambda metrics: sum(metrics.backlog_bytes.values())),
    ),
    Metric(
        "lag_records",
        BIGINT,
        "Records of all splits after the last ones that the last batch read. Missing if no source has splits with a known end.",
        _one(_lag_of_all_splits),
    ),
    Metric(
        "source_lag",
        BIGINT,
        "Records of a split after the last one that the last batch read: the consumer lag of a partition.",
        _lag,
        labels=SPLIT,
    ),
    Metric(
        "source_event_time",
        TIMESTAMP,
        "The latest event time of a split, in queries with a watermark.",
        _event_times,
        labels=SPLIT,
    ),
    Metric(
        "batch_phase_ms",
        BIGINT,
        "Duration of a phase of the last batch, by Spark's name for it.",
        _phases,
        labels=PHASE,
    ),
    Metric(
        "operator_state_rows",
        BIGINT,
        "Rows of state that an operator keeps.",
        lambda metrics: {(name,): kept.rows for name, kept in metrics.operators.items()},
        labels=OPERATOR,
    ),
    Metric(
        "operator_state_bytes",
        BIGINT,
        "Memory that the state of an operator uses.",
        lambda metrics: {(name,): kept.bytes for name, kept in metrics.operators.items()},
        labels=OPERATOR,
    ),
    Metric(
        "step_input_rows_total",
        BIGINT,
        "Rows that a condition or a join received since the query was started.",
        lambda metrics: {(name,): step.input_rows for name, step in metrics.steps_total.items()},
        labels=STEP,
        is_counter=True,
    ),
    Metric(
        "step_output_rows_total",
        BIGINT,
        "Rows that a condition or a join let through since the query was started.",
        lambda metrics: {(name,): step.output_rows for name, step in metrics.steps_total.items()},
        labels=STEP,
        is_counter=True,
    ),
    Metric(
        "latency_ms",
        BIGINT,
        "Batches since the server started, by their end-to-end latency: from the time that the store has for the oldest record of a batch "
        "to the commit of the batch. No record of a batch took longer.",
        _latencies,
        labels=BUCKET,
        is_counter=True,
        total=lambda metrics: metrics.latency_ms_total,
    ),
)
"""All metrics, in the order of DESCRIBE QUERY METRICS."""
