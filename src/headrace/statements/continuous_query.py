"""CREATE STREAM | CHANGELOG | TABLE | MATERIALIZED VIEW … AS SELECT and INSERT INTO: the one road to a continuous query.

`prepare` does bind, purify and plan, and changes nothing: EXPLAIN ends there. The handlers carry the result out.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from headrace.analyzer import BindingContext, LogicalPlan, bind
from headrace.analyzer import properties as dialect
from headrace.analyzer.lineage import lineage
from headrace.catalog.access import Privilege
from headrace.catalog.objects import (
    ComputePool,
    Need,
    Query,
    QueryKind,
    QueryState,
    Relation,
    RelationKind,
    Store,
    ViewDefinition,
)
from headrace.catalog.policy import Requirement
from headrace.connectors.base import EntityDescription, StoreDescriptor
from headrace.connectors.registry import connector
from headrace.core import tracing
from headrace.core.errors import HeadraceError, InternalError, Span, UserError
from headrace.core.names import EntityPath, Identifier, RelationName, path_text, printed
from headrace.core.properties import PropertyReader, Scope, of_scope, stored, value_of
from headrace.core.resultset import ResultSet
from headrace.core.schema import Schema
from headrace.core.sqlstate import SqlState
from headrace.core.wording import counted
from headrace.engine.admission import places
from headrace.engine.drivers import usable_pool
from headrace.engine.views.opening import refuse_unshared
from headrace.planner import plan_query, state_warning
from headrace.planner.column_matching import check_listed
from headrace.planner.cycles import HIDDEN, Flow, Output, refuse_cycle
from headrace.planner.physical import LookupJoin, ReadEntity, ReadRows, SparkPlan, Spool, Step, WriteEntity
from headrace.planner.sink_properties import record_sink
from headrace.planner.sinks import (
    EntitySink,
    TableSink,
    ViewSink,
    entity_sink,
    insert_sink,
    leftmost,
    sink_path,
    sink_store_name,
    table_insert_sink,
    table_sink,
    view_sink,
)
from headrace.planner.upgrades import UnreadablePlanError
from headrace.sql import parse
from headrace.sql.ast import Select
from headrace.sql.statements.application import Application
from headrace.sql.statements.query import InsertInto
from headrace.sql.statements.relation import CreateRelationAs
from headrace.statements.base import Execution, Outcome, ddl, facet, handles, now, relation_ddl
from headrace.statements.exclusive import refuse_shared
from headrace.statements.relation import creation
from headrace.statements.resuming import Origin, of_resume, origin_of
from headrace.statements.schemas import SinkSchema, pinned, registered, sink_schemas
from headrace.statements.system import SystemLookup
from headrace.statements.tables import check_table, create_table, new_table

_KINDS = {
    "STREAM": RelationKind.STREAM,
    "CHANGELOG": RelationKind.CHANGELOG,
    "TABLE": RelationKind.TABLE,
}
_QUERY_KINDS = {
    RelationKind.STREAM: QueryKind.CREATE_STREAM_AS,
    RelationKind.CHANGELOG: QueryKind.CREATE_CHANGELOG_AS,
    RelationKind.MATERIALIZED_VIEW: QueryKind.CREATE_MATERIALIZED_VIEW_AS,
}


@dataclass(frozen=True)
class MissingEntity:
    """An entity that is to be made with `options`."""

    connector: StoreDescriptor
    store: Store
    entity: EntityPath
    options: Mapping[str, str]

    def create(self) -> None:
        """Create the entity, unless it was created in the meantime. Raises UserError or ExternalError."""
        try:
            create_entity(self.connector, self.store, self.entity, self.options)
        except UserError as error:
            if error.state is not SqlState.DUPLICATE_ENTITY:
                raise


@dataclass(frozen=True)
class Prepared:
    """A planned continuous query: nothing has been created yet. `relation` is None for INSERT INTO.

    `side_topics` are the missing topics for records that it leaves out. `schemas` are the schemas of its output in Avro. `origin` is what
    it continues from.
    """

    kind: QueryKind
    logical: LogicalPlan
    plan: SparkPlan
    sink: EntitySink | TableSink | ViewSink
    sink_name: RelationName
    store: Store | None
    connector: StoreDescriptor | None
    relation: Relation | None
    side_topics: tuple[MissingEntity, ...] = ()
    schemas: tuple[SinkSchema, ...] = ()
    origin: Origin | None = None


def of_select(select: Select, run: Execution, *, continuous: bool = False) -> Iterator[Requirement]:
    """Yield SELECT on every relation that a query names, and for a view's owner on the relations of the view's query."""
    logical = bound(select, run, continuous=continuous)
    yield from (Requirement(Privilege.SELECT, relation) for relation in logical.named)
    for view, relation in logical.inside_views:
        yield Requirement(Privilege.SELECT, relation, through=view)
    for caller, functions in logical.functions.items():
        yield from (Requirement(Privilege.USAGE, each.function, through=caller) for each in functions)


def of_query(statement: CreateRelationAs | InsertInto, run: Execution) -> Iterator[Requirement]:
    """Yield the privileges that the query requires now and at every start."""
    yield Requirement(Privilege.CREATE_QUERY)
    yield from of_select(statement.select, run, continuous=True)
    yield Requirement(Privilege.USAGE, run.compute_pool())
    for scan in bound(statement.select, run, continuous=True).scans:
        for topic in (scan.properties.dead_letters, scan.properties.late_rows):
            if topic is not None:
                yield Requirement(Privilege.USAGE, run.store(Identifier(topic.store, topic.span))[0])
    relation_properties = run.relation(statement.name).properties if isinstance(statement, InsertInto) else {}
    base = value_of(statement.properties.entries, dialect.BASE_STORE) or value_of(
        stored(relation_properties), dialect.BASE_STORE
    )
    if base is not None:
        yield Requirement(Privilege.USAGE, run.store(Identifier(base))[0])
    if isinstance(statement, InsertInto):
        yield Requirement(Privilege.INSERT, run.relation(statement.name))
    elif statement.kind != "MATERIALIZED VIEW":
        yield Requirement(Privilege.USAGE, _sink_store(statement, run)[0])


def _of_relation(statement: CreateRelationAs, run: Execution) -> Iterator[Requirement]:
    name = run.relation_name(statement.name)
    yield from creation(name, run)
    if statement.if_not_exists and run.knows(run.catalog.relation(name)):
        return
    yield from _of_start(statement, run)


def _of_start(statement: CreateRelationAs | InsertInto, run: Execution) -> Iterator[Requirement]:
    """Yield the privileges that the statement requires: those of each start, and one on what the query continues from."""
    yield from of_query(statement, run)
    yield from of_resume(bound(statement.select, run, continuous=True).properties.resume, run)


def _sink_store(statement: CreateRelationAs, run: Execution) -> tuple[Store, StoreDescriptor]:
    logical = bound(statement.select, run, continuous=True)
    name = sink_store_name(logical, statement.properties, session_store=run.context.store)
    return run.store(Identifier(name, statement.properties.span("store")))


@handles(CreateRelationAs, requires=_of_relation, checked=True)
async def create_relation_as(statement: CreateRelationAs, run: Execution) -> Outcome:
    """Create the relation, its entity or view if missing, and the query; all or nothing, except that an entity may stay, which is
    harmless."""
    name = run.relation_name(statement.name)
    existing = run.catalog.relation(name)
    if statement.if_not_exists and existing and run.knows(existing):
        return Outcome(relation_ddl(existing, "CREATE", "already exists"))
    prepared = await asyncio.to_thread(prepare, statement, run)
    return Outcome(await _carry_out(prepared, statement, run))


@handles(InsertInto, requires=_of_start, checked=True)
async def insert_into(statement: InsertInto, run: Execution) -> Outcome:
    """Create a query that writes into an existing relation."""
    prepared = await asyncio.to_thread(prepare, statement, run)
    return Outcome(await _carry_out(prepared, statement, run))


def bound(select: Select, run: Execution, *, continuous: bool = False) -> LogicalPlan:
    """Return the bound query, which is bound once in an execution. Raises UserError, also for a relation that the role may not read."""
    if continuous in run.bindings:
        return run.bindings[continuous]
    state = run.catalog.snapshot()
    context = BindingContext(
        catalog=SystemLookup(state, run.role),
        session=run.context,
        connectors=connector,
        inside_views=SystemLookup(state, None),
    )
    logical = bind(select, context, continuous=continuous)
    within = (relation for view, relation in logical.inside_views if view.kind is RelationKind.VIEW)
    for relation in (*logical.named, *within):
        if not logical.snapshot and relation.kind is RelationKind.MATERIALIZED_VIEW:
            _refuse_frozen(relation, select, run)
    run.bindings[continuous] = logical
    return logical


def _refuse_frozen(view: Relation, select: Select, run: Execution) -> None:
    """Raise UserError 0A000 for a view whose query was terminated: its rows no longer change while its sources do."""
    if ("", view.name.path) in run.coming:
        return
    writers = run.catalog.writers(view)
    if not any(query.should_run for query in writers):
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"the query of the materialized view {view.name} was terminated: the view no longer changes",
            hint=f"RESTART QUERY {writers[0].id}; first." if writers and run.knows(writers[0]) else None,
            span=select.span,
        )


def prepare(
    statement: CreateRelationAs | InsertInto,
    run: Execution,
    other_flows: Sequence[Flow] = (),
    *,
    view: Relation | None = None,
) -> Prepared:
    """Bind, purify and plan a query. Blocks, since it computes and waits for stores. Raises UserError or ExternalError; creates nothing.

    `other_flows` are the flows of the queries that will run with it. `view` is the materialized view that exists already, if the statement
    is to replace the query of one.
    """
    with tracing.span("plan", {"headrace.statement.kind": type(statement).__name__}):
        prepared = _prepared(statement, run) if view is None else _prepared_again(statement, view, run)
    prepared = replace(
        prepared,
        side_topics=_missing_side_topics(prepared, run),
        schemas=_schemas(prepared, run),
        origin=origin_of(prepared.logical, prepared.plan, run),
    )
    refuse_own_cycle(prepared, statement, run, other_flows)
    if not run.checking:
        run.services.engine.functions.prepare(prepared.plan.functions, prepared.plan.target)
    return prepared


def _prepared(statement: CreateRelationAs | InsertInto, run: Execution) -> Prepared:
    if isinstance(statement, InsertInto):
        check_listed(statement.columns, run.relation(statement.name))
    logical = bound(statement.select, run, continuous=True)
    if isinstance(statement, InsertInto):
        return _prepare_insert(statement, logical, run)
    name = run.relation_name(statement.name)
    if run.catalog.relation(name) is not None:
        raise UserError(
            SqlState.DUPLICATE_RELATION,
            f"the relation {name} already exists",
            hint="Choose another name, or drop it first.",
            span=statement.name.span,
        )
    if statement.kind == "MATERIALIZED VIEW":
        return _prepare_view(statement, logical, name, run)
    return _prepare_entity(statement, logical, name, run)


def _prepared_again(statement: CreateRelationAs | InsertInto, view: Relation, run: Execution) -> Prepared:
    """Return the query of an existing view with a new statement. Raises UserError 42804 for other columns or another key."""
    if not isinstance(statement, CreateRelationAs):
        raise InternalError(f"a view is written by a {type(statement).__name__}")
    logical = bound(statement.select, run, continuous=True)
    prepared = _prepare_view(statement, logical, view.name, run, view.id)
    if prepared.sink.schema != view.schema:
        raise UserError(
            SqlState.DATATYPE_MISMATCH,
            f"the statement returns ({_columns(prepared.sink.schema)}), expected the columns and the key of the materialized view "
            f"{view.name}: ({_columns(view.schema)})",
            hint="Name and CAST the columns as the view has them, or create another view.",
            span=statement.select.span,
        )
    relation = prepared.relation
    definition = relation.definition if relation is not None else None
    return replace(prepared, relation=replace(view, definition=definition))


def _columns(schema: Schema) -> str:
    columns = [
        f"{printed(column.name)} {column.type}{'' if column.nullable else ' NOT NULL'}"
        for column in schema.columns
    ]
    key = [f"PRIMARY KEY ({', '.join(map(printed, schema.primary_key))})"] if schema.primary_key else []
    return ", ".join([*columns, *key])


def _prepare_view(
    statement: CreateRelationAs,
    logical: LogicalPlan,
    name: RelationName,
    run: Execution,
    identifier: str | None = None,
) -> Prepared:
    refuse_unshared(run.services.settings, span=statement.span)
    identifier = identifier or str(uuid.uuid4())
    types = [scan.store_type for scan in logical.scans if scan.store_type]
    kind = connector(types[0]) if types else None
    sink = view_sink(logical, name=name, properties=statement.properties, view_id=identifier, connector=kind)
    moment = now()
    relation = Relation(
        name=name,
        kind=RelationKind.MATERIALIZED_VIEW,
        schema=sink.schema,
        owner=run.role,
        created_at=moment,
        updated_at=moment,
        id=identifier,
        definition=ViewDefinition(statement.text, run.context.database, run.context.schema),
    )
    query_kind = QueryKind.CREATE_MATERIALIZED_VIEW_AS
    return Prepared(
        query_kind, logical, plan_query(logical, sink, run.target), sink, name, None, None, relation
    )


def _prepare_entity(
    statement: CreateRelationAs, logical: LogicalPlan, name: RelationName, run: Execution
) -> Prepared:
    store, kind = _sink_store(statement, run)
    entity = sink_path(_KINDS[statement.kind], name, statement.properties, kind)
    source = leftmost(logical)
    if statement.kind == "TABLE":
        existing = run.described(store, kind, entity)
        table = table_sink(
            logical,
            name=name,
            properties=statement.properties,
            store=store,
            connector=kind,
            exists=existing is not None,
        )
        if existing is not None and (store.name, entity) not in run.coming:
            check_table(table, store, kind)
        plan = plan_query(logical, table, run.target)
        relation = new_table(table, run.role)
        return Prepared(QueryKind.CREATE_TABLE_AS, logical, plan, table, name, store, kind, relation)
    existing = run.described(store, kind, entity)
    sink = entity_sink(
        logical,
        kind=_KINDS[statement.kind],
        name=name,
        properties=statement.properties,
        store=store,
        connector=kind,
        existing=existing,
        leftmost=_described(source, run) if source is not None else None,
        descriptors=run.descriptors,
    )
    moment = now()
    relation = Relation(
        name=name,
        kind=sink.kind,
        schema=sink.schema,
        owner=run.role,
        created_at=moment,
        updated_at=moment,
        store=store.name,
        entity=sink.entity,
        format=sink.format,
        properties=sink.properties,
        id=str(uuid.uuid4()),
    )
    return Prepared(
        _QUERY_KINDS[sink.kind],
        logical,
        plan_query(logical, sink, run.target),
        sink,
        name,
        store,
        kind,
        relation,
    )


def _described(source: Relation, run: Execution) -> EntityDescription | None:
    store, kind = run.connection(source.store or "")
    return run.described(store, kind, source.entity or ())


def _prepare_insert(statement: InsertInto, logical: LogicalPlan, run: Execution) -> Prepared:
    relation = run.relation(statement.name)
    if relation.store is None:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"a view is a query, and cannot be written: {relation.name}"
            if relation.kind is RelationKind.VIEW
            else f"only its own query can write the materialized view {relation.name}",
            hint="INSERT INTO a stream, a changelog or a table.",
            span=statement.name.span,
        )
    store, kind = run.connection(relation.store)
    table = relation.kind is RelationKind.TABLE
    logical, sink = (table_insert_sink if table else insert_sink)(
        logical, relation=relation, properties=statement.properties, store=store, connector=kind
    )
    if isinstance(sink, TableSink) and not run.checking and (store.name, sink.entity) not in run.coming:
        check_table(sink, store, kind)
    plan = plan_query(logical, sink, run.target)
    return Prepared(QueryKind.INSERT_INTO, logical, plan, sink, relation.name, store, kind, None)


def _missing_side_topics(prepared: Prepared, run: Execution) -> tuple[MissingEntity, ...]:
    """Raises UserError 3D008 for the query's own sink."""
    missing: dict[tuple[str, EntityPath], MissingEntity] = {}
    sink = prepared.sink
    written = {(step.store, step.entity) for step in prepared.plan.side_outputs}
    side_topics = (
        (scan.properties.dead_letters, scan.properties.late_rows) for scan in prepared.logical.scans
    )
    for topic in chain.from_iterable(side_topics):
        if topic is None or (place := (topic.store, topic.entity)) in missing or place not in written:
            continue
        store, kind = run.store(Identifier(topic.store))
        if not isinstance(sink, ViewSink) and place == (sink.store, sink.entity):
            raise UserError(
                SqlState.INVALID_PARAMETER,
                f"the query writes the entity {path_text(topic.entity)!r}: its readers would also read the "
                "records that the query leaves out",
                hint=f"Name another topic with '{topic.property}'.",
                span=topic.span,
            )
        made_with = record_sink(kind, RelationKind.STREAM, topic.span).side_topics
        if made_with is None:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"stores of type {kind.label} cannot store the records that a query leaves out",
                hint="Name a store of another type for these records.",
                span=topic.span,
            )
        if run.described(store, kind, topic.entity) is None:
            options = {**made_with, **topic.layout}
            missing[place] = MissingEntity(kind, store, topic.entity, options)
    return tuple(missing.values())


def _schemas(prepared: Prepared, run: Execution) -> tuple[SinkSchema, ...]:
    if not isinstance(prepared.sink, EntitySink) or prepared.store is None or run.checking:
        return ()
    subjects, base_client = prepared.sink.subjects, None
    if subjects.value.base or subjects.key.base:
        store, _kind = run.store(Identifier(subjects.base_store or prepared.store.name))
        base_client = run.registry_client(store)
    return sink_schemas(prepared.sink, run.registry_client(prepared.store), base_client)


def registered_schemas(prepared: Prepared, run: Execution) -> tuple[SinkSchema, ...]:
    """Register the schemas of the query's output, and return them. Blocks."""
    if not prepared.schemas or prepared.store is None:
        return ()
    return registered(prepared.schemas, run.registry_client(prepared.store))


def make_sink(prepared: Prepared, run: Execution) -> None:
    """Create the query's sink if it is missing. Blocks; raises the store's errors."""
    for missing in prepared.side_topics:
        missing.create()
    sink, store, kind = prepared.sink, prepared.store, prepared.connector
    if isinstance(sink, ViewSink):
        columns, key = list(sink.columns), list(sink.key_columns)
        run.services.engine.views.create(sink.view, columns, key, retention_ms=sink.retention_ms)
    elif sink.creation is not None and store is not None and kind is not None:
        if isinstance(sink, TableSink):
            create_table(sink, store, kind)
        else:
            create_entity(kind, store, sink.entity, sink.creation)


def unmake_view(prepared: Prepared, run: Execution) -> None:
    """Remove a view that is not in the catalog yet. Its entity stays, which is harmless. Blocks."""
    if isinstance(prepared.sink, ViewSink):
        run.services.engine.views.drop(prepared.sink.view)


async def _carry_out(
    prepared: Prepared, statement: CreateRelationAs | InsertInto, run: Execution
) -> ResultSet:
    # Before schemas are registered, which stay: it refuses a name that another query has.
    query = await asyncio.to_thread(_query, prepared, statement, run)
    if run.checking:
        await asyncio.to_thread(_kept, prepared, query, statement, run)
        return _answer(prepared, query)
    schemas = await asyncio.to_thread(registered_schemas, prepared, run)
    prepared = replace(prepared, plan=pinned(prepared.plan, schemas, prepared.plan.sink))
    query = replace(query, plan=prepared.plan.to_json())
    await asyncio.to_thread(make_sink, prepared, run)
    try:
        if prepared.origin is not None:
            await prepared.origin.place(query.id, run)
        tracing.request_start(query.id)
        await asyncio.to_thread(_kept, prepared, query, statement, run)
    except HeadraceError:
        await asyncio.to_thread(unmake_view, prepared, run)
        await run.services.engine.forget([query.id])
        raise
    run.services.engine.wake()
    return _answer(prepared, query)


def _kept(prepared: Prepared, query: Query, statement: CreateRelationAs | InsertInto, run: Execution) -> None:
    with run.catalog.transaction():
        refuse_own_cycle(prepared, statement, run)
        if prepared.relation is not None:
            run.catalog.create_relation(prepared.relation)
        run.catalog.create_query(query)


def refuse_cycle_of(query: Query, run: Execution, span: Span | None) -> None:
    """Raise UserError 42P16 if an existing query would now read its own output, and its statement does not allow that."""
    (statement,) = parse(query.sql)
    inside = statement.statements if isinstance(statement, Application) else (statement,)
    writing = [item for item in inside if isinstance(item, CreateRelationAs | InsertInto)]
    if any(map(_allowed, writing)):
        return
    flows = _flows(query, run)
    for flow in flows:
        others = [*_running(run, but=query.id), *(other for other in flows if other is not flow)]
        refuse_cycle(flow, others, span, reads=run.reads, known=run.knows)


def refuse_own_cycle(
    prepared: Prepared,
    statement: CreateRelationAs | InsertInto,
    run: Execution,
    other_flows: Sequence[Flow] = (),
) -> None:
    """Raise UserError 42P16 for a new query that would read its own output through running queries or `other_flows`."""
    flow = flow_of(prepared, run)
    if flow is not None and not _allowed(statement):
        others = [*_running(run), *other_flows]
        refuse_cycle(flow, others, statement.name.span, reads=run.reads, known=run.knows)


def flow_of(prepared: Prepared, run: Execution) -> Flow | None:
    """Return the sources and sinks of a planned query; None for a sink that was dropped."""
    sink = prepared.relation or run.catalog.relation(prepared.sink_name)
    if sink is None:
        return None
    sources = () if _reads_once(prepared.plan) else tuple(scan.relation for scan in prepared.logical.scans)
    return Flow(sources, (Output.of(sink), *_beside(prepared.plan.side_outputs)))


def _reads_once(plan: SparkPlan) -> bool:
    """True if a query stores the rows of its sources before it writes any: it never reads a row that it caused, so it closes no cycle."""
    return any(isinstance(step, Spool) for step in plan.steps)


def _allowed(statement: CreateRelationAs | InsertInto) -> bool:
    return value_of(statement.properties.entries, dialect.ALLOW_CYCLE) is True


def _running(run: Execution, but: str = "") -> list[Flow]:
    """Return the sources and sinks of the queries that are not terminated."""
    queries = (query for query in run.catalog.unfinished_queries() if query.id != but)
    return [flow for query in queries if query.should_run for flow in _flows(query, run)]


def _flows(query: Query, run: Execution) -> list[Flow]:
    """Return a flow for each existing sink of a query, none if its plan cannot be read: it does not run."""
    try:
        plan, flows = SparkPlan.from_json(query.plan), list[Flow]()
    except UnreadablePlanError:
        return []
    names = () if _reads_once(plan) else query.sources
    sources = [source for name in names if (source := run.catalog.relation(name)) is not None]
    for name, step in zip(query.sinks, plan.sinks, strict=True):
        sink, under = run.catalog.relation(name), plan.under(step.id)
        if sink is None:
            continue
        read = [item for item in sources if not query.more_sinks or _is_read(item, under)]
        side_outputs = [item for item in plan.side_outputs if item in under]
        written = (Output.of(sink) if run.knows(sink) else replace(Output.of(sink), name=HIDDEN),)
        if run.knows(query):
            flows.append(Flow(tuple(read), (*written, *_beside(side_outputs)), query.name or query.id))
        else:
            left_out = (replace(output, name=HIDDEN) for output in _beside(side_outputs))
            flows.append(Flow(tuple(read), (*written, *left_out), HIDDEN))
    return flows


def _is_read(relation: Relation, steps: Iterable[Step]) -> bool:
    place = (relation.store, relation.entity)
    reading = (ReadEntity, ReadRows, LookupJoin)
    return any(isinstance(step, reading) and (step.store, step.entity) == place for step in steps)


def _beside(steps: Iterable[WriteEntity]) -> Iterator[Output]:
    """Yield the entities that receive the records which a query leaves out."""
    return (Output(f"the entity {path_text(step.entity)}", (step.store, *step.entity)) for step in steps)


def remarks(prepared: Prepared) -> list[str]:
    """Return the Summary's remarks on a query: missing parts of its records, and possible growth of its state."""
    sink = prepared.sink
    left_out = () if isinstance(sink, ViewSink) else sink.left_out
    notes = [f"columns left NULL: {', '.join(map(printed, left_out))}"] if left_out else []
    if isinstance(sink, EntitySink) and sink.keyless:
        notes.append(
            "'key.format' has no effect: the records have no key without PARTITION BY or 'key.columns'"
        )
    if prepared.origin is not None:
        notes.append(f"it continues from {prepared.origin.described}")
    if (warned := state_warning(prepared.logical, sink)) is not None:
        notes.append(f"warning: {warned}")
    return notes


def _answer(prepared: Prepared, query: Query) -> ResultSet:
    """Return the created relation's row first, which Terraform reads (client-contract, 6.6), then the query's."""
    name = prepared.sink_name
    summary = "; ".join([f"query {query.id} writes {name}", *remarks(prepared)])
    started = ddl("query", query.id, prepared.kind.value, summary, name.path)
    if prepared.relation is None:
        return started
    created = relation_ddl(prepared.relation, "CREATE", "was created")
    return ResultSet(created.columns, created.rows + started.rows)


def _query(prepared: Prepared, statement: CreateRelationAs | InsertInto, run: Execution) -> Query:
    # Both places are in use (dialect, 24.10): QUERY WITH, and the WITH of the relation.
    name = prepared.logical.properties.name or value_of(statement.properties.entries, dialect.QUERY_NAME)
    span = statement.properties.span(dialect.QUERY_NAME.name) or statement.select.query_properties.span(
        dialect.QUERY_NAME.name
    )
    needs = tuple(run.policy.need(requirement) for requirement in of_query(statement, run))
    return new_query(prepared.kind, name, span, statement.text, prepared.plan, [prepared], run, needs)


def new_query(
    kind: QueryKind,
    name: str | None,
    span: Span | None,
    text: str,
    plan: SparkPlan,
    parts: Sequence[Prepared],
    run: Execution,
    needs: tuple[Need, ...],
) -> Query:
    """Return a new query to run, of one statement or several; `span` is the position of its name.

    Raises UserError 3D008 for a name in use, and as `refuse_shared` and `refuse_too_many` do.
    """
    moment = now()
    if name:
        Identifier(name, span)
    if name:
        refuse_taken_name(name, span, run)
    refuse_shared(plan, run, span)
    pool = usable_pool(run.catalog, run.compute_pool().name)
    refuse_too_many(run.role, pool, span, run)
    namesake = run.catalog.query_by_name(name) if name else None
    sink, *more = (part.sink_name for part in parts)
    sources = dict.fromkeys(relation.name for part in parts for relation in part.logical.relations)
    return Query(
        id=str(uuid.uuid4()),
        name=name,
        version=namesake.version + 1 if namesake else 1,
        kind=kind,
        sql=text,
        plan=plan.to_json(),
        sink=sink,
        more_sinks=tuple(more),
        sources=tuple(sources),
        compute_pool=pool.name,
        owner=run.role,
        created_at=moment,
        updated_at=moment,
        actual_state=QueryState.QUEUED if run.services.settings.queues_queries else QueryState.STARTING,
        needs=needs,
        lineage=tuple(each for sink, part in enumerate(parts) for each in lineage(part.logical.root, sink)),
    )


def refuse_too_many(
    owner: str, pool: ComputePool, span: Span | None, run: Execution, *, but: str = ""
) -> None:
    """Raise UserError 53000 if the organization, the role or the pool runs as many queries as it may, without the one with the id `but`.
    A pool with a queue accepts more."""
    settings = run.services.settings
    limit = places(pool, settings, run.services.engine.pool_slots(pool.name))
    running = [query for query in run.catalog.unfinished_queries() if query.should_run and query.id != but]
    limits = (
        ("the organization", len(running), settings.queries_max, "QUERIES_MAX"),
        (
            f"the role {owner!r}",
            sum(query.owner == owner for query in running),
            settings.queries_per_role_max,
            "QUERIES_PER_ROLE_MAX",
        ),
        (
            f"the compute pool {pool.name!r} with {limit.text}",
            sum(query.compute_pool == pool.name for query in running),
            None if settings.queues_queries else limit.queries_max,
            "QUERIES_PER_SLOT_MAX, or add slots to the pool",
        ),
    )
    for whose, count, most, setting in limits:
        if most and count >= most:
            raise UserError(
                SqlState.CONFIGURATION_LIMIT_EXCEEDED,
                f"{whose} has {counted(count, 'running query', 'running queries')}, expected at most {most}",
                hint=f"TERMINATE or STOP a query, or ask the server's operator to raise HEADRACE_{setting}.",
                span=span,
            )


def refuse_taken_name(name: str, span: Span | None, run: Execution, *, of: str | None = None) -> None:
    """Raises UserError 3D008 for the name of a query that has not ended, other than the one with the id `of`."""
    unfinished = (
        query for query in run.catalog.unfinished_queries() if query.name == name and query.id != of
    )
    holder = next((query for query in unfinished if query.actual_state is not QueryState.TERMINATED), None)
    if holder is not None:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"a query named {name!r} already exists",
            hint=f"Choose another name, or TERMINATE QUERY {holder.id}; first."
            if run.knows(holder)
            else "Choose another name.",
            span=span,
        )


def create_entity(
    kind: StoreDescriptor, store: Store, entity: EntityPath, options: Mapping[str, str]
) -> None:
    """Create an entity with stored properties; raises the errors of `EntityAdmin.create_entity`."""
    reader = PropertyReader(stored(options), of_scope(kind.properties, Scope.ENTITY), what="an entity")
    facet(kind.entities, kind, "CREATE ENTITY", None).create_entity(store.properties, entity, reader)
