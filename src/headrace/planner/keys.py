"""The record key of a sink (dialect sections 10 and 16).

A stream's key is what PARTITION BY or `key.columns` name, else the source's key carried through where the query keeps its
rows. A changelog's key is its primary key.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.analyzer.logical import (
    Filter,
    LogicalNode,
    LookupJoin,
    Project,
    Scan,
    TemporalJoin,
    TimeWindow,
    Unnest,
)
from headrace.analyzer.plan import LogicalPlan
from headrace.analyzer.properties import KEY_COLUMNS, KEY_FORMAT
from headrace.core.errors import Span, UserError
from headrace.core.names import printed
from headrace.core.properties import PropertyReader
from headrace.core.schema import Schema
from headrace.core.sqlstate import SqlState
from headrace.core.suggestions import suggestion
from headrace.core.types import DataType, Struct
from headrace.formats.primitive import Primitive

WITH_SCHEMAS = ("avro", "protobuf")
"""Formats whose keys have their own schema, as their values do."""


@dataclass(frozen=True)
class Key:
    """Key of records. `carried`: the key of the source's record; then `columns` is empty."""

    format: str | None = None
    type: DataType | None = None
    columns: tuple[str, ...] = ()
    carried: bool = False


def is_primitive_key(kind: DataType) -> bool:
    """True for the types that a PRIMITIVE key may have."""
    return Primitive().key_refusal(kind) is None


def changelog_key(
    schema: Schema, source_format: str | None, key_format: str | None, span: Span | None
) -> Key:
    """Return the primary key as record key: primitive if it is one primitive column and nothing speaks for JSON, else JSON."""
    columns = schema.primary_key
    single = len(columns) == 1 and is_primitive_key(_type(schema, columns[0]))
    if key_format == "primitive" and not single:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"the primary key ({', '.join(columns)}) cannot be a PRIMITIVE key",
            hint="Use 'key.format' = JSON.",
            span=span,
        )
    primitive = single and (key_format or source_format) in (None, "primitive")
    other = key_format if key_format not in (None, "primitive") else source_format
    return _of_columns(
        schema, columns, "primitive" if primitive else other if other in WITH_SCHEMAS else "json"
    )


def stream_key(
    logical: LogicalPlan,
    reader: PropertyReader,
    key_format: str | None,
    value_format: str,
    *,
    required: bool = True,
) -> Key:
    """Return PARTITION BY, else `key.columns`, else the source's key. Raises UserError 3D008 (both specified, misfit) or 42703.

    Without any of these the records have no key, and a key format raises 3D021 if it is `required`.

    A key of named columns has the specified format, else the format of the values if it names columns, else JSON.
    """
    schema = logical.schema
    named = reader.take(KEY_COLUMNS)
    if logical.partition_by and named is not None:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            "specify either PARTITION BY or 'key.columns', not both",
            span=logical.partition_by[0].span,
        )
    if logical.partition_by:
        columns = tuple(name.name for name in logical.partition_by)
        span = logical.partition_by[0].span
    elif named is not None:
        columns = named
        span = reader.span(KEY_COLUMNS)
    else:
        return _carried(logical, key_format, reader.span(KEY_FORMAT), required=required)
    for name in columns:
        if schema.column(name) is None:
            raise UserError(
                SqlState.UNDEFINED_COLUMN,
                f"the key column {printed(name)} is not an output column",
                hint=suggestion(name, schema.names, otherwise=f"The columns are {', '.join(schema.names)}."),
                span=span,
            )
    if key_format == "primitive" and (len(columns) != 1 or not is_primitive_key(_type(schema, columns[0]))):
        raise UserError(
            SqlState.INVALID_PARAMETER,
            "a PRIMITIVE key requires exactly one column of SMALLINT, INTEGER, BIGINT, DOUBLE or VARCHAR",
            hint="Use 'key.format' = JSON.",
            span=span,
        )
    return _of_columns(
        schema, columns, key_format or (value_format if value_format in WITH_SCHEMAS else "json")
    )


def _carried(logical: LogicalPlan, key_format: str | None, span: Span | None, *, required: bool) -> Key:
    source = carrying_scan(logical.root)
    own = source.relation.format if source is not None else None
    if own is None or own.key is None:
        if key_format is not None and required:
            raise UserError(
                SqlState.MISSING_PARAMETER,
                "the records of the sink have keys, but the records of the query's source have none",
                hint="Specify the key's columns with 'key.columns' or PARTITION BY.",
                span=span or logical.span,
            )
        return Key()
    if key_format is not None and key_format != own.key.format:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"the source's key is {own.key.label}; it cannot be written as {key_format.upper()}",
            hint="Specify the key's columns with 'key.columns' or PARTITION BY.",
            span=span,
        )
    return Key(own.key.format, own.key_type, (), carried=True)


def carrying_scan(root: LogicalNode) -> Scan | None:
    """Return the source if each output row is one of its records; None if rows combine several records."""
    node = root
    while isinstance(node, Project | Filter | TimeWindow | Unnest | TemporalJoin | LookupJoin):
        node = node.left if isinstance(node, TemporalJoin | LookupJoin) else node.input
    return node if isinstance(node, Scan) else None


def _of_columns(schema: Schema, columns: tuple[str, ...], key_format: str) -> Key:
    if key_format == "primitive":
        return Key("primitive", _type(schema, columns[0]), columns)
    return Key(key_format, Struct(tuple((name, _type(schema, name)) for name in columns)), columns)


def _type(schema: Schema, name: str) -> DataType:
    return next(column.type for column in schema.columns if column.name == name)
