"""STREAM, CHANGELOG, MATERIALIZED VIEW, RELATION: create over an entity, list, describe, drop."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from headrace.analyzer import properties as dialect
from headrace.analyzer.source_properties import source_properties
from headrace.catalog.access import Privilege
from headrace.catalog.objects import Relation, RelationKind, Store
from headrace.catalog.policy import Requirement
from headrace.connectors.base import EntityAdmin, EntityPattern, StoreDescriptor
from headrace.core.errors import Span, UserError
from headrace.core.names import Identifier, QualifiedName, RelationName, path_text
from headrace.core.properties import PropertyReader, Scope, of_scope, value_of
from headrace.core.resultset import ResultSet, result
from headrace.core.schema import Column, Schema
from headrace.core.sqlstate import SqlState
from headrace.core.types import BOOLEAN, VARCHAR, has_map
from headrace.core.wording import with_article
from headrace.planner.sink_properties import SchemaPlaces, checked_layout, guarantee, subjects
from headrace.sql.ast import Properties
from headrace.sql.statements.relation import (
    CreateRelation,
    DescribeRelation,
    DropRelation,
    ListRelations,
)
from headrace.statements.base import (
    Execution,
    Outcome,
    UncheckedError,
    handles,
    moment_text,
    nothing,
    now,
    relation_ddl,
)
from headrace.statements.dropping import drop, ownership
from headrace.statements.inference import with_columns
from headrace.statements.listing import LISTED_RELATIONS
from headrace.statements.relation_properties import entity_format, row_format
from headrace.statements.system import system_relation_of
from headrace.statements.tables import declared_table, refuse_without_tables

_KINDS = {
    "STREAM": RelationKind.STREAM,
    "CHANGELOG": RelationKind.CHANGELOG,
    "TABLE": RelationKind.TABLE,
    "MATERIALIZED VIEW": RelationKind.MATERIALIZED_VIEW,
    "VIEW": RelationKind.VIEW,
}


def creation(name: RelationName, run: Execution) -> Iterator[Requirement]:
    """Yield the requirements of a new relation of that name."""
    schema = run.catalog.schema(name.database, name.schema)
    yield Requirement(Privilege.USAGE, schema)
    yield Requirement(Privilege.CREATE_RELATION, schema)


def _creation(statement: CreateRelation, run: Execution) -> Iterator[Requirement]:
    name = run.relation_name(statement.name)
    yield from creation(name, run)
    if run.catalog.relation(name) is None:
        yield Requirement(Privilege.USAGE, run.store(store_name(statement.properties))[0])


@handles(CreateRelation, requires=_creation, checked=True)
async def create_relation(statement: CreateRelation, run: Execution) -> Outcome:
    """Defines a relation over an entity. If the entity does not exist and the statement specifies its layout, it is created."""
    return Outcome(await asyncio.to_thread(_created, statement, run))


def _created(statement: CreateRelation, run: Execution) -> ResultSet:
    existing = existing_relation(statement, run)
    if existing is not None:
        return relation_ddl(existing, "CREATE", "already exists")
    declared = declare(statement, run)
    if declared.make is not None:
        declared.make()
    run.catalog.create_relation(declared.relation)
    return relation_ddl(declared.relation, "CREATE", f"was created{declared.note}")


@dataclass(frozen=True)
class Declared:
    """A relation that a statement declares: nothing has been created yet.

    `make` creates its entity with `layout` if it is missing; `note` is added to the response.
    """

    relation: Relation
    make: Callable[[], object] | None = None
    layout: Mapping[str, int] = field(default_factory=dict)
    note: str = ""


def existing_relation(statement: CreateRelation, run: Execution) -> Relation | None:
    """Return the existing relation of that name if IF NOT EXISTS allows it; raises UserError 42P17 without."""
    name = run.relation_name(statement.name)
    existing = run.catalog.relation(name)
    if existing is None or (statement.if_not_exists and run.knows(existing)):
        return existing
    raise UserError(
        SqlState.DUPLICATE_RELATION,
        f"the relation {name} already exists",
        hint="Choose another name, or drop it first.",
        span=statement.name.span,
    )


def declare(statement: CreateRelation, run: Execution) -> Declared:
    """Runs all checks, and contacts the store: use a thread. Raises UserError or ExternalError."""
    store, kind = run.store(store_name(statement.properties))
    if statement.kind == "TABLE":
        refuse_without_tables(kind, statement.span)
        statement, note = _with_columns(statement, run, store, kind)
        relation, make = declared_table(statement, _schema(statement), run, store, kind)
        return Declared(relation, make, note=note)
    if kind.source is None and kind.record_sink is None:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            kind.no_streams
            or f"{with_article(kind.label)} store contains tables, not streams and changelogs",
            hint="Use CREATE TABLE.",
            span=statement.properties.span(dialect.STORE.name) or statement.name.span,
        )
    statement, note = _with_columns(statement, run, store, kind)
    specs = of_scope((*dialect.DIALECT, *kind.properties), Scope.RELATION)
    reader = PropertyReader(statement.properties.entries, specs, what=f"a {statement.kind.lower()}")
    relation = _defined(statement, run, store, kind, reader)
    # The defaults that its readers and writers will have are checked now, where the user can see it.
    of_sources = [
        entry
        for entry in statement.properties.entries
        if any(spec.matches_name(entry.key) for spec in of_scope(specs, Scope.SOURCE))
    ]

    def known_store(name: str) -> Store | None:
        stored = run.catalog.store(name)
        return stored if run.knows(stored) else None

    read = source_properties(relation, of_sources, kind, known_store)
    reader.leave(Scope.SOURCE)
    guarantee(reader, kind.record_sink, kind)
    subjects(reader, relation.format.value, relation.format.key)
    if kind.record_sink is not None:
        kind.record_sink.options(reader)
    make, layout = _entity_made(reader, run, kind, store, relation, statement.name.span)
    reader.leave(Scope.ENTITY)
    reader.finish()
    if kind.row_source is not None and kind.row_source.check is not None and not run.checking:
        kind.row_source.check(
            store.properties,
            relation.entity or (),
            relation.schema,
            read.options,
            relation.kind is RelationKind.CHANGELOG,
        )
    return Declared(relation, make, layout, note + _folding_note(statement))


def _with_columns(
    statement: CreateRelation, run: Execution, store: Store, kind: StoreDescriptor
) -> tuple[CreateRelation, str]:
    if statement.columns:
        return statement, ""
    if run.checking:
        raise UncheckedError
    completed, notes = with_columns(statement, run, store, kind)
    if not notes:
        return completed, ""
    # Nobody reads the columns before they take effect, and a sample does not prove that later records have a value.
    columns = tuple(replace(column, nullable=True) for column in completed.columns)
    return replace(completed, columns=columns), f"; its columns were {'; '.join(notes)}"


def _folding_note(statement: CreateRelation) -> str:
    """Return a remark on fields read for columns with unquoted capitals: the records may contain the capitals."""
    start = statement.span.start
    folded = [
        (written, column.name.name)
        for column in statement.columns
        if (span := column.name.span) is not None
        and (written := statement.text[span.start - start : span.end - start]) != column.name.name
        and written.lower() == column.name.name
    ]
    if not folded:
        return ""
    fields = ", ".join(f"{name} for {written}" for written, name in folded)
    return (
        f"; of the records it reads {fields}: names fold to lower case, put them in double quotes to keep the "
        "case"
    )


@handles(
    DropRelation,
    requires=lambda statement, run: ownership(run.relation(statement.name), run, cascade=statement.cascade),
    checked=True,
)
async def drop_relation(statement: DropRelation, run: Execution) -> Outcome:
    """Drop a relation. Refused with 2BP01 while a query that is not terminated reads or writes it, unless CASCADE ends the query; the
    entity stays."""
    relation = relation_of_kind(statement.kind, statement.name, run, "DROP")
    note = await drop(relation, run, cascade=statement.cascade, span=statement.name.span)
    return Outcome(relation_ddl(relation, "DROP", f"was dropped{note}"))


def relation_of_kind(kind: str, name: QualifiedName, run: Execution, verb: str) -> Relation:
    """Return the relation of a statement, which must be of the stated kind; raises UserError 3D020."""
    relation = run.relation(name)
    expected = _KINDS.get(kind)
    word = relation.kind.value.replace("_", " ")
    if expected not in (None, relation.kind):
        raise UserError(
            SqlState.RELATION_NOT_FOUND,
            f"{relation.name} is a {word}, not a {kind.lower()}",
            hint=f"Write {verb} {word.upper()} {relation.name}.",
            span=name.span,
        )
    return relation


@handles(ListRelations, requires=nothing)
async def list_relations(statement: ListRelations, run: Execution) -> Outcome:
    """List the relations of the named schema, of the session's database, or all."""
    parts = statement.schema.parts if statement.schema else ()
    if parts:
        database: str | None = run.database_of(parts[0] if len(parts) == 2 else None)
    else:
        database = run.listed_database(None)
    schema = parts[-1].name if parts else None
    kind = _KINDS.get(statement.kind or "")
    listed = await LISTED_RELATIONS.rows(
        run, database_name=database, schema_name=schema, relation_type=kind.value if kind else None
    )
    if kind is None or listed.rows:
        return Outcome(listed)
    # In other systems SHOW TABLES lists all relations; here TABLE is one of four kinds, and few databases contain a TABLE.
    return Outcome(replace(listed, message="LIST RELATIONS lists relations of every kind."))


@handles(
    DescribeRelation,
    requires=lambda statement, run: [Requirement(Privilege.SELECT, _described(statement.name, run))],
)
async def describe_relation(statement: DescribeRelation, run: Execution) -> Outcome:
    relation = _described(statement.name, run)
    if statement.columns:
        columns = [("Name", VARCHAR), ("Type", VARCHAR), ("Nullable", BOOLEAN), ("IsPrimaryKey", BOOLEAN)]
        rows = [
            (column.name, str(column.type), column.nullable, column.name in relation.schema.primary_key)
            for column in relation.schema.columns
        ]
        return Outcome(result(columns, rows))
    facts = [
        ("Name", relation.name.name),
        ("Database", relation.name.database),
        ("Schema", relation.name.schema),
        ("Type", relation.kind.value),
        ("State", relation.state),
        ("Owner", relation.owner),
        ("Store", relation.store),
        ("Entity", path_text(relation.entity) if relation.entity else None),
        ("PrimaryKey", ", ".join(relation.schema.primary_key) or None),
        ("Timestamp", relation.format.timestamp),
        ("ValueFormat", relation.format.value.format if _has_records(relation) else None),
        ("KeyFormat", relation.format.key.format if relation.format.key else None),
        ("KeyType", str(relation.format.key_type) if relation.format.key_type else None),
        ("Properties", json.dumps(dict(relation.properties))),
        ("Description", relation.description),
        ("CreatedAt", moment_text(relation.created_at)),
    ]
    if relation.kind is RelationKind.VIEW and relation.definition is not None:
        facts.append(("Definition", relation.definition.sql))
    return Outcome(result([("Property", VARCHAR), ("Value", VARCHAR)], facts))


def _described(name: QualifiedName, run: Execution) -> Relation:
    if len(name.parts) == 3:
        full = RelationName(*name.path)
        system = system_relation_of(full)
        if system is not None:
            return system.relation(full.database)
    return run.relation(name)


def _has_records(relation: Relation) -> bool:
    return relation.kind in (RelationKind.STREAM, RelationKind.CHANGELOG)


def store_name(properties: Properties) -> Identifier | None:
    """Return the store that a relation's properties name."""
    name = value_of(properties.entries, dialect.STORE)
    return Identifier(name, properties.span(dialect.STORE.name)) if name else None


def _defined(
    statement: CreateRelation,
    run: Execution,
    store: Store,
    kind: StoreDescriptor,
    reader: PropertyReader,
) -> Relation:
    name = run.relation_name(statement.name)
    schema = _schema(statement)
    relation_kind = _KINDS[statement.kind]
    moment = now()
    reader.take(dialect.STORE)
    return Relation(
        name=name,
        kind=relation_kind,
        schema=schema,
        owner=run.role,
        created_at=moment,
        updated_at=moment,
        store=store.name,
        entity=kind.path(reader, name.name.lower()),
        format=entity_format(reader, schema, SchemaPlaces(store.schema_registry, run.descriptors))
        if kind.row_source is None
        else row_format(reader, schema, relation_kind, kind.row_source.formats),
        properties={
            key: value or ""
            for key, value in statement.properties.items()
            if not dialect.STORE.matches_name(key)
        },
        id=str(uuid.uuid4()),
    )


def _schema(statement: CreateRelation) -> Schema:
    primary_key = tuple(identifier.name for identifier in statement.primary_key)
    seen: set[str] = set()
    for column in statement.columns:
        if column.name.name in seen:
            raise UserError(
                SqlState.INVALID_RELATION_DEFINITION,
                f"the column {column.name} is declared twice",
                span=column.name.span,
            )
        seen.add(column.name.name)
    for identifier in statement.primary_key:
        if identifier.name not in seen:
            raise UserError(
                SqlState.UNDEFINED_COLUMN,
                f"the primary key names {identifier}, which is not a column",
                hint=f"Columns: {', '.join(sorted(seen))}.",
                span=identifier.span,
            )
        kind = next(column.type for column in statement.columns if column.name.name == identifier.name)
        if has_map(kind):
            raise UserError(
                SqlState.DATATYPE_MISMATCH,
                f"a key must be of a comparable type, found {kind}",
                hint="Use another column as the primary key.",
                span=identifier.span,
            )
    if statement.kind == "CHANGELOG" and statement.columns and not primary_key:
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            "a changelog requires a primary key",
            hint="Add PRIMARY KEY (column, …) after the columns, or CREATE STREAM instead.",
            span=statement.span,
        )
    if statement.kind == "STREAM" and primary_key:
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            "a stream has no primary key",
            hint="CREATE CHANGELOG instead, or leave PRIMARY KEY out.",
            span=statement.primary_key[0].span,
        )
    columns = tuple(
        Column(column.name.name, column.type, column.nullable and column.name.name not in primary_key)
        for column in statement.columns
    )
    return Schema(columns, primary_key)


def _entity_made(
    reader: PropertyReader,
    run: Execution,
    kind: StoreDescriptor,
    store: Store,
    relation: Relation,
    name_span: Span | None,
) -> tuple[Callable[[], object] | None, Mapping[str, int]]:
    """Return a function that creates the relation's entity if it is missing and the statement says how to partition it; and the
    partitioning."""
    entity, admin = relation.entity or (), kind.entities
    if admin is None:
        return None, {}
    if run.checking:
        return None, {}
    if (pattern := kind.pattern(entity)) is not None:
        _check_pattern(reader, kind, admin, store, relation, pattern, name_span)
        return None, {}
    description = run.described(store, kind, entity)
    if description is not None:
        checked_layout(reader, kind, entity, description)
        return None, {}
    if not any(reader.is_set(spec) for spec in kind.layout.values()):
        names = " and ".join(f"'{spec.name}'" for spec in kind.layout.values())
        raise UserError(
            SqlState.ENTITY_NOT_FOUND,
            f"the entity {path_text(entity)!r} does not exist in the store {store.name}",
            hint=f"Specify {names} to create it, or name an existing entity."
            if names
            else "Name an existing entity: LIST ENTITIES shows them.",
            span=name_span,
        )
    layout = checked_layout(reader, kind, entity, None)
    return partial(admin.create_entity, store.properties, entity, reader), layout


def _check_pattern(
    reader: PropertyReader,
    kind: StoreDescriptor,
    admin: EntityAdmin,
    store: Store,
    relation: Relation,
    pattern: EntityPattern,
    name_span: Span | None,
) -> None:
    """Raises UserError 0A000 for a changelog over several entities, 3D007 if a named entity is missing or none matches, and the errors of
    describing a named entity."""
    text = path_text(relation.entity or ())
    if relation.kind is not RelationKind.STREAM:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"{text!r} matches several entities, which only a stream can read: their records have no common "
            "order",
            hint="CREATE STREAM over them, or a changelog over one of them.",
            span=name_span,
        )
    made_with = (spec for spec in of_scope(kind.properties, Scope.ENTITY) if reader.is_set(spec))
    if (unused := next(made_with, None)) is not None:
        raise reader.bad(unused, "left out of a stream over several entities, which must exist already")
    for name in pattern.names:
        admin.describe_entity(store.properties, name)  # which says why it cannot be read
    if pattern.names:
        return
    if not any(pattern.matches((name,)) for name, _ in admin.list_entities(store.properties, ())):
        raise UserError(
            SqlState.ENTITY_NOT_FOUND,
            f"no entity of the store {store.name} matches {text!r} yet",
            hint="LIST ENTITIES shows the existing entities.",
            span=name_span,
        )
