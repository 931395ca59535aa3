"""Metrics of the server, for Prometheus at `/metrics`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from headrace.server.ports import MetricFamily

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 60.0)


class Metrics:
    """The counters of one application, in a separate registry."""

    def __init__(self, query_metrics: Callable[[], Iterable[MetricFamily]], *, leads: bool = True) -> None:
        self._registry = CollectorRegistry()
        Gauge("headrace_leader", "1 if this server leads, 0 if it stands by.", registry=self._registry).set(
            leads
        )
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
        self._registry.register(_Queries(query_metrics))

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

    def __init__(self, families: Callable[[], Iterable[MetricFamily]]) -> None:
        self._families = families

    def describe(self) -> Iterable[Metric]:
        """Return nothing: registering must not read queries."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield each metric with a sample for each query."""
        for family in self._families():
            if family.sums is not None:
                yield _histogram(family, family.sums)
                continue
            kind = CounterMetricFamily if family.is_counter else GaugeMetricFamily
            collected = kind(f"headrace_{family.of}_{family.name}", family.help, labels=family.labels)
            for labels, value in family.samples:
                collected.add_metric(labels, value)
            yield collected


def _histogram(family: MetricFamily, sums: Mapping[tuple[str, ...], float]) -> Metric:
    buckets: dict[tuple[str, ...], list[tuple[str, float]]] = defaultdict(list)
    for values, count in family.samples:
        buckets[tuple(values[:-1])].append((values[-1], count))
    collected = HistogramMetricFamily(
        f"headrace_{family.of}_{family.name}", family.help, labels=family.labels[:-1]
    )
    for labels, counts in buckets.items():
        collected.add_metric(labels, counts, sums[labels])
    return collected
