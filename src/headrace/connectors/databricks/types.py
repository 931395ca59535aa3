"""Conversion between Delta's types and Headrace's; pure.

Types without a counterpart (VARIANT, intervals, …) become VARCHAR with their text.
"""

from __future__ import annotations

from headrace.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    INTEGRAL,
    SMALLINT,
    TINYINT,
    VARCHAR,
    Array,
    DataType,
    Decimal,
    Map,
    Primitive,
    Struct,
    Timestamp,
    Varchar,
)
from headrace.formats.json import nested_sql
from headrace.formats.types import name_sql, spark_type, text_sql

_MICROSECONDS = 6
_PLAIN: dict[str, DataType] = {
    "boolean": BOOLEAN,
    "tinyint": TINYINT,
    "byte": TINYINT,
    "smallint": SMALLINT,
    "short": SMALLINT,
    "int": INTEGER,
    "integer": INTEGER,
    "bigint": BIGINT,
    "long": BIGINT,
    "float": FLOAT,
    "real": FLOAT,
    "double": DOUBLE,
    "date": DATE,
    "binary": BYTES,
    "timestamp": Timestamp(_MICROSECONDS, local=True),
    "timestamp_ntz": Timestamp(_MICROSECONDS, local=False),
}


def to_delta(kind: DataType) -> str:
    """Return the type of a new table's column: a TIMESTAMP has no zone there either."""
    match kind:
        case Timestamp(_, False):
            return "TIMESTAMP_NTZ"
        case Array(element):
            return f"ARRAY<{to_delta(element)}>"
        case Map(key, value):
            return f"MAP<{to_delta(key)}, {to_delta(value)}>"
        case Struct(fields):
            return f"STRUCT<{', '.join(f'{name_sql(name)}: {to_delta(item)}' for name, item in fields)}>"
    return spark_type(kind)


def of_delta(text: str) -> DataType:
    """Return the type that DESCRIBE writes as `text`: 'decimal(12,2)', 'array<struct<a:int>>'."""
    text = text.strip()
    name, _, inside = text.partition("<")
    parts = _split(inside.removesuffix(">")) if text.endswith(">") else []
    match name, parts:
        case "array", [element]:
            return Array(of_delta(element))
        case "map", [key, value]:
            return Map(of_delta(key), of_delta(value))
        case "struct", [_, *_]:
            fields = [_field(part) for part in parts]
            whole = all(name for name, _ in fields)
            return Struct(tuple((name, of_delta(kind)) for name, kind in fields)) if whole else VARCHAR
    if name.startswith("decimal("):
        digits = name.removeprefix("decimal(").removesuffix(")").split(",")
        return Decimal(int(digits[0]), int(digits[1]))
    return _PLAIN.get(name, VARCHAR)


def foreign(text: str) -> str | None:
    """Return the first type without a counterpart in `text`, which DESCRIBE wrote: it can be read as VARCHAR, and not written."""
    text = text.strip()
    name, _, inside = text.partition("<")
    if text.endswith(">") and name in ("array", "map", "struct"):
        parts = _split(inside.removesuffix(">"))
        inner = [_field(part)[1] for part in parts] if name == "struct" else parts
        return next((kind for kind in map(foreign, inner) if kind is not None), None)
    known = name in _PLAIN or name.startswith(("string", "varchar(", "char(", "decimal("))
    return None if known else text


def fits(kind: DataType, column: DataType) -> bool:
    """True if every value of a type of ours can be written into a column, which is `column` to us."""
    match kind, column:
        case Varchar(), Varchar():
            return True
        case Timestamp(_, one), Timestamp(_, other):
            return one == other
        case Decimal(), Decimal():
            whole = kind.precision - kind.scale <= column.precision - column.scale
            return whole and kind.scale <= column.scale
        case Array(one), Array(other):
            return fits(one, other)
        case Map(key, value), Map(other_key, other_value):
            return fits(key, other_key) and fits(value, other_value)
        case Struct(some), Struct(others):
            same = [name for name, _ in some] == [name for name, _ in others]
            return same and all(fits(one, other) for (_, one), (_, other) in zip(some, others, strict=True))
        case Primitive("FLOAT"), Primitive("DOUBLE"):
            return True
    if kind in INTEGRAL and column in INTEGRAL:
        return INTEGRAL.index(kind) <= INTEGRAL.index(column)
    return kind == column


def reads(kind: DataType, column: DataType) -> bool:
    """True if a column, which is `column` to us, can be read as a relation's: text lengths and parts of a second do not matter."""
    return fits(column, kind) and fits(kind, column)


def sent_sql(name: str, kind: DataType) -> str:
    """Return the expression that a warehouse evaluates, of a type that each way of sending rows supports: see `received_sql`."""
    column = name_sql(name)
    match kind:
        case Timestamp(_, local):
            return f"unix_micros({column if local else f'CAST({column} AS TIMESTAMP)'})"
        case Primitive("DATE"):
            return f"unix_date({column})"
        case Decimal() | Varchar():
            return f"CAST({column} AS STRING)"
        case Array() | Map() | Struct():
            return nested_sql(column)
    return column


def sent_type(kind: DataType) -> str:
    """Return the type of what `sent_sql` gives, as Spark SQL."""
    match kind:
        case Timestamp():
            return "BIGINT"
        case Primitive("DATE"):
            return "INT"
        case Decimal() | Array() | Map() | Struct():
            return "STRING"
    return spark_type(kind)


def received_sql(name: str, kind: DataType) -> str:
    """Return Spark SQL of the column itself, of one that has what `sent_sql` gave."""
    column = name_sql(name)
    match kind:
        case Timestamp():
            return f"timestamp_micros({column})"
        case Primitive("DATE"):
            return f"date_from_unix_date({column})"
        case Decimal():
            return f"CAST({column} AS {spark_type(kind)})"
        case Array() | Map() | Struct():
            return f"from_json({column}, {text_sql(spark_type(kind))})"
    return column


def _field(text: str) -> tuple[str, str]:
    """Return the name and the type of `a:int` or `` `a b`:int ``; no name for what cannot be parsed, such as a type that Spark cut off."""
    if text.startswith("`"):
        end = text.replace("``", "  ").find("`", 1)
        name, rest = text[1:end].replace("``", "`"), text[end + 1 :].removeprefix(":")
    else:
        name, _, rest = text.partition(":")
    return (name, rest) if rest else ("", text)


def _split(text: str) -> list[str]:
    """Split at commas outside brackets and quoted names."""
    parts, depth, quoted = [""], 0, False
    for sign in text:
        quoted ^= sign == "`"
        if not quoted:
            depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(sign, 0)
        if sign == "," and not depth and not quoted:
            parts.append("")
        else:
            parts[-1] += sign
    return parts if text else []
