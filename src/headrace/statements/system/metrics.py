"""Metrics of continuous queries as system relations: one for all queries, and one for each kind of label, all declared in
`headrace.engine.metrics`."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.schema import Column
from headrace.core.types import TIMESTAMP
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
