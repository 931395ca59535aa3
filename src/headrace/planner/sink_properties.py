"""What a sink's WITH (…) says, read of a `PropertyReader`. Source: dialect section 9.1."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.analyzer import properties as dialect
from headrace.analyzer.catalog_view import suggestion
from headrace.analyzer.plan import LogicalPlan
from headrace.catalog.objects import Relation, RelationKind
from headrace.connectors.base import EntityDescription, Guarantee, RecordSink, RowSink, StoreDescriptor
from headrace.core.errors import Span, UserError
from headrace.core.names import EntityPath, path_text, printed
from headrace.core.properties import Entry, PropertyReader, PropertySpec, Scope, Specs, of_scope
from headrace.core.schema import Schema
from headrace.core.sqlstate import SqlState
from headrace.core.types import Struct
from headrace.formats.avro import Avro
from headrace.formats.base import TextFormat
from headrace.formats.json import Json
from headrace.formats.known import VALUE_FORMATS, AnyFormat, format_of


def sink_reader(
    given: Iterable[Entry],
    scope: Scope,
    connector: StoreDescriptor | None,
    *,
    what: str = "a sink",
    relation: Relation | None = None,
) -> PropertyReader:
    """Reads what a sink of a store type may be given in `scope`; raises UserError 3D008 for anything else.

    The `relation` that is written, if it is there, says how it is to be, where the statement does not: not how its key is made.
    """
    own = of_scope(connector.properties, scope) if connector is not None else ()
    specs = (*of_scope(dialect.DIALECT, scope), *own)
    return PropertyReader(given, specs, what=what, defaults=_said(relation, own))


def table_reader(
    given: Iterable[Entry], scope: Scope, connector: StoreDescriptor, *, relation: Relation | None = None
) -> PropertyReader:
    """As `sink_reader`, of a TABLE: it has no records, of whose format and time something could be said."""
    own = of_scope(connector.properties, scope)
    specs = (*of_scope(dialect.OF_TABLES, scope), *own)
    return PropertyReader(given, specs, what="a table", defaults=_said(relation, own))


def _said(relation: Relation | None, own: Specs) -> dict[str, str]:
    properties = relation.properties if relation is not None else {}
    return {
        name: value
        for name, value in properties.items()
        if any(spec.is_called(name) for spec in (dialect.GUARANTEE, *own))
    }


def record_sink(connector: StoreDescriptor, kind: RelationKind, span: Span | None) -> RecordSink:
    """How a store type is written; raises UserError 0A000 when it cannot be, or not as such a relation."""
    sink = connector.record_sink
    if sink is None or (kind is RelationKind.CHANGELOG and not sink.upserts):
        what = "be written by queries" if sink is None else f"hold a {kind.name}"
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED, f"stores of type {connector.label} cannot {what}", span=span
        )
    return sink


def row_sink(connector: StoreDescriptor, logical: LogicalPlan, span: Span | None) -> RowSink:
    """How tables of a store type are written; raises UserError 0A000 when they cannot be, or not by such a query."""
    sink = connector.row_sink
    if sink is None:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"stores of type {connector.label} hold no tables that a query could write",
            hint="Use CREATE STREAM or CREATE CHANGELOG." if connector.record_sink is not None else None,
            span=span,
        )
    if not sink.upserts and not logical.traits.insert_only:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"tables of {connector.label} take new rows only, and rows of the query are updated and deleted",
            hint="Write rows that come once and stay, as those of a stream or of a time window's groups; or keep the query's result in a "
            "MATERIALIZED VIEW.",
            span=span,
        )
    return sink


def creation_options(
    reader: PropertyReader,
    connector: StoreDescriptor,
    entity: EntityPath,
    *,
    existing: EntityDescription | None,
    source: EntityDescription | None,
) -> dict[str, str] | None:
    """The properties with which a missing entity is made, those of its layout as `source` has them if nothing is said.

    None when it exists. Raises UserError 3D008 if its layout is contradicted, 3D021 if a source of another type has none like it.
    """
    layout = checked_layout(reader, connector, entity, existing)
    settings = {
        spec.name + name: value
        for spec in of_scope(connector.properties, Scope.ENTITY)
        if spec.open
        for name, value in reader.take_all(spec).items()
    }
    if existing is not None:
        return None
    for name, spec in connector.layout.items():
        if name in layout or source is None:
            continue
        other = f"The leftmost source is of another store type and has no {name} to take over."
        layout[name] = source.layout.get(name) or reader.require(spec, hint=other)
    return settings | {connector.layout[name].name: str(number) for name, number in layout.items()}


def checked_layout(
    reader: PropertyReader, connector: StoreDescriptor, entity: EntityPath, existing: EntityDescription | None
) -> dict[str, int]:
    """What is said of an entity's layout; raises UserError 3D008 if one that exists has another."""
    said: dict[str, int] = {}
    for name, spec in connector.layout.items():
        number = reader.take(spec)
        if number is None:
            continue
        said[name] = number
        actual = existing.layout[name] if existing is not None else number
        if number != actual:
            raise UserError(
                SqlState.INVALID_PARAMETER,
                f"the entity {path_text(entity)!r} exists with {actual} {name}, not {number}",
                hint=f"Leave '{spec.name}' out, or say {actual}.",
                span=reader.span(spec),
            )
    return said


def record_format(reader: PropertyReader, spec: PropertySpec[str], formats: tuple[str, ...]) -> str | None:
    """A format, one of `formats`; raises UserError 0A000 (one that is to come) or 3D008."""
    value = reader.take(spec)
    if value is not None and value not in formats:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"'{spec.name}' cannot be {value.upper()} yet",
            hint=f"Use {' or '.join(formats).upper()}.",
            span=reader.span(spec),
        )
    return value


_DETAILS: dict[str, PropertySpec[Any]] = {
    "timestamps": dialect.TIMESTAMP_FORMAT,
    "delimiter": dialect.DELIMITER,
}
"""What else may be said of a format, by the field that it becomes."""


def value_format(
    reader: PropertyReader,
    schema: Schema,
    span: Span | None,
    *,
    registry: str | None,
    inherited: AnyFormat | None = None,
) -> AnyFormat:
    """How the values of records of `schema` are laid out: what is not said is as in the `inherited` format, where it can be.

    `registry` is that of the records' store.

    Raises UserError 3D021 (nothing is said), 3D008, 42P16 (the columns do not fit) or 0A000.
    """
    name = record_format(reader, dialect.VALUE_FORMAT, VALUE_FORMATS)
    if name is None and inherited is None:
        raise UserError(
            SqlState.MISSING_PARAMETER,
            "a relation over an entity needs the property 'value.format'",
            hint="Add 'value.format' = JSON to WITH (…).",
        )
    if inherited is None or name not in (None, inherited.format) or inherited.format == "avro":
        layout = _named(name or "avro", registry, reader.span(dialect.VALUE_FORMAT) or span)
    else:
        layout = inherited
    details: dict[str, str] = {}
    if isinstance(layout, TextFormat) and isinstance(inherited, TextFormat) and inherited.timestamps:
        details["timestamps"] = inherited.timestamps
    for field, spec in _DETAILS.items():
        value = reader.take(spec)
        if value is not None and field not in type(layout).model_fields:
            raise reader.bad(spec, f"left out of {layout.label} records")
        if value is not None:
            details[field] = value
    layout = layout.model_copy(update=details)
    refusal = layout.refusal(Struct(tuple((column.name, column.type) for column in schema.columns)))
    if refusal is not None:
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            f"{layout.label} {refusal}",
            hint="Use 'value.format' = JSON, or other columns.",
            span=reader.span(dialect.VALUE_FORMAT) or span,
        )
    return layout


def key_format(
    name: str | None, value: AnyFormat, *, registry: str | None, span: Span | None
) -> AnyFormat | None:
    """How record keys are laid out, by a format's name; times in them are written as in the `value`. Raises UserError 3D009."""
    if name is None:
        return None
    if name == "json":
        return Json(timestamps=value.timestamps if isinstance(value, TextFormat) else None)
    return _named(name, registry, span)


def _named(name: str, registry: str | None, span: Span | None) -> AnyFormat:
    if name != "avro":
        return format_of({"format": name})
    if registry is None:
        raise UserError(
            SqlState.SCHEMA_REGISTRY_NOT_FOUND,
            "AVRO records need the schema registry of their store, which has none",
            hint="CREATE SCHEMA_REGISTRY, then UPDATE STORE … WITH ('schema_registry.name' = name).",
            span=span,
        )
    return Avro(registry=registry)


def guarantee(
    reader: PropertyReader, sink: RecordSink | RowSink | None, connector: StoreDescriptor
) -> Guarantee:
    """The delivery guarantee, at least once if nothing is said. Raises UserError 0A000 or 3D008."""
    if reader.take(dialect.TIMESTAMP_STRATEGY) == "event.time":
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "'sink.timestamp.strategy' = event.time is not supported yet",
            hint="Select the event time as a column, and name it with 'timestamp'.",
            span=reader.span(dialect.TIMESTAMP_STRATEGY),
        )
    if reader.take(dialect.GUARANTEE) != "exactly_once":
        return "at_least_once"
    if sink is None or not sink.exactly_once:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"stores of type {connector.label} cannot be written exactly once",
            span=reader.span(dialect.GUARANTEE),
        )
    return "exactly_once"


def timestamp_column(schema: Schema, reader: PropertyReader) -> str | None:
    """The event-time column that 'timestamp' names, if it is given; raises UserError 42703."""
    name = reader.take(dialect.TIMESTAMP)
    if name is not None and schema.column(name) is None:
        raise UserError(
            SqlState.UNDEFINED_COLUMN,
            f"the timestamp column {printed(name)} is no column of the relation",
            hint=suggestion(name, schema.names, otherwise=f"There is {', '.join(schema.names)}."),
            span=reader.span(dialect.TIMESTAMP),
        )
    return name
