"""Exclusive reads, such as replication slots: if two queries share a slot, each loses the changes that the other reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from headrace.catalog.objects import Query
from headrace.connectors.registry import connector
from headrace.core.errors import Span, UserError
from headrace.core.sqlstate import SqlState
from headrace.planner.physical import ReadRows, SparkPlan
from headrace.planner.upgrades import UnreadablePlanError
from headrace.statements.base import Execution


def refuse_shared(plan: SparkPlan, run: Execution, span: Span | None, *, of: Query | None = None) -> None:
    """Raise UserError 3D008 if a plan, of a new query or of the query `of`, uses an exclusive read of another unterminated query, or the
    same exclusive read twice."""
    readings = Counter(exclusive_readings(plan, run))
    for reading, count in readings.items():
        if count > 1:
            raise UserError(
                SqlState.INVALID_PARAMETER,
                f"the query reads {reading} {count} times, but it supports only one reader",
                hint="Use a separate one for each source of the query.",
                span=span,
            )
    for query in run.catalog.unfinished_queries() if readings else ():
        if of is not None and query.id == of.id:
            continue
        try:
            other = SparkPlan.from_json(query.plan)
        except UnreadablePlanError:
            continue
        shared = readings.keys() & set(exclusive_readings(other, run))
        if shared:
            known = run.knows(query)
            named = f"the query {query.name or query.id}" if known else "another query"
            raise UserError(
                SqlState.INVALID_PARAMETER,
                f"{named} already reads {min(shared)}, which supports only one reader",
                hint=f"Use another one, or TERMINATE QUERY {query.id}; first."
                if known
                else "Use another one.",
                span=span,
            )


def exclusive_readings(plan: SparkPlan, run: Execution) -> Iterator[str]:
    """Yield the exclusive reads of a plan, as texts name them."""
    for step in plan.steps:
        store = run.catalog.store(step.store) if isinstance(step, ReadRows) else None
        if isinstance(step, ReadRows) and store is not None:
            source = connector(store.type).row_source
            if source is not None and source.exclusive is not None:
                yield source.exclusive(store.properties, step.options)
