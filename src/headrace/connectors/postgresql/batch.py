"""Read of a table at one time: several parts, each over a separate connection, and all with the same snapshot."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
from psycopg.sql import SQL, Composable, Composed, Identifier, Literal

from headrace.connectors.base import EntityDescription
from headrace.connectors.postgresql import columns, tables
from headrace.connectors.postgresql.connection import Connection, connect
from headrace.connectors.postgresql.failures import classified
from headrace.core.errors import UserError
from headrace.core.names import EntityPath, printed
from headrace.core.schema import Column
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT, INTEGER, SMALLINT, parse_type
from headrace.core.wording import with_article

ROWS_PER_PART = 50_000
_ROWS_PER_BATCH = 10_000
_ESTIMATE = "SELECT reltuples FROM pg_class WHERE oid = %s::regclass"
# Types that PostgreSQL and Spark compare alike, and Spark's values for them. Texts only support equality, since their orders differ.
_TYPES = "SELECT attname::text, atttypid::int8 FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"
_VALUES: dict[int, tuple[type, ...]] = {
    **dict.fromkeys((20, 21, 23), (int,)),
    **dict.fromkeys((25, 1043), (str,)),
    1082: (datetime.date,),
    1700: (int, decimal.Decimal),
}
_FORMS = {
    "=": SQL("{} IN ({})"),
    "<": SQL("{} < {}"),
    "<=": SQL("{} <= {}"),
    ">": SQL("{} > {}"),
    ">=": SQL("{} >= {}"),
}


@dataclass(frozen=True)
class Part:
    """The rows whose key is from `least` on, and below `end`; None: no such bound."""

    least: int | None = None
    end: int | None = None


@dataclass(frozen=True)
class Reading:
    """All that a worker must know. `compared` are the types of columns by which rows can be chosen."""

    store: Mapping[str, str] = field(repr=False)
    path: EntityPath
    columns: tuple[Column, ...]
    snapshot: str
    key: str | None
    parts: tuple[Part, ...]
    compared: Mapping[str, int]

    def to_data(self) -> dict[str, Any]:
        """Return plain values, with the secrets of the store."""
        return {**asdict(self), "columns": [(column.name, str(column.type)) for column in self.columns]}

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Reading:
        """Return the opposite of `to_data`."""
        return cls(
            store=data["store"],
            path=tuple(data["path"]),
            columns=tuple(Column(name, parse_type(kind)) for name, kind in data["columns"]),
            snapshot=data["snapshot"],
            key=data["key"],
            parts=tuple(Part(**part) for part in data["parts"]),
            compared=data["compared"],
        )


@dataclass(frozen=True)
class Condition:
    """A column compared (`=`, `<`, `<=`, `>`, `>=`) with a value, or by `=` with several."""

    column: str
    operator: str
    values: tuple[Any, ...]


def begin(
    connection: Connection,
    store: Mapping[str, str],
    path: EntityPath,
    declared: Sequence[Column],
    parts_max: int,
) -> Reading:
    """Plan the read of a table's current rows, in a transaction that this function starts.

    Raises UserError 3D007 for a missing table, 42703 for a missing column, ExternalError 57015.
    """
    with classified(store):
        description = check_columns(connection, path, declared)
        actual_types = {column.name: column.type for column in description.columns}
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        (snapshot,) = connection.execute("SELECT pg_export_snapshot()").fetchone() or ("",)
        name = tables.named(path).as_string(connection)
        key = next(
            (key for key in description.key[:1] if actual_types[key] in (SMALLINT, INTEGER, BIGINT)), None
        )
        (rows,) = connection.execute(_ESTIMATE, (name,)).fetchone() or (0,)
        parts = _parts(connection, path, key, min(parts_max, max(1, int(rows) // ROWS_PER_PART)))
        compared = type_oids(connection, path)
        return Reading(dict(store), path, tuple(declared), snapshot, key, parts, compared)


def check_columns(connection: Connection, path: EntityPath, declared: Sequence[Column]) -> EntityDescription:
    """Return a table that has the columns; raises UserError 3D007 for a missing table, 42703 for a missing column."""
    description = tables.describe(connection, path)
    actual_names = [column.name for column in description.columns]
    for column in declared:
        if column.name not in actual_names:
            raise UserError(
                SqlState.UNDEFINED_COLUMN,
                f"the table {'.'.join(path)} has no column {printed(column.name)}",
                hint=f"It has {', '.join(map(printed, actual_names))}. DROP TABLE and CREATE TABLE again, with these columns.",
            )
    return description


def type_oids(connection: Connection, path: EntityPath) -> dict[str, int]:
    """Return the types of a table's columns."""
    name = tables.named(path).as_string(connection)
    return dict(connection.execute(_TYPES, (name,)).fetchall())


def _parts(connection: Connection, path: EntityPath, key: str | None, count: int) -> tuple[Part, ...]:
    if key is None or count == 1:
        return (Part(),)
    query = SQL("SELECT min({0}), max({0}) FROM {1}").format(Identifier(key), tables.named(path))
    least, most = connection.execute(query).fetchone() or (None, None)
    if least is None or most - least < count:
        return (Part(),)
    bounds = [least + (most + 1 - least) * number // count for number in range(1, count)]
    return tuple(Part(start, end) for start, end in zip([None, *bounds], [*bounds, None], strict=True))


def can_choose(reading: Reading, condition: Condition) -> bool:
    """True if PostgreSQL evaluates a condition as Spark does."""
    kinds = _VALUES.get(reading.compared.get(condition.column, 0), ())
    values_fit = all(type(value) in kinds for value in condition.values)
    return bool(condition.values) and values_fit and (kinds != (str,) or condition.operator == "=")


def read(reading: Reading, part: Part, conditions: Sequence[Condition]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part that meet the conditions; raises UserError 22000 for a value that is not of its column's type."""
    query = SQL("COPY (SELECT {} FROM {}{}) TO STDOUT").format(
        SQL(", ").join(Identifier(column.name) for column in reading.columns),
        tables.named(reading.path),
        _where(reading, part, conditions),
    )
    with (
        classified(reading.store),
        connect(reading.store, *reading.path[:-2]) as connection,
        connection.transaction(),
    ):
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute(SQL("SET TRANSACTION SNAPSHOT {}").format(Literal(reading.snapshot)))
        with connection.cursor().copy(query) as copy:
            rows: list[tuple[Any, ...]] = []
            for row in copy.rows():
                rows.append(row)
                if len(rows) == _ROWS_PER_BATCH:
                    yield columns_of(reading.path, reading.columns, rows)
                    rows = []
            if rows:
                yield columns_of(reading.path, reading.columns, rows)


def _where(reading: Reading, part: Part, conditions: Sequence[Condition]) -> Composable:
    terms: list[Composed] = [
        _FORMS[operator].format(Identifier(reading.key), Literal(bound))
        for operator, bound in ((">=", part.least), ("<", part.end))
        if reading.key is not None and bound is not None
    ]
    for condition in conditions:
        values = SQL(", ").join(map(Literal, condition.values))
        terms.append(_FORMS[condition.operator].format(Identifier(condition.column), values))
    return SQL(" WHERE {}").format(SQL(" AND ").join(terms)) if terms else SQL("")


def columns_of(
    path: EntityPath, declared: Sequence[Column], rows: Sequence[tuple[Any, ...]]
) -> pa.RecordBatch:
    """Return rows of texts as columns; raises UserError 22000 for a value that is not of its column's type."""
    arrays = {}
    for place, column in enumerate(declared):
        try:
            arrays[column.name] = columns.column([row[place] for row in rows], column.type)
        except ValueError as error:
            raise UserError(
                SqlState.DATA_EXCEPTION,
                f"a value of column {printed(column.name)} of {'.'.join(path)} is not {with_article(str(column.type))}: {error}",
                hint="Declare the column as DESCRIBE ENTITY shows it, or as VARCHAR, which takes every value as PostgreSQL's text.",
            ) from None
    return pa.RecordBatch.from_pydict(arrays)
