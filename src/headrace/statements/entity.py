"""ENTITY: create, update, optimize, list, describe, list its partitions, drop, insert into, print."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from headrace.analyzer import properties as dialect
from headrace.analyzer.source_properties import starting_position
from headrace.catalog import plan_names
from headrace.catalog.access import Privilege
from headrace.catalog.objects import DesiredState, QueryState, Relation, Store
from headrace.catalog.policy import Requirement
from headrace.connectors.base import (
    EntityAdmin,
    EntityDescription,
    PrintedRecord,
    PrintStart,
    StoreDescriptor,
)
from headrace.connectors.table_printing import ROWS_MAX, SAMPLE_ROWS, refuse_time
from headrace.core.errors import Span, UserError
from headrace.core.names import EntityPath, Identifier, QualifiedName, path_text, printed
from headrace.core.properties import PropertyReader, Scope, Specs, of_scope, stored, value_of
from headrace.core.resultset import LiveRows, ResultColumn, ResultSet, cell, result
from headrace.core.sqlstate import SqlState
from headrace.core.suggestions import nearest
from headrace.core.types import BIGINT, BOOLEAN, INTEGER, VARCHAR, Timestamp
from headrace.engine.results import ResultChannel
from headrace.planner import plan_columns
from headrace.planner.entities import plan_optimize, plan_print
from headrace.sql.statements.entity import (
    CreateEntity,
    DescribeEntity,
    DropEntity,
    InsertIntoEntity,
    ListEntities,
    ListPartitions,
    OptimizeEntity,
    PrintEntity,
    UpdateEntity,
)
from headrace.statements.base import Execution, Outcome, ddl, facet, handles
from headrace.statements.record_filter import FORM, Filter, record_filter
from headrace.statements.record_text import RecordText

_PRINTED_COLUMNS = (ResultColumn("key"), ResultColumn("value"), ResultColumn("metadata"))
_DETAILED_COLUMNS = (
    ResultColumn("key"),
    ResultColumn("value"),
    ResultColumn("partition", INTEGER),
    ResultColumn("offset"),
    ResultColumn("timestamp", Timestamp(3, local=True)),
    ResultColumn("headers"),
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONG_VALUE = 16 << 10
"""A longer value is filtered in another thread, so that no other client waits for it."""


_OnEntities = (
    CreateEntity
    | UpdateEntity
    | OptimizeEntity
    | DropEntity
    | ListEntities
    | ListPartitions
    | DescribeEntity
    | InsertIntoEntity
    | PrintEntity
)


def _store(statement: _OnEntities, run: Execution) -> tuple[Store, StoreDescriptor]:
    """Return the store that IN STORE names, or WITH, or the session's."""
    other = None
    if isinstance(statement, CreateEntity | UpdateEntity | OptimizeEntity | InsertIntoEntity | PrintEntity):
        named = value_of(statement.properties.entries, dialect.STORE)
        other = Identifier(named, statement.properties.span(dialect.STORE.name)) if named else None
    return run.store(statement.store or other)


def _usage(statement: _OnEntities, run: Execution) -> list[Requirement]:
    """Return USAGE of the store: its entities have no owners in the catalog."""
    if isinstance(statement, ListEntities) and statement.store is None and run.context.store is None:
        return []
    return [Requirement(Privilege.USAGE, _store(statement, run)[0])]


def _usage_in_pool(statement: OptimizeEntity | PrintEntity, run: Execution) -> list[Requirement]:
    """Return USAGE of the store, and of the compute pool if it does the work."""
    kind = _store(statement, run)[1]
    in_pool = isinstance(statement, OptimizeEntity) or (
        kind.printer is None and kind.table_source is not None
    )
    needed = [Requirement(Privilege.USAGE, run.compute_pool())] if in_pool else []
    return [*_usage(statement, run), *needed]


@handles(CreateEntity, requires=_usage)
async def create_entity(statement: CreateEntity, run: Execution) -> Outcome:
    store, kind = _store(statement, run)
    admin = facet(kind.entities, kind, "CREATE ENTITY", statement.span)
    path = statement.name.path
    reader = _reader(statement, Scope.ENTITY, kind.properties)
    async with _about(statement.name, store, admin):
        await asyncio.to_thread(admin.create_entity, store.properties, path, reader)
    reader.finish()
    return Outcome(_ddl(path, "CREATE", f"was created in store {store.name}"))


@handles(UpdateEntity, requires=_usage)
async def update_entity(statement: UpdateEntity, run: Execution) -> Outcome:
    """Accept an update that changes nothing, as clients send it for entities that they created; refuse any other."""
    store, kind = _store(statement, run)
    admin = facet(kind.entities, kind, "UPDATE ENTITY", statement.span)
    path = statement.name.path
    reader = _reader(statement, Scope.ENTITY, kind.properties)
    async with _about(statement.name, store, admin):
        entity = await asyncio.to_thread(admin.describe_entity, store.properties, path)
    requested: list[tuple[str, int | str | None, int | str | None]] = []
    for name, spec in kind.layout.items():
        written = (entry.key for entry in statement.properties.entries if spec.matches_name(entry.key))
        requested.append((next(written, spec.name), reader.take(spec), entity.layout.get(name)))
    for settings in of_scope(kind.properties, Scope.ENTITY):
        if settings.open:
            given = reader.take_all(settings)
            requested += [
                (settings.name + name, text, entity.configs.get(name)) for name, text in given.items()
            ]
    reader.finish()
    for name, value, present in requested:
        if value not in (None, present):
            now = f"has no '{name}'" if present is None else f"has '{name}' = {present}"
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"the entity {statement.name} {now}, and this cannot be changed to {value} yet",
                hint="Change it with the store's own tools, or create another entity.",
                span=statement.properties.span(name) or statement.name.span,
            )
    return Outcome(_ddl(path, "UPDATE", f"in store {store.name} is unchanged"))


@handles(OptimizeEntity, requires=_usage_in_pool)
async def optimize_entity(statement: OptimizeEntity, run: Execution) -> Outcome:
    """Runs to its end in the session's compute pool. Data that unterminated queries need to continue is not removed."""
    store, kind = _store(statement, run)
    optimizer = facet(
        kind.optimizer, kind, "OPTIMIZE ENTITY", statement.span, "It is for tables that consist of files."
    )
    reader = _reader(statement, Scope.OPTIMIZE, kind.properties)
    options = optimizer.options(reader)
    reader.finish()
    ended = (DesiredState.TERMINATED, QueryState.TERMINATED)
    queries = [
        query
        for query in await asyncio.to_thread(run.catalog.queries)
        if (query.desired_state, query.actual_state) != ended
    ]
    pools = {query.compute_pool for query in queries}
    places = await asyncio.to_thread(run.services.engine.checkpoint_places, pools)
    plan = plan_optimize(
        store, statement.name.path, optimizer, options, [query.id for query in queries], places
    )
    columns = plan_columns(plan)
    async with _about(statement.name, store, kind.entities):
        channel = await run.services.engine.run_interactive(
            plan, columns, compute_pool=run.compute_pool().name, user=run.principal.user
        )
        try:
            rows = [tuple(row) async for part in channel for row in part.cells]
        finally:
            await channel.close()
    return Outcome(ResultSet(columns, tuple(rows)))


@handles(DropEntity, requires=_usage)
async def drop_entity(statement: DropEntity, run: Execution) -> Outcome:
    """Deletes the records too. Refused with 2BP01 while a running query uses a relation on the entity."""
    store, kind = _store(statement, run)
    admin = facet(kind.entities, kind, "DROP ENTITY", statement.span)
    path = statement.name.path
    for relation in run.catalog.relations():
        if run.reads(relation, (store.name, *path)) and run.catalog.queries_of(relation.name):
            known = run.knows(relation)
            name = (
                f"the relation {relation.name}" if known else f"a relation unknown to the role {run.role!r}"
            )
            raise UserError(
                SqlState.DEPENDENT_OBJECTS_EXIST,
                f"the entity {path_text(path)!r} is referenced by {name}, which a running query uses",
                hint="LIST QUERIES shows which query it is; TERMINATE QUERY ends it."
                if known
                else "A role that sees the relation can end its queries.",
                span=statement.name.span,
            )
    _refuse_written((store.name, *path), statement.name, run)
    async with _about(statement.name, store, admin):
        await asyncio.to_thread(admin.drop_entity, store.properties, path)
    return Outcome(_ddl(path, "DROP", f"was dropped from store {store.name}"))


def _refuse_written(place: tuple[str, ...], name: QualifiedName, run: Execution) -> None:
    """Raise UserError 2BP01 if a running query writes its dead letters or late rows there: no relation need be over them."""
    for query in run.catalog.unfinished_queries():
        if query.actual_state is not QueryState.TERMINATED and place in plan_names.places(query.plan):
            known = run.knows(query)
            raise UserError(
                SqlState.DEPENDENT_OBJECTS_EXIST,
                f"the entity {path_text(place[1:])!r} is referenced by "
                + (f"the running query {query.id}" if known else "a running query that you may not see"),
                hint=f"TERMINATE QUERY {query.id}; first."
                if known
                else "A role that owns the query can terminate it.",
                span=name.span,
            )


@handles(ListEntities, requires=_usage)
async def list_entities(statement: ListEntities, run: Execution) -> Outcome:
    """List entities, with names as they must be typed (client-contract, 6.6)."""
    columns = (ResultColumn("Name"), ResultColumn("IsLeaf", BOOLEAN))
    if statement.store is None and run.context.store is None:
        return Outcome(
            ResultSet(columns, message="no store is selected: USE STORE name, or LIST ENTITIES IN STORE name")
        )
    store, kind = _store(statement, run)
    within = statement.path.path if statement.path else ()
    if kind.declared_entities:
        paths = {relation.entity or () for relation in _declarations(store, run)} if not within else set()
        return Outcome(ResultSet(columns, tuple((printed(path[-1]), "true") for path in sorted(paths))))
    admin = facet(kind.entities, kind, "LIST ENTITIES", statement.span)
    entities = await asyncio.to_thread(admin.list_entities, store.properties, within)
    return Outcome(ResultSet(columns, tuple((printed(name), str(leaf).lower()) for name, leaf in entities)))


@handles(DescribeEntity, requires=_usage)
async def describe_entity(statement: DescribeEntity, run: Execution) -> Outcome:
    store, kind = _store(statement, run)
    admin = facet(kind.entities, kind, "DESCRIBE ENTITY", statement.span)
    async with _about(statement.name, store, admin):
        entity = await asyncio.to_thread(admin.describe_entity, store.properties, statement.name.path)
    # Clients read partitions and replicas by position, so store types without partitions return the same number of columns.
    layout = tuple(kind.layout) or ("partitions", "replicas")
    columns = [
        ("Name", VARCHAR),
        ("Store", VARCHAR),
        *((name.capitalize(), BIGINT) for name in layout),
        ("KeyDescriptor", VARCHAR),
        ("ValueDescriptor", VARCHAR),
        ("Configs", VARCHAR),
    ]
    return Outcome(result(columns, [_description(entity, store.name, layout)]))


@handles(ListPartitions, requires=_usage)
async def list_partitions(statement: ListPartitions, run: Execution) -> Outcome:
    """List the partitions or shards of an entity, with the positions of the first record and of the end."""
    store, kind = _store(statement, run)
    admin = facet(
        kind.partitions,
        kind,
        "LIST PARTITIONS",
        statement.span,
        "Its entities have no partitions: DESCRIBE ENTITY describes them.",
    )
    async with _about(statement.name, store, kind.entities):
        listed = await asyncio.to_thread(admin.list_partitions, store.properties, statement.name.path)
    columns = [
        ("Partition", INTEGER),
        ("Start", VARCHAR),
        ("End", VARCHAR),
        ("Records", BIGINT),
        ("Details", VARCHAR),
    ]
    rows = [(part.number, part.start, part.end, part.records, json.dumps(part.details)) for part in listed]
    return Outcome(result(columns, rows))


@handles(InsertIntoEntity, requires=_usage)
async def insert_into_entity(statement: InsertIntoEntity, run: Execution) -> Outcome:
    """Insert one JSON record, with the key, and what else the store's records have, of WITH."""
    store, kind = _store(statement, run)
    inserter = facet(
        kind.inserter,
        kind,
        "INSERT INTO ENTITY",
        statement.span,
        "Create a relation over the entity, and INSERT INTO the relation.",
    )
    path = statement.name.path
    _check_json(statement)
    reader = _reader(statement, Scope.RECORD, kind.properties)
    key, options = reader.take(dialect.RECORD_KEY), kind.record_options(reader)
    reader.finish()
    async with _about(statement.name, store, kind.entities):
        await asyncio.to_thread(
            inserter.insert,
            store.properties,
            path,
            key=key.encode() if key else None,
            value=statement.value.encode(),
            options=options,
        )
    name = path_text(path)
    return Outcome(ddl("entity", name, "INSERT", f"one record was written to {name}", path))


def _check_json(statement: InsertIntoEntity) -> None:
    """Raises UserError 22P02 where the text stops being JSON."""
    position, reason = 0, ""
    try:
        json.loads(statement.value, parse_constant=_no_constant)
        return
    except json.JSONDecodeError as error:
        position, reason = error.pos, error.msg[:1].lower() + error.msg[1:]
    except ValueError as error:
        reason = str(error)
    except RecursionError:
        reason = "the value is nested too deeply"
    raise UserError(
        SqlState.INVALID_RECORD,
        f"expected one JSON value, found text that is not JSON: {reason}",
        hint="""Write VALUE('{"name": "value"}').""",
        span=_inside(statement, position),
    )


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _inside(statement: InsertIntoEntity, position: int) -> Span | None:
    """Return the position of a character of the record's text in the literal, which doubles each quote."""
    place = statement.place
    if place is None:
        return statement.span
    before = statement.value[:position].replace("'", "''")
    lines = before.count("\n")
    column = len(before) - before.rfind("\n") if lines else place.column + 1 + len(before)
    start = place.start + 1 + len(before)
    return Span(start, start + 1, place.line + lines, column)


@handles(PrintEntity, requires=_usage_in_pool)
async def print_entity(statement: PrintEntity, run: Execution) -> Outcome:
    """Return a live result: key, value and position of each record, from now on or from the position in WITH, or up to a limit."""
    store, kind = _store(statement, run)
    if kind.printer is None and kind.table_source is not None:
        return Outcome(await _print_table(statement, store, kind, run))
    if value_of(statement.properties.entries, dialect.PRINT_NEWEST) is None:
        run.require_end("PRINT ENTITY", statement.span)
    printer = facet(
        kind.printer,
        kind,
        "PRINT ENTITY",
        statement.span,
        "Create a relation over the entity, and SELECT from the relation.",
    )
    path = statement.name.path
    reader = _reader(statement, Scope.PRINT, kind.properties)
    async with _about(statement.name, store, kind.entities):
        start = _start(reader, kind)
        if kind.declared_entities:
            start = _of_declaration(start, statement, store, kind, run)
        choice = _choice(reader, store, kind, run)
        reader.finish()
        records = await printer.print_entity(store.properties, path, start=start)
    capacity = run.services.settings.result_channel_rows_max
    columns = _DETAILED_COLUMNS if choice.details else _PRINTED_COLUMNS
    channel = ResultChannel(str(uuid.uuid4()), columns, capacity)
    if start.at == "latest" and start.newest is None:
        channel.message = (
            "Only records that arrive from now on are printed. Add WITH ('from_beginning') to "
            "print the earlier records too."
        )
    channel.feed(printed_rows(channel, records, choice))
    return Outcome(channel)


def _declarations(store: Store, run: Execution) -> list[Relation]:
    """Return the streams over a store that the role may read."""
    return [
        relation
        for relation in run.catalog.relations()
        if relation.store == store.name and run.policy.check(run.role, Privilege.SELECT, relation)
    ]


def _of_declaration(
    start: PrintStart, statement: PrintEntity, store: Store, kind: StoreDescriptor, run: Execution
) -> PrintStart:
    """Return a start with the columns and options of the stream that declares the entity. Raises UserError 3D007."""
    declared = next(
        (relation for relation in _declarations(store, run) if relation.entity == statement.name.path), None
    )
    if declared is None or kind.source is None:
        raise UserError(
            SqlState.ENTITY_NOT_FOUND,
            f"no stream over the store {store.name} declares {statement.name}",
            hint="LIST ENTITIES shows the entities of the store; CREATE STREAM adds one.",
        )
    specs = of_scope(kind.properties, Scope.RELATION)
    entries = [
        entry for entry in stored(declared.properties) if any(spec.matches_name(entry.key) for spec in specs)
    ]
    own = kind.source.options(PropertyReader(entries, specs, what="a stream"))
    return replace(start, options=own, columns=declared.schema.columns)


@dataclass(frozen=True)
class Choice:
    """Records that are printed, at most `limit` of them, their texts, and whether their positions are columns."""

    details: bool = False
    limit: int | None = None
    matches: Filter | None = None
    texts: RecordText = field(default_factory=RecordText)


def _choice(reader: PropertyReader, store: Store, kind: StoreDescriptor, run: Execution) -> Choice:
    text = reader.take(dialect.PRINT_FILTER)
    try:
        matches = record_filter(text) if text is not None else None
    except ValueError:
        raise reader.bad(dialect.PRINT_FILTER, FORM) from None
    texts = _texts(reader, store, kind, run)
    return Choice(
        reader.take(dialect.PRINT_DETAILS) is True, reader.take(dialect.PRINT_LIMIT), matches, texts
    )


def _texts(reader: PropertyReader, store: Store, kind: StoreDescriptor, run: Execution) -> RecordText:
    """Return the formats of key and value. Raises UserError 3D009 if they need a schema registry that the store does not have."""
    formats: list[str] = []
    for spec in (dialect.PRINT_KEY_FORMAT, dialect.PRINT_VALUE_FORMAT):
        form = reader.take(spec) or "text"
        if form != "text" and not kind.print_formats:
            raise reader.bad(spec, f"left out: entities of {kind.label} contain rows, not bytes")
        if form == "registry" and store.schema_registry is None:
            raise UserError(
                SqlState.SCHEMA_REGISTRY_NOT_FOUND,
                f"the store {store.name!r} has no schema registry",
                hint=f"UPDATE STORE {Identifier(store.name)} WITH ('schema_registry.name' = …).",
                span=reader.span(spec),
            )
        formats.append(form)
    key, value = formats
    return RecordText(key, value, run.registry_client(store) if "registry" in formats else None)


async def _print_table(
    statement: PrintEntity, store: Store, kind: StoreDescriptor, run: Execution
) -> ResultChannel:
    """Print a table by a compute pool, if the control plane has no client of the store."""
    admin = facet(kind.entities, kind, "PRINT ENTITY", statement.span)
    reader = _reader(statement, Scope.PRINT, kind.properties)
    start = _start(reader, kind)
    if reader.is_set(dialect.PRINT_FILTER):
        raise reader.bad(
            dialect.PRINT_FILTER, "left out for a table: SELECT … WHERE of a TABLE over it filters rows"
        )
    limit = reader.take(dialect.PRINT_LIMIT) or ROWS_MAX
    reader.take(dialect.PRINT_DETAILS)
    reader.finish()
    refuse_time(start, "table")
    async with _about(statement.name, store, admin):
        entity = await asyncio.to_thread(admin.describe_entity, store.properties, statement.name.path)
    if not entity.columns:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"{statement.name} is not a table of the store {store.name}",
            hint=f"LIST ENTITIES IN {statement.name} lists its tables.",
            span=statement.name.span,
        )
    plan = plan_print(store, entity, min(limit, ROWS_MAX if start.at == "earliest" else SAMPLE_ROWS))
    engine = run.services.engine
    return await engine.run_interactive(
        plan, _PRINTED_COLUMNS, compute_pool=run.compute_pool().name, user=run.principal.user
    )


def _start(reader: PropertyReader, kind: StoreDescriptor) -> PrintStart:
    from_beginning = reader.take(dialect.FROM_BEGINNING)
    if from_beginning and reader.is_set(dialect.POSITION):
        raise reader.bad(dialect.FROM_BEGINNING, f"left out if '{dialect.POSITION.name}' is specified")
    position, timestamp = starting_position(reader)
    for spec in (dialect.PRINT_PARTITIONS, dialect.PRINT_DETAILS):
        if reader.is_set(spec) and not kind.print_positions:
            raise reader.bad(spec, f"left out: rows of {kind.label} have no partitions and offsets")
    own, partitions = kind.print_options(reader), reader.take(dialect.PRINT_PARTITIONS)
    newest = reader.take(dialect.PRINT_NEWEST)
    if newest is not None:
        if not kind.print_newest:
            raise reader.bad(
                dialect.PRINT_NEWEST, f"left out: {kind.label} cannot count back from its newest records"
            )
        if from_beginning or reader.is_set(dialect.POSITION) or own:
            raise reader.bad(dialect.PRINT_NEWEST, "left out if a starting position is specified")
        return PrintStart("latest", own, partitions, newest=newest)
    if position == "timestamp" and timestamp is not None:
        return PrintStart(timestamp, own, partitions)
    return PrintStart("earliest" if from_beginning or position == "earliest" else "latest", own, partitions)


async def printed_rows(
    channel: ResultChannel, records: AsyncGenerator[PrintedRecord], choice: Choice
) -> None:
    """Put the chosen records into a channel; return after the limit."""
    printed_count = 0
    async with aclosing(records):
        async for original in records:
            record = await choice.texts.shown(original)
            if choice.matches is not None and not await _matches(choice.matches, record):
                continue
            await channel.put(LiveRows([_detailed(record) if choice.details else _printed(record)]))
            printed_count += 1
            if printed_count == choice.limit:
                return


async def _matches(matches: Filter, record: PrintedRecord) -> bool:
    if len(record.value or "") > _LONG_VALUE:
        return await asyncio.to_thread(matches, record)
    return matches(record)


def _printed(record: PrintedRecord) -> list[str | None]:
    return [record.key, record.value, record.metadata]


def _detailed(record: PrintedRecord) -> list[str | None]:
    moment = _moment(record.timestamp_ms)
    values = (record.key, record.value, record.partition, record.offset, moment, record.headers)
    return [cell(value, column.type) for value, column in zip(values, _DETAILED_COLUMNS, strict=True)]


def _moment(milliseconds: int | None) -> datetime | None:
    """Return a record's time; None if it has none, or one outside of the years 1 to 9999."""
    if milliseconds is None or milliseconds == -1:
        return None
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None


def _ddl(path: EntityPath, command: str, done: str) -> ResultSet:
    return ddl("entity", path_text(path), command, f"entity {path_text(path)} {done}", path)


def _description(entity: EntityDescription, store: str, layout: tuple[str, ...]) -> tuple[object, ...]:
    details: dict[str, object] = dict(entity.configs)
    if entity.columns:
        details["columns"] = {
            column.name: f"{column.type}{'' if column.nullable else ' NOT NULL'}" for column in entity.columns
        }
        details["key"] = entity.key
    return (
        path_text(entity.path),
        store,
        *(entity.layout.get(name) for name in layout),
        None,
        None,
        json.dumps(details),
    )


def _reader(
    statement: CreateEntity | UpdateEntity | OptimizeEntity | InsertIntoEntity | PrintEntity,
    scope: Scope,
    own: Specs = (),
) -> PropertyReader:
    specs = of_scope((*dialect.DIALECT, *own), scope)
    reader = PropertyReader(statement.properties.entries, specs, what="an entity")
    reader.take(dialect.STORE)
    return reader


@asynccontextmanager
async def _about(name: QualifiedName, store: Store, admin: EntityAdmin | None) -> AsyncGenerator[None]:
    """Add the entity's name, position and the nearest other name to errors about its absence or existence."""
    try:
        yield
    except UserError as error:
        entity = str(name)
        if error.state is SqlState.DUPLICATE_ENTITY:
            raise UserError(
                error.state,
                f"the entity {entity} already exists in the store {store.name}",
                hint="Choose another name, or drop it first.",
                span=name.span,
            ) from None
        if error.state is not SqlState.ENTITY_NOT_FOUND:
            error.span = error.span or name.span
            raise
        within = name.path[:-1]
        listed = await asyncio.to_thread(admin.list_entities, store.properties, within) if admin else []
        near = nearest(name.last.name, [other for other, _ in listed], count=1)
        # Clients read "there is none" from this code, not from 3D007 (client-contract, section 4).
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"the entity {entity} does not exist in the store {store.name}",
            hint=f"Did you mean {printed(near[0])}?" if near else error.hint,
            span=name.span,
        ) from None
