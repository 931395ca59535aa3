"""The one shape of a bounded result, and how values become wire text.

Source: client-contract section 2. Each cell is text or None; the type's text selects the client's decoder.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any

from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.core.types import (
    BYTES,
    DATE,
    VARCHAR,
    Array,
    DataType,
    Decimal,
    Map,
    Struct,
    Timestamp,
)

Cell = str | None
_ROWS_AT_A_TIME = 256


@dataclass(frozen=True)
class ResultColumn:
    """A column of a result."""

    name: str
    type: DataType = VARCHAR
    nullable: bool = True


@dataclass(frozen=True)
class ResultSet:
    """A bounded result: columns, and rows of wire text as wide as the columns."""

    columns: tuple[ResultColumn, ...] = ()
    rows: tuple[tuple[Cell, ...], ...] = ()
    message: str | None = None


class RowKind(StrEnum):
    """Effect of a changelog row on its key, in Flink's short forms.

    UPDATE is also said of a row whose key may be new, where that is not known.
    """

    INSERT = "+I"
    UPDATE = "+U"
    DELETE = "-D"


@dataclass(frozen=True)
class LiveRows:
    """Rows of a live result that come together; `kinds` has one for each row of a changelog, None where rows are only added."""

    cells: list[list[Cell]]
    kinds: list[str] | None = None

    def part(self, first: int, end: int | None) -> LiveRows:
        """Return the rows from `first` on and before `end` (None: to the last)."""
        return LiveRows(self.cells[first:end], self.kinds and self.kinds[first:end])


def result(columns: Sequence[tuple[str, DataType]], rows: Iterable[Sequence[object]]) -> ResultSet:
    """Return a result from Python values; `columns` are (name, type) pairs. See `cell` for the accepted values."""
    cells = [
        _column(values, kind)
        for values, (_, kind) in zip(transposed(rows, len(columns)), columns, strict=True)
    ]
    described = tuple(ResultColumn(name, kind) for name, kind in columns)
    return ResultSet(described, tuple(zip(*cells, strict=True)))


def transposed(rows: Iterable[Sequence[object]], width: int) -> list[list[object]]:
    """Return the columns of rows of `width` values.

    A few rows at a time: all at once would be so many objects that Python's garbage collector goes through the whole heap meanwhile.
    """
    columns: list[list[object]] = [[] for _ in range(width)]
    rest = iter(rows)
    while part := list(islice(rest, _ROWS_AT_A_TIME)):
        for column, values in zip(columns, zip(*part, strict=True), strict=True):
            column.extend(values)
    return columns


def _column(values: Sequence[object], kind: DataType) -> Sequence[Cell]:
    if kind is VARCHAR and all(value.__class__ is str or value is None for value in values):
        return values  # type: ignore[return-value]
    return [cell(value, kind) for value in values]


def cell(value: object, kind: DataType) -> Cell:
    """Return `value` as wire text of `kind`; None stays None.

    BYTES becomes base64, BOOLEAN `true`/`false`, TIMESTAMP `YYYY-MM-DD hh:mm:ss.fff` in UTC (TIMESTAMP_LTZ with a `Z`),
    ARRAY, MAP and STRUCT JSON text.
    """
    if value is None or (kind is VARCHAR and value.__class__ is str):
        return value
    if isinstance(kind, Array | Map | Struct):
        return json.dumps(_plain(value, kind), ensure_ascii=False, separators=(",", ":"))
    if isinstance(kind, Timestamp) and isinstance(value, datetime.datetime):
        return _timestamp(value, kind)
    if (kind == DATE or isinstance(kind, Timestamp)) and isinstance(value, str):
        # DuckDB returns values that Python cannot represent as text.
        raise UserError(
            SqlState.NUMERIC_VALUE_OUT_OF_RANGE,
            f"expected a DATE or TIMESTAMP within the years 1 to 9999, found {value}",
            hint="Exclude such rows with WHERE.",
        )
    if kind == BYTES and isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, decimal.Decimal):
        return _decimal(value, kind)
    if isinstance(value, datetime.date) and kind == DATE:
        return value.isoformat()
    return str(value)


def encoder(kinds: Sequence[DataType]) -> Callable[[Sequence[object]], list[Cell]]:
    """Return a function that turns a row of Python values of `kinds` into wire text."""

    def encode(row: Sequence[object]) -> list[Cell]:
        return [cell(value, kind) for value, kind in zip(row, kinds, strict=True)]

    return encode


def _timestamp(value: datetime.datetime, kind: Timestamp) -> str:
    if value.tzinfo not in (None, datetime.UTC):
        value = value.astimezone(datetime.UTC)
    digits = min(kind.precision, 6)
    if digits and (digits < 3 or value.microsecond % 1000 == 0):
        digits = 3
    seconds = 19
    text = value.isoformat(" ", "microseconds")[: seconds + 1 + digits if digits else seconds]
    return text + ("Z" if kind.local else "")


def _decimal(value: decimal.Decimal, kind: DataType) -> str:
    """Return a DECIMAL without an exponent, with the scale of its type: Spark returns 1E-8 as 10E-9."""
    return format(value, f".{kind.scale}f" if isinstance(kind, Decimal) else "f")


def _float(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def _plain(value: object, kind: DataType) -> object:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _float(value)
    if isinstance(value, decimal.Decimal):
        return _decimal(value, kind)
    if isinstance(kind, Struct):
        values: Any = value
        items = (
            values.items()
            if isinstance(value, dict)
            else zip((name for name, _ in kind.fields), values, strict=True)
        )
        return {name: _plain(item, kind.field(name) or VARCHAR) for name, item in items}
    if isinstance(kind, Map):
        entries: Any = value
        pairs = entries.items() if isinstance(value, dict) else entries
        return {str(cell(key, kind.key)): _plain(item, kind.value) for key, item in pairs}
    if isinstance(kind, Array):
        elements: Any = value
        return [_plain(item, kind.element) for item in elements]
    return cell(value, kind)
