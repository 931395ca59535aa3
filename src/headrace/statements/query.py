"""QUERY: list, describe, terminate, restart."""

from __future__ import annotations

import asyncio
import datetime
import json
from collections.abc import Iterator

from headrace.catalog.access import Privilege
from headrace.catalog.objects import DesiredState, Query, QueryState
from headrace.catalog.policy import Requirement
from headrace.core import tracing
from headrace.core.errors import Span, UserError
from headrace.core.names import QualifiedName
from headrace.core.resultset import ResultSet, result
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT, INTEGER, TIMESTAMP, VARCHAR
from headrace.engine.drivers import usable_pool
from headrace.engine.metrics import QueryMetrics, Value, samples
from headrace.planner.explain import explain_running
from headrace.planner.physical import SparkPlan
from headrace.planner.upgrades import UnreadablePlanError
from headrace.sql.statements.query import DescribeQuery, ExplainWhy, RestartQuery, TerminateQuery
from headrace.sql.statements.relation import StartRelation, StopRelation
from headrace.statements.base import Execution, Outcome, Requirements, ddl, handles, moment_text, relation_ddl
from headrace.statements.continuous_query import refuse_cycle_of, refuse_taken_name, refuse_too_many
from headrace.statements.relation import relation_of_kind
from headrace.statements.savepoint import described, save
from headrace.statements.system.activity import findings_of, versions_of


def _on_query(
    privilege: Privilege,
) -> Requirements[DescribeQuery | ExplainWhy | TerminateQuery | RestartQuery]:
    return lambda statement, run: [Requirement(privilege, run.query(statement.reference))]


@handles(DescribeQuery, requires=_on_query(Privilege.USAGE))
async def describe_query(statement: DescribeQuery, run: Execution) -> Outcome:
    """Return rows of properties and values, or the rows of `HISTORY`, `EVENTS`, `METRICS`, `STATE` or `VERSIONS`."""
    query = await asyncio.to_thread(run.query, statement.reference)
    sides = {
        "HISTORY": _history,
        "EVENTS": _events,
        "METRICS": _metrics,
        "STATE": _state,
        "VERSIONS": _versions,
    }
    return Outcome(await asyncio.to_thread(sides.get(statement.aspect or "", _facts), query, run))


@handles(ExplainWhy, requires=_on_query(Privilege.USAGE))
async def explain_why(statement: ExplainWhy, run: Execution) -> Outcome:
    """Return the findings about a query, the most likely cause of missing output first; no row if nothing is known to be wrong."""
    query = await asyncio.to_thread(run.query, statement.reference)
    columns = [
        ("Code", VARCHAR),
        ("Step", VARCHAR),
        ("Since", TIMESTAMP),
        ("Finding", VARCHAR),
        ("Remedy", VARCHAR),
    ]
    return Outcome(result(columns, await asyncio.to_thread(findings_of, query, run)))


@handles(TerminateQuery, requires=_on_query(Privilege.OWNERSHIP))
async def terminate_query(statement: TerminateQuery, run: Execution) -> Outcome:
    """Request the end of a query, which follows soon after; terminating a terminated query changes nothing. A savepoint is that of the
    last batch of the query."""
    query = await asyncio.to_thread(run.query, statement.reference)
    saved = []
    if statement.savepoint is not None:
        savepoint = await save(statement.savepoint, query, statement.reference.span, run, end=True)
        saved = [described(savepoint)]
    elif query.desired_state is not DesiredState.TERMINATED:
        await asyncio.to_thread(run.catalog.set_desired_state, query.id, DesiredState.TERMINATED)
    run.services.engine.wake()
    summary = "; ".join([f"query {query.id} is being terminated", *saved])
    return Outcome(ddl("query", query.id, "TERMINATE", summary, [query.id]))


@handles(RestartQuery, requires=_on_query(Privilege.OWNERSHIP))
async def restart_query(statement: RestartQuery, run: Execution) -> Outcome:
    """Starts again from the checkpoint, also after TERMINATE; refused when a relation of the query was dropped, or its pool stopped."""
    query = await asyncio.to_thread(run.query, statement.reference)
    await asyncio.to_thread(_restart, query, statement.reference.span, run)
    run.services.engine.wake()
    return Outcome(ddl("query", query.id, "RESTART", f"query {query.id} is being restarted", [query.id]))


def _writers(statement: StartRelation | StopRelation, run: Execution) -> list[Query]:
    """Return the visible queries that write the relation. Queries that were terminated on their own are only included if there are no
    others. Raises UserError 3D019 if no query of the catalog writes the relation, even if other programs write its entity."""
    verb = "START" if isinstance(statement, StartRelation) else "STOP"
    relation = relation_of_kind(statement.kind, statement.name, run, verb)
    writers = [query for query in run.catalog.writers(relation) if run.knows(query)]
    if not writers:
        raise UserError(
            SqlState.QUERY_NOT_FOUND,
            f"no query writes {relation.name}",
            hint="Other writers of its entity are not affected; this relation has no query to start or stop.",
            span=statement.name.span,
        )
    return [query for query in writers if query.desired_state is not DesiredState.TERMINATED] or writers


def _of_writers(statement: StartRelation | StopRelation, run: Execution) -> Iterator[Requirement]:
    yield from (Requirement(Privilege.OWNERSHIP, query) for query in _writers(statement, run))


@handles(StopRelation, requires=_of_writers)
async def stop_relation(statement: StopRelation, run: Execution) -> Outcome:
    """Ends the queries that write the relation until START; their output and their checkpoints stay."""
    writers = await asyncio.to_thread(_writers, statement, run)
    stopping = [query for query in writers if query.should_run]
    for query in stopping:
        await asyncio.to_thread(run.catalog.set_desired_state, query.id, DesiredState.STOPPED)
    run.services.engine.wake()
    return Outcome(_answer(statement.name, run, "STOP", stopping, "stopped"))


@handles(StartRelation, requires=_of_writers)
async def start_relation(statement: StartRelation, run: Execution) -> Outcome:
    """Starts the queries that STOP ended from their checkpoints. Queries with another, dropped relation are only included if there are no
    others. Raises UserError 3D019 if all queries that wrote the relation were terminated on their own."""
    writers = await asyncio.to_thread(_writers, statement, run)
    if all(query.desired_state is DesiredState.TERMINATED for query in writers):
        raise UserError(
            SqlState.QUERY_NOT_FOUND,
            f"no query that writes {run.relation(statement.name).name} was stopped: its queries were "
            "terminated",
            hint=f"RESTART QUERY {writers[-1].id}; starts the last one from its checkpoint.",
            span=statement.name.span,
        )
    stopped = [query for query in writers if query.desired_state is DesiredState.STOPPED]
    starting = [query for query in stopped if not run.catalog.dropped_uses(query)] or stopped
    for query in starting:
        await asyncio.to_thread(_restart, query, statement.name.span, run)
    run.services.engine.wake()
    return Outcome(_answer(statement.name, run, "START", starting, "restarted"))


def _answer(name: QualifiedName, run: Execution, command: str, queries: list[Query], done: str) -> ResultSet:
    ids = ", ".join(query.id for query in queries)
    each = f"the queries {ids} are" if len(queries) > 1 else f"the query {ids} is"
    note = f"{each} being {done}" if queries else "no change was needed"
    return relation_ddl(run.relation(name), command, f"stays: {note}")


def _restart(query: Query, span: Span | None, run: Execution) -> None:
    """Request a start in one transaction, so that nothing that the query uses is dropped meanwhile."""
    with run.catalog.transaction():
        if dropped := run.catalog.dropped_uses(query):
            kind, path = dropped[0]
            raise UserError(
                kind.missing,
                f"the query {query.id} cannot be restarted: {kind.described(path)} was dropped",
                hint="Create a new query.",
                span=span,
            )
        if query.name is not None:
            refuse_taken_name(query.name, span, run, of=query.id)
        pool = usable_pool(run.catalog, query.compute_pool)
        refuse_too_many(query.owner, pool, span, run, but=query.id)
        refuse_cycle_of(query, run, span)
        tracing.request_start(query.id)
        run.catalog.request_restart(query.id, queues=run.services.settings.queues_queries)


def _facts(query: Query, run: Execution) -> ResultSet:
    progress = run.services.engine.progress(query.id)
    facts = [
        ("id", query.id),
        ("name", query.name),
        ("state", query.actual_state.value),
        ("intended_state", query.desired_state.value),
        ("error", query.message if query.actual_state is QueryState.ERRORED else None),
        ("message", _message(query, run)),
        ("sqlstate", query.sqlstate),
        ("restarts", query.restarts),
        ("kind", query.kind.value),
        ("query", query.sql),
        ("sink", ", ".join(map(str, query.sinks))),
        ("sources", ", ".join(map(str, query.sources))),
        ("compute_pool", query.compute_pool),
        ("owner", query.owner),
        ("created_at", moment_text(query.created_at)),
        ("updated_at", moment_text(query.updated_at)),
        ("metrics", _metrics_text(progress)),
        ("plan", _plan(query)),
    ]
    return result([("Property", VARCHAR), ("Value", VARCHAR)], facts)


def _metrics_text(progress: QueryMetrics | None) -> str | None:
    return json.dumps({each.name: _text(each.value) for each in samples(progress)}) if progress else None


def _message(query: Query, run: Execution) -> str | None:
    """Return the reason of the query's state, or while it runs a problem of its rows."""
    return query.message or run.services.engine.notice(query.id)


def _plan(query: Query) -> str:
    try:
        return explain_running(SparkPlan.from_json(query.plan))
    except UnreadablePlanError:
        return "was created by another version of Headrace, which this version cannot read"


def _history(query: Query, run: Execution) -> ResultSet:
    """Return the versions. The Go driver reads the first row (client-contract, section 3.2): its cells are never NULL."""
    columns = [("State", VARCHAR), ("Messages", VARCHAR), ("UpdatedAt", TIMESTAMP)]
    return result(columns, [(query.actual_state.value, _message(query, run) or "", query.updated_at)])


def _versions(query: Query, run: Execution) -> ResultSet:
    columns = [
        ("Version", INTEGER),
        ("State", VARCHAR),
        ("Since", TIMESTAMP),
        ("Until", TIMESTAMP),
        ("Query", VARCHAR),
    ]
    rows = versions_of(query, run.catalog.versions.of(query))
    return result([*columns, ("Message", VARCHAR)], list(rows))


def _events(query: Query, run: Execution) -> ResultSet:
    columns = [("Time", TIMESTAMP), ("State", VARCHAR), ("Message", VARCHAR)]
    events = run.catalog.query_events(query.id)
    return result(columns, [(time, state.value, message) for time, state, message in events])


def _metrics(query: Query, run: Execution) -> ResultSet:
    """Return the present value of each metric. `detail` has what Spark reports besides, as JSON."""
    progress = run.services.engine.progress(query.id)
    rows: list[tuple[object, ...]] = []
    if progress is not None:
        rows = [(sample.name, _text(sample.value), sample.metric.help) for sample in samples(progress)]
        rows.append(("detail", json.dumps(progress.detail), "Further figures of the last batch."))
    return result([("Metric", VARCHAR), ("Value", VARCHAR), ("Description", VARCHAR)], rows)


def _text(value: Value) -> str | int | float:
    return moment_text(value) if isinstance(value, datetime.datetime) else value


def _state(query: Query, run: Execution) -> ResultSet:
    progress = run.services.engine.progress(query.id)
    columns = [("State", VARCHAR), ("StateRows", BIGINT), ("StateBytes", BIGINT)]
    row = (
        query.actual_state.value,
        progress.state_rows if progress else 0,
        progress.state_bytes if progress else 0,
    )
    return result(columns, [row])
