"""Metrics of the server, for Prometheus at `/metrics`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from headrace.server.ports import QuerySample

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 60.0)


class Metrics:
    """The counters of one application, in a separate registry."""

    def __init__(self, sample_queries: Callable[[], Iterable[QuerySample]]) -> None:
        self._registry = CollectorRegistry()
        self._statements = Counter(
            "headrace_statements",
            "Requests to run statements, by SQLSTATE.",
            ["sqlstate"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "headrace_statement_seconds", "Duration of statements.", buckets=_SECONDS, registry=self._registry
        )
        self._streams = Gauge("headrace_streams", "Live results being read.", registry=self._registry)
        self._rows = Counter("headrace_stream_rows", "Rows sent to readers.", registry=self._registry)
        self._refusals = Counter(
            "headrace_authentication_failures", "Tokens and tickets refused.", registry=self._registry
        )
        self._turned_away = Counter(
            "headrace_statements_turned_away", "Requests refused with 503.", registry=self._registry
        )
        ProcessCollector(registry=self._registry)
        self._registry.register(_Queries(sample_queries))

    def finished(self, sqlstate: str, seconds: float) -> None:
        """Count one request to run statements."""
        self._statements.labels(sqlstate).inc()
        self._seconds.observe(seconds)

    def refused(self) -> None:
        """Count a refused token or ticket."""
        self._refusals.inc()

    def turned_away(self) -> None:
        """Count one request that found no turn."""
        self._turned_away.inc()

    def streamed(self, rows: int) -> None:
        """Count rows sent."""
        self._rows.inc(rows)

    @contextmanager
    def stream(self) -> Iterator[None]:
        """Count a live result while it is read."""
        with self._streams.track_inprogress():
            yield

    def page(self) -> bytes:
        """Return all of it as Prometheus text."""
        return generate_latest(self._registry)


class _Queries(Collector):
    """Metrics of the continuous queries, collected at each request."""

    def __init__(self, sample: Callable[[], Iterable[QuerySample]]) -> None:
        self._sample = sample

    def describe(self) -> Iterable[Metric]:
        """Return nothing: registering must not read queries."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield one gauge for each figure, with a sample for each query."""
        samples = list(self._sample())
        now_ms = time.time() * 1000
        state = GaugeMetricFamily(
            "headrace_query_state", "1 for the state a query is in.", labels=["query_id", "name", "state"]
        )
        for sample in samples:
            state.add_metric([sample.query_id, sample.name, sample.state], 1)
        yield state
        figures: list[tuple[str, str, Callable[[QuerySample], float | None]]] = [
            ("restarts", "Automatic restarts since the last start asked for.", lambda s: s.restarts),
            (
                "input_rows_per_second",
                "Rows read per second in the last batch.",
                lambda s: s.input_rows_per_second,
            ),
            ("batch_duration_ms", "Duration of the last batch.", lambda s: s.batch_duration_ms),
            (
                "watermark_lag_ms",
                "How far the watermark is behind the clock.",
                lambda s: None if s.watermark_ms is None else now_ms - s.watermark_ms,
            ),
            ("state_rows", "Rows of state kept.", lambda s: s.state_rows),
            ("input_rows_total", "Rows read since the server started.", lambda s: s.input_rows_total),
            ("late_rows_total", "Rows dropped as too late since the start.", lambda s: s.late_rows_total),
            (
                "timeless_rows_total",
                "Rows without an event time since the start.",
                lambda s: s.timeless_rows_total,
            ),
            (
                "bad_records_total",
                "Records skipped as unreadable since the start.",
                lambda s: s.bad_records_total,
            ),
            (
                "future_rows_total",
                "Records skipped as too far ahead since the start.",
                lambda s: s.future_rows_total,
            ),
        ]
        for name, text, figure in figures:
            family = GaugeMetricFamily(f"headrace_query_{name}", text, labels=["query_id", "name"])
            for sample in samples:
                value = figure(sample)
                if value is not None:
                    family.add_metric([sample.query_id, sample.name], value)
            yield family
        lag = GaugeMetricFamily(
            "headrace_query_source_lag",
            "Records of a split behind the last one that the last batch read.",
            labels=["query_id", "name", "entity", "split"],
        )
        for sample in samples:
            for entity, splits in sample.lag.items():
                for split, behind in splits.items():
                    lag.add_metric([sample.query_id, sample.name, entity, split], behind)
        yield lag
        backlog = GaugeMetricFamily(
            "headrace_query_backlog_bytes",
            "Log that the store of an entity retains because the query has not read it.",
            labels=["query_id", "name", "entity"],
        )
        for sample in samples:
            for entity, size in sample.backlog_bytes.items():
                backlog.add_metric([sample.query_id, sample.name, entity], size)
        yield backlog
