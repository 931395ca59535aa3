"""Conversion between ClickHouse's types and Headrace's; pure.

Types without a counterpart (UUID, enums, addresses, JSON, numbers of more than 64 bits, …) become VARCHAR with ClickHouse's text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.connectors.clickhouse.client import identifier, literal
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
from headrace.formats.types import name_sql

_DECIMAL_DIGITS_MAX = 38
_MICROSECONDS = 6
_TOKEN = re.compile(r"\s*(`(?:[^`\\]|\\.)*`|'(?:[^'\\]|\\.)*'|[\w.\-]+|[(),=])")
_PLAIN: dict[str, DataType] = {
    "Bool": BOOLEAN,
    "Int8": TINYINT,
    "Int16": SMALLINT,
    "Int32": INTEGER,
    "Int64": BIGINT,
    "UInt8": SMALLINT,
    "UInt16": INTEGER,
    "UInt32": BIGINT,
    "UInt64": Decimal(20, 0),
    "Float32": FLOAT,
    "Float64": DOUBLE,
    "Date": DATE,
    "Date32": DATE,
    "String": VARCHAR,
}
_OURS = {
    "BOOLEAN": "Bool",
    "TINYINT": "Int8",
    "SMALLINT": "Int16",
    "INTEGER": "Int32",
    "BIGINT": "Int64",
    "FLOAT": "Float32",
    "DOUBLE": "Float64",
    "DATE": "Date32",
    "BYTES": "String",
}
# The values of our types that ClickHouse's type holds. ClickHouse stores other values as one of these, in lists, maps and structs always.
_RANGES = {
    "UInt8": ("0", "255"),
    "UInt16": ("0", "65535"),
    "UInt32": ("0", "4294967295"),
    "UInt64": ("0", "18446744073709551615"),
    "Date": ("DATE '1970-01-01'", "DATE '2149-06-06'"),
    "Date32": ("DATE '1900-01-01'", "DATE '2299-12-31'"),
    "DateTime": ("TIMESTAMP '1970-01-01 00:00:00Z'", "TIMESTAMP '2106-02-07 06:28:15Z'"),
    "DateTime64": ("TIMESTAMP '1900-01-01 00:00:00Z'", "TIMESTAMP '2299-12-31 23:59:59.999999Z'"),
}
_NANOSECONDS = ("TIMESTAMP '1900-01-01 00:00:00Z'", "TIMESTAMP '2262-04-11 23:47:16Z'")
_ROUNDED_TEXTS = ("BFloat16", "Decimal", "Int128", "Int256", "UInt128", "UInt256")
"""Types that are VARCHAR here, and of which ClickHouse may store a number's text as another number."""


@dataclass(frozen=True)
class Type:
    """A type as ClickHouse writes it: `Nullable(DateTime64(3, 'UTC'))` is the DateTime64 with its arguments as texts.

    `parts` are the types inside, with the names of a Tuple's. One around others that does not matter to us is left out.
    """

    name: str
    arguments: tuple[str, ...] = ()
    parts: tuple[tuple[str, Type], ...] = ()
    nullable: bool = False

    def __str__(self) -> str:
        return f"Nullable({self.name})" if self.nullable else self.name

    @classmethod
    def read(cls, text: str) -> Type:
        """Parse a column's type as `system.columns` has it."""
        return _Reader(text).type()


def of_clickhouse(stored: Type) -> DataType:
    """Return our type for a column."""
    match stored.name:
        case "Array":
            return Array(of_clickhouse(stored.parts[0][1]))
        case "Map":
            return Map(of_clickhouse(stored.parts[0][1]), of_clickhouse(stored.parts[1][1]))
        case "Tuple" if all(name for name, _ in stored.parts):
            return Struct(tuple((name, of_clickhouse(part)) for name, part in stored.parts))
        case "Decimal":
            precision, scale = int(stored.arguments[0]), int(stored.arguments[1])
            return Decimal(precision, scale) if precision <= _DECIMAL_DIGITS_MAX else VARCHAR
        case "DateTime":
            return Timestamp(0, local=stored.arguments != ("'UTC'",))
        case "DateTime64":
            return Timestamp(int(stored.arguments[0]), local=stored.arguments[1:] != ("'UTC'",))
    return _PLAIN.get(stored.name, VARCHAR)


def to_clickhouse(kind: DataType, *, nullable: bool = True) -> str:
    """Return the type of a new table's column. Lists, maps and structs are never NULL there, but their elements may be.

    A TIMESTAMP, which has no zone, is shown in UTC; a TIMESTAMP_LTZ is shown in the server's zone.
    """
    match kind:
        case Array(element):
            return f"Array({to_clickhouse(element)})"
        case Map(key, value):
            return f"Map({to_clickhouse(key, nullable=False)}, {to_clickhouse(value)})"
        case Struct(fields):
            return (
                f"Tuple({', '.join(f'{identifier(name)} {to_clickhouse(field)}' for name, field in fields)})"
            )
        case Primitive(name):
            type_name = _OURS[name]
        case Varchar():
            type_name = "String"
        case Decimal(precision, scale):
            type_name = f"Decimal({precision}, {scale})"
        case Timestamp(precision, local):
            zone = "" if local else ", 'UTC'"
            type_name = f"DateTime64({min(precision, _MICROSECONDS)}{zone})"
        case _:
            raise TypeError(f"no ClickHouse type for {kind}")
    return f"Nullable({type_name})" if nullable else type_name


def read_sql(column: str, kind: DataType, stored: Type) -> str:
    """Return an expression that converts a column of any type to Spark's type for `kind`."""
    name = identifier(column)
    if stored.name == "String" and not isinstance(kind, Varchar):
        return name if kind == BYTES else f"CAST({name}, {literal(to_clickhouse(kind))})"
    if isinstance(kind, Varchar) and stored.name not in ("String", "FixedString"):
        return f"toString({name})"
    return f"CAST({name}, {literal(_in_microseconds(kind))})"


def compares(stored: Type) -> bool:
    """True if ClickHouse and Spark compare the column's values in the same way, floats without NaN."""
    return stored.name in (*_PLAIN, "Decimal") and stored.name not in ("Float32", "Float64", "UInt64")


def reads(own: DataType, kind: DataType) -> bool:
    """True if a column can be read as the relation's type; text lengths and fractions of a second do not matter."""
    match own, kind:
        case Varchar(), (Varchar() | Primitive("BYTES")):
            return True
        case Timestamp(_, one), Timestamp(_, other):
            return one == other
        case Array(one), Array(other):
            return reads(one, other)
        case Map(key, value), Map(other_key, other_value):
            return reads(key, other_key) and reads(value, other_value)
        case Struct(some), Struct(others):
            same = [name for name, _ in some] == [name for name, _ in others]
            return same and all(reads(a, b) for (_, a), (_, b) in zip(some, others, strict=True))
    return own == kind


def fits(kind: DataType, stored: Type) -> bool:
    """True if a column stores every value of our type unchanged, or `refused_sql` or ClickHouse refuses the values that do not fit."""
    own = of_clickhouse(stored)
    match kind, own:
        case (Varchar() | Primitive("BYTES"), Varchar()):
            # ClickHouse reads the text of any other type: a text that is none becomes NULL where there may be one.
            text = (
                kind != BYTES
                and not stored.nullable
                and stored.name not in ("AggregateFunction", *_ROUNDED_TEXTS)
            )
            return stored.name in ("String", "FixedString") or text
        case Decimal(_, 0), _ if stored.name == "UInt64":
            return True
        case Decimal(precision, scale), Decimal(most, decimals):
            whole = precision - scale <= most - decimals
            return stored.name == "Decimal" and scale <= decimals and whole
        case Timestamp(precision), Timestamp(most):
            return precision <= most
        case Array(element), Array():
            return fits(element, stored.parts[0][1])
        case Map(key, value), Map():
            return fits(key, stored.parts[0][1]) and fits(value, stored.parts[1][1])
        case Struct(fields), Struct(others):
            parts = dict(stored.parts)
            names = [name for name, _ in fields]
            return names == [name for name, _ in others] and all(
                fits(field, parts[name]) for name, field in fields
            )
        case Primitive(), _ if kind in INTEGRAL:
            return stored.name in _RANGES or (own in INTEGRAL and INTEGRAL.index(own) >= INTEGRAL.index(kind))
        case Primitive("FLOAT"), _:
            return stored.name in ("Float32", "Float64")
    return kind == own


def refused_sql(value: str, kind: DataType, stored: Type, *, depth: int = 0) -> str | None:
    """Return Spark SQL that is true for values that a column would silently store as another value or as NULL; None if there are none.

    `depth` counts the lists and maps around the value. A NULL outside of them is refused by ClickHouse itself if the column is no
    list, map or struct.
    """
    item = f"item{depth}"

    def any_of(items: str, kind: DataType, part: Type) -> str | None:
        refused = refused_sql(item, kind, part, depth=depth + 1)
        return None if refused is None else f"exists({items}, {item} -> {refused})"

    conditions = [f"{value} IS NULL"] if not stored.nullable and (depth or stored.parts) else []
    match kind:
        case Array(element):
            inner = [any_of(value, element, stored.parts[0][1])]
        case Map(key, mapped):
            inner = [
                any_of(f"map_keys({value})", key, stored.parts[0][1]),
                any_of(f"map_values({value})", mapped, stored.parts[1][1]),
            ]
        case Struct(fields):
            parts = dict(stored.parts)
            inner = [
                # ClickHouse refuses a NULL only for the column itself, and stores the NULL of a field as 0.
                refused_sql(f"{value}.{name_sql(name)}", field, parts[name], depth=depth + 1)
                for name, field in fields
            ]
        case _:
            inner = [
                _misfit_sql(value, stored, text=isinstance(kind, Varchar) or kind == BYTES, inside=depth > 0)
            ]
    conditions += [condition for condition in inner if condition is not None]
    return f"({' OR '.join(conditions)})" if len(conditions) > 1 else next(iter(conditions), None)


def _misfit_sql(value: str, stored: Type, *, text: bool, inside: bool) -> str | None:
    if stored.name == "FixedString":
        return f"octet_length({value}) > {stored.arguments[0]}" if stored.nullable or inside else None
    limits = _RANGES.get(stored.name)
    if stored.name == "DateTime64" and int(stored.arguments[0]) > _MICROSECONDS:
        limits = _NANOSECONDS
    return None if limits is None or text else f"{value} NOT BETWEEN {limits[0]} AND {limits[1]}"


def default(kind: DataType) -> str | None:
    """Return Spark SQL of the default value for a non-Nullable column; None if ClickHouse's own default serves."""
    match kind:
        case Array() | Map() | Struct():
            return None
        case Varchar() | Primitive("BYTES"):
            return "''"
        case Primitive("DATE"):
            return "DATE '1970-01-01'"
        case Timestamp():
            return "TIMESTAMP '1970-01-01 00:00:00Z'"
        case Primitive("BOOLEAN"):
            return "false"
    return "0"


def _in_microseconds(kind: DataType) -> str:
    """Return the type of ours with microseconds, Spark's fraction of a second."""
    return re.sub(r"DateTime64\(\d", f"DateTime64({_MICROSECONDS}", to_clickhouse(kind))


class _Reader:
    """Parser of types such as `Map(LowCardinality(String), Array(Nullable(Float64)))`."""

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)[::-1]

    def type(self) -> Type:
        name = self._tokens.pop() if self._tokens else ""
        if not self._accept("("):
            return Type(name)
        if name in ("Nullable", "LowCardinality"):
            inner = self.type()
            self._accept(")")
            return Type(inner.name, inner.arguments, inner.parts, inner.nullable or name == "Nullable")
        if name in ("Array", "Map", "Tuple"):
            return Type(name, parts=tuple(self._parts(named=name == "Tuple")))
        if name == "SimpleAggregateFunction":  # of a value of the type that it has
            self._tokens.pop()
            self._accept(",")
            return next(part for _, part in self._parts(named=False))
        return Type(name, tuple(self._arguments()))

    def _parts(self, *, named: bool) -> list[tuple[str, Type]]:
        parts = []
        while self._tokens and not self._accept(")"):
            name = ""
            if named and len(self._tokens) > 1 and self._tokens[-2] not in ("(", ")", ","):
                name = _unquoted(self._tokens.pop())
            parts.append((name, self.type()))
            self._accept(",")
        return parts

    def _arguments(self) -> list[str]:
        arguments, depth = [], 1
        while self._tokens:
            part = self._tokens.pop()
            depth += {"(": 1, ")": -1}.get(part, 0)
            if not depth:
                break
            if part not in (",", "(", ")"):
                arguments.append(part)
        return arguments

    def _accept(self, token: str) -> bool:
        if self._tokens and self._tokens[-1] == token:
            self._tokens.pop()
            return True
        return False


def _unquoted(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name[1:-1]) if name.startswith("`") else name
