"""Conversion between Oracle's types and Headrace's, in tables, in the driver's values, and in queries; pure.

A type of Oracle is a text, which `type_text` composes from the dictionary's columns. Types without a counterpart (NUMBER without a
precision, JSON, intervals, XMLTYPE, …) become VARCHAR.
"""

from __future__ import annotations

import re

from headrace.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
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

TEXT_LENGTH_MAX = 4000
"""Of a VARCHAR2, in bytes, whatever it is declared in."""
_DIGITS_MAX = 38
_FORM = re.compile(r"([\w ]+?)(?:\((\d+)(?:,(-?\d+))?\))?( WITH (?:LOCAL )?TIME ZONE)?\Z")
_TEXTS = ("VARCHAR2", "NVARCHAR2", "CHAR", "NCHAR")
_LONG_TEXTS = ("CLOB", "NCLOB")
_FLOATS = {"BINARY_FLOAT": FLOAT, "BINARY_DOUBLE": DOUBLE, "FLOAT": DOUBLE}
_PLAIN: dict[str, DataType] = {**_FLOATS, "RAW": BYTES, "BLOB": BYTES, "BOOLEAN": BOOLEAN}
_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19}
_OURS = {
    "BOOLEAN": "NUMBER(1,0)",
    "FLOAT": "BINARY_FLOAT",
    "DOUBLE": "BINARY_DOUBLE",
    "DATE": "DATE",
    "BYTES": "BLOB",
}
_WHOLE = ((4, SMALLINT), (9, INTEGER), (19, BIGINT))
"""Up to how many digits a number without a fraction fits: of 19 not each, but a BIGINT needs them."""
# Texts of what is no text there: of the column `{}`.
_AS_TEXT = {
    "DATE": "TO_CHAR({}, 'YYYY-MM-DD HH24:MI:SS')",
    "TIMESTAMP": "TO_CHAR({}, 'YYYY-MM-DD HH24:MI:SS.FF')",
    "TIMESTAMP WITH TIME ZONE": "TO_CHAR({}, 'YYYY-MM-DD HH24:MI:SS.FF TZH:TZM')",
    "TIMESTAMP WITH LOCAL TIME ZONE": "TO_CHAR({}, 'YYYY-MM-DD HH24:MI:SS.FF')",
    "INTERVAL YEAR": "TO_CHAR({})",
    "INTERVAL DAY": "TO_CHAR({})",
    "RAW": "RAWTOHEX({})",
    "ROWID": "ROWIDTOCHAR({})",
    "BOOLEAN": "CASE WHEN {0} THEN 'true' WHEN NOT {0} THEN 'false' END",
    "JSON": "JSON_SERIALIZE({} RETURNING CLOB)",
    "XMLTYPE": "XMLSERIALIZE(CONTENT {} AS CLOB)",
}
_AS_THEY_ARE = (*_TEXTS, *_LONG_TEXTS, "NUMBER", *_FLOATS)


def type_text(name: str, precision: int | None, scale: int | None, length: int | None) -> str:
    """Return the type of DATA_TYPE, DATA_PRECISION, DATA_SCALE and CHAR_LENGTH of ALL_TAB_COLS: 'NUMBER(10,2)', 'VARCHAR2(40)',
    'TIMESTAMP(6)'."""
    if name == "NUMBER" and scale is not None:
        return f"NUMBER({precision or _DIGITS_MAX},{scale})"
    return f"{name}({length})" if name in _TEXTS else name


def name_of(text: str) -> str:
    """Return NUMBER of 'NUMBER(10,2)', 'TIMESTAMP WITH TIME ZONE' of 'TIMESTAMP(6) WITH TIME ZONE', 'INTERVAL DAY' of its like."""
    if text.startswith("INTERVAL"):
        return " ".join(re.split(r"[ (]", text)[:2])
    match = _FORM.match(text)
    return f"{match[1]}{match[4] or ''}" if match else text


def of_oracle(text: str) -> DataType:
    """Return the type of a column."""
    name = name_of(text)
    first, second = _digits(text)
    if name == "NUMBER" and first:
        return _number(first, second)
    if name in _TEXTS:
        return Varchar(first) if first else VARCHAR
    if name == "DATE":
        return Timestamp(0, local=False)
    if name.startswith("TIMESTAMP"):
        return Timestamp(first, local=name != "TIMESTAMP")
    return _PLAIN.get(name, VARCHAR)


def _number(precision: int, scale: int) -> DataType:
    # NUMBER(5,-2) has zeros before the point, NUMBER(2,5) after it.
    digits, decimals = max(precision - min(scale, 0), scale), max(scale, 0)
    if decimals == 0:
        for most, kind in _WHOLE:
            if digits <= most:
                return kind
    return Decimal(digits, decimals) if digits <= _DIGITS_MAX else VARCHAR


def to_oracle(kind: DataType) -> str:
    """Return the type of a new table's column."""
    match kind:
        case Primitive(name):
            return f"NUMBER({_DIGITS[name]},0)" if name in _DIGITS else _OURS[name]
        case Varchar(length):
            short = length is None or length <= TEXT_LENGTH_MAX
            return f"VARCHAR2({length or TEXT_LENGTH_MAX} CHAR)" if short else "CLOB"
        case Decimal(precision, scale):
            return f"NUMBER({precision},{scale})"
        case Timestamp(precision, local):
            return f"TIMESTAMP({precision}){' WITH TIME ZONE' if local else ''}"
        case Array() | Map() | Struct():
            return "CLOB"
    raise TypeError(f"no Oracle type for {kind}")


def is_key(kind: DataType) -> bool:
    """True if a column of a primary key can have the type: Oracle compares no LOBs."""
    return to_oracle(kind) not in ("CLOB", "BLOB")


def fits(kind: DataType, text: str) -> bool:
    """True if values of ours can be written into a column, or are refused by Oracle one by one, as texts that are too long."""
    name, own = name_of(text), of_oracle(text)
    match kind:
        case Array() | Map() | Struct() | Varchar():
            return name in _TEXTS or name in _LONG_TEXTS
        case Timestamp(precision, local):
            # A DATE has seconds, and none of their parts.
            return isinstance(own, Timestamp) and own.local == local and (name != "DATE" or precision == 0)
        case Decimal(precision, scale):
            return name == "NUMBER" and _holds(text, precision - scale, scale)
        case Primitive("BOOLEAN"):
            return name == "BOOLEAN" or (name == "NUMBER" and _holds(text, 1, 0))
        case Primitive("FLOAT"):
            return name in ("BINARY_FLOAT", "BINARY_DOUBLE")
        case Primitive("DOUBLE" | "DATE"):
            return name == _OURS[kind.name]
        case Primitive("BYTES"):
            return name in ("RAW", "BLOB")
        case Primitive() if kind in INTEGRAL:
            return name == "NUMBER" and _holds(text, _DIGITS[kind.name], 0)
    return False


def _holds(text: str, whole: int, decimals: int) -> bool:
    """True if a NUMBER has so many digits before and after the point; one without a precision has them where they are needed."""
    precision, scale = _digits(text)
    return precision == 0 or (whole <= precision - scale and decimals <= scale)


def _digits(text: str) -> tuple[int, int]:
    """Return precision and scale of 'NUMBER(10,2)'; (0, 0) if the text has none."""
    match = _FORM.match(text)
    return (int(match[2] or 0), int(match[3] or 0)) if match else (0, 0)


def reads(kind: DataType, text: str) -> bool:
    """True if a column can be read as a relation's of that type; of numbers each must fit."""
    name, own = name_of(text), of_oracle(text)
    match kind:
        case Array() | Map() | Struct():
            return name in (*_TEXTS, *_LONG_TEXTS, "JSON")
        case Varchar():
            return name in _AS_THEY_ARE or name in _AS_TEXT
        case Timestamp(_, local):
            return isinstance(own, Timestamp) and own.local == local
        case Decimal(_, scale):
            return name == "NUMBER" and _digits(text)[1] <= scale
        case Primitive("BOOLEAN"):
            return name in ("BOOLEAN", "NUMBER")
        case Primitive("FLOAT" | "DOUBLE"):
            return name in _FLOATS or name == "NUMBER"
        case Primitive("DATE"):
            return name == "DATE"
        case Primitive("BYTES"):
            return own == kind
        case Primitive() if kind in INTEGRAL:
            return name == "NUMBER"
    return False


def read_sql(column: str, kind: DataType, text: str) -> str:
    """Return Oracle's SQL for a column, whose name as SQL is `column`: times in UTC, and texts for types without a counterpart."""
    name = name_of(text)
    if isinstance(kind, Timestamp) and kind.local:
        return f"SYS_EXTRACT_UTC({column})"
    as_text = isinstance(kind, Varchar) or (isinstance(kind, Array | Map | Struct) and name == "JSON")
    return _AS_TEXT[name].format(column) if as_text and name in _AS_TEXT else column


def written_sql(place: str, kind: DataType) -> str:
    """Return Oracle's SQL for a value that is sent, `place` being where it stands."""
    return f"FROM_TZ({place}, 'UTC')" if isinstance(kind, Timestamp) and kind.local else place


def sent_as(kind: DataType, text: str) -> str | None:
    """Return the driver's name of the type that values of ours are sent as; None: as texts of their length."""
    name = name_of(text)
    match kind:
        case Array() | Map() | Struct() | Varchar():
            return "DB_TYPE_CLOB" if name in _LONG_TEXTS else None
        case Timestamp():
            return "DB_TYPE_TIMESTAMP"
        case Primitive("BOOLEAN") if name == "BOOLEAN":
            return "DB_TYPE_BOOLEAN"
        case Primitive("FLOAT" | "DOUBLE"):
            return "DB_TYPE_BINARY_DOUBLE"
        case Primitive("DATE" | "BYTES"):
            return f"DB_TYPE_{name}"
    return "DB_TYPE_NUMBER"


def fetched(kind: DataType) -> DataType:
    """Return the type in which `reading` returns a column: nested values are JSON."""
    return VARCHAR if isinstance(kind, Array | Map | Struct) else kind


def column_sql(name: str, kind: DataType, *, nullable: bool) -> str:
    """Return a column of a new table; `name` is SQL."""
    return f"{name} {to_oracle(kind)}{'' if nullable else ' NOT NULL'}"
