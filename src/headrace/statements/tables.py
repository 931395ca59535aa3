"""TABLE: a relation over a store's own table. ADR 21."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from functools import partial

from headrace.analyzer import properties as dialect
from headrace.catalog.objects import Relation, RelationKind, Store
from headrace.connectors.base import RowSink, StoreDescriptor
from headrace.core.errors import InternalError, Span, UserError
from headrace.core.names import EntityPath, RelationName, path_text
from headrace.core.properties import PropertyReader, Scope, of_scope, stored
from headrace.core.schema import Schema
from headrace.core.sqlstate import SqlState
from headrace.core.wording import with_article
from headrace.planner.sink_properties import guarantee, table_reader
from headrace.planner.sinks import TableSink
from headrace.sql.statements.relation import CreateRelation
from headrace.statements.base import Execution, facet, now


def refuse_without_tables(kind: StoreDescriptor, span: Span | None) -> None:
    """Raises UserError 0A000 for a store type that has no tables."""
    if kind.row_sink is None:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"{with_article(kind.label)} store contains streams and changelogs, not tables",
            hint="Use CREATE STREAM or CREATE CHANGELOG.",
            span=span,
        )


def declared_table(
    statement: CreateRelation, schema: Schema, run: Execution, store: Store, kind: StoreDescriptor
) -> tuple[Relation, Callable[[], object] | None]:
    """Return the relation of CREATE TABLE (…), and a function that creates its entity if missing; an existing entity is checked against
    the columns.

    Raises UserError 3D008, 42P16, 42703, 3D007, and ExternalError.
    """
    reader = table_reader(statement.properties.entries, Scope.RELATION, kind)
    sink = _row_sink(kind)
    name = run.relation_name(statement.name)
    entity = kind.path(reader, name.name.lower())
    reader.take(dialect.STORE)
    guarantee(reader, sink, kind)
    options = sink.options(reader)
    make = None
    if not run.checking and (store.name, entity) not in run.coming:
        if exists(store, kind, entity):
            _check(sink, store, kind, entity, schema, options)
        else:
            make = partial(sink.create, store.properties, entity, schema, reader)
    reader.leave(Scope.ENTITY)
    reader.finish()
    properties = {
        key: value or "" for key, value in statement.properties.items() if not dialect.STORE.matches_name(key)
    }
    return _table(name, schema, run.role, store.name, entity, properties), make


def _check(
    sink: RowSink,
    store: Store,
    kind: StoreDescriptor,
    entity: EntityPath,
    schema: Schema,
    options: Mapping[str, str],
) -> None:
    """Check the entity for reading; a table that no query can write may still be readable, and writers check again."""
    try:
        sink.check(store.properties, entity, schema, options, bool(schema.primary_key))
    except UserError as unfit:
        check = kind.table_source.check if kind.table_source is not None else None
        if check is None:
            raise
        try:
            check(store.properties, entity, schema)
        except UserError:
            raise unfit from None


def new_table(sink: TableSink, role: str) -> Relation:
    """Return the relation of CREATE TABLE … AS."""
    return _table(sink.relation, sink.schema, role, sink.store, sink.entity, dict(sink.properties))


def check_table(sink: TableSink, store: Store, kind: StoreDescriptor) -> None:
    """Raises UserError 42P16, 42703 or 3D007 when the entity is not what the query writes, ExternalError."""
    _row_sink(kind).check(store.properties, sink.entity, sink.schema, sink.options, bool(sink.key_columns))


def create_table(sink: TableSink, store: Store, kind: StoreDescriptor) -> None:
    """Create the entity of a sink with the properties in the sink. Raises UserError 42710, ExternalError."""
    made_with = stored(sink.creation or {})
    reader = PropertyReader(made_with, of_scope(kind.properties, Scope.ENTITY), what="a table")
    _row_sink(kind).create(store.properties, sink.entity, sink.schema, reader)


def exists(store: Store, kind: StoreDescriptor, entity: EntityPath) -> bool:
    """True if an entity of that path exists."""
    try:
        facet(kind.entities, kind, f"to find {path_text(entity)}", None).describe_entity(
            store.properties, entity
        )
    except UserError as error:
        if error.state is not SqlState.ENTITY_NOT_FOUND:
            raise
        return False
    return True


def _row_sink(kind: StoreDescriptor) -> RowSink:
    if kind.row_sink is None:
        raise InternalError(f"expected a store type with tables, found {kind.type}")
    return kind.row_sink


def _table(
    name: RelationName, schema: Schema, role: str, store: str, entity: EntityPath, properties: dict[str, str]
) -> Relation:
    moment = now()
    return Relation(
        name=name,
        kind=RelationKind.TABLE,
        schema=schema,
        owner=role,
        created_at=moment,
        updated_at=moment,
        store=store,
        entity=entity,
        properties=properties,
        id=str(uuid.uuid4()),
    )
