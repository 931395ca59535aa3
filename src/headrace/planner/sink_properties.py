"""What a sink's WITH (…) says, read of a `PropertyReader`. Source: dialect section 9.1."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.analyzer import properties as dialect
from headrace.analyzer.catalog_view import suggestion
from headrace.catalog.objects import Relation, RelationKind
from headrace.connectors.base import EntityDescription, Guarantee, RecordSink, StoreDescriptor
from headrace.core.errors import Span, UserError
from headrace.core.names import EntityPath, path_text, printed
from headrace.core.properties import Entry, PropertyReader, PropertySpec, Scope, of_scope
from headrace.core.schema import Schema
from headrace.core.sqlstate import SqlState

VALUE_FORMATS = ("json",)
KEY_FORMATS = ("json", "primitive")


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
    said = relation.properties if relation is not None else {}
    defaults = {
        name: value
        for name, value in said.items()
        if any(spec.is_called(name) for spec in (dialect.GUARANTEE, *own))
    }
    specs = (*of_scope(dialect.DIALECT, scope), *own)
    return PropertyReader(given, specs, what=what, defaults=defaults)


def record_sink(connector: StoreDescriptor, kind: RelationKind, span: Span | None) -> RecordSink:
    """How a store type is written; raises UserError 0A000 when it cannot be, or not as such a relation."""
    sink = connector.record_sink
    if sink is None or (kind is RelationKind.CHANGELOG and not sink.upserts):
        what = "be written by queries" if sink is None else f"hold a {kind.name}"
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED, f"stores of type {connector.label} cannot {what}", span=span
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


def guarantee(reader: PropertyReader, connector: StoreDescriptor) -> Guarantee:
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
    sink = connector.record_sink
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
