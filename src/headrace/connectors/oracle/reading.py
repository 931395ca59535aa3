"""Read of a table at one time, in ranges of its key over a session each, by a flashback query to the same time.

The flashback needs two rights, EXECUTE on DBMS_FLASHBACK and FLASHBACK on the table. Without them, one query reads the whole table; a
single query is consistent by itself.
"""

# ruff: noqa: S608 - each name in a statement goes through `quoted` or `identifier`, and numbers are ours

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from headrace.connectors.oracle import tables, types
from headrace.connectors.oracle.client import Oracle
from headrace.connectors.oracle.tables import Table
from headrace.connectors.upper_case import folded
from headrace.core.errors import HeadraceError, UserError
from headrace.core.names import EntityPath, printed
from headrace.core.schema import Column, Schema
from headrace.core.sqlstate import SqlState
from headrace.core.types import (
    INTEGRAL,
    Array,
    DataType,
    Decimal,
    Map,
    Primitive,
    Struct,
    Varchar,
    parse_type,
)

ROWS_PER_PART = 50_000
_ESTIMATE = "SELECT NUM_ROWS FROM ALL_TABLES WHERE OWNER = :1 AND TABLE_NAME = :2"
_NOW = "SELECT DBMS_FLASHBACK.GET_SYSTEM_CHANGE_NUMBER FROM DUAL"
_OPERATORS = ("=", "<", "<=", ">", ">=")
_VALUES_MAX = 1000
"""Of a list behind IN: before 23ai Oracle takes no more (ORA-01795)."""


@dataclass(frozen=True)
class Part:
    """Range of rows whose key is at least `least` and below `end`; None is no bound."""

    least: int | None = None
    end: int | None = None


@dataclass(frozen=True)
class Reading:
    """All that a worker must know: of each column its SQL, and of those that numbers may be compared with their names as SQL.

    `table` has the point of the past, if there are several parts; `key` is the column that they are ranges of.
    """

    store: Mapping[str, str] = field(repr=False)
    service: str | None
    table: str
    columns: tuple[tuple[str, str, str], ...]
    comparable: Mapping[str, str]
    key: str | None = None
    parts: tuple[Part, ...] = (Part(),)

    def to_data(self) -> dict[str, Any]:
        """Return plain values, with the secrets of the store."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Reading:
        """Return the opposite of `to_data`."""
        columns = tuple((name, kind, sql) for name, kind, sql in data["columns"])
        return cls(**{**data, "columns": columns, "parts": tuple(Part(**part) for part in data["parts"])})


@dataclass(frozen=True)
class Condition:
    """A column compared (`=`, `<`, `<=`, `>`, `>=`) with a number, or by `=` with several; without numbers by `IS [NOT] NULL`."""

    column: str
    operator: str
    values: tuple[Any, ...] = ()


def begin(store: Mapping[str, str], path: EntityPath, columns: Sequence[Column], parts_max: int) -> Reading:
    """Plan how a table is read as it is now. Raises UserError 3D007, 42703 or 42P16; ExternalError 57015."""
    with tables.session(store, path) as oracle:
        table = tables.find(oracle, path)
        tables.check_readable(table, path, Schema(tuple(columns)))
        reading = _whole(store, path, table, columns)
        estimates = oracle.rows(_ESTIMATE, tuple(map(folded, path[-2:])))
        count = min(parts_max, int(estimates[0][0] or 0) // ROWS_PER_PART if estimates else 0)
        key = next((table.columns[name] for name in table.key[:1] if _is_number(table, name)), None)
        if key is None or count < 2:
            return reading
        return _in_parts(oracle, reading, tables.column_name(key), count)


def _whole(store: Mapping[str, str], path: EntityPath, table: Table, columns: Sequence[Column]) -> Reading:
    column_types = {column.name: table.columns[column.name] for column in columns}
    return Reading(
        dict(store),
        path[0] if len(path) == 3 else None,
        table.name,
        tuple(
            (
                column.name,
                str(column.type),
                types.read_sql(
                    tables.column_name(column_types[column.name]), column.type, column_types[column.name].type
                ),
            )
            for column in columns
        ),
        {
            column.name: tables.column_name(column_types[column.name])
            for column in columns
            if _is_number(table, column.name)
            and (column.type in INTEGRAL or isinstance(column.type, Decimal))
        },
    )


def _is_number(table: Table, name: str) -> bool:
    return types.name_of(table.columns[name].type) == "NUMBER"


def _in_parts(oracle: Oracle, whole: Reading, key: str, count: int) -> Reading:
    try:
        ((now,),) = oracle.rows(_NOW)
        table = f"{whole.table} AS OF SCN {int(now)}"
        ((least, most),) = oracle.rows(f"SELECT MIN({key}), MAX({key}) FROM {table}")
    except HeadraceError:
        # One of the two rights is missing.
        return whole
    return Reading(
        whole.store, whole.service, table, whole.columns, whole.comparable, key, ranges(least, most, count)
    )


def ranges(least: decimal.Decimal | None, most: decimal.Decimal | None, count: int) -> tuple[Part, ...]:
    """Split all numbers into ranges, of equal width between `least` and `most`."""
    if least is None or most is None or most - least < count:
        return (Part(),)
    first, width = int(least), int(most) + 1 - int(least)
    bounds = [first + width * number // count for number in range(1, count)]
    return tuple(Part(start, end) for start, end in zip([None, *bounds], [*bounds, None], strict=True))


def query(reading: Reading, part: Part, conditions: Sequence[Condition]) -> str:
    """Return the SELECT of a part."""
    columns = ", ".join(f"{sql} AS C{number}" for number, (_, _, sql) in enumerate(reading.columns))
    terms = [
        f"{reading.key} {operator} {bound}"
        for operator, bound in ((">=", part.least), ("<", part.end))
        if reading.key is not None and bound is not None
    ]
    terms += [text for one in conditions if (text := condition_sql(one, reading.comparable)) is not None]
    where = f" WHERE {' AND '.join(terms)}" if terms else ""
    return f"SELECT {columns} FROM {reading.table}{where}"


def condition_sql(condition: Condition, comparable: Mapping[str, str]) -> str | None:
    """Return a condition as Oracle's SQL; None if it may mean something else there than in Spark."""
    column = comparable.get(condition.column)
    if column is None:
        return None
    if condition.operator in ("IS NULL", "IS NOT NULL"):
        return f"{column} {condition.operator}"
    if condition.operator not in _OPERATORS or not condition.values:
        return None
    if len(condition.values) > _VALUES_MAX or not all(_is_literal(value) for value in condition.values):
        return None
    values = [
        format(value, "f") if isinstance(value, decimal.Decimal) else str(value) for value in condition.values
    ]
    return (
        f"{column} IN ({', '.join(values)})"
        if condition.operator == "="
        else f"{column} {condition.operator} {values[0]}"
    )


def _is_literal(value: Any) -> bool:
    return type(value) is int or (isinstance(value, decimal.Decimal) and value.is_finite())


def read(
    reading: Reading, part: Part, conditions: Sequence[Condition], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part, as `schema` has them; raises UserError 22000 and 22003 for a value that is not of its column's type."""
    kinds = [(name, parse_type(kind)) for name, kind, _ in reading.columns]
    with Oracle(reading.store, reading.service) as oracle:
        for rows in oracle.parts(query(reading, part, conditions)):
            columns = zip(*rows, strict=True) if kinds else ()
            arrays = [
                column(name, kind, values, place.type)
                for (name, kind), values, place in zip(kinds, columns, schema, strict=True)
            ]
            if arrays:
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
            else:
                yield pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))


def column(name: str, kind: DataType, values: Sequence[Any], target: pa.DataType) -> pa.Array:
    """Return values of the driver's as Arrow's; raises UserError 22003 for a number that does not fit, 22000 for what is no value of the
    type."""
    try:
        return pa.array([None if value is None else _value(value, kind) for value in values], target)
    except (pa.ArrowInvalid, OverflowError):
        state, problem = SqlState.NUMERIC_VALUE_OUT_OF_RANGE, "does not fit the type"
    except (pa.ArrowTypeError, TypeError, ValueError, AttributeError):
        state, problem = SqlState.DATA_EXCEPTION, "is not a value of the type"
    raise UserError(
        state,
        f"a value of the column {printed(name)} {problem} {kind}, which the relation has there",
        hint="Create the relation again, with the types that DESCRIBE ENTITY shows, or VARCHAR.",
    )


def _value(value: Any, kind: DataType) -> Any:
    match kind:
        case Varchar() | Array() | Map() | Struct():
            return format(value, "f") if isinstance(value, decimal.Decimal) else str(value)
        case Primitive("DATE"):
            return value.date()
        case Primitive("BOOLEAN") if not isinstance(value, bool):
            if value not in (0, 1):
                raise ValueError(value)
            return value == 1
        case Primitive("FLOAT" | "DOUBLE"):
            return float(value)
        case Primitive() if kind in INTEGRAL:
            if value != int(value):
                raise OverflowError(value)
            return int(value)
    return value.replace(tzinfo=datetime.UTC) if isinstance(value, datetime.datetime) else value
