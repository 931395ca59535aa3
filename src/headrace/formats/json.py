"""JSON records, as Spark SQL text.

Mapping (dialect section 16): a VARCHAR takes any value (all but strings as their JSON text), a missing field is NULL, an extra
one is ignored; a string where a number is declared, or the other way round for times, is an error. Timestamps are read in both
layouts, with or without a zone (UTC). It is read by the JVM extension (`JsonDecoder`), which is strict, and written by Spark.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.types import Array, DataType, Map, Struct, Timestamp
from headrace.formats.base import TimestampFormat
from headrace.formats.types import spark_type, text_sql


def parsed_sql(data: str, kind: DataType) -> str:
    """A STRUCT of `value`, the JSON in the BINARY `data` as `kind`, and `reason`, why there is none; NULL for NULL."""
    return f"headrace_from_json({data}, {text_sql(spark_type(kind))})"


def written_sql(values: Sequence[tuple[str, str, DataType]], layout: TimestampFormat) -> str:
    """JSON text of an object of (name, value SQL, type); NULLs are written."""
    fields = ", ".join(
        f"{text_sql(name)}, {_timestamp_sql(value, kind, layout) if isinstance(kind, Timestamp) else value}"
        for name, value, kind in values
    )
    pattern = _pattern(layout, "SSSSSS", local=any(_has_local(kind) for _, _, kind in values))
    return f"to_json(named_struct({fields}), map('ignoreNullFields', 'false', 'timestampFormat', {text_sql(pattern)}))"


def _timestamp_sql(value: str, kind: Timestamp, layout: TimestampFormat) -> str:
    """Milliseconds are always printed, microseconds where there are any and the type has them."""
    short = f"date_format({value}, {text_sql(_pattern(layout, 'SSS', local=kind.local))})"
    if kind.precision <= 3:
        return short
    long = f"date_format({value}, {text_sql(_pattern(layout, 'SSSSSS', local=kind.local))})"
    return f"CASE WHEN unix_micros({value}) % 1000 = 0 THEN {short} ELSE {long} END"


def _pattern(layout: TimestampFormat, fraction: str, *, local: bool) -> str:
    divider = " " if layout == "sql" else "'T'"
    return f"yyyy-MM-dd{divider}HH:mm:ss.{fraction}" + ("'Z'" if local else "")


def _has_local(kind: DataType) -> bool:
    match kind:
        case Timestamp():
            return kind.local
        case Array(element):
            return _has_local(element)
        case Map(_, value):
            return _has_local(value)
        case Struct(fields):
            return any(_has_local(item) for _, item in fields)
    return False
