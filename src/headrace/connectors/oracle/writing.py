"""Writes of rows: each batch is one transaction of array DML. With a primary key, DELETE removes deleted rows and MERGE writes the others.

Exactly once: the transaction updates the query's mark, in a table of marks in the same schema. The mark is locked at the start of the
transaction, which therefore waits for an earlier run of the query that still writes.
"""

# ruff: noqa: S608 - each name in a statement goes through `quoted` or `identifier`, and values are bound

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.connectors.marks import BEFORE_ANY, MARKS, is_written
from headrace.connectors.oracle import tables, types
from headrace.connectors.oracle.client import Oracle, Row, quoted
from headrace.connectors.oracle.tables import Table
from headrace.connectors.upper_case import folded
from headrace.core.errors import UserError
from headrace.core.names import EntityPath
from headrace.core.schema import Column, Schema
from headrace.core.sqlstate import SqlState
from headrace.runtime.fail_points import fail_point

# An earlier run's transaction ends when Oracle sees that its connection is gone.
_WAIT_S = 60


@dataclass(frozen=True)
class Target:
    """Target of a write: `columns` of a table; with a `key` as versions of rows. With a `query` each of its epochs once."""

    store: Mapping[str, str] = field(repr=False)
    path: EntityPath
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    query: str | None = None
    is_begun: bool = False
    """Whether it has finished a batch before: then its mark is not made again."""

    def session(self) -> Oracle:
        """Return a session where the table is."""
        return tables.session(self.store, self.path)

    @property
    def marks(self) -> str:
        """The table of marks as SQL."""
        return tables.named((self.path[-2], MARKS))


@dataclass(frozen=True)
class Output:
    """A query's output into a table as it is, for tasks: what they do with a row, and as what each of its values is sent."""

    target: Target
    upsert_sql: str
    delete_sql: str
    sent_as: tuple[str | None, ...]
    booleans: tuple[bool, ...]
    """Which columns are BOOLEAN there; others have 1 and 0."""


def prepare(target: Target) -> Output:
    """Prepare the first epoch of a start: check the table, create the table of marks and the query's mark if needed.

    Raises UserError 3D007, 42703 or 42P16 if the table has changed; 57015 also if the table of marks cannot be created.
    """
    with target.session() as oracle:
        table = tables.find(oracle, target.path)
        tables.check(table, target.path, Schema(target.columns, target.key), upsert=bool(target.key))
        if target.query is not None:
            _mark(oracle, target)
    actual_types = [table.columns[column.name].type for column in target.columns]
    return Output(
        target,
        merge_sql(table, target) if target.key else insert_sql(table, target),
        delete_sql(table, target),
        tuple(
            types.sent_as(column.type, kind)
            for column, kind in zip(target.columns, actual_types, strict=True)
        ),
        tuple(kind == "BOOLEAN" for kind in actual_types),
    )


def _mark(oracle: Oracle, target: Target) -> None:
    if not oracle.rows(tables.COLUMNS, (folded(target.path[-2]), MARKS)):
        try:
            oracle.execute(
                f"CREATE TABLE {target.marks} (QUERY_ID VARCHAR2(255) NOT NULL PRIMARY KEY, EPOCH NUMBER(19,0) NOT NULL)"
            )
        except UserError as error:
            # Another query may make it at the same time.
            if error.state is not SqlState.DUPLICATE_ENTITY:
                raise
    if not target.is_begun:
        oracle.execute(
            f"MERGE INTO {target.marks} KEPT USING (SELECT :1 AS QUERY_ID FROM DUAL) GIVEN ON (KEPT.QUERY_ID = GIVEN.QUERY_ID) "
            f"WHEN NOT MATCHED THEN INSERT (QUERY_ID, EPOCH) VALUES (GIVEN.QUERY_ID, {BEFORE_ANY})",
            (target.query,),
        )
    oracle.commit()


def write(output: Output, epoch: int, parts: Iterable[tuple[list[Row], list[Row]]]) -> None:
    """Write the rows of an epoch in one transaction. Each part contains rows in the target's columns, and deleted keys.

    An epoch that was already written, by the query's mark, is skipped. Raises UserError 22000 for a row that the table refuses, 3D007
    if the table was dropped; ExternalError 57015.
    """
    target = output.target
    with target.session() as oracle:
        if target.query is not None:
            held = f"SELECT EPOCH FROM {target.marks} WHERE QUERY_ID = :1 FOR UPDATE WAIT {_WAIT_S}"
            marks = oracle.rows(held, (target.query,))
            if is_written(int(marks[0][0]) if marks else None, epoch):
                return
        keys = [
            sent
            for column, sent in zip(target.columns, output.sent_as, strict=True)
            if column.name in target.key
        ]
        for rows, ended in parts:
            if ended:
                oracle.execute_many(output.delete_sql, ended, keys)
            if rows:
                oracle.execute_many(output.upsert_sql, rows, output.sent_as)
        if target.query is not None:
            oracle.execute(f"UPDATE {target.marks} SET EPOCH = :1 WHERE QUERY_ID = :2", (epoch, target.query))
        fail_point("inside_transaction")
        oracle.commit()


def insert_sql(table: Table, target: Target) -> str:
    """Return the INSERT of a row."""
    return (
        f"INSERT INTO {table.name} ({', '.join(_names(table, target))}) VALUES ({', '.join(_values(target))})"
    )


def delete_sql(table: Table, target: Target) -> str:
    """Return the DELETE of a deleted key; an empty text without a key."""
    keys = [
        name
        for name, column in zip(_names(table, target), target.columns, strict=True)
        if column.name in target.key
    ]
    values = _values(target, [column for column in target.columns if column.name in target.key])
    same = " AND ".join(f"{name} = {value}" for name, value in zip(keys, values, strict=True))
    return f"DELETE FROM {table.name} WHERE {same}" if keys else ""


def merge_sql(table: Table, target: Target) -> str:
    """Return the MERGE of a row by its key."""
    names = _names(table, target)
    numbered = [(name, f"GIVEN.C{number}") for number, name in enumerate(names)]
    is_key = [column.name in target.key for column in target.columns]
    given = ", ".join(f"{value} AS C{number}" for number, value in enumerate(_values(target)))
    same = " AND ".join(
        f"KEPT.{name} = {value}" for (name, value), key in zip(numbered, is_key, strict=True) if key
    )
    changed = ", ".join(
        f"KEPT.{name} = {value}" for (name, value), key in zip(numbered, is_key, strict=True) if not key
    )
    parts = [
        f"MERGE INTO {table.name} KEPT USING (SELECT {given} FROM DUAL) GIVEN ON ({same})",
        f"WHEN MATCHED THEN UPDATE SET {changed}" if changed else "",
        f"WHEN NOT MATCHED THEN INSERT ({', '.join(names)}) VALUES ({', '.join(value for _, value in numbered)})",
    ]
    return " ".join(part for part in parts if part)


def _names(table: Table, target: Target) -> list[str]:
    return [quoted(table.columns[column.name].name) for column in target.columns]


def _values(target: Target, columns: Sequence[Column] | None = None) -> list[str]:
    chosen = target.columns if columns is None else columns
    return [types.written_sql(f":{number}", column.type) for number, column in enumerate(chosen, 1)]
