"""Conversion between Snowflake's types and Headrace's, in tables, in staged files, and in queries; pure.

Types without a counterpart (VARIANT, OBJECT, ARRAY, TIME, GEOGRAPHY, …) become VARCHAR with JSON or Snowflake's text.
"""

from __future__ import annotations

import re

from headrace.connectors.snowflake.client import identifier, quoted
from headrace.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    INTEGRAL,
    SMALLINT,
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
from headrace.formats.types import name_sql

VARIANTS = ("VARIANT", "OBJECT", "ARRAY", "MAP")
_TEXT_LENGTH_MAX = 16_777_216
_FORM = re.compile(r"(\w+(?: \w+)*?)(?:\((\d+)(?:, ?(\d+))?\))?(?:\(.*)?\Z", re.DOTALL)
_PLAIN: dict[str, DataType] = {"FLOAT": DOUBLE, "BOOLEAN": BOOLEAN, "DATE": DATE, "BINARY": BYTES}
_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19}
_OURS = {"BOOLEAN": "BOOLEAN", "FLOAT": "FLOAT", "DOUBLE": "FLOAT", "DATE": "DATE", "BYTES": "BINARY"}
_WHOLE = ((4, SMALLINT), (9, INTEGER), (19, BIGINT))
"""Up to how many digits a number without a fraction fits: of 19 not each, but a BIGINT needs them."""
_ZONED = ("TIMESTAMP_LTZ", "TIMESTAMP_TZ")


def name_of(text: str) -> str:
    """Return NUMBER of 'NUMBER(38,0)', as DESCRIBE TABLE has it."""
    match = _FORM.match(text)
    return match[1].upper() if match else text.upper()


def of_snowflake(text: str) -> DataType:
    """Return the type that DESCRIBE TABLE writes as `text`: 'NUMBER(38,0)', 'VARCHAR(16777216)', 'TIMESTAMP_NTZ(9)'."""
    match = _FORM.match(text)
    if match is None:
        return VARCHAR
    name, first, second = match[1].upper(), int(match[2] or 0), int(match[3] or 0)
    match name:
        case "NUMBER" if second == 0:
            return next((kind for digits, kind in _WHOLE if first <= digits), Decimal(first, 0))
        case "NUMBER":
            return Decimal(first, second)
        case "VARCHAR":
            return Varchar(first) if 0 < first < _TEXT_LENGTH_MAX else VARCHAR
        case "TIMESTAMP_NTZ" | "TIMESTAMP_LTZ" | "TIMESTAMP_TZ":
            return Timestamp(first, local=name in _ZONED)
    return _PLAIN.get(name, VARCHAR)


def to_snowflake(kind: DataType) -> str:
    """Return the type of a new table's column."""
    match kind:
        case Primitive(name):
            return f"NUMBER({_DIGITS[name]},0)" if name in _DIGITS else _OURS[name]
        case Varchar(length):
            return "VARCHAR" if length is None or length >= _TEXT_LENGTH_MAX else f"VARCHAR({length})"
        case Decimal(precision, scale):
            return f"NUMBER({precision},{scale})"
        case Timestamp(precision, local):
            return f"{'TIMESTAMP_LTZ' if local else 'TIMESTAMP_NTZ'}({precision})"
        case Array() | Map() | Struct():
            return "VARIANT"
    raise TypeError(f"no Snowflake type for {kind}")


def fits(kind: DataType, text: str) -> bool:
    """True if values can be written into a column; Snowflake refuses single values that do not fit.

    A value may only lose digits of a fraction of a second; numbers and texts that are too long are refused.
    """
    name, own = name_of(text), of_snowflake(text)
    match kind:
        case Array() | Map() | Struct():
            return name == "VARIANT" or (name == "ARRAY" and isinstance(kind, Array))
        case Varchar():
            return name == "VARCHAR"
        case Timestamp():
            return isinstance(own, Timestamp) and own.local == kind.local
        case Decimal(precision, scale):
            digits, decimals = _number(text)
            return name == "NUMBER" and scale <= decimals and precision - scale <= digits - decimals
        case Primitive() if kind in INTEGRAL:
            digits, decimals = _number(text)
            return name == "NUMBER" and digits - decimals >= _DIGITS[kind.name]
        case Primitive("FLOAT" | "DOUBLE"):
            return name == "FLOAT"
    return kind == own


def reads(kind: DataType, text: str) -> bool:
    """True if a column can be read as the relation's type. A wider number type is allowed if each value fits."""
    name, own = name_of(text), of_snowflake(text)
    match kind:
        case Array() | Map() | Struct():
            return name in VARIANTS
        case Varchar():
            return True
        case Timestamp():
            return isinstance(own, Timestamp) and own.local == kind.local
        case Decimal(_, scale):
            return name == "NUMBER" and _number(text)[1] <= scale
        case Primitive() if kind in INTEGRAL:
            return name == "NUMBER" and _number(text)[1] == 0
        case Primitive("FLOAT" | "DOUBLE"):
            return name == "FLOAT"
    return kind == own


def _number(text: str) -> tuple[int, int]:
    match = _FORM.match(text)
    return (int(match[2] or 0), int(match[3] or 0)) if match else (0, 0)


def carried(kind: DataType) -> str:
    """Return the type of a column of the temporary table that files are copied into: times are microseconds, nested values JSON."""
    match kind:
        case Timestamp():
            return "NUMBER(19,0)"
        case Array() | Map() | Struct() | Varchar():
            return "VARCHAR"
    return to_snowflake(kind)


def carried_sql(name: str, kind: DataType) -> str:
    """Return Spark SQL for a column of the files."""
    value = name_sql(name)
    match kind:
        case Timestamp():
            return f"unix_micros({value})"
        case Primitive("TINYINT" | "SMALLINT"):
            return f"CAST({value} AS INT)"
        case Array() | Map() | Struct():
            return nested_sql(value)
    return value


def written_sql(value: str, kind: DataType) -> str:
    """Return Snowflake's SQL for a column of the temporary table, as a column of a table takes it."""
    match kind:
        case Timestamp(_, local):
            return f"{'TO_TIMESTAMP_LTZ' if local else 'TO_TIMESTAMP_NTZ'}({value}, 6)"
        case Array() | Map() | Struct():
            return f"PARSE_JSON({value})"
    return value


def read_sql(column: str, kind: DataType, text: str) -> str:
    """Return Snowflake's SQL for a column of a table, as `fetched` says it comes."""
    value, name = quoted(column), name_of(text)
    match kind:
        case Timestamp():
            return f"DATE_PART(EPOCH_MICROSECOND, {value})"
        case Array() | Map() | Struct():
            return f"TO_JSON({value})"
        case Varchar() if name in VARIANTS:
            return f"TO_JSON({value})"
        case Varchar() if name != "VARCHAR":
            return f"TO_VARCHAR({value})"
    return value


def fetched(kind: DataType) -> DataType:
    """Return the type of `read_sql`: times as microseconds, nested values as JSON."""
    match kind:
        case Timestamp():
            return BIGINT
        case Array() | Map() | Struct():
            return VARCHAR
    return kind


def column_sql(name: str, kind: DataType, *, nullable: bool) -> str:
    """Return a column of a new table."""
    return f"{identifier(name)} {to_snowflake(kind)}{'' if nullable else ' NOT NULL'}"
