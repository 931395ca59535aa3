"""SELECT: live rows from streams and changelogs, the rows that tables have, or a snapshot of materialized views and system relations."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

from headrace.analyzer import LogicalPlan
from headrace.analyzer.logical import Limit
from headrace.catalog.access import Privilege
from headrace.catalog.policy import Requirement
from headrace.core import tracing
from headrace.core.resultset import ResultColumn, ResultSet, result
from headrace.planner import plan_columns, plan_query, state_warning
from headrace.planner.physical import ReadEntity, ReadRows, SparkPlan
from headrace.planner.sinks import ResultSink
from headrace.planner.snapshot import compile_snapshot
from headrace.planner.table_queries import plan_table_query
from headrace.planner.target import Target
from headrace.planner.view_reads import system_conditions
from headrace.sql.statements.query import SelectStatement
from headrace.statements.base import Execution, Outcome, handles
from headrace.statements.continuous_query import bound, of_select
from headrace.statements.exclusive import refuse_shared
from headrace.statements.resuming import refuse_resume
from headrace.statements.system import rows_of


def _reading(statement: SelectStatement, run: Execution) -> Iterator[Requirement]:
    yield from of_select(statement.select, run)
    logical = bound(statement.select, run)
    if logical.of_tables or not logical.snapshot:
        yield Requirement(Privilege.USAGE, run.compute_pool())


@handles(SelectStatement, requires=_reading, checked=True)
async def select(statement: SelectStatement, run: Execution) -> Outcome:
    """Return a bounded result if every source is a materialized view or a system relation, otherwise a channel."""
    # Bound when its privileges were checked; another thread would only cost time.
    logical = bound(statement.select, run)
    refuse_resume(logical.properties.resume, "a SELECT of rows")
    if run.checking:
        await asyncio.to_thread(planned, logical, run)
        return Outcome(ResultSet())
    if logical.snapshot and not logical.of_tables:
        engine, user = run.services.engine, run.principal.user
        return Outcome(await engine.read_views(user, partial(_snapshot, logical, run)))
    _require_end(logical, statement, run)
    plan, message = await asyncio.to_thread(_explained, logical, run.target)
    refuse_shared(plan, run, None)
    columns = plan_columns(plan)
    channel = await run.services.engine.run_interactive(
        plan, columns, compute_pool=run.compute_pool().name, user=run.principal.user
    )
    channel.message = message
    return Outcome(channel)


async def columns_of(statement: SelectStatement, run: Execution) -> tuple[ResultColumn, ...]:
    """Return the columns of a query that is not run. Raises UserError as running it would, as far as that is known before."""
    await asyncio.to_thread(lambda: run.check(_reading(statement, run)))
    logical = await asyncio.to_thread(bound, statement.select, run)
    _require_end(logical, statement, run)
    return tuple(ResultColumn(column.name, column.type) for column in logical.schema.columns)


def _require_end(logical: LogicalPlan, statement: SelectStatement, run: Execution) -> None:
    has_limit = isinstance(logical.root, Limit) and logical.root.count is not None
    if not (logical.snapshot or has_limit):
        run.require_end("a SELECT from a stream or a changelog", statement.span)


def _explained(logical: LogicalPlan, target: Target) -> tuple[SparkPlan, str | None]:
    """Return the plan, and remarks for a user who sees no rows. Use a thread, since planning a wide query takes long."""
    with tracing.span("plan", {"headrace.statement.kind": "SelectStatement"}):
        plan = _plan(logical, target)
    warned = None if logical.of_tables else state_warning(logical, ResultSink())
    warning = f"Warning: {warned}." if warned else None
    return plan, " ".join(text for text in (_unread(plan), warning) if text) or None


def _unread(plan: SparkPlan) -> str | None:
    """Return a remark on the records that the query leaves out, since new users expect all existing records; None if it reads all."""
    sources = [step for step in plan.steps if isinstance(step, ReadEntity | ReadRows)]
    names = sorted({".".join(step.entity) for step in sources if step.starting_position == "latest"})
    if not names:
        return None
    return (
        f"Only records of {', '.join(names)} that arrive from now on are read. Write WITH ('starting.position' = "
        "'earliest') after the name of a relation to read its earlier records too."
    )


def _plan(logical: LogicalPlan, target: Target) -> SparkPlan:
    if logical.of_tables:
        return plan_table_query(logical, target)
    return plan_query(logical, ResultSink(), target)


def planned(logical: LogicalPlan, run: Execution) -> None:
    """Plan a query without running it. Raises UserError as running it would."""
    if logical.snapshot and not logical.of_tables:
        compile_snapshot(logical)
    else:
        _plan(logical, run.target)


def _snapshot(logical: LogicalPlan, run: Execution) -> ResultSet:
    query = run.compiled.get(False)
    if query is None:
        query = run.compiled[False] = compile_snapshot(logical)
    system_tables = rows_of(logical.relations, run, system_conditions(logical.root))
    engine = run.services.engine
    with engine.functions.lent(query.functions, f"role {run.role}") as workers:
        _, rows = engine.views.query(
            query.sql, reads=query.reads, arrow_tables=system_tables, workers=workers
        )
    return result([(column.name, column.type) for column in query.columns], rows)
