"""The WITH properties of CREATE STREAM and CREATE CHANGELOG: which there are, and what they mean.

Source: dialect section 9.1. What a sink's WITH shares with them is in `planner.sink_properties`.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.catalog.objects import EntityFormat, RelationKind
from headrace.core.errors import UserError
from headrace.core.schema import Schema
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT, DataType, Struct, Timestamp, parse_type
from headrace.planner.keys import is_primitive_key
from headrace.planner.sink_properties import (
    KEY_FORMATS,
    PARTITION_PROPERTIES,
    REPLICA_PROPERTIES,
    VALUE_FORMATS,
    bad_property,
    check_known,
    choice,
    record_format,
    timestamp_column,
)
from headrace.sql.ast import Properties

RELATION_PROPERTIES = (
    "topic",
    "store",
    "value.format",
    "key.format",
    "key.type",
    "key.columns",
    "timestamp",
    "timestamp.format",
    *PARTITION_PROPERTIES,
    *REPLICA_PROPERTIES,
    "enable.upsert.mode",
    "delivery.guarantee",
    "starting.position",
    "starting.position.timestamp",
    "source.allow.latency.millis",
    "source.deserialization.error.handling",
    "source.deserialization.error.log.topic",
    "source.deserialization.error.log.store",
    "source.deserialization.error.log.topic.partitions",
    "source.deserialization.error.log.topic.replicas",
    "source.idle.timeout.millis",
    "source.allow.future.millis",
)
_PREFIXES = ("kafka.topic.", "kafka.producer.", "kafka.consumer.")


def entity_format(properties: Properties, schema: Schema, kind: RelationKind) -> EntityFormat:
    """How the records of a declared relation are laid out.

    Raises UserError 3D008 (unknown or bad property), 3D021 (one is missing), 42703, 42804 or 0A000.
    """
    check_known(properties, RELATION_PROPERTIES, prefixes=_PREFIXES, what=f"{kind.value} property")
    if record_format(properties, "value.format", VALUE_FORMATS) is None:
        raise UserError(
            SqlState.MISSING_PARAMETER,
            f"a {kind.value} over an entity needs the property 'value.format'",
            hint="Add 'value.format' = JSON to WITH (…).",
        )
    upsert = choice(properties, "enable.upsert.mode", ("true", "false")) == "true"
    layout = EntityFormat(
        timestamp=_timestamp(properties, schema),
        timestamp_format=choice(properties, "timestamp.format", ("sql", "iso8601")) or "sql",
        upsert=upsert,
        key_format=record_format(properties, "key.format", KEY_FORMATS),
    )
    if layout.key_format is None:
        if upsert:
            raise _missing("key.format", "'enable.upsert.mode' deletes by the record's key")
        return layout
    key_columns, key_type = _key(properties, schema, layout.key_format)
    return replace(layout, key_columns=key_columns, key_type=key_type)


def _key(properties: Properties, schema: Schema, key_format: str) -> tuple[tuple[str, ...], DataType]:
    named = properties.get("key.columns")
    if named is not None and properties.get("key.type") is not None:
        raise bad_property(properties, "key.type", "either 'key.type' or 'key.columns', not both")
    if named is not None:
        columns = tuple(part.strip().strip('"') for part in named.split(","))
        key_type = _type_of_columns(properties, schema, columns, key_format)
        return columns, key_type
    text = properties.get("key.type")
    if text is None:
        if len(schema.primary_key) == 1 or (schema.primary_key and key_format == "json"):
            return schema.primary_key, _type_of_columns(properties, schema, schema.primary_key, key_format)
        raise _missing("key.type", "'key.format' is set")
    key_type = parse_type(text, span=properties.span("key.type"))
    if key_format == "primitive" and not is_primitive_key(key_type):
        raise bad_property(
            properties, "key.type", "SMALLINT, INTEGER, BIGINT, DOUBLE or VARCHAR for a primitive key"
        )
    if key_format == "json" and not isinstance(key_type, Struct):
        raise bad_property(properties, "key.type", "a STRUCT<name TYPE, …> for a JSON key")
    fields = (
        tuple(name for name, _ in key_type.fields) if isinstance(key_type, Struct) else schema.primary_key
    )
    return tuple(name for name in fields if schema.column(name)), key_type


def _type_of_columns(
    properties: Properties, schema: Schema, columns: tuple[str, ...], key_format: str
) -> DataType:
    fields: list[tuple[str, DataType]] = []
    for name in columns:
        column = schema.column(name)
        if column is None:
            raise UserError(
                SqlState.UNDEFINED_COLUMN,
                f"'key.columns' names {name!r}, which is not a column",
                hint=f"Columns: {', '.join(schema.names)}.",
                span=properties.span("key.columns"),
            )
        fields.append((name, column.type))
    if key_format == "json":
        return Struct(tuple(fields))
    if len(fields) != 1:
        raise bad_property(properties, "key.columns", "exactly one column for a primitive key")
    return fields[0][1]


def _timestamp(properties: Properties, schema: Schema) -> str | None:
    name = timestamp_column(schema, properties)
    column = schema.column(name) if name is not None else None
    if column is not None and column.type != BIGINT and not isinstance(column.type, Timestamp):
        raise UserError(
            SqlState.DATATYPE_MISMATCH,
            f"the timestamp column must be BIGINT (milliseconds), TIMESTAMP or TIMESTAMP_LTZ; {name} is {column.type}",
            span=properties.span("timestamp"),
        )
    return name


def _missing(key: str, why: str) -> UserError:
    return UserError(
        SqlState.MISSING_PARAMETER,
        f"the property {key!r} is needed because {why}",
        hint="For example 'key.format' = PRIMITIVE, 'key.type' = 'VARCHAR'.",
    )
