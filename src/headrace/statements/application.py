"""BEGIN APPLICATION … END APPLICATION: statements that run together or not at all. See docs/adr/0037.

Each statement is checked like a single statement, in the session and in the catalog that the statements before it leave. That catalog is
a draft, which no other session sees. Objects are created only after all statements passed the checks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from headrace.analyzer import BindingContext, LogicalPlan
from headrace.analyzer import properties as dialect
from headrace.analyzer.logical import Scan
from headrace.analyzer.source_properties import query_properties
from headrace.analyzer.sources import named_relation
from headrace.analyzer.views import is_named_query
from headrace.analyzer.virtual import inlined, qualified, virtual_name
from headrace.catalog.access import Privilege
from headrace.catalog.catalog import Catalog
from headrace.catalog.objects import Need, Query, QueryKind, Relation, RelationKind
from headrace.catalog.policy import Requirement
from headrace.connectors.base import EntityDescription, StoreDescriptor
from headrace.core import tracing
from headrace.core.context import SessionContext
from headrace.core.errors import HeadraceError, InternalError, UserError
from headrace.core.names import EntityPath, RelationName
from headrace.core.properties import value_of
from headrace.core.resultset import ResultSet
from headrace.core.sqlstate import SqlState
from headrace.planner.application import Part, plan_application
from headrace.planner.cycles import Flow
from headrace.planner.physical import SparkPlan
from headrace.planner.resumption import names_of_parts
from headrace.planner.sinks import ViewSink, wrong_kind
from headrace.planner.state_partitions import with_state_partitions
from headrace.sql.ast import Properties, Statement
from headrace.sql.statements.application import Application, CreateVirtual
from headrace.sql.statements.query import InsertInto
from headrace.sql.statements.relation import CreateRelation, CreateRelationAs
from headrace.sql.statements.session import Use
from headrace.statements.base import (
    HANDLERS,
    REQUIREMENTS,
    Execution,
    Outcome,
    ddl,
    handles,
    nothing,
    now,
    relation_ddl,
)
from headrace.statements.continuous_query import (
    Prepared,
    bound,
    flow_of,
    make_sink,
    new_query,
    of_query,
    of_select,
    prepare,
    refuse_own_cycle,
    registered_schemas,
    remarks,
    unmake_view,
)
from headrace.statements.relation import Declared, declare, existing_relation
from headrace.statements.resuming import Origin, compared, of_resume, planned_source, refuse_resume
from headrace.statements.schemas import pinned
from headrace.statements.system import SystemLookup

_Query = CreateRelationAs | InsertInto
_VIRTUAL_KINDS = {"STREAM": RelationKind.STREAM, "CHANGELOG": RelationKind.CHANGELOG}


@dataclass(frozen=True)
class VirtualRelation:
    """A name for a query. The text of `query` contains no virtual relations and nothing that depends on the session."""

    relation: Relation
    logical: LogicalPlan
    query: exp.Query


@dataclass(frozen=True)
class Member:
    """A checked statement with its result: a relation, a query, or a name. `reads` are the relations in its own text; `needs` are the
    privileges that it requires to run."""

    statement: Statement
    definition: Declared | Prepared | VirtualRelation | None = None
    reads: tuple[Relation, ...] = ()
    needs: tuple[Need, ...] = ()


@dataclass
class Draft:
    """An application during its checks: a catalog with the results of the statements so far, and the objects to create."""

    run: Execution
    catalog: Catalog
    context: SessionContext
    properties: Properties
    members: list[Member] = field(default_factory=list)
    virtual: dict[RelationName, VirtualRelation] = field(default_factory=dict)
    coming: dict[tuple[str, EntityPath], EntityDescription] = field(default_factory=dict)
    flows: list[Flow] = field(default_factory=list)

    @property
    def queries(self) -> list[Prepared]:
        """The queries to run, in order."""
        return [member.definition for member in self.members if isinstance(member.definition, Prepared)]

    @property
    def parts(self) -> list[Part]:
        """The queries to run, in the planner's form."""
        return [Part(self._from_the_beginning(query.logical), query.sink) for query in self.queries]

    def execution(self) -> Execution:
        """Return the execution of the next statement."""
        services = replace(self.run.services, catalog=self.catalog)
        return replace(
            self.run, services=services, context=self.context, bindings={}, compiled={}, coming=self.coming
        )

    def comes(self, store: str, entity: EntityPath, layout: dict[str, int]) -> None:
        """Register an entity that will exist for the following statements."""
        self.coming[store, entity] = EntityDescription(entity, layout)

    def _from_the_beginning(self, logical: LogicalPlan) -> LogicalPlan:
        """Read the application's new relations from their start: they are written at once, so reading from the end would lose rows."""

        def is_new(scan: Scan) -> bool:
            return (scan.relation.store or "", scan.relation.entity or ()) in self.coming

        return logical.from_the_beginning(is_new)


def _of_application(statement: Application, run: Execution) -> Iterable[Requirement]:
    """Require nothing here: each statement's requirements are checked in its turn, since it may depend on an earlier statement."""
    if any(isinstance(item, _Query) for item in statement.statements):
        yield Requirement(Privilege.CREATE_QUERY)
    yield from of_resume(query_properties(statement.properties.entries).resume, run)


@handles(Application, requires=_of_application, checked=True)
async def begin_application(statement: Application, run: Execution) -> Outcome:
    """Create all relations, and one query that runs all the queries; nothing if any statement fails."""
    draft = await drafted(statement, run)
    return Outcome(await _carried_out(draft, statement))


def planned(draft: Draft) -> tuple[SparkPlan, Origin | None]:
    """Return the plan of the queries, of which there is one at least, and what they continue from. Raises UserError as
    `plan_application` and `origin_of`."""
    run, properties = draft.run, query_properties(draft.properties.entries)
    resume = properties.resume
    plan = plan_application(draft.parts, run.target)
    if resume is None:
        return with_state_partitions(plan, properties), None
    source, old = planned_source(resume, run)
    names = names_of_parts(old)
    by_order = len(names) == len(plan.sinks) and {*names} != {*names_of_parts(plan)}
    if by_order:
        plan = plan_application(draft.parts, run.target, names)
    plan = with_state_partitions(plan, properties)
    return plan, compared(source, old, plan, resume.span, run, by_order=by_order)


@handles(CreateVirtual, requires=nothing, checked=True)
async def create_virtual(statement: CreateVirtual, _run: Execution) -> Outcome:
    raise UserError(
        SqlState.FEATURE_NOT_SUPPORTED,
        f"a virtual {statement.kind.lower()} can exist only inside an application",
        hint="Put the statement into BEGIN APPLICATION … END APPLICATION, before the statements that read it.",
        span=statement.span,
    )


async def drafted(statement: Application, run: Execution) -> Draft:
    """Check the application without creating anything, and return its draft. Raises the errors of its statements."""
    given = query_properties(statement.properties.entries)
    if given.execution_mode == "real_time":
        raise _not_real_time(statement.properties)
    catalog = await asyncio.to_thread(run.catalog.draft)
    draft = Draft(run, catalog, run.context, statement.properties)
    for item in statement.statements:
        if isinstance(item, Use):
            inner = draft.execution()
            inner.check(REQUIREMENTS[Use](item, inner))
            outcome = await HANDLERS[Use](item, inner)
            draft.context = outcome.context or draft.context
            draft.members.append(Member(item))
        else:
            draft.members.append(await asyncio.to_thread(_member, item, draft))
    return draft


def _member(statement: Statement, draft: Draft) -> Member:
    run = draft.execution()
    if isinstance(statement, CreateRelation):
        run.check(REQUIREMENTS[CreateRelation](statement, run))
        return Member(statement, _declared(statement, draft, run))
    if isinstance(statement, CreateVirtual):
        return _virtual(statement, draft, run)
    if isinstance(statement, _Query):
        return _query(statement, draft, run)
    raise InternalError(f"expected no {type(statement).__name__} in an application")


def _declared(statement: CreateRelation, draft: Draft, run: Execution) -> Declared | None:
    if existing_relation(statement, run) is not None:
        return None
    declared = declare(statement, run)
    relation = declared.relation
    if declared.make is not None:
        draft.comes(relation.store or "", relation.entity or (), dict(declared.layout))
    draft.catalog.create_relation(relation)
    return declared


def _virtual(statement: CreateVirtual, draft: Draft, run: Execution) -> Member:
    name = RelationName(*(part.name for part in statement.name.parts))
    if name in draft.virtual:
        raise UserError(
            SqlState.DUPLICATE_RELATION,
            f"the virtual relation {name} was already created in this application",
            hint="Choose another name.",
            span=statement.name.span,
        )
    select = statement.select
    if select.query_properties or select.partition_by:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "QUERY WITH and PARTITION BY require a query that writes: a virtual relation is part of the "
            "queries that read it",
            hint="Put them into the queries that read it.",
            span=select.span,
        )
    reads = _named(select.expression, draft, run)
    inside = replace(select, expression=_inlined(select.expression, draft))
    inside = replace(inside, query_properties=_of_state(draft.properties))
    run.check(of_select(inside, run, continuous=True))
    logical = bound(inside, run, continuous=True)
    _refuse_bounded(logical)
    kind = _VIRTUAL_KINDS[statement.kind]
    if logical.kind is not kind:
        raise wrong_kind(f"CREATE_VIRTUAL_{statement.kind}_AS", logical, kind)
    moment = now()
    relation = Relation(name, kind, logical.schema, run.role, moment, moment, id=str(name))
    virtual_relation = VirtualRelation(relation, logical, qualified(inside.expression, run.context))
    draft.virtual[name] = virtual_relation
    return Member(statement, virtual_relation, reads)


def _query(statement: _Query, draft: Draft, run: Execution) -> Member:
    if isinstance(statement, CreateRelationAs) and statement.if_not_exists:
        known = run.catalog.relation(run.relation_name(statement.name))
        if known is not None and run.knows(known):
            return Member(statement)
    _refuse_own(statement)
    reads = _named(statement.select.expression, draft, run)
    inside = _as_if_alone(statement, draft)
    run.check(REQUIREMENTS[type(inside)](inside, run))
    prepared = prepare(inside, run, draft.flows)
    _refuse_bounded(prepared.logical)
    needs = tuple(run.policy.need(requirement) for requirement in of_query(inside, run))
    sink, kind = prepared.sink, prepared.connector
    if kind is not None and not isinstance(sink, ViewSink) and sink.creation is not None:
        draft.comes(sink.store, sink.entity, _layout(sink.creation, kind))
    if isinstance(sink, ViewSink):
        draft.comes("", prepared.sink_name.path, {})
    if prepared.relation is not None:
        draft.catalog.create_relation(prepared.relation)
    if (flow := flow_of(prepared, run)) is not None:
        draft.flows.append(flow)
    return Member(statement, prepared, reads, needs)


def _refuse_bounded(logical: LogicalPlan) -> None:
    """Raise UserError 0A000 for a query of tables or constants: it ends, and the queries of an application run as one that does not."""
    if logical.has_end:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"a query that reads only {'tables' if logical.of_tables else 'constants'} is not supported in an application: "
            "it ends when it has read them",
            hint="Put the query before or after the application.",
            span=logical.span,
        )


def _as_if_alone(statement: _Query, draft: Draft) -> _Query:
    """Return the statement without virtual relations, and with the application's properties. A changed statement gets a changed text,
    which a materialized view keeps."""
    select = statement.select
    own = select.query_properties
    of_state = [entry for entry in _of_state(draft.properties).entries if entry.key not in own]
    inside = replace(
        select,
        expression=_inlined(select.expression, draft),
        query_properties=Properties((*own.entries, *of_state)),
    )
    if inside == select:
        return statement
    changed = replace(statement, select=inside)
    return replace(changed, text=changed.sql())


def _of_state(properties: Properties) -> Properties:
    """Return the application's properties that a query does not set itself."""
    return Properties(
        tuple(entry for entry in properties.entries if dialect.STATE_TTL.matches_name(entry.key))
    )


def _inlined(query: exp.Query, draft: Draft) -> exp.Query:
    return inlined(query, {name: item.query for name, item in draft.virtual.items()})


def _named(query: exp.Query, draft: Draft, run: Execution) -> tuple[Relation, ...]:
    """Return the relations that a query's text names, virtual ones among them, each once."""
    context = BindingContext(SystemLookup(run.catalog.snapshot(), run.role), run.context)
    declared: dict[RelationName, Relation] = {}
    for table in query.find_all(exp.Table):
        name = virtual_name(table)
        if name is not None and name in draft.virtual:
            declared[name] = draft.virtual[name].relation
        elif name is None and not is_named_query(table):
            relation, _span = named_relation(table, context)
            declared[relation.name] = relation
    return tuple(declared.values())


def _refuse_own(statement: _Query) -> None:
    """Refuse properties that a single query among several cannot set for itself."""
    own = statement.select.query_properties
    for properties in (statement.properties, own):
        if value_of(properties.entries, dialect.QUERY_NAME) is not None:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                "the queries of an application run as one query, which is named after the application",
                hint=f"Leave '{dialect.QUERY_NAME.name}' out.",
                span=properties.span(dialect.QUERY_NAME.name),
            )
    given = query_properties(own.entries)
    refuse_resume(given.resume, "a query of an application")
    if given.state_partitions is not None:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "the queries of an application have one number of partitions of their state",
            hint=f"Write '{dialect.STATE_PARTITIONS.name}' into END APPLICATION WITH (…).",
            span=given.state_partitions_span,
        )
    if given.execution_mode == "real_time":
        raise _not_real_time(own)


def _not_real_time(properties: Properties) -> UserError:
    return UserError(
        SqlState.FEATURE_NOT_SUPPORTED,
        "an application does not support real-time mode: its queries share their sources, batch by batch",
        hint=f"Leave '{dialect.EXECUTION_MODE.name}' out, or run the query outside the application.",
        span=properties.span(dialect.EXECUTION_MODE.name),
    )


def _layout(properties: Mapping[str, str], kind: StoreDescriptor) -> dict[str, int]:
    return {word: int(properties[spec.name]) for word, spec in kind.layout.items() if spec.name in properties}


# --- carrying out


async def _carried_out(draft: Draft, statement: Application) -> ResultSet:
    """Create entities first, which are harmless when a later step fails; then all relations and the query in one transaction."""
    run, origin, query = draft.run, None, None
    if draft.queries:
        plan, origin = await asyncio.to_thread(planned, draft)
        query = await asyncio.to_thread(_new_query, draft, statement, plan)
    try:
        if not run.checking:
            await asyncio.to_thread(_make, draft)
        if origin is not None and query is not None and not run.checking:
            await origin.place(query.id, run)
        await asyncio.to_thread(_kept, draft, query)
    except HeadraceError:
        for part in draft.queries if not run.checking else ():
            await asyncio.to_thread(unmake_view, part, run)
        if origin is not None and query is not None and not run.checking:
            await run.services.engine.forget([query.id])
        raise
    if not run.checking:
        run.services.engine.wake()
    return _answer(draft, statement, query, origin)


def _new_query(draft: Draft, statement: Application, plan: SparkPlan) -> Query:
    """Return the query that runs the queries; their schemas are registered."""
    run, prepared = draft.run, draft.queries
    name = query_properties(statement.properties.entries).name or statement.name.name
    span = statement.properties.span(dialect.QUERY_NAME.name) or statement.name.span
    needs = tuple(dict.fromkeys(need for member in draft.members for need in member.needs))
    query = new_query(QueryKind.APPLICATION, name, span, statement.text, plan, prepared, run, needs)
    if run.checking:
        return query
    for part, sink in zip(prepared, plan.sinks, strict=True):
        plan = pinned(plan, registered_schemas(part, run), sink)
    return replace(query, plan=plan.to_json())


def _make(draft: Draft) -> None:
    for member in draft.members:
        if isinstance(member.definition, Declared) and member.definition.make is not None:
            member.definition.make()
        elif isinstance(member.definition, Prepared):
            make_sink(member.definition, draft.run)


def _kept(draft: Draft, query: Query | None) -> None:
    run = draft.run
    with run.catalog.transaction():
        for relation in _relations(draft):
            run.catalog.create_relation(relation)
        for member in draft.members:
            if isinstance(member.definition, Prepared) and isinstance(member.statement, _Query):
                refuse_own_cycle(member.definition, member.statement, run, draft.flows)
        if query is not None:
            tracing.request_start(query.id)
            run.catalog.create_query(query)


def _answer(draft: Draft, statement: Application, query: Query | None, origin: Origin | None) -> ResultSet:
    """Return the rows of the relations first, as CREATE … AS does, then the query's."""
    rows = [relation_ddl(relation, "CREATE", "was created") for relation in _relations(draft)]
    if query is not None:
        written = ", ".join(dict.fromkeys(map(str, query.sinks)))
        notes = [f"query {query.id} runs the application {statement.name} and writes {written}"]
        if origin is not None:
            notes.append(f"it continues from {origin.described}")
        for part in (member.definition for member in draft.members):
            if isinstance(part, Prepared):
                notes += [f"{part.sink_name.name}: {remark}" for remark in remarks(part)]
        rows.append(ddl("query", query.id, "APPLICATION", "; ".join(notes), [query.id]))
    if not rows:
        name = statement.name.name
        rows.append(ddl("application", name, "APPLICATION", "all of it exists already", [name]))
    return ResultSet(rows[0].columns, tuple(row for answer in rows for row in answer.rows))


def _relations(draft: Draft) -> Iterator[Relation]:
    """Yield the relations to create."""
    for member in draft.members:
        if isinstance(member.definition, Declared | Prepared) and member.definition.relation is not None:
            yield member.definition.relation
