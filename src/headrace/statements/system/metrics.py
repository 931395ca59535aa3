"""Metrics of continuous queries as system relations: one for all queries, and one for each kind of label, all declared in
`headrace.engine.metrics`. Beside them, the slots of compute pools over time, and what queries used of them."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from headrace.core.schema import Column
from headrace.core.types import DOUBLE, INTEGER, TIMESTAMP
from headrace.engine.metrics import BUCKET, OPERATOR, PHASE, SPLIT, STEP, Labels, labelled, table_of
from headrace.engine.metrics_history import HISTORY
from headrace.planner.view_reads import Condition
from headrace.statements.base import Execution
from headrace.statements.system.relation import (
    Reference,
    Rows,
    always,
    ids_allowed,
    system_relation,
    visible_queries,
)

_RELATIONS: dict[str, tuple[Labels, str]] = {
    "query_metrics": (
        (),
        "The metrics of each query: figures of its last batch, and sums (`…_total`) since the server started. A query has a row after its "
        "first batch.",
    ),
    "query_splits": (SPLIT, "The metrics of each split that a query reads, such as a partition of a topic."),
    "query_operators": (OPERATOR, "The metrics of each operator of a query that keeps state."),
    "query_phases": (PHASE, "How long each phase of the last batch of a query took, by Spark's names."),
    "query_steps": (
        STEP,
        "The rows that each condition and join received and passed of a query since it was started.",
    ),
    "query_latencies": (
        BUCKET,
        "The histogram of the end-to-end latency of each query: how many of its batches since the server started took at most `le` "
        "milliseconds, which is `+Inf` for all of them.",
    ),
}

_HOUR_MS = 3_600_000


def _history(run: Execution, conditions: Sequence[Condition]) -> Rows:
    # A chart of one query needs its samples only: there are three thousand of each query.
    chosen = ids_allowed(conditions, "query_id")
    return run.services.engine.history.rows([query.id for query in visible_queries(run, chosen)])


@system_relation(
    "query_metrics_history",
    always("query_id"),
    always("time", TIMESTAMP),
    *(Column(metric.name, metric.type) for metric in HISTORY),
    key=("query_id", "time"),
    references=(Reference("query", "queries", ("query_id",), "metrics_history"),),
    matching=_history,
    doc="The metrics of each query over the last hours, a row for each `HEADRACE_METRICS_INTERVAL_S`: for charts.",
)
def query_metrics_history(run: Execution) -> Rows:
    return _history(run, ())


@system_relation(
    "pool_usage",
    always("pool_name"),
    always("time", TIMESTAMP),
    always("seconds", DOUBLE),
    always("slots", INTEGER),
    Column("slots_used", INTEGER),
    always("slot_hours", DOUBLE),
    Column("cost", DOUBLE),
    Column("slot_hours_used", DOUBLE),
    key=("pool_name", "time"),
    references=(Reference("compute_pool", "compute_pools", ("pool_name",), "usage"),),
    doc="The slots of each compute pool over the last hours, a row for each `HEADRACE_METRICS_INTERVAL_S` in which its process ran: it had "
    "`slots` for the `seconds` before `time`, which are `slot_hours`. `slots_used` ran a task at that moment, NULL for a pool that is not "
    "on a cluster. `cost` is the price of the slot hours, NULL without `HEADRACE_SLOT_HOUR_PRICE`. For `slot_hours_used` of them tasks "
    "occupied the slots, those of all queries; NULL in samples of an earlier version.",
)
def pool_usage(run: Execution) -> Rows:
    names = {pool.id: pool.name for pool in run.visible(run.catalog.compute_pools())}
    for pool_id, time, sample in run.services.engine.history.pool_rows(names):
        hours = sample.slots * sample.length_s / 3600
        used = None if sample.busy_ms is None else sample.busy_ms / _HOUR_MS
        yield (
            names[pool_id],
            time,
            sample.length_s,
            sample.slots,
            sample.used,
            hours,
            _cost(run, hours),
            used,
        )


def _cost(run: Execution, slot_hours: float) -> float | None:
    price = run.services.settings.slot_hour_price
    return None if price is None else slot_hours * price


def _usage(run: Execution, conditions: Sequence[Condition]) -> Rows:
    chosen = ids_allowed(conditions, "query_id")
    names = {pool.id: pool.name for pool in run.catalog.compute_pools()}
    for each in run.services.engine.history.task_hours([query.id for query in visible_queries(run, chosen)]):
        if each.pool_id in names:
            since = datetime.datetime.fromtimestamp(each.hour, datetime.UTC)
            hours, processor_s = each.time.slot_ms / _HOUR_MS, each.time.cpu_ms / 1000
            yield (each.query_id, names[each.pool_id], since, hours, processor_s, _cost(run, hours))


@system_relation(
    "query_usage",
    always("query_id"),
    always("pool_name"),
    always("since", TIMESTAMP),
    always("slot_hours", DOUBLE),
    always("processor_seconds", DOUBLE),
    Column("cost", DOUBLE),
    key=("query_id", "since", "pool_name"),
    references=(
        Reference("query", "queries", ("query_id",), "usage"),
        Reference("compute_pool", "compute_pools", ("pool_name",), "query_usage"),
    ),
    matching=_usage,
    doc="What each query used of its compute pool over the last hours, a row for each full hour from `since` on, if a task of the "
    "query ran in it: `slot_hours` for which its tasks occupied slots, and `processor_seconds` of their threads. `cost` is the price of "
    "the slot hours, NULL without `HEADRACE_SLOT_HOUR_PRICE`: the query's share of the cost in `pool_usage`, whose other part is that of "
    "idle slots and of queries of readers.",
)
def query_usage(run: Execution) -> Rows:
    return _usage(run, ())


def _register(name: str, labels: Labels, doc: str) -> None:
    @system_relation(
        name,
        always("query_id"),
        *map(always, labels),
        *(Column(metric.name, metric.type) for metric in labelled(labels)),
        key=("query_id", *labels),
        references=(Reference("query", "queries", ("query_id",), name.removeprefix("query_")),),
        doc=doc,
    )
    def rows(run: Execution) -> Rows:
        for query in run.visible(run.catalog.queries()):
            progress = run.services.engine.progress(query.id)
            for row in table_of(labels, progress) if progress is not None else ():
                yield (query.id, *row)


for _name, (_labels, _doc) in _RELATIONS.items():
    _register(_name, _labels, _doc)
