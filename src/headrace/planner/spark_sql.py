"""Spark SQL: identifiers, literals and types as Spark 4 reads them with its default settings (ANSI on, escapes in texts)."""

from __future__ import annotations

from headrace.core.errors import InternalError
from headrace.core.types import (
    BIGINT,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    Array,
    DataType,
    Decimal,
    Map,
    Primitive,
    Struct,
    Timestamp,
    Varchar,
)
from headrace.planner.expression_sql import Dialect


def identifier(name: str) -> str:
    """Return `name` in backticks."""
    return "`" + name.replace("`", "``") + "`"


def text_literal(value: str) -> str:
    """Return a text literal; Spark reads backslashes as escapes, the dialect does not."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def number_literal(text: str, kind: DataType) -> str:
    """Return a number, or TRUE or FALSE; where Spark would take it for an INT or a DECIMAL, it needs its mark."""
    if kind == DOUBLE:
        return text if "e" in text.lower() else f"{text}D"
    return f"{text}L" if kind == BIGINT else text


def type_name(kind: DataType) -> str:
    """Return a type as Spark spells it; VARCHAR(n) is STRING (the binder's casts cut), both TIMESTAMP kinds are TIMESTAMP."""
    match kind:
        case Varchar():
            return "STRING"
        case Timestamp():
            return "TIMESTAMP"
        case Decimal(precision=precision, scale=scale):
            return f"DECIMAL({precision}, {scale})"
        case Array(element=element):
            return f"ARRAY<{type_name(element)}>"
        case Map(key=key, value=value):
            return f"MAP<{type_name(key)}, {type_name(value)}>"
        case Struct(fields=fields):
            return f"STRUCT<{', '.join(f'{identifier(name)}: {type_name(field)}' for name, field in fields)}>"
        case Primitive(name=name):
            return {BYTES.name: "BINARY", INTEGER.name: "INT", "NULL": "STRING"}.get(name, name)
    raise InternalError(f"no Spark type for {kind}")


def time_as_text(operand: str, kind: Timestamp) -> str:
    """Return CAST(timestamp AS VARCHAR): with as many fractional digits as the type has, as Flink prints it; LTZ with a Z."""
    digits = kind.digits
    fraction = "." + "S" * digits if digits else ""
    zone = "\\'Z\\'" if kind.local else ""
    return f"date_format({operand}, 'yyyy-MM-dd HH:mm:ss{fraction}{zone}')"


def interval(milliseconds: int) -> str:
    """Return a day-time interval."""
    sign = "-" if milliseconds < 0 else ""
    seconds, rest = divmod(abs(milliseconds), 1000)
    return f"INTERVAL '{sign}{seconds}.{rest:03d}' SECOND" if rest else f"INTERVAL '{sign}{seconds}' SECOND"


def cast(operand: str, source: DataType, target: DataType, safe: bool) -> str:
    """Return a CAST; Spark would make times of today of a text without a date, dates of 'today' and 'epoch', and take years of six
    digits."""
    word, kind = "TRY_CAST" if safe else "CAST", type_name(target)
    if isinstance(source, Varchar) and (target == DATE or isinstance(target, Timestamp)):
        undated = (
            f"regexp_replace({operand}, '^\\\\s*(T?[0-9]{{1,2}}:|[A-Za-z+-]|[0-9]{{5}}|0000)', 'no date: $0')"
        )
        return bounded_time(f"{word}({undated} AS {kind})", target, safe=safe)
    if isinstance(source, Timestamp) and isinstance(target, Timestamp) and target.digits < source.digits:
        return bounded_time(operand, target)
    return f"{word}({operand} AS {kind})"


def bounded_time(operand: str, kind: DataType, *, safe: bool = False) -> str:
    """Return a time cut to the digits of its type; one beyond the years 1 to 9999 ends the query, or is NULL if `safe`."""
    digits = kind.digits if isinstance(kind, Timestamp) else 0
    return f"headrace_time({operand}, {digits}, {str(safe).lower()})"


SPARK = Dialect(
    identifier=identifier,
    text=text_literal,
    number=number_literal,
    type_name=type_name,
    template=lambda function: function.spark,
    time_as_text=time_as_text,
    interval=interval,
    cast=cast,
)
