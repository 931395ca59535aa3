"""Rows into a table: each batch of them is files of Parquet in a temporary table's stage, that table, and one statement.

Exactly once: the statement and the batch's epoch are one transaction; the epoch is in a table of marks in the same schema.
"""

# ruff: noqa: S608 - each name and text in a statement goes through `quoted`, `identifier` or `literal`

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headrace.connectors.marks import BEFORE_ANY, MARKS, is_written
from headrace.connectors.snowflake import tables, types
from headrace.connectors.snowflake.client import Snowflake, literal, quoted
from headrace.connectors.snowflake.tables import Table
from headrace.core.errors import ExternalError, HeadraceError
from headrace.core.names import EntityPath
from headrace.core.schema import Column, Schema
from headrace.core.sqlstate import SqlState
from headrace.core.wording import counted
from headrace.runtime.fail_points import fail_point

BATCH = "HEADRACE_BATCH"
"""The temporary table of a session, with the columns C0, C1, … and DELETED."""
DELETED = "DELETED"
_FORMAT = "TYPE = PARQUET USE_LOGICAL_TYPE = TRUE BINARY_AS_TEXT = FALSE NULL_IF = ()"


@dataclass(frozen=True)
class Target:
    """Target of a write: `columns` of a table; with a `key` as versions of rows. With a `query` each of its epochs once."""

    path: EntityPath
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    query: str | None = None
    is_begun: bool = False
    """Whether it has finished a batch before: then its mark is not made again."""


class Output:
    """A query's output into a table, over a separate session.

    Raises UserError 3D007, 42703 or 42P16 if the table has changed; 57015 also if the table of marks cannot be created.
    """

    def __init__(self, snowflake: Snowflake, target: Target) -> None:
        self._snowflake = snowflake
        self._target = target
        table = tables.find(snowflake, target.path)
        tables.check(table, target.path, Schema(target.columns, target.key), upsert=bool(target.key))
        self._change = change_sql(table, target)
        if target.query is not None:
            if not tables.exists(snowflake, (*target.path[:-1], MARKS)):
                snowflake.execute(
                    f"CREATE TABLE IF NOT EXISTS {MARKS} (QUERY_ID VARCHAR NOT NULL PRIMARY KEY, EPOCH NUMBER(19,0) NOT NULL)"
                )
            if not target.is_begun:
                snowflake.execute(
                    f"MERGE INTO {MARKS} USING (SELECT {literal(target.query)} AS Q) AS GIVEN ON {MARKS}.QUERY_ID = GIVEN.Q "
                    f"WHEN NOT MATCHED THEN INSERT (QUERY_ID, EPOCH) VALUES (GIVEN.Q, {BEFORE_ANY})"
                )

    def contains(self, epoch: int) -> bool:
        """True if an epoch was written before. Raises UserError 22000 when a later one was: the checkpoint is older than the table."""
        if self._target.query is None:
            return False
        query = f"SELECT EPOCH FROM {MARKS} WHERE QUERY_ID = {literal(self._target.query)}"
        epochs = [int(row["EPOCH"]) for row in self._snowflake.rows(query)]
        return is_written(epochs[0] if epochs else None, epoch)

    def write(self, epoch: int, files: Mapping[Path, int]) -> None:
        """Writes the rows of an epoch, files of Parquet with their numbers of rows, unless it was written before.

        Raises UserError 22000 for a row that the table refuses, 3D007 when it is gone; ExternalError 57015.
        """
        self._load(epoch, files)
        if self._target.query is None:
            self._snowflake.execute(self._change)
            return
        try:
            self._commit(epoch)
        except HeadraceError:
            # The session's next DDL would commit the rest of the transaction.
            with suppress(HeadraceError):
                self._snowflake.execute("ROLLBACK")
            raise

    def _commit(self, epoch: int) -> None:
        self._snowflake.execute("BEGIN")
        self._snowflake.execute(self._change)
        # The last statement, since a write locks the table of marks for all other queries until the end of the transaction.
        query = literal(self._target.query or "")
        moved = self._snowflake.execute(
            f"UPDATE {MARKS} SET EPOCH = {epoch} WHERE QUERY_ID = {query} AND EPOCH < {epoch}"
        )
        if not moved:
            self._snowflake.execute("ROLLBACK")
            if not self.contains(epoch):
                raise ExternalError(
                    SqlState.REMOTE_UNAVAILABLE,
                    f"{self._snowflake.server} did not move the query's mark in {MARKS}",
                    hint="A continuous query retries automatically.",
                )
            return
        fail_point("inside_transaction")
        self._snowflake.execute("COMMIT")

    def _load(self, epoch: int, files: Mapping[Path, int]) -> None:
        self._snowflake.execute(batch_sql(self._target))
        for number, file in enumerate(files):
            with file.open("rb") as content:
                self._snowflake.put(content, f"{number}.parquet", f"@%{BATCH}/{epoch}")
        loaded = sum(int(row.get("rows_loaded") or 0) for row in self._snowflake.rows(copy_sql(epoch)))
        if loaded != sum(files.values()):
            raise ExternalError(
                SqlState.REMOTE_UNAVAILABLE,
                f"{self._snowflake.server} loaded {loaded} of {counted(sum(files.values()), 'row')} from the stage",
                hint="A continuous query retries automatically.",
            )


def batch_sql(target: Target) -> str:
    """Return the statement of the temporary table: created anew, so that neither rows nor files of the batch before remain."""
    columns = [f"C{number} {types.carried(column.type)}" for number, column in enumerate(target.columns)]
    if target.key:
        columns.append(f"{DELETED} BOOLEAN")
    return f"CREATE OR REPLACE TEMPORARY TABLE {BATCH} ({', '.join(columns)})"


def copy_sql(epoch: int) -> str:
    """Return the COPY of an epoch's files into the temporary table."""
    return (
        f"COPY INTO {BATCH} FROM @%{BATCH}/{epoch} FILE_FORMAT = ({_FORMAT}) "
        "MATCH_BY_COLUMN_NAME = CASE_SENSITIVE ON_ERROR = ABORT_STATEMENT"
    )


def change_sql(table: Table, target: Target) -> str:
    """Return the statement from the temporary table into the target: INSERT, or MERGE by the key."""
    names = [quoted(table.columns[column.name].name) for column in target.columns]
    given = [types.written_sql(f"C{number}", column.type) for number, column in enumerate(target.columns)]
    if not target.key:
        return f"INSERT INTO {table.name} ({', '.join(names)}) SELECT {', '.join(given)} FROM {BATCH}"
    return _merge_sql(table, target, names, given)


def _merge_sql(table: Table, target: Target, names: Sequence[str], given: Sequence[str]) -> str:
    numbered = [(name, f"GIVEN.C{number}") for number, name in enumerate(names)]
    is_key = [column.name in target.key for column in target.columns]
    source = ", ".join(f"{value} AS C{number}" for number, value in enumerate(given))
    same = " AND ".join(
        f"KEPT.{name} = {value}" for (name, value), key in zip(numbered, is_key, strict=True) if key
    )
    changed = ", ".join(
        f"KEPT.{name} = {value}" for (name, value), key in zip(numbered, is_key, strict=True) if not key
    )
    parts = [
        f"MERGE INTO {table.name} AS KEPT USING (SELECT {source}, {DELETED} FROM {BATCH}) AS GIVEN ON {same}",
        f"WHEN MATCHED AND GIVEN.{DELETED} THEN DELETE",
        f"WHEN MATCHED THEN UPDATE SET {changed}" if changed else "",
        f"WHEN NOT MATCHED AND NOT GIVEN.{DELETED} THEN INSERT ({', '.join(names)}) "
        f"VALUES ({', '.join(value for _, value in numbered)})",
    ]
    return " ".join(part for part in parts if part)
