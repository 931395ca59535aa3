"""The data types of the dialect: classes, text form, and the reader of that text.

Source: dialect section 3. `str(type)` prints what `parse_type` reads; that text is what plans, the catalog and the
wire carry. The element order of STRUCT fields matters; MAP's does not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.core.errors import Span, UserError
from headrace.core.idioms import Place, Remedy, remedy
from headrace.core.names import Identifier, printed
from headrace.core.sqlstate import SqlState
from headrace.core.suggestions import did_you_mean, nearest


class DataType:
    """Base of all types."""


@dataclass(frozen=True)
class Primitive(DataType):
    """A type without parameters: BOOLEAN, TINYINT, SMALLINT, INTEGER, BIGINT, FLOAT, DOUBLE, DATE, BYTES."""

    name: str

    def __str__(self) -> str:
        return self.name


TEXT_LENGTH_MAX = 16 * 1024 * 1024
"""Characters of a text that REPEAT, LPAD and RPAD return; arguments of a few characters would make gigabytes."""


@dataclass(frozen=True)
class Varchar(DataType):
    """Text of at most `length` code points; None means no limit."""

    length: int | None = None

    def __str__(self) -> str:
        return "VARCHAR" if self.length is None else f"VARCHAR({self.length})"


@dataclass(frozen=True)
class Decimal(DataType):
    """Exact number of `precision` digits (1–38), `scale` of them after the point."""

    precision: int = 10
    scale: int = 0

    def __str__(self) -> str:
        return f"DECIMAL({self.precision}, {self.scale})"


@dataclass(frozen=True)
class Timestamp(DataType):
    """A point in time, `precision` fractional digits (0–9, stored to 6); `local` is TIMESTAMP_LTZ.

    Both kinds are microseconds since the epoch in UTC inside the engine; they differ in how they are printed.
    """

    precision: int = 6
    local: bool = False

    @property
    def digits(self) -> int:
        """Fractional digits that a value has."""
        return min(self.precision, 6)

    def __str__(self) -> str:
        name = "TIMESTAMP_LTZ" if self.local else "TIMESTAMP"
        return name if self.precision == 6 else f"{name}({self.precision})"


@dataclass(frozen=True)
class Array(DataType):
    """An ordered list of `element`."""

    element: DataType

    def __str__(self) -> str:
        return f"ARRAY<{self.element}>"


@dataclass(frozen=True)
class Map(DataType):
    """Unique keys to values."""

    key: DataType
    value: DataType

    def __str__(self) -> str:
        return f"MAP<{self.key}, {self.value}>"


@dataclass(frozen=True)
class Struct(DataType):
    """Named, ordered fields."""

    fields: tuple[tuple[str, DataType], ...]

    def __str__(self) -> str:
        return f"STRUCT<{', '.join(f'{printed(name)} {kind}' for name, kind in self.fields)}>"

    def field(self, name: str) -> DataType | None:
        """Return the type of the field called `name`, or None."""
        return next((kind for field, kind in self.fields if field == name), None)


NULL = Primitive("NULL")
"""The type of the literal NULL until its surroundings give it one."""
INTERVAL = Primitive("INTERVAL")
"""The type of an INTERVAL literal; never the type of a column."""
BOOLEAN = Primitive("BOOLEAN")
TINYINT = Primitive("TINYINT")
SMALLINT = Primitive("SMALLINT")
INTEGER = Primitive("INTEGER")
BIGINT = Primitive("BIGINT")
FLOAT = Primitive("FLOAT")
DOUBLE = Primitive("DOUBLE")
DATE = Primitive("DATE")
BYTES = Primitive("BYTES")
VARCHAR = Varchar()
TIMESTAMP = Timestamp()
TIMESTAMP_LTZ = Timestamp(local=True)

INTEGRAL = (TINYINT, SMALLINT, INTEGER, BIGINT)
_PLAIN_TYPES: dict[str, DataType] = {
    **{kind.name: kind for kind in (BOOLEAN, *INTEGRAL, FLOAT, DOUBLE, DATE, BYTES)},
    "INT": INTEGER,
    "STRING": VARCHAR,
    "VARBINARY": BYTES,
}
_WITH_ARGUMENTS = ("ARRAY", "DECIMAL", "MAP", "ROW", "STRUCT", "TIMESTAMP", "TIMESTAMP_LTZ", "VARCHAR")
TYPE_NAMES = (*sorted(_PLAIN_TYPES), *_WITH_ARGUMENTS)
"""The word of each data type, and its synonyms."""
_NESTED = ("ARRAY", "MAP", "ROW", "STRUCT")
_NAMES = ", ".join(f"{name}<…>" if name in _NESTED else name for name in TYPE_NAMES)
NESTING_MAX = 40
"""Most levels of nested types and expressions. Functions that walk over one need a call for each level."""

_FIELDS_MAX = 10_000
_SHOWN_LENGTH = 80
_TOKEN = re.compile(r'\s*("(?:[^"]|"")*"|`(?:[^`]|``)*`|[A-Za-z_0-9]+|[<>(),])')


def is_numeric(kind: DataType) -> bool:
    """True for the integral types, FLOAT, DOUBLE and DECIMAL."""
    return kind in INTEGRAL or kind in (FLOAT, DOUBLE) or isinstance(kind, Decimal)


def is_primitive(kind: DataType) -> bool:
    """Return False for ARRAY, MAP and STRUCT."""
    return not isinstance(kind, Array | Map | Struct)


def has_map(kind: DataType) -> bool:
    """True for a MAP and for a type that contains one. Such values cannot be compared or used as keys."""
    return isinstance(kind, Map) or any(map(has_map, _parts(kind)))


def has_bytes(kind: DataType) -> bool:
    """True for BYTES and for a type that contains them."""
    return kind == BYTES or any(map(has_bytes, _parts(kind)))


def _parts(kind: DataType) -> tuple[DataType, ...]:
    """Return the types of the values inside a value."""
    match kind:
        case Map():
            return (kind.key, kind.value)
        case Array():
            return (kind.element,)
        case Struct():
            return tuple(part for _, part in kind.fields)
    return ()


def parse_type(text: str, *, span: Span | None = None) -> DataType:
    """Read a type's text, any case, synonyms STRING, INT and VARBINARY included.

    Raises UserError 42601 (bad text, unknown type, parameter out of range) or 0A000 (TIME) at `span`.
    """
    return _Reader(text, span).whole()


class _Reader:
    def __init__(self, text: str, span: Span | None) -> None:
        self._text = text
        self._span = span
        self._tokens: list[str] = []
        self._depth = 0
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if not match:
                raise self._error(f"cannot read the data type {self._shown()}")
            self._tokens.append(match.group(1))
            position = match.end()
        self._tokens.reverse()

    def whole(self) -> DataType:
        kind = self._type()
        if self._tokens:
            raise self._error(f"unexpected {self._tokens[-1]!r} in the data type {self._shown()}")
        return kind

    def _shown(self) -> str:
        return repr(self._text if len(self._text) <= _SHOWN_LENGTH else self._text[:_SHOWN_LENGTH] + "…")

    def _error(
        self, message: str, state: SqlState = SqlState.SYNTAX_ERROR, *, hint: Remedy | str | None = None
    ) -> UserError:
        return UserError(state, message, hint=hint, span=self._span)

    def _next(self) -> str:
        if not self._tokens:
            raise self._error(f"the data type {self._shown()} is incomplete")
        return self._tokens.pop()

    def _accept(self, token: str) -> bool:
        if self._tokens and self._tokens[-1].upper() == token:
            self._tokens.pop()
            return True
        return False

    def _expect(self, token: str) -> None:
        received = self._next()
        if received != token:
            nested_not_null = received.upper() == "NOT"
            raise self._error(
                f"expected {token!r}, found {received!r} in the data type {self._shown()}",
                hint="Leave NOT NULL out: columns can be NOT NULL, elements and fields cannot."
                if nested_not_null
                else None,
            )

    def _type(self) -> DataType:
        self._depth += 1
        if self._depth > NESTING_MAX:
            raise self._exceeded(f"a data type may have {NESTING_MAX} levels at most, found more")
        kind = self._one()
        self._depth -= 1
        return kind

    def _exceeded(self, message: str) -> UserError:
        return UserError(SqlState.CONFIGURATION_LIMIT_EXCEEDED, message, span=self._span)

    def _one(self) -> DataType:
        name = self._next().upper()
        if name in ("NUMERIC", "DEC") and self._tokens and self._tokens[-1] == "(":
            name = "DECIMAL"
        if name in _PLAIN_TYPES:
            self._numbers(1)
            if name == "DOUBLE":
                self._accept("PRECISION")
            return _PLAIN_TYPES[name]
        reader = {
            "VARCHAR": self._varchar,
            "DECIMAL": self._decimal,
            "TIMESTAMP": self._timestamp,
            "TIMESTAMP_LTZ": lambda: Timestamp(self._precision(), local=True),
            "ARRAY": self._array,
            "MAP": self._map,
            "STRUCT": self._struct,
            "ROW": self._struct,
        }.get(name)
        if reader is None:
            if name == "TIME":
                raise self._error(
                    "the data type TIME is not supported yet",
                    SqlState.FEATURE_NOT_SUPPORTED,
                    hint=remedy(Place.TYPE, name),
                )
            raise self._error(
                f"unknown data type {name}",
                hint=remedy(Place.TYPE, name)
                or did_you_mean(nearest(name, [*_PLAIN_TYPES, *_WITH_ARGUMENTS]))
                or f"Use one of {_NAMES}.",
            )
        return reader()

    def _numbers(self, most: int) -> list[int]:
        numbers: list[int] = []
        if not self._accept("("):
            return numbers
        while True:
            token = self._next()
            if not re.fullmatch(r"[0-9]{1,10}", token) or len(numbers) == most:
                raise self._error(f"unexpected {token!r} in the data type {self._shown()}")
            numbers.append(int(token))
            if self._accept(")"):
                return numbers
            self._expect(",")

    def _varchar(self) -> DataType:
        numbers = self._numbers(1)
        if numbers and not 1 <= numbers[0] <= 2_147_483_647:
            raise self._error(f"VARCHAR's length must be 1 to 2147483647, found {numbers[0]}")
        return Varchar(numbers[0] if numbers and numbers[0] < 2_147_483_647 else None)

    def _decimal(self) -> DataType:
        numbers = self._numbers(2)
        precision = numbers[0] if numbers else 10
        scale = numbers[1] if len(numbers) == 2 else 0
        if not 1 <= precision <= 38 or scale > precision:
            raise self._error(
                f"DECIMAL's precision must be 1 to 38 and its scale at most that, found ({precision}, {scale})"
            )
        return Decimal(precision, scale)

    def _precision(self) -> int:
        numbers = self._numbers(1)
        if numbers and numbers[0] > 9:
            raise self._error(f"a timestamp's precision must be 0 to 9, found {numbers[0]}")
        return numbers[0] if numbers else 6

    def _timestamp(self) -> DataType:
        precision = self._precision()
        if self._accept("WITH"):
            for word in ("LOCAL", "TIME", "ZONE"):
                if not self._accept(word):
                    raise self._error("expected WITH LOCAL TIME ZONE")
            return Timestamp(precision, local=True)
        if self._accept("WITHOUT"):
            for word in ("TIME", "ZONE"):
                if not self._accept(word):
                    raise self._error("expected WITHOUT TIME ZONE")
        return Timestamp(precision)

    def _array(self) -> DataType:
        self._expect("<")
        element = self._type()
        self._expect(">")
        return Array(element)

    def _map(self) -> DataType:
        self._expect("<")
        key = self._type()
        self._expect(",")
        value = self._type()
        self._expect(">")
        return Map(key, value)

    def _struct(self) -> DataType:
        closing = ")" if self._accept("(") else ">"
        if closing == ">":
            self._expect("<")
        fields: list[tuple[str, DataType]] = []
        while True:
            token = self._next()
            name = token[1:-1].replace(token[0] * 2, token[0]) if token[0] in '"`' else token.lower()
            if len(fields) == _FIELDS_MAX:
                raise self._exceeded(f"a STRUCT may have {_FIELDS_MAX} fields at most, found more")
            fields.append((Identifier(name, self._span).name, self._type()))
            if self._accept(closing):
                return Struct(tuple(fields))
            self._expect(",")
