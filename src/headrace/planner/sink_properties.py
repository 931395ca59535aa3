"""Properties of a sink's WITH (…), read from a `PropertyReader`. Source: dialect section 9.1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal

from headrace.analyzer import properties as dialect
from headrace.analyzer.plan import LogicalPlan
from headrace.catalog.objects import Relation, RelationKind
from headrace.connectors.base import EntityDescription, Guarantee, RecordSink, RowSink, StoreDescriptor
from headrace.core.errors import Span, UserError
from headrace.core.names import EntityPath, path_text, printed
from headrace.core.properties import Entry, PropertyReader, PropertySpec, Scope, Specs, of_scope
from headrace.core.schema import Schema
from headrace.core.sqlstate import SqlState
from headrace.core.suggestions import suggestion
from headrace.core.types import BIGINT, DataType, Struct, Timestamp
from headrace.formats.base import TextFormat
from headrace.formats.json import Json
from headrace.formats.known import VALUE_FORMATS, AnyFormat, format_of
from headrace.formats.protobuf import Protobuf
from headrace.formats.protobuf_schema import of_set
from headrace.planner.keys import WITH_SCHEMAS


def sink_reader(
    given: Iterable[Entry],
    scope: Scope,
    connector: StoreDescriptor | None,
    *,
    what: str = "a sink",
    relation: Relation | None = None,
) -> PropertyReader:
    """Read the properties that a sink of a store type accepts in `scope`. Raises UserError 3D008 for any other property.

    An existing `relation` supplies the properties that the statement omits, except those of the key.
    """
    own = of_scope(connector.properties, scope) if connector is not None else ()
    specs = (*of_scope(dialect.DIALECT, scope), *own)
    return PropertyReader(given, specs, what=what, defaults=_inherited_properties(relation, own))


def table_reader(
    given: Iterable[Entry], scope: Scope, connector: StoreDescriptor, *, relation: Relation | None = None
) -> PropertyReader:
    """Return the reader of a TABLE's properties: as `sink_reader`, without format and time of records.

    What only its declaration may say, such as the layout of its files, an INSERT INTO it follows too.
    """
    own = of_scope(connector.properties, scope)
    specs = (*of_scope(dialect.OF_TABLES, scope), *own)
    declared = of_scope(connector.properties, scope | Scope.RELATION)
    return PropertyReader(given, specs, what="a table", defaults=_inherited_properties(relation, declared))


def _inherited_properties(relation: Relation | None, own: Specs) -> dict[str, str]:
    properties = relation.properties if relation is not None else {}
    subjects = (dialect.BASE_STORE, *chain.from_iterable(_SUBJECTS.values()))
    return {
        name: value
        for name, value in properties.items()
        if any(spec.matches_name(name) for spec in (dialect.GUARANTEE, *subjects, *own))
    }


def record_sink(connector: StoreDescriptor, kind: RelationKind, span: Span | None) -> RecordSink:
    """Return how records of a store type are written; raises UserError 0A000 if it cannot be written, or not as such a relation."""
    sink = connector.record_sink
    if sink is None or (kind is RelationKind.CHANGELOG and not sink.upserts):
        what = "be written by queries" if sink is None else f"hold a {kind.name}"
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"stores of type {connector.label} cannot {what}",
            hint="Write into a relation of another store; CREATE … AS creates it there WITH ('store' = name).",
            span=span,
        )
    return sink


def row_sink(connector: StoreDescriptor, logical: LogicalPlan, span: Span | None) -> RowSink:
    """Return how tables of a store type are written; raises UserError 0A000 if they cannot be written, or not by such a query."""
    sink = connector.row_sink
    if sink is None:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"stores of type {connector.label} have no tables that a query can write",
            hint="Use CREATE STREAM or CREATE CHANGELOG." if connector.record_sink is not None else None,
            span=span,
        )
    if not sink.upserts and not logical.traits.insert_only:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"tables of {connector.label} support inserts only, but rows of the query are updated and deleted",
            hint="Write rows that never change, such as those of a stream or of a time window's groups; or "
            "keep the query's result in a MATERIALIZED VIEW.",
            span=span,
        )
    return sink


def check_written(connector: StoreDescriptor, entity: EntityPath, span: Span | None) -> None:
    """Raises UserError 0A000 for a path that matches several entities."""
    if connector.pattern(entity) is not None:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"{path_text(entity)!r} matches several entities: they can be read together, but records are "
            "written to one",
            hint="Write to a relation over one entity.",
            span=span,
        )


@dataclass(frozen=True)
class Subject:
    """Subject of the schema of values, or of keys, in a registry: by `strategy` that of the entity, of the record, or of both.

    `record` is the full name of the record, where it is said. `base` is a subject that says more of the fields of what is written.
    """

    strategy: str = "topic_name"
    record: str | None = None
    base: str | None = None

    def named(self, entity: str, part: str, record: str) -> str:
        """Return the subject, of an entity's `part` (value or key) that is called `record`."""
        return {"record_name": record, "topic_record_name": f"{entity}-{record}"}.get(
            self.strategy, f"{entity}-{part}"
        )


@dataclass(frozen=True)
class Subjects:
    """Subjects of a relation's records. `base_store` names the store whose registry has the base subjects."""

    value: Subject = Subject()
    key: Subject = Subject()
    base_store: str | None = None


def subjects(reader: PropertyReader, value: AnyFormat, key: AnyFormat | None) -> Subjects:
    """Return the subjects that the properties name; raises as `subject`."""
    return Subjects(
        subject(reader, value, "value"), subject(reader, key, "key"), reader.take(dialect.BASE_STORE)
    )


_SUBJECTS = {
    "value": (dialect.VALUE_STRATEGY, dialect.VALUE_RECORD, dialect.BASE_VALUE),
    "key": (dialect.KEY_STRATEGY, dialect.KEY_RECORD, dialect.BASE_KEY),
}


def subject(reader: PropertyReader, layout: AnyFormat | None, part: Literal["value", "key"]) -> Subject:
    """Return the subject of values, or of keys, in a layout.

    Raises UserError 3D008 where they have no such schema, 3D021 for a strategy that needs the record's name.
    """
    strategy, record, base = _SUBJECTS[part]
    naming = Subject(reader.take(strategy) or "topic_name", reader.take(record), reader.take(base))
    kind = layout.format if layout is not None else ""
    for spec, value, kinds in (
        (strategy, naming.strategy != "topic_name", WITH_SCHEMAS),
        (record, naming.record, ("avro",)),
        (base, naming.base, ("avro",)),
    ):
        if value and kind not in kinds:
            raise reader.bad(spec, f"left out of a {part} that is not {' or '.join(kinds).upper()}")
    if naming.strategy != "topic_name" and kind == "avro" and naming.record is None:
        reader.require(record, hint="The subject has its name. An example is 'shop.Order'.")
    return naming


def creation_options(
    reader: PropertyReader,
    connector: StoreDescriptor,
    entity: EntityPath,
    *,
    existing: EntityDescription | None,
    source: EntityDescription | None,
) -> dict[str, str] | None:
    """Return the properties to create a missing entity with; layout properties that are not specified are those of `source`.

    None if the entity exists. Raises UserError 3D008 if its layout is contradicted, 3D021 if a source of another type has none like it.
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
        other = (
            f"The leftmost source has no {name} to copy: it is of another store type, or over several "
            "entities."
        )
        layout[name] = source.layout.get(name) or reader.require(spec, hint=other)
    return settings | {connector.layout[name].name: str(number) for name, number in layout.items()}


def checked_layout(
    reader: PropertyReader, connector: StoreDescriptor, entity: EntityPath, existing: EntityDescription | None
) -> dict[str, int]:
    """Return an entity's layout properties; raises UserError 3D008 if the existing entity has another layout."""
    layout: dict[str, int] = {}
    for name, spec in connector.layout.items():
        number = reader.take(spec)
        if number is None:
            continue
        layout[name] = number
        actual = existing.layout.get(name, number) if existing is not None else number
        if number != actual:
            raise UserError(
                SqlState.INVALID_PARAMETER,
                f"the entity {path_text(entity)!r} exists with {actual} {name}, not {number}",
                hint=f"Leave '{spec.name}' out, or set it to {actual}.",
                span=reader.span(spec),
            )
    return layout


def record_format(reader: PropertyReader, spec: PropertySpec[str], formats: tuple[str, ...]) -> str | None:
    """Return a format, one of `formats`; raises UserError 0A000 for a format that is not supported yet, or 3D008."""
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
"""Further properties of a format, by the field that they set."""


@dataclass(frozen=True)
class SchemaPlaces:
    """Schemas available to a store's records: its registry, and the bytes of the descriptor sources by name."""

    registry: str | None = None
    descriptors: Mapping[str, bytes] = field(default_factory=dict, repr=False)


def value_format(
    reader: PropertyReader,
    schema: Schema,
    span: Span | None,
    *,
    places: SchemaPlaces,
    inherited: AnyFormat | None = None,
) -> AnyFormat:
    """Return the format of the values of `schema`; properties that are not set are taken from the `inherited` format where it fits.

    Raises UserError 3D021 (nothing is said), 3D008, 3D009 to 3D011 (no registry, message, source), 42P16 (the columns do not fit) or 0A000.
    """
    name = record_format(reader, dialect.VALUE_FORMAT, VALUE_FORMATS)
    if name is None and inherited is None:
        raise UserError(
            SqlState.MISSING_PARAMETER,
            "a relation over an entity requires the property 'value.format'",
            hint="Add 'value.format' = JSON to WITH (…).",
        )
    if inherited is None or name not in (None, inherited.format) or inherited.format in WITH_SCHEMAS:
        named = name or inherited.format if inherited is not None else name
        layout = named_format(
            named or "", reader, dialect.VALUE_DESCRIPTOR, places, reader.span(dialect.VALUE_FORMAT) or span
        )
    else:
        layout = inherited
    if layout.format != "protobuf" and reader.take(dialect.VALUE_DESCRIPTOR) is not None:
        raise reader.bad(dialect.VALUE_DESCRIPTOR, f"left out of {layout.label} records")
    details: dict[str, str] = {}
    if isinstance(layout, TextFormat) and isinstance(inherited, TextFormat) and inherited.timestamps:
        details["timestamps"] = inherited.timestamps
    for part, spec in _DETAILS.items():
        value = reader.take(spec)
        if value is not None and part not in type(layout).model_fields:
            raise reader.bad(spec, f"left out of {layout.label} records")
        if value is not None:
            details[part] = value
    layout = layout.model_copy(update=details)
    _check_columns(layout, layout.refusal(_struct(schema)), reader.span(dialect.VALUE_FORMAT) or span)
    return layout


def key_format(
    name: str | None, value: AnyFormat, reader: PropertyReader, *, places: SchemaPlaces
) -> AnyFormat | None:
    """Return the format of record keys by name; times in them are written as in the `value`. Raises as `value_format`.

    Without a key a format has no effect, and neither has the descriptor that goes with it.
    """
    format_name = name or reader.take(dialect.KEY_FORMAT)
    if reader.take(dialect.KEY_DESCRIPTOR) is not None and format_name != "protobuf":
        raise reader.bad(dialect.KEY_DESCRIPTOR, "left out of keys that are not PROTOBUF")
    if name is None:
        return None
    if name == "json":
        return Json(timestamps=value.timestamps if isinstance(value, TextFormat) else None)
    return named_format(name, reader, dialect.KEY_DESCRIPTOR, places, reader.span(dialect.KEY_FORMAT))


def check_key(layout: AnyFormat | None, kind: DataType | None, span: Span | None) -> None:
    """Raises UserError 42P16 for keys that a message or a schema cannot hold."""
    if isinstance(layout, Protobuf) and kind is not None:
        _check_columns(layout, layout.key_refusal(kind), span)


def _check_columns(layout: AnyFormat, refusal: str | None, span: Span | None) -> None:
    if refusal is not None:
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            f"{layout.label} {refusal}",
            hint="CAST the column, or leave it out."
            if layout.format == "json"
            else "Use another format, such as JSON, or other columns.",
            span=span,
        )


def _struct(schema: Schema) -> Struct:
    return Struct(tuple((column.name, column.type) for column in schema.columns))


def named_format(
    name: str, reader: PropertyReader, descriptor: PropertySpec[str], places: SchemaPlaces, span: Span | None
) -> AnyFormat:
    """Return the format of that name, for which `descriptor` may name a message. Raises as `value_format`."""
    if name not in WITH_SCHEMAS:
        return format_of({"format": name})
    message = reader.take(descriptor) if name == "protobuf" else None
    if message is not None:
        return _of_message(message, places, reader.span(descriptor))
    if places.registry is not None:
        return format_of({"format": name, "registry": places.registry})
    other = f" Or specify '{descriptor.name}' = 'source.Message'." if name == "protobuf" else ""
    raise UserError(
        SqlState.SCHEMA_REGISTRY_NOT_FOUND,
        f"{name.upper()} records require a schema registry, and their store has none",
        hint=f"CREATE SCHEMA_REGISTRY, then UPDATE STORE … WITH ('schema_registry.name' = name).{other}",
        span=span,
    )


def _of_message(written: str, places: SchemaPlaces, span: Span | None) -> Protobuf:
    """Return the Protobuf format of a message: the first part names a descriptor source, if there is one, else all of it a message."""
    first, _, rest = written.partition(".")
    source = first.strip('"') if first.startswith('"') else first.lower()
    if source in places.descriptors:
        try:
            messages = of_set(places.descriptors[source])
            message = messages.named(rest.strip('"'))
        except UserError as error:
            error.span = error.span or span
            raise
        return Protobuf(message=message, descriptors=messages.encoded(message))
    if places.registry is None:
        raise UserError(
            SqlState.DESCRIPTOR_SOURCE_NOT_FOUND,
            f"the descriptor source {source!r} does not exist",
            hint=suggestion(
                source, sorted(places.descriptors), otherwise="LIST DESCRIPTORS shows the existing messages."
            ),
            span=span,
        )
    return Protobuf(registry=places.registry, message=written.strip('"'))


def guarantee(
    reader: PropertyReader, sink: RecordSink | RowSink | None, connector: StoreDescriptor
) -> Guarantee:
    """Return the delivery guarantee, by default at least once. Raises UserError 0A000 or 3D008."""
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
            f"stores of type {connector.label} do not support exactly-once writes",
            hint=f"Leave '{dialect.GUARANTEE.name}' out, or set it to at_least_once.",
            span=reader.span(dialect.GUARANTEE),
        )
    return "exactly_once"


def timestamp_column(schema: Schema, reader: PropertyReader) -> str | None:
    """Return the event-time column that 'timestamp' names, if it is specified. Raises UserError 42703, or 42804 for its type."""
    name = reader.take(dialect.TIMESTAMP)
    column = schema.column(name) if name is not None else None
    if name is not None and column is None:
        raise UserError(
            SqlState.UNDEFINED_COLUMN,
            f"the timestamp column {printed(name)} is not a column of the relation",
            hint=suggestion(name, schema.names, otherwise=f"The columns are {', '.join(schema.names)}."),
            span=reader.span(dialect.TIMESTAMP),
        )
    if column is not None and column.type != BIGINT and not isinstance(column.type, Timestamp):
        raise UserError(
            SqlState.DATATYPE_MISMATCH,
            f"the timestamp column must be BIGINT (milliseconds), TIMESTAMP or TIMESTAMP_LTZ; {printed(column.name)} is {column.type}",
            hint="Declare it, or CAST it, as one of these types, or leave 'timestamp' out to use the record's timestamp.",
            span=reader.span(dialect.TIMESTAMP),
        )
    return name
