"""PostgreSQL's types: OIDs, the type of each of the product's types, and values in PostgreSQL's text and binary formats."""

from __future__ import annotations

import base64
import datetime
import decimal
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.core.resultset import ResultColumn
from headrace.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    SMALLINT,
    TINYINT,
    Array,
    DataType,
    Decimal,
    Map,
    Struct,
    Timestamp,
    Varchar,
)
from headrace.server.postgres.errors import PostgresError
from headrace.server.postgres.messages import NULL, encoded

BOOL, BYTEA, CHAR, NAME, INT8, INT2, INT4, TEXT, OID = 16, 17, 18, 19, 20, 21, 23, 25, 26
JSON, UNKNOWN, FLOAT4, FLOAT8, BPCHAR, VARCHAR, DATES = 114, 705, 700, 701, 1042, 1043, 1082
TIMESTAMP, TIMESTAMPTZ, NUMERIC, UUID, JSONB = 1114, 1184, 1700, 2950, 3802


@dataclass(frozen=True)
class Kind:
    """A type of PostgreSQL: name, size of values (-1: variable), OID of its array type, and category."""

    name: str
    size: int
    array: int
    category: str


KINDS = {
    BOOL: Kind("bool", 1, 1000, "B"),
    BYTEA: Kind("bytea", -1, 1001, "U"),
    CHAR: Kind("char", 1, 1002, "Z"),
    NAME: Kind("name", 64, 1003, "S"),
    INT8: Kind("int8", 8, 1016, "N"),
    INT2: Kind("int2", 2, 1005, "N"),
    INT4: Kind("int4", 4, 1007, "N"),
    TEXT: Kind("text", -1, 1009, "S"),
    OID: Kind("oid", 4, 1028, "N"),
    JSON: Kind("json", -1, 199, "U"),
    FLOAT4: Kind("float4", 4, 1021, "N"),
    FLOAT8: Kind("float8", 8, 1022, "N"),
    BPCHAR: Kind("bpchar", -1, 1014, "S"),
    VARCHAR: Kind("varchar", -1, 1015, "S"),
    DATES: Kind("date", 4, 1182, "D"),
    TIMESTAMP: Kind("timestamp", 8, 1115, "D"),
    TIMESTAMPTZ: Kind("timestamptz", 8, 1185, "D"),
    NUMERIC: Kind("numeric", -1, 1231, "N"),
    UUID: Kind("uuid", 16, 2951, "U"),
    JSONB: Kind("jsonb", -1, 3807, "U"),
}
ELEMENTS = {kind.array: oid for oid, kind in KINDS.items()}
"""The element type of each array type."""

LONG_NAMES = {
    "bool": "boolean",
    "int2": "smallint",
    "int4": "integer",
    "int8": "bigint",
    "float4": "real",
    "float8": "double precision",
    "varchar": "character varying",
    "bpchar": "character",
    "char": '"char"',
    "timestamp": "timestamp without time zone",
    "timestamptz": "timestamp with time zone",
}
"""The names by which PostgreSQL prints its types, where they differ."""

TEXTS = frozenset({TEXT, VARCHAR, BPCHAR, NAME})
_ALIASES = {"int": INT4, "string": TEXT, "float": FLOAT8, "double": FLOAT8, "decimal": NUMERIC}
_BY_NAME = {
    **{kind.name: oid for oid, kind in KINDS.items() if oid != CHAR},
    **{LONG_NAMES[kind.name]: oid for oid, kind in KINDS.items() if kind.name in LONG_NAMES},
    **_ALIASES,
}
_PLAIN: dict[DataType, int] = {
    BOOLEAN: BOOL,
    TINYINT: INT2,
    SMALLINT: INT2,
    INTEGER: INT4,
    BIGINT: INT8,
    FLOAT: FLOAT4,
    DOUBLE: FLOAT8,
    DATE: DATES,
    BYTES: BYTEA,
}
_EPOCH = datetime.datetime(2000, 1, 1)
_EPOCH_DAY = _EPOCH.toordinal()
_MICROSECOND = datetime.timedelta(microseconds=1)
_SPACES = " \t\r\n\v\f"
Cell = str | list[str | None] | None
"""A value in PostgreSQL's text format; an array is a list."""


def type_name(oid: int) -> str:
    """Return the name by which PostgreSQL prints a type; `???` for an unknown one."""
    element = ELEMENTS.get(oid)
    if element is not None:
        return type_name(element) + "[]"
    name = KINDS[oid].name if oid in KINDS else "???"
    return LONG_NAMES.get(name, name)


def named_type(name: str, *, is_array: bool = False) -> int | None:
    """Return the OID of a type by its name in any case, or that of its arrays; None for an unknown one."""
    oid = _BY_NAME.get(" ".join(name.lower().split()))
    return KINDS[oid].array if is_array and oid is not None else oid


def oid_of(kind: DataType) -> int:
    """Return the OID of PostgreSQL's type for the values of a type: ARRAY, MAP and STRUCT are json."""
    if isinstance(kind, Varchar):
        return TEXT if kind.length is None else VARCHAR
    if isinstance(kind, Decimal):
        return NUMERIC
    if isinstance(kind, Timestamp):
        return TIMESTAMPTZ if kind.local else TIMESTAMP
    if isinstance(kind, Array | Map | Struct):
        return JSON
    return _PLAIN.get(kind, TEXT)


def modifier_of(kind: DataType) -> int:
    """Return the type's modifier, which has its length or its precision; -1 if it has none."""
    if isinstance(kind, Varchar) and kind.length is not None:
        return kind.length + 4
    if isinstance(kind, Decimal):
        return (kind.precision << 16 | kind.scale) + 4
    if isinstance(kind, Timestamp) and kind.digits != Timestamp().digits:
        return kind.digits
    return -1


@dataclass(frozen=True)
class Column:
    """A column of a result. `converted` turns the text of a cell of the product into PostgreSQL's, None if they are the same."""

    name: str
    oid: int
    modifier: int = -1
    converted: Callable[[str], str] | None = field(default=None, compare=False)

    @property
    def size(self) -> int:
        """The size of the column's values; -1 if it is variable."""
        return KINDS[self.oid].size if self.oid in KINDS else -1


def column_of(column: ResultColumn) -> Column:
    """Return a column of the product as PostgreSQL's."""
    kind, converted = column.type, None
    if kind == BOOLEAN:
        converted = _boolean
    elif kind == BYTES:
        converted = _bytes
    elif isinstance(kind, Timestamp) and kind.local:
        converted = _with_zone
    return Column(column.name, oid_of(kind), modifier_of(kind), converted)


Codecs = list[tuple[Callable[[Any], str] | None, Callable[[Cell], bytes]]]
"""For each column the conversion of its cells, and their encoder."""


def encoders(columns: Sequence[Column], formats: Sequence[int]) -> Codecs:
    """Return for each column the conversion of its cells, and the encoder into its format: 0 is text, 1 binary."""
    encoded_as: Codecs = []
    for column, form in zip(columns, formats, strict=True):
        element = ELEMENTS.get(column.oid)
        if not form:
            encoded_as.append((column.converted, _as_text))
        elif element is not None:
            encoded_as.append((column.converted, _array_encoder(element)))
        else:
            encoded_as.append((column.converted, _scalar_encoder(column.oid)))
    return encoded_as


def array_text(items: Sequence[str | None]) -> str:
    """Return an array in PostgreSQL's text format."""
    return "{" + ",".join("NULL" if item is None else _element_text(item) for item in items) + "}"


def _element_text(item: str) -> str:
    plain = item and item.upper() != "NULL" and not any(char in item for char in '{}",\\' + _SPACES)
    return item if plain else '"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _as_text(cell: Cell) -> bytes:
    return encoded(array_text(cell) if isinstance(cell, list) else cell or "")


def _boolean(text: str) -> str:
    return "t" if text == "true" else "f"


def _bytes(text: str) -> str:
    return "\\x" + base64.b64decode(text).hex()


def _with_zone(text: str) -> str:
    return text.removesuffix("Z") + "+00"


def _scalar_encoder(oid: int) -> Callable[[Cell], bytes]:
    binary = _BINARY.get(oid, encoded)
    return lambda cell: binary(str(cell))


def _array_encoder(element: int) -> Callable[[Cell], bytes]:
    binary = _BINARY.get(element, encoded)

    def encode(cell: Cell) -> bytes:
        items = cell if isinstance(cell, list) else []
        if not items:
            return struct.pack("!iiI", 0, 0, element)
        parts = [struct.pack("!iiIii", 1, None in items, element, len(items), 1)]
        for item in items:
            value = binary(item) if item is not None else None
            parts += (NULL,) if value is None else (struct.pack("!i", len(value)), value)
        return b"".join(parts)

    return encode


def _packed(form: str, convert: Callable[[str], object]) -> Callable[[str], bytes]:
    packer = struct.Struct(form)
    return lambda text: packer.pack(convert(text))


def _microseconds(text: str) -> int:
    return (datetime.datetime.fromisoformat(text.removesuffix("+00")) - _EPOCH) // _MICROSECOND


def _days(text: str) -> int:
    return datetime.date.fromisoformat(text).toordinal() - _EPOCH_DAY


def _numeric(text: str) -> bytes:
    """Return a number as groups of four digits: how many, the first one's power of 10,000, sign, digits after the point, groups."""
    value = decimal.Decimal(text)
    if not value.is_finite():
        return struct.pack("!hhHh", 0, 0, 0xC000, 0)
    whole, _, fraction = format(abs(value), "f").partition(".")
    whole = whole.zfill(-(-len(whole) // 4) * 4)
    padded = fraction.ljust(-(-len(fraction) // 4) * 4, "0")
    digits = [int((whole + padded)[place : place + 4]) for place in range(0, len(whole + padded), 4)]
    weight = len(whole) // 4 - 1
    while digits and digits[0] == 0:
        del digits[0]
        weight -= 1
    while digits and digits[-1] == 0:
        del digits[-1]
    sign = 0x4000 if value < 0 else 0
    head = struct.pack("!hhHh", len(digits), weight if digits else 0, sign, len(fraction))
    return head + struct.pack(f"!{len(digits)}h", *digits)


_BINARY: dict[int, Callable[[str], bytes]] = {
    BOOL: _packed("!?", lambda text: text == "t"),
    BYTEA: lambda text: bytes.fromhex(text[2:]),
    INT2: _packed("!h", int),
    INT4: _packed("!i", int),
    INT8: _packed("!q", int),
    OID: _packed("!I", int),
    FLOAT4: _packed("!f", float),
    FLOAT8: _packed("!d", float),
    DATES: _packed("!i", _days),
    TIMESTAMP: _packed("!q", _microseconds),
    TIMESTAMPTZ: _packed("!q", _microseconds),
    NUMERIC: _numeric,
    JSONB: lambda text: b"\1" + encoded(text),
}
"""The binary format of values, from their text; for all other types both formats are the text."""


# --- parameters

Value = bool | int | float | str | bytes | decimal.Decimal | datetime.date | list["Value"] | None
"""A parameter's value. Types without a class in Python, such as uuid, are their text."""


def parameter(oid: int, form: int, content: bytes, decode: Callable[[bytes], str]) -> Value:
    """Return the value of a parameter of a type in a format. Raises PostgresError 22P02 or 0A000 if it cannot be read."""
    element = ELEMENTS.get(oid)
    name = KINDS[oid].name if oid in KINDS else "array" if element is not None else f"OID {oid}"
    try:
        if element is not None:
            if form:
                return _binary_array(content, decode)
            return [
                None if item is None else _FROM_TEXT.get(element, str)(item)
                for item in array_items(decode(content))
            ]
        if not form:
            return _FROM_TEXT.get(oid, str)(decode(content))
        if oid in (0, TEXT, VARCHAR, BPCHAR, NAME, CHAR, UNKNOWN, JSON):
            return decode(content)
        if oid in _FROM_BINARY:
            return _FROM_BINARY[oid](content)
    except (ValueError, ArithmeticError, struct.error, IndexError):
        raise PostgresError("22P02", f"a parameter of type {name} has a value that cannot be read") from None
    raise PostgresError(
        "0A000",
        f"parameters of type {name} are not supported in the binary format",
        hint="Send the value as text.",
    )


def array_items(text: str) -> list[str | None]:
    """Return the elements of an array with one dimension in the text format. Raises ValueError."""
    if not (text.startswith("{") and text.endswith("}")):
        raise ValueError(text)
    items: list[str | None] = []
    at, end = 1, len(text) - 1
    while at < end:
        if text[at] == '"':
            item, at = _quoted_item(text, at + 1)
            items.append(item)
        else:
            stop = text.find(",", at, end)
            stop = end if stop < 0 else stop
            bare, at = text[at:stop].strip(_SPACES), stop
            if not bare or "{" in bare:
                raise ValueError(text)
            items.append(None if bare.upper() == "NULL" else bare)
        if at < end and text[at] != ",":
            raise ValueError(text)
        at += 1
    return items


def _quoted_item(text: str, at: int) -> tuple[str, int]:
    item = []
    while text[at] != '"':
        if text[at] == "\\":
            at += 1
        item.append(text[at])
        at += 1
    return "".join(item), at + 1


def _binary_array(content: bytes, decode: Callable[[bytes], str]) -> list[Value]:
    dimensions, _, element = struct.unpack_from("!iiI", content)
    if dimensions == 0:
        return []
    if dimensions != 1:
        raise ValueError("one dimension")
    (count,) = struct.unpack_from("!i", content, 12)
    at, items = 20, list[Value]()
    for _ in range(count):
        (size,) = struct.unpack_from("!i", content, at)
        at += 4
        if size >= 0 and at + size > len(content):
            raise ValueError("too short")
        items.append(parameter(element, 1, content[at : at + size], decode) if size >= 0 else None)
        at += max(size, 0)
    return items


def _moment(text: str) -> datetime.datetime:
    value = datetime.datetime.fromisoformat(text.strip())
    return value.replace(tzinfo=None)


def _moment_with_zone(text: str) -> datetime.datetime:
    value = datetime.datetime.fromisoformat(text.strip())
    return value.astimezone(datetime.UTC) if value.tzinfo else value.replace(tzinfo=datetime.UTC)


def _truth(text: str) -> bool:
    word = text.strip().lower()
    if word in ("t", "true", "yes", "on", "1", "y"):
        return True
    if word in ("f", "false", "no", "off", "0", "n"):
        return False
    raise ValueError(text)


def _unhex(text: str) -> bytes:
    if not text.startswith("\\x"):
        raise ValueError(text)
    return bytes.fromhex(text[2:])


def _plain_number(content: bytes) -> decimal.Decimal:
    count, weight, sign, scale = struct.unpack_from("!hhHh", content)
    if sign & 0x8000 or count < 0 or abs(weight) > _WEIGHT_MAX or not 0 <= scale <= _SCALE_MAX:
        raise ValueError("not a number")
    digits = struct.unpack_from(f"!{count}h", content, 8)
    value = sum(
        (decimal.Decimal(digit).scaleb(4 * (weight - place)) for place, digit in enumerate(digits)),
        decimal.Decimal(0),
    )
    return -value if sign else value


_WEIGHT_MAX, _SCALE_MAX = 20, 100
"""Numbers of the product have at most 38 digits."""

_FROM_TEXT: dict[int, Callable[[str], Value]] = {
    BOOL: _truth,
    BYTEA: _unhex,
    **dict.fromkeys((INT2, INT4, INT8, OID), int),
    **dict.fromkeys((FLOAT4, FLOAT8), float),
    NUMERIC: decimal.Decimal,
    DATES: lambda text: datetime.date.fromisoformat(text.strip()),
    TIMESTAMP: _moment,
    TIMESTAMPTZ: _moment_with_zone,
}


def _unpacked(form: str) -> Callable[[bytes], Value]:
    unpacker = struct.Struct(form)

    def read(content: bytes) -> Value:
        value: Value = unpacker.unpack(content)[0]
        return value

    return read


def _from_microseconds(content: bytes) -> datetime.datetime:
    return _EPOCH + datetime.timedelta(microseconds=struct.unpack("!q", content)[0])


_FROM_BINARY: dict[int, Callable[[bytes], Value]] = {
    BOOL: lambda content: content == b"\1",
    BYTEA: bytes,
    INT2: _unpacked("!h"),
    INT4: _unpacked("!i"),
    INT8: _unpacked("!q"),
    OID: _unpacked("!I"),
    FLOAT4: _unpacked("!f"),
    FLOAT8: _unpacked("!d"),
    NUMERIC: _plain_number,
    DATES: lambda content: datetime.date.fromordinal(_EPOCH_DAY + struct.unpack("!i", content)[0]),
    TIMESTAMP: _from_microseconds,
    TIMESTAMPTZ: lambda content: _from_microseconds(content).replace(tzinfo=datetime.UTC),
}
