"""Interpretation of the WITH properties of CREATE STREAM and CREATE CHANGELOG. Source: dialect section 9.1."""

from __future__ import annotations

from dataclasses import replace

from headrace.analyzer import properties as dialect
from headrace.catalog.objects import EntityFormat, RelationKind
from headrace.core.errors import UserError
from headrace.core.properties import PropertyReader
from headrace.core.schema import Schema
from headrace.core.sqlstate import SqlState
from headrace.core.types import DataType, Struct, parse_type
from headrace.formats.known import KEY_FORMATS
from headrace.planner.keys import is_primitive_key
from headrace.planner.sink_properties import (
    SchemaPlaces,
    check_key,
    key_format,
    record_format,
    timestamp_column,
    value_format,
)


def entity_format(reader: PropertyReader, schema: Schema, places: SchemaPlaces | None = None) -> EntityFormat:
    """Read the properties of the record layout of a declared relation; `places` are the possible places of the schemas.

    Raises UserError 3D008 (a bad property), 3D021 (one is missing), 42703, 42804 or 0A000.
    """
    places = places or SchemaPlaces()
    value = value_format(reader, schema, None, places=places)
    upsert = reader.take(dialect.UPSERT_MODE) is True
    named, written = reader.take(dialect.KEY_COLUMNS), reader.take(dialect.KEY_TYPE)
    layout = EntityFormat(
        value=value,
        timestamp=timestamp_column(schema, reader),
        upsert=upsert,
        key=key_format(
            record_format(reader, dialect.KEY_FORMAT, KEY_FORMATS),
            value,
            reader,
            places=places,
        ),
    )
    if layout.key is None:
        if upsert:
            raise _missing("key.format", "'enable.upsert.mode' deletes by the record's key")
        return layout
    if named is not None and written is not None:
        raise reader.bad(dialect.KEY_TYPE, "left out if 'key.columns' is specified")
    if named is not None:
        key_columns, key_type = named, _type_of_columns(reader, schema, named, layout.key.format)
    else:
        key_columns, key_type = _key(reader, schema, layout.key.format, written)
    check_key(layout.key, key_type, reader.span(dialect.KEY_TYPE) or reader.span(dialect.KEY_FORMAT))
    return replace(layout, key_columns=key_columns, key_type=key_type)


def row_format(
    reader: PropertyReader, schema: Schema, kind: RelationKind, formats: tuple[str, ...]
) -> EntityFormat:
    """Read the properties for rows that the store itself types: the event time, and a format that the store supports.

    Raises UserError 3D008, 42703, 42804 or 0A000.
    """
    record_format(reader, dialect.VALUE_FORMAT, formats)
    return EntityFormat(timestamp=timestamp_column(schema, reader), upsert=kind is RelationKind.CHANGELOG)


def _key(
    reader: PropertyReader, schema: Schema, key_format: str, written: str | None
) -> tuple[tuple[str, ...], DataType]:
    """Return the key of the `written` type, else of the primary key."""
    if written is None:
        if len(schema.primary_key) == 1 or (schema.primary_key and key_format != "primitive"):
            return schema.primary_key, _type_of_columns(reader, schema, schema.primary_key, key_format)
        raise _missing("key.type", "'key.format' is set")
    key_type = parse_type(written, span=reader.span(dialect.KEY_TYPE))
    if key_format == "primitive" and not is_primitive_key(key_type):
        raise reader.bad(dialect.KEY_TYPE, "SMALLINT, INTEGER, BIGINT, DOUBLE or VARCHAR for a primitive key")
    if key_format == "json" and not isinstance(key_type, Struct):
        raise reader.bad(dialect.KEY_TYPE, "a STRUCT<name TYPE, …> for a JSON key")
    fields = (
        tuple(name for name, _ in key_type.fields) if isinstance(key_type, Struct) else schema.primary_key
    )
    return tuple(name for name in fields if schema.column(name)), key_type


def _type_of_columns(
    reader: PropertyReader, schema: Schema, columns: tuple[str, ...], key_format: str
) -> DataType:
    fields: list[tuple[str, DataType]] = []
    for name in columns:
        column = schema.column(name)
        if column is None:
            raise UserError(
                SqlState.UNDEFINED_COLUMN,
                f"'key.columns' names {name!r}, which is not a column",
                hint=f"Columns: {', '.join(schema.names)}.",
                span=reader.span(dialect.KEY_COLUMNS),
            )
        fields.append((name, column.type))
    if key_format != "primitive":
        return Struct(tuple(fields))
    if len(fields) != 1:
        raise reader.bad(dialect.KEY_COLUMNS, "exactly one column for a primitive key")
    return fields[0][1]


def _missing(key: str, why: str) -> UserError:
    return UserError(
        SqlState.MISSING_PARAMETER,
        f"the property {key!r} is required because {why}",
        hint="For example 'key.format' = PRIMITIVE, 'key.type' = 'VARCHAR'.",
    )
