"""The columns of an entity that a statement does not list: from its store, from the schema registry, or from a sample of its records.

Source: dialect section 9. A registry has the schemas of a topic's records under the subjects `<topic>-value` and `<topic>-key`. Records of
JSON and CSV carry no schema, so that a sample is read (ADR 73).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from headrace.analyzer import properties as dialect
from headrace.catalog.objects import Store
from headrace.connectors.base import Sampler, StoreDescriptor
from headrace.connectors.schema_registry.client import RegisteredSchema, RegistryClient
from headrace.core.errors import HeadraceError, UserError
from headrace.core.names import EntityPath, Identifier, path_text
from headrace.core.properties import PropertyReader, Scope, of_scope, value_of
from headrace.core.schema import Column
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT, VARCHAR, DataType, Struct
from headrace.core.wording import counted
from headrace.formats.avro_schema import columns_of, type_of
from headrace.formats.known import AnyFormat
from headrace.formats.protobuf import Protobuf
from headrace.formats.protobuf_schema import Descriptors, decoded, of_text
from headrace.formats.sampling import csv_columns, json_columns
from headrace.planner.keys import WITH_SCHEMAS
from headrace.planner.sink_properties import SchemaPlaces, named_format, subject
from headrace.sql.ast import Properties, Property
from headrace.sql.statements.relation import ColumnDefinition, CreateRelation
from headrace.statements.base import Execution, facet

_LIST_THEM = "List the columns: (name TYPE, …)."


@dataclass(frozen=True)
class Inferred:
    """Inferred rows of an entity; `key_type` is set if only the type of the records' keys is known.

    `notes` are remarks on what a sample leaves open.
    """

    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    key_type: DataType | None = None
    notes: tuple[str, ...] = ()


def with_columns(
    statement: CreateRelation, run: Execution, store: Store, kind: StoreDescriptor
) -> tuple[CreateRelation, tuple[str, ...]]:
    """Return the statement with the columns and key that its store, its registry or a sample shows, and remarks on them. Blocks.

    Raises UserError 0A000 (no source of columns), 3D009 or 3D010 (no registry, no subject), 3D021, 42P16, and the errors of the store or
    the registry.
    """
    inference = inferred(statement.properties, run, store, kind, statement.name.last.name)
    changelog = statement.kind == "CHANGELOG"
    if kind.row_source is not None and kind.row_source.changes and statement.kind == "STREAM":
        columns = change_columns(inference.columns, kind.row_source.metadata)
        inference = Inferred(columns, notes=inference.notes)
    if changelog and not inference.primary_key:
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            "a changelog requires a primary key, and neither the statement nor the schema specifies one",
            hint="List the columns with PRIMARY KEY (column, …) after them, or CREATE STREAM instead.",
            span=statement.span,
        )
    span = statement.properties.span(dialect.KEY_FORMAT.name)
    properties = statement.properties
    if inference.key_type is not None and span is not None:
        key = Property(dialect.KEY_TYPE.name, str(inference.key_type), span)
        properties = Properties((*properties.entries, key))
    completed = replace(
        statement,
        columns=tuple(
            ColumnDefinition(Identifier(column.name), column.type, column.nullable)
            for column in inference.columns
        ),
        primary_key=() if statement.kind == "STREAM" else tuple(map(Identifier, inference.primary_key)),
        properties=properties,
    )
    return completed, inference.notes


def change_columns(columns: tuple[Column, ...], metadata: Struct) -> tuple[Column, ...]:
    """Return the columns of a stream over a store of rows, which holds changes of rows."""
    row = Struct(tuple((column.name, column.type) for column in columns))
    kinds = {"op": VARCHAR, "ts_ms": BIGINT, "before": row, "after": row, "source": metadata}
    return tuple(Column(name, item) for name, item in kinds.items())


def inferred(
    properties: Properties, run: Execution, store: Store, kind: StoreDescriptor, relation: str
) -> Inferred:
    """Return the inferred rows of the entity that a relation's properties name; raises as `with_columns`."""
    specs = of_scope((*dialect.DIALECT, *kind.properties), Scope.RELATION)
    reader = PropertyReader(properties.entries, specs, what="a relation")
    entity = kind.path(reader, relation)
    if not entity[-1]:
        raise UserError(
            SqlState.MISSING_PARAMETER,
            "the statement does not name the entity whose columns to generate",
            hint=(
                "Name the entity: GENERATE COLUMNS WITH ('topic' = …, 'value.format' = …), or with the "
                "property of its store."
            ),
        )
    if kind.pattern(entity) is not None:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"{path_text(entity)!r} matches several entities, whose columns may differ",
            hint=_LIST_THEM,
        )
    span = reader.span(dialect.VALUE_FORMAT)
    name = value_of(properties.entries, dialect.VALUE_FORMAT)
    rows = kind.record_source is None and kind.record_sink is None
    if kind.sampler is not None and (name == "csv" or (name == "json" and not rows)):
        inference = _sampled(kind.sampler, entity, store, reader, name)
        return inference if rows else _with_key(inference, entity, reader, run, store)
    if rows:
        admin = facet(kind.entities, kind, "the inference of columns", None, _LIST_THEM)
        described = admin.describe_entity(store.properties, entity)
        if not described.columns:
            raise UserError(
                SqlState.INVALID_RELATION_DEFINITION,
                f"the store has no columns for {path_text(entity)}",
                hint=_LIST_THEM,
            )
        return Inferred(described.columns, described.key, notes=described.notes)
    if name not in WITH_SCHEMAS:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "columns can be inferred for AVRO and PROTOBUF records, from the schema of a registry or a descriptor "
            "source, and for JSON and CSV records, from a sample",
            hint=_LIST_THEM,
            span=span,
        )
    places = SchemaPlaces(store.schema_registry, run.descriptors)
    try:
        if not reader.is_set(dialect.VALUE_DESCRIPTOR):
            _client(run, store)
        value = named_format(name, reader, dialect.VALUE_DESCRIPTOR, places, span)
        columns = _columns(value, run, store, _subject(reader, value, entity, "value"))
        return _with_key(Inferred(columns), entity, reader, run, store)
    except HeadraceError as error:
        error.span = error.span or span
        raise


def _sampled(
    sampler: Sampler, entity: EntityPath, store: Store, reader: PropertyReader, name: str
) -> Inferred:
    """Return the columns of a sample. Raises UserError 42P16 for an entity without records, 22P02 for records of another format."""
    span = reader.span(dialect.VALUE_FORMAT)
    from_start = reader.take(dialect.POSITION) == "earliest"
    sample = sampler.sample(store.properties, entity, reader, from_start=from_start)
    if not sample.records:
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            f"{path_text(entity)!r} has no records from which columns can be inferred",
            hint=f"{_LIST_THEM} Or write a record first, for example with INSERT INTO ENTITY.",
            span=span,
        )
    try:
        if name == "csv":
            delimiter = reader.take(dialect.DELIMITER) or ","
            sampled = csv_columns(sample.records, delimiter, sample.header)
        else:
            sampled = json_columns(sample.records)
    except ValueError as error:
        raise UserError(
            SqlState.INVALID_RECORD,
            f"none of {counted(len(sample.records), 'sampled record')} of {path_text(entity)!r} is {name.upper()} with columns: {error}",
            hint=f"Check 'value.format', or {_LIST_THEM[0].lower()}{_LIST_THEM[1:]}",
            span=span,
        ) from None
    return Inferred(
        sampled.columns, notes=(f"inferred from {counted(sampled.records, 'record')}", *sampled.notes)
    )


def _subject(
    reader: PropertyReader, layout: AnyFormat, entity: EntityPath, part: Literal["value", "key"]
) -> str:
    naming = subject(reader, layout, part)
    message = layout.message if isinstance(layout, Protobuf) else None
    return naming.named(entity[-1], part, naming.record or message or "")


def _columns(layout: AnyFormat, run: Execution, store: Store, subject: str) -> tuple[Column, ...]:
    if isinstance(layout, Protobuf):
        messages, message = _messages(layout, run, store, subject)
        return messages.columns(message)
    client = _client(run, store)
    schema = _latest(client, subject, layout.label)
    return columns_of(schema.text, client.resolved(schema))


def _messages(layout: Protobuf, run: Execution, store: Store, subject: str) -> tuple[Descriptors, str]:
    if layout.descriptors is not None and layout.message is not None:
        return decoded(layout.descriptors), layout.message
    client = _client(run, store)
    schema = _latest(client, subject, layout.label)
    messages = of_text(schema.text, client.referenced(schema))
    return messages, messages.named(layout.message)


def _with_key(
    inference: Inferred,
    entity: EntityPath,
    reader: PropertyReader,
    run: Execution,
    store: Store,
) -> Inferred:
    name, span = reader.take(dialect.KEY_FORMAT), reader.span(dialect.KEY_FORMAT)
    stated = any(reader.is_set(spec) for spec in (dialect.KEY_TYPE, dialect.KEY_COLUMNS))
    if stated or name not in WITH_SCHEMAS:
        return inference
    places = SchemaPlaces(store.schema_registry, run.descriptors)
    layout = named_format(name, reader, dialect.KEY_DESCRIPTOR, places, span)
    subject = _subject(reader, layout, entity, "key")
    if isinstance(layout, Protobuf):
        key_columns = _columns(layout, run, store, subject)
        key_type: DataType = Struct(tuple((column.name, column.type) for column in key_columns))
    else:
        client = _client(run, store)
        schema = _latest(client, subject, layout.label)
        key_type = type_of(schema.text, client.resolved(schema))
    names = tuple(name for name, _ in key_type.fields) if isinstance(key_type, Struct) else ()
    of_value = {column.name: column.type for column in inference.columns}
    fits = isinstance(key_type, Struct) and all(of_value.get(name) == item for name, item in key_type.fields)
    return replace(inference, primary_key=names if fits else (), key_type=key_type)


def _client(run: Execution, store: Store) -> RegistryClient:
    client = run.registry_client(store)
    if client is None:
        raise UserError(
            SqlState.SCHEMA_REGISTRY_NOT_FOUND,
            f"the store {store.name!r} has no schema registry",
            hint=f"UPDATE STORE {Identifier(store.name)} WITH ('schema_registry.name' = …), or list the columns.",
        )
    return client


def _latest(client: RegistryClient, subject: str, kind: str) -> RegisteredSchema:
    latest = client.latest(subject)
    if latest is None:
        raise UserError(
            SqlState.DESCRIPTOR_NOT_FOUND,
            f"the schema registry has no subject {subject!r}",
            hint=f"Check 'topic', and the registry of the store; or {_LIST_THEM[0].lower()}{_LIST_THEM[1:]}",
        )
    if latest.type != kind:
        raise UserError(
            SqlState.DATATYPE_MISMATCH,
            f"the schema of the subject {subject!r} is {latest.type}, not {kind}",
            hint=f"Set the format to {latest.type}.",
        )
    return latest
