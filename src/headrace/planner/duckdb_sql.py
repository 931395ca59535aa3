"""DuckDB SQL: identifiers, literals and types, for queries of materialized views."""

from __future__ import annotations

from headrace.core.errors import InternalError
from headrace.core.names import quote
from headrace.core.types import (
    BIGINT,
    BYTES,
    DOUBLE,
    Array,
    DataType,
    Decimal,
    Map,
    Primitive,
    Struct,
    Timestamp,
    Varchar,
)
from headrace.planner import duckdb_cast
from headrace.planner.expression_sql import Dialect


def text_literal(value: str) -> str:
    """Return a text literal; only quotes are special."""
    return "'" + value.replace("'", "''") + "'"


def number_literal(text: str, kind: DataType) -> str:
    """Return a number, or TRUE or FALSE, with its type, since DuckDB would choose other types for numbers."""
    return (
        f"CAST({text} AS {type_name(kind)})"
        if kind in (BIGINT, DOUBLE) or isinstance(kind, Decimal)
        else text
    )


def type_name(kind: DataType) -> str:
    """Return a type as DuckDB spells it; both TIMESTAMP kinds are TIMESTAMP, in UTC."""
    match kind:
        case Varchar():
            return "VARCHAR"
        case Timestamp():
            return "TIMESTAMP"
        case Decimal(precision=precision, scale=scale):
            return f"DECIMAL({precision}, {scale})"
        case Array(element=element):
            return f"{type_name(element)}[]"
        case Map(key=key, value=value):
            return f"MAP({type_name(key)}, {type_name(value)})"
        case Struct(fields=fields):
            return f"STRUCT({', '.join(f'{quote(name)} {type_name(field)}' for name, field in fields)})"
        case Primitive(name=name):
            return {BYTES.name: "BLOB", "NULL": "VARCHAR"}.get(name, name)
    raise InternalError(f"no DuckDB type for {kind}")


def time_as_text(operand: str, kind: Timestamp) -> str:
    """Return CAST(timestamp AS VARCHAR), as `spark_sql.time_as_text` does."""
    fraction = "" if kind.precision == 0 else ".%g" if kind.precision <= 3 else ".%f"
    return f"strftime({operand}, '%Y-%m-%d %H:%M:%S{fraction}{'Z' if kind.local else ''}')"


DUCKDB = Dialect(
    identifier=quote,
    text=text_literal,
    number=number_literal,
    type_name=type_name,
    template=lambda function: function.duckdb,
    time_as_text=time_as_text,
    cast=lambda operand, source, target, safe: duckdb_cast.cast(
        operand, source, target, type_name(target), safe=safe
    ),
    interval=lambda milliseconds: f"to_milliseconds({milliseconds})",
)
