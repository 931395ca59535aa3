"""ALTER QUERY … AS SELECT, CREATE OR REPLACE … AS SELECT, ROLLBACK TO VERSION: a query continues from its checkpoint with another
statement. ADRs 53 and 92."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from headrace.analyzer import properties as dialect
from headrace.analyzer.lineage import lineage
from headrace.catalog.access import Privilege
from headrace.catalog.kinds import described
from headrace.catalog.objects import Query, QueryKind, Relation, RelationKind, ViewDefinition
from headrace.catalog.policy import Requirement
from headrace.core import tracing
from headrace.core.errors import InternalError, Span, UserError
from headrace.core.names import Identifier, QualifiedName, printed
from headrace.core.sqlstate import SqlState
from headrace.engine.checkpoint_copy import too_slow
from headrace.planner import plan_query
from headrace.planner.branches import Rebuild
from headrace.planner.column_matching import unmatched
from headrace.planner.physical import SparkPlan, WriteEntity, WriteRows, WriteView
from headrace.planner.replacement import Comparison, compare
from headrace.planner.sinks import EntitySink, TableSink
from headrace.planner.target import Target
from headrace.sql import parse
from headrace.sql.ast import Properties
from headrace.sql.statements.query import InsertInto, ReplaceQuery, RestartQuery, RollBackQuery
from headrace.sql.statements.relation import CreateRelationAs, ReplaceRelation
from headrace.statements.base import HANDLERS, REQUIREMENTS, Execution, Outcome, ddl, handles
from headrace.statements.continuous_query import (
    Prepared,
    bound,
    make_sink,
    of_query,
    prepare,
    registered_schemas,
    remarks,
)
from headrace.statements.exclusive import exclusive_readings, refuse_shared
from headrace.statements.relation import relation_of_kind
from headrace.statements.resuming import refuse_resume
from headrace.statements.schemas import pinned


@dataclass(frozen=True)
class Replacement:
    """A planned replacement: nothing has been changed yet. `successor` is the query with the new statement."""

    prepared: Prepared
    successor: Query
    comparison: Comparison

    @property
    def definition(self) -> ViewDefinition | None:
        """The new definition of the materialized view that the query writes, if it writes one."""
        return self.prepared.relation.definition if self.prepared.relation is not None else None


def of_replacement(statement: ReplaceQuery, run: Execution) -> Iterator[Requirement]:
    """Yield OWNERSHIP of the query, and the privileges that its new statement requires now and at every start."""
    query = run.query(statement.reference)
    yield from _of_owned(query, run)
    _refuse_kind(query, statement.reference.span)
    within = _within(query, run)
    yield from of_query(_written(statement, query), within)


def _of_owned(query: Query, run: Execution) -> Iterator[Requirement]:
    """Yield OWNERSHIP of the query, and of the view that it writes: the view's definition changes with the query."""
    yield Requirement(Privilege.OWNERSHIP, query)
    if (view := _view(query, run)) is not None:
        yield Requirement(Privilege.OWNERSHIP, view)


def prepare_replacement(statement: ReplaceQuery, run: Execution) -> Replacement:
    """Bind, purify and plan the new statement of a query, and compare the plans. Blocks; changes nothing.

    Raises UserError as `prepare` does, 0A000 for the query of an application, 3D008 for another name of the query.
    """
    query = run.query(statement.reference)
    _refuse_kind(query, statement.reference.span)
    within, written = _within(query, run), _written(statement, query)
    properties = bound(statement.select, within, continuous=True).properties
    refuse_resume(properties.resume, "a query that exists")
    prepared, old = prepare(written, within, view=_view(query, run)), SparkPlan.from_json(query.plan)
    name = properties.name
    if name is not None and name != query.name:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"the query is named {query.name!r}, expected no other 'query.name'"
            if query.name
            else "the query has no name, expected none",
            hint=f"ALTER QUERY … RENAME TO {Identifier(name)}; changes the name.",
            span=statement.select.query_properties.span(dialect.QUERY_NAME.name),
        )
    if properties.replacement == "anew":
        _refuse_to_start_anew(query, prepared.plan, run, statement.select.span)
    if properties.replacement != "compatible":
        # What continues has positions already.
        logical = prepared.logical.from_the_beginning(
            lambda scan: scan.relation.kind is not RelationKind.TABLE and not scan.properties.has_position
        )
        prepared = replace(prepared, logical=logical)
    if query.kind is not QueryKind.INSERT_INTO:
        # Its first plan has the steps of the query alone, and their names must be the same.
        prepared = replace(prepared, logical=unmatched(prepared.logical))
    prepared = _with_partitions_of(old, _with_sink_of(old, prepared, run.target))
    successor = replace(
        query,
        sql=replace(_statement(query), select=statement.select).sql(),
        plan=prepared.plan.to_json(),
        sources=tuple(dict.fromkeys(relation.name for relation in prepared.logical.relations)),
        needs=tuple(run.policy.need(requirement) for requirement in of_query(written, within)),
        lineage=lineage(prepared.logical.root),
    )
    comparison = replace(_compared(query, successor), requested=properties.replacement)
    if comparison.is_possible and comparison.kind != "compatible":
        successor = replace(successor, incarnation=query.version + 1)
    return Replacement(prepared, successor, comparison)


@handles(ReplaceQuery, requires=of_replacement)
async def replace_query(statement: ReplaceQuery, run: Execution) -> Outcome:
    """Replace the statement of a query, which continues from its checkpoint or starts anew: at once if it runs, else when it is started."""
    replacement = await asyncio.to_thread(prepare_replacement, statement, run)
    query, successor = run.query(statement.reference), replacement.successor
    if query.plan == successor.plan and query.incarnation == successor.incarnation:
        return Outcome(
            ddl("query", query.id, "ALTER", f"query {query.id} has this statement already", [query.id])
        )
    _refuse_anew(replacement.comparison, statement.select.span)
    refuse_shared(SparkPlan.from_json(successor.plan), run, statement.select.span, of=query)
    tracing.request_start(query.id)
    successor = await asyncio.to_thread(_created, replacement, run)
    rebuild = replacement.comparison.rebuild if replacement.comparison.kind == "partly" else None
    async with run.services.engine.replacing(query.id):
        if successor.incarnation != query.incarnation:
            await asyncio.to_thread(_refuse_replaced, query, run)
            await run.services.engine.start_anew(successor)
        if rebuild is None:
            await asyncio.to_thread(_kept, successor, replacement.definition, run)
        else:
            await _continue_partly(query, successor, rebuild, run)
    run.services.engine.wake()
    return _answer(successor, [*_STARTS[replacement.comparison.kind], *remarks(replacement.prepared)])


_STARTS = {
    "compatible": [],
    "partly": ["the branches that change start without state"],
    "anew": ["it starts without state"],
}
"""Class of a replacement to what the Summary reports about it."""


async def _continue_partly(query: Query, successor: Query, rebuild: Rebuild, run: Execution) -> None:
    """Store the new version, whose checkpoint contains what continues. The query starts no batch from the copy of its checkpoint on.

    Raises as `Engine.continue_partly` does, 3D008 if the query was replaced meanwhile, 3E003 if it was started again, and 57014 if it may
    have started a batch. Then the query is as before. Also raises ExternalError 57015, after which it is unknown whether the version was
    stored. So its checkpoint stays, and a query whose version was not stored continues when the hold ends.
    """
    engine = run.services.engine
    held_until = await engine.continue_partly(query, successor, rebuild)
    try:
        await asyncio.to_thread(_kept, successor, None, run, since=query, until=held_until)
    except UserError:
        await engine.abandon_partly(query, successor)
        raise


def _refuse_replaced(query: Query, run: Execution) -> None:
    """Raise UserError 3D008 if a query has another version by now: the checkpoint of the next version may be in use."""
    current = run.catalog.query(query.id)
    if current is None or current.version != query.version:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"the query {query.id} was replaced meanwhile",
            hint="DESCRIBE QUERY shows its present statement. Run your statement again if it still applies.",
        )


def resolved(statement: ReplaceRelation, run: Execution) -> CreateRelationAs | ReplaceQuery:
    """Return the statement that CREATE OR REPLACE stands for: the creation of a relation that the role does not see, or the replacement of
    the query that created it.

    Raises UserError 3D020 for a relation of another kind, 3D019 for one that was not created by a query, 0A000 for one that an application
    created, and for other properties.
    """
    create = statement.create
    relation = run.catalog.relation(run.relation_name(create.name))
    if relation is None or not run.knows(relation):
        return create
    relation_of_kind(create.kind, create.name, run, "CREATE OR REPLACE")
    creators = [query for query in run.catalog.writers(relation) if query.kind is not QueryKind.INSERT_INTO]
    if not creators or not run.knows(creators[-1]):
        raise UserError(
            SqlState.QUERY_NOT_FOUND,
            f"no query created the {described(relation).removeprefix('the ')}, so that none can be replaced",
            hint="DROP it first, or choose another name.",
            span=create.name.span,
        )
    _refuse_kind(creators[-1], create.name.span)
    _refuse_other_properties(create, creators[-1])
    reference = QualifiedName((Identifier(creators[-1].id, create.name.span),))
    return ReplaceQuery(statement.span, statement.text, reference, create.select)


def _of_replace_relation(statement: ReplaceRelation, run: Execution) -> Iterable[Requirement]:
    inner = resolved(statement, run)
    return REQUIREMENTS[type(inner)](inner, run)


@handles(ReplaceRelation, requires=_of_replace_relation)
async def replace_relation(statement: ReplaceRelation, run: Execution) -> Outcome:
    """Create the relation, or replace the query that created it; that query runs afterwards, even if it was terminated."""
    inner = await asyncio.to_thread(resolved, statement, run)
    outcome = await HANDLERS[type(inner)](inner, run)
    if isinstance(inner, ReplaceQuery) and not run.query(inner.reference).should_run:
        await HANDLERS[RestartQuery](RestartQuery(statement.span, statement.text, inner.reference), run)
    return outcome


def _refuse_other_properties(create: CreateRelationAs, query: Query) -> None:
    """Raise UserError 0A000 for properties of the relation that differ from those with which it was created."""
    (written,) = parse(query.sql)
    given = {entry.key: entry.value for entry in create.properties.entries}
    kept = {entry.key: entry.value for entry in getattr(written, "properties", Properties()).entries}
    changed = sorted(key for key in given.keys() | kept.keys() if given.get(key) != kept.get(key))
    if changed:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"the properties of an existing relation cannot be replaced: {', '.join(map(repr, changed))} differ",
            hint="Nothing was changed. Repeat the properties of the statement that created it, which DESCRIBE QUERY shows.",
            span=create.properties.span(changed[0]) or create.span,
        )


@handles(RollBackQuery, requires=lambda statement, run: _of_owned(run.query(statement.reference), run))
async def roll_back_query(statement: RollBackQuery, run: Execution) -> Outcome:
    """Continue a query with the statement of an earlier version, as a new version."""
    successor = await asyncio.to_thread(_rolled_back, statement, run)
    run.services.engine.wake()
    return _answer(successor, [f"its statement is that of version {statement.version}"])


def _within(query: Query, run: Execution) -> Execution:
    """Return the execution with the query's compute pool as that of the session."""
    return replace(run, context=run.with_context(compute_pool=query.compute_pool))


def _refuse_kind(query: Query, span: Span | None) -> None:
    if query.kind is QueryKind.APPLICATION:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "the query of an application cannot be replaced",
            hint=(
                "Nothing was changed. TERMINATE QUERY … WITH SAVEPOINT s ends it; an application with the changed statement continues "
                "from there: END APPLICATION WITH ('resume.from.savepoint' = s)."
            ),
            span=span,
        )


def _view(query: Query, run: Execution) -> Relation | None:
    """Return the materialized view that a query writes; None if it writes something else."""
    is_view = query.kind is QueryKind.CREATE_MATERIALIZED_VIEW_AS
    return run.catalog.relation(query.sink) if is_view else None


def _statement(query: Query) -> CreateRelationAs | InsertInto:
    (statement,) = parse(query.sql)
    if not isinstance(statement, CreateRelationAs | InsertInto):
        raise InternalError(f"expected a statement with a query, found {type(statement).__name__}")
    return statement


def _written(statement: ReplaceQuery, query: Query) -> CreateRelationAs | InsertInto:
    """Return the statement that the replacement stands for: the creation of the query's view with another SELECT, or an INSERT into the
    query's relation, with the relation's and the query's properties."""
    present = _statement(query)
    if query.kind is QueryKind.CREATE_MATERIALIZED_VIEW_AS and isinstance(present, CreateRelationAs):
        # The view keeps the text as its definition.
        changed = replace(present, select=statement.select, span=statement.span)
        return replace(changed, text=changed.sql())
    kept = tuple(entry for entry in present.properties.entries if entry.key == dialect.ALLOW_CYCLE.name)
    name = QualifiedName(tuple(Identifier(part, statement.reference.span) for part in query.sink.path))
    return InsertInto(statement.span, statement.text, name, Properties(kept), statement.select)


def _compared(query: Query, successor: Query) -> Comparison:
    """Compare a query with the query that is to continue from its checkpoint."""
    plan = SparkPlan.from_json(successor.plan)
    comparison = compare(SparkPlan.from_json(query.plan), plan)
    keys = {name for step in plan.sinks if isinstance(step, WriteView) for name in step.key_columns}
    before, after = ({each for each in of.lineage if each.column in keys} for of in (query, successor))
    changed = sorted({str(each.column) for each in before ^ after})
    obstacles = [
        f"the key column {printed(name)} of the view is computed from other columns" for name in changed
    ]
    return replace(comparison, obstacles=(*comparison.obstacles, *obstacles))


def _with_sink_of(old: SparkPlan, prepared: Prepared, target: Target) -> Prepared:
    """Return the new query with the guarantee and the options with which the present one writes."""
    step, sink = old.sink, prepared.sink
    if isinstance(step, WriteEntity | WriteRows) and isinstance(sink, EntitySink | TableSink):
        sink = replace(sink, guarantee=step.guarantee, options=step.options)
        return replace(prepared, sink=sink, plan=plan_query(prepared.logical, sink, target))
    return prepared


def _with_partitions_of(old: SparkPlan, prepared: Prepared) -> Prepared:
    """Return the new query with as many partitions of state as its checkpoint has. Raises UserError 0A000 for another number."""
    properties, present = prepared.logical.properties, old.state_partitions
    if properties.replacement == "anew" or properties.state_partitions == present:
        return prepared
    if properties.state_partitions is not None:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"'{dialect.STATE_PARTITIONS.name}' of a query that exists cannot change"
            f"{'' if present is None else f' from {present}'}: its state has the present partitions",
            hint="Nothing was changed. Leave it out. Or create another query with that number, which continues from a savepoint of this "
            "one. Or start without state, with 'query.replacement' = 'anew'.",
            span=properties.state_partitions_span,
        )
    return replace(prepared, plan=prepared.plan.model_copy(update={"state_partitions": present}))


def _refuse_to_start_anew(query: Query, plan: SparkPlan, run: Execution, span: Span | None) -> None:
    """Raise UserError 0A000 for a query that cannot start anew. Its present version must be able to continue if the new one fails, and a
    source with one position cannot be read by both."""
    present = set(exclusive_readings(SparkPlan.from_json(query.plan), run))
    if query.kind is QueryKind.CREATE_MATERIALIZED_VIEW_AS:
        reason = "the view contains the rows of the earlier statement"
        remedy = f"Leave {dialect.REPLACEMENT.name!r} out, or drop what the query writes and create it again."
    elif reading := next((each for each in exclusive_readings(plan, run) if each in present), None):
        reason = f"the present version reads {reading} too, which returns each change once"
        remedy = "Name another one in the new statement."
    else:
        return
    raise UserError(
        SqlState.FEATURE_NOT_SUPPORTED,
        f"the query cannot start anew: {reason}",
        hint=f"Nothing was changed. {remedy}",
        span=span,
    )


def _refuse_anew(comparison: Comparison, span: Span | None) -> None:
    """Raise UserError 0A000 with the obstacles, if there are any and the query is not to start anew."""
    if comparison.is_possible:
        return
    not_apart = (
        f"; {comparison.not_apart}" if comparison.requested == "partly" and comparison.not_apart else ""
    )
    hint = (
        "'partly') computes the results of the branches that change again, and the others continue."
        if comparison.kind == "partly"
        else "'anew') computes the results again, from the first records of the sources."
    )
    raise UserError(
        SqlState.FEATURE_NOT_SUPPORTED,
        f"with this statement the query cannot continue from its checkpoint: {'; '.join(comparison.obstacles)}{not_apart}",
        hint=f"Nothing was changed. EXPLAIN ALTER QUERY … lists the steps. QUERY WITH ({dialect.REPLACEMENT.name!r} = {hint}",
        span=span,
    )


def _created(replacement: Replacement, run: Execution) -> Query:
    """Register the schemas of the new output, create what it needs, and return the query with them. Blocks."""
    prepared = replacement.prepared
    schemas = registered_schemas(prepared, run)
    plan = pinned(prepared.plan, schemas, prepared.plan.sink)
    make_sink(prepared, run)
    return replace(replacement.successor, plan=plan.to_json())


def _rolled_back(statement: RollBackQuery, run: Execution) -> Query:
    """Raises UserError 3D008 for an unknown version, 0A000 if it cannot continue, and the SQLSTATE of an object that was dropped."""
    query = run.query(statement.reference)
    versions = {version.version: version for version in run.catalog.versions.of(query)}
    if statement.version not in versions:
        known = ", ".join(map(str, versions))
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"the query {query.id} does not have an earlier version {statement.version}",
            hint=f"Its earlier versions are {known}." if known else "It was never replaced.",
            span=statement.span,
        )
    successor = run.catalog.versions.successor(query, versions[statement.version])
    checkpoint_of = query
    if successor.incarnation != query.incarnation:
        last = max(
            (each for each in versions.values() if each.incarnation == successor.incarnation),
            key=lambda each: each.version,
        )
        checkpoint_of = run.catalog.versions.successor(query, last)
        if not run.services.engine.has_checkpoint(successor):
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"the checkpoint of version {statement.version} is no longer there: a backup contains that of the present version only",
                hint="ALTER QUERY … AS SELECT … replaces the statement.",
                span=statement.span,
            )
    _refuse_anew(_compared(checkpoint_of, successor), statement.span)
    refuse_shared(SparkPlan.from_json(successor.plan), run, statement.span, of=query)
    _kept(successor, versions[statement.version].definition, run)
    return successor


def _kept(
    successor: Query,
    definition: ViewDefinition | None,
    run: Execution,
    *,
    since: Query | None = None,
    until: float = math.inf,
) -> None:
    """Store the new version. Raises UserError 42501 if the query's role may not run it.

    Raises 3E003 if the query was started again after it was read as `since`, and 57014 after the monotonic time `until`: then it may have
    written more than the copy of its checkpoint contains.
    """
    with run.catalog.transaction():
        state = run.catalog.snapshot()
        current = run.catalog.query(successor.id) if since is not None else None
        if since is not None and current is not None and current.starts != since.starts:
            raise UserError(
                SqlState.RELATION_NOT_READY,
                f"the query {successor.id} was started again meanwhile: nothing was changed",
                hint="Repeat the statement.",
            )
        if time.monotonic() > until:
            raise too_slow(successor.id)
        state.policy.refuse_query(successor, state.by_id)
        run.catalog.versions.replace(successor, definition)


def _answer(successor: Query, notes: list[str]) -> Outcome:
    verb = "continues" if successor.should_run else "will continue, when it is started,"
    summary = "; ".join([f"query {successor.id} {verb} as version {successor.version + 1}", *notes])
    return Outcome(ddl("query", successor.id, "ALTER", summary, [successor.id]))
