"""Metrics of the continuous queries that run and of the compute pools, as families for the metrics page."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from headrace.catalog.objects import ComputePool, Query
from headrace.engine.metrics import METRICS, QueryMetrics, samples
from headrace.server.ports import MetricFamily

_QUERY = ("query_id", "name")


def query_metrics(
    queries: Iterable[Query], progress_of: Callable[[str], QueryMetrics | None]
) -> Iterator[MetricFamily]:
    """Yield the state and the restarts of each query that is to run, then every metric that is exported."""
    queries = [query for query in queries if query.should_run]
    labels = {query.id: (query.id, query.name or "") for query in queries}
    yield MetricFamily(
        "state",
        "1 for the state a query is in.",
        (*_QUERY, "state"),
        [((*labels[query.id], query.actual_state.value), 1) for query in queries],
    )
    yield MetricFamily(
        "restarts",
        "Automatic restarts since the last start that a user requested.",
        _QUERY,
        [(labels[query.id], query.restarts) for query in queries],
    )
    values: dict[str, list[tuple[tuple[str, ...], float]]] = defaultdict(list)
    for query in queries:
        progress = progress_of(query.id)
        for sample in samples(progress) if progress is not None else ():
            if not isinstance(sample.value, datetime.datetime):
                values[sample.metric.name].append(((*labels[query.id], *sample.labels), sample.value))
    for metric in METRICS:
        if metric.is_exported:
            labels_of = (*_QUERY, *metric.labels)
            sums: dict[tuple[str, ...], float] | None = None
            if metric.total is not None:
                known = {query.id: progress_of(query.id) for query in queries}
                sums = {
                    labels[query_id]: metric.total(progress)
                    for query_id, progress in known.items()
                    if progress is not None
                }
            yield MetricFamily(
                metric.name, metric.help, labels_of, values[metric.name], metric.is_counter, sums
            )


def pool_metrics(
    pools: Iterable[ComputePool], state_of: Callable[[str], tuple[str, str | None]]
) -> Iterator[MetricFamily]:
    """Yield the state of each compute pool."""
    samples = [((pool.name, state_of(pool.name)[0]), 1) for pool in pools]
    yield MetricFamily(
        "state", "1 for the state a compute pool is in.", ("name", "state"), samples, of="compute_pool"
    )
