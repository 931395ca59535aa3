"""PostgreSQL's types as ours, and ours as PostgreSQL's; pure.

What has no counterpart (numeric without a precision, uuid, json, interval, enums, ranges, …) is VARCHAR: PostgreSQL's own text, exact.
"""

from __future__ import annotations

import re

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

_DECIMAL_DIGITS_MAX = 38
_CENTS = 2
_CUT = ("name", '"char"')
"""Types that hold the beginning of a longer text."""
_FORM = re.compile(r"([a-z ]+?)(?:\((\d+)(?:,(-?\d+))?\))?( with(?:out)? time zone)?(\[\])?\Z")
_PLAIN: dict[str, DataType] = {
    "boolean": BOOLEAN,
    "smallint": SMALLINT,
    "integer": INTEGER,
    "bigint": BIGINT,
    "oid": BIGINT,
    "real": FLOAT,
    "double precision": DOUBLE,
    "date": DATE,
    "bytea": BYTES,
}
_OURS = {
    "BOOLEAN": "boolean",
    "TINYINT": "smallint",
    "SMALLINT": "smallint",
    "INTEGER": "integer",
    "BIGINT": "bigint",
    "FLOAT": "real",
    "DOUBLE": "double precision",
    "DATE": "date",
    "BYTES": "bytea",
}
_NARROWER = {
    "SMALLINT": ("TINYINT",),
    "INTEGER": ("TINYINT", "SMALLINT"),
    "BIGINT": ("TINYINT", "SMALLINT", "INTEGER"),
    "DOUBLE": ("FLOAT",),
}


def of_postgresql(text: str) -> DataType:
    """Return the type that `format_type` writes as `text`: 'numeric(12,2)', 'timestamp(3) with time zone', 'integer[]'."""
    match = _FORM.match(text)
    if match is None:
        return VARCHAR
    name, first, second, zone, array = match.groups()
    element = _scalar(name, None if first is None else int(first), int(second or 0), zone)
    return Array(element) if array else element


def _scalar(name: str, first: int | None, second: int, zone: str | None) -> DataType:
    if name == "timestamp":
        return Timestamp(6 if first is None else first, local=zone == " with time zone")
    if name == "numeric" and first is not None and 0 <= second <= first <= _DECIMAL_DIGITS_MAX:
        return Decimal(first, second)
    if name in ("character varying", "character") and first is not None:
        return Varchar(first)
    return _PLAIN.get(name, VARCHAR)


def to_postgresql(kind: DataType) -> str:
    """Return the type of a new table's column for one of ours; fractions of a second end at six digits there."""
    match kind:
        case Primitive(name):
            return _OURS[name]
        case Varchar(length):
            return "text" if length is None else f"varchar({length})"
        case Decimal(precision, scale):
            return f"numeric({precision},{scale})"
        case Timestamp(precision, local):
            return f"timestamp({min(precision, 6)}) {'with' if local else 'without'} time zone"
        case Array(element):
            return f"{to_postgresql(element)}[]"
        case Map() | Struct():
            return "jsonb"
    raise TypeError(f"no PostgreSQL type for {kind}")


def fits(given: DataType, column: DataType) -> bool:
    """True if values of one of our types can be written into a table's column, which is `column` to us.

    VARCHAR is text, or one of PostgreSQL's own types, which are written as their text; one with a length may turn out too short.
    What a value may lose are digits of a fraction of a second.
    """
    match given, column:
        case _, Varchar():
            return True
        case Primitive(narrow), Primitive(wide):
            return narrow == wide or narrow in _NARROWER.get(wide, ())
        case Decimal(), Decimal():
            whole = given.precision - given.scale <= column.precision - column.scale
            return whole and given.scale <= column.scale
        case Timestamp(), Timestamp():
            return given.local == column.local
        case Array(inner), Array(outer):
            return fits(inner, outer)
    return False


def changes(given: DataType, text: str) -> bool:
    """True if a column of PostgreSQL's type `text` stores some values of ours as others, without an error.

    A VARCHAR is meant as that type's own text. PostgreSQL reads it as it reads a literal, and rounds it as it rounds one.
    """
    if text.endswith("[]"):
        # Arrays of any depth have one type there.
        while isinstance(given, Array):
            given = given.element
        text = text.removesuffix("[]")
    match = _FORM.match(text)
    name, digits, decimals = match.group(1, 2, 3) if match else (text, None, None)
    if name in _CUT:
        return True
    if name == "time":
        return isinstance(given, Timestamp)
    if name == "money":
        return _is_rounded(given, _CENTS)
    return name == "numeric" and digits is not None and _is_rounded(given, int(decimals or 0))


def _is_rounded(given: DataType, decimals: int) -> bool:
    if isinstance(given, Decimal):
        return given.scale > decimals
    return given in (FLOAT, DOUBLE) or (given in INTEGRAL and decimals < 0)
