"""Copies of materialized views, each as of one moment, while others are read and written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb

from headrace.core.errors import UserError
from headrace.core.names import quote
from headrace.core.sqlstate import SqlState
from headrace.engine.views.database import open_database

EPOCHS = "__epochs"
RETENTION = "__retention"
EPOCHS_SQL = f"CREATE TABLE IF NOT EXISTS {EPOCHS} (query_id VARCHAR, view VARCHAR, epoch BIGINT)"
RETENTION_SQL = f"CREATE TABLE IF NOT EXISTS {RETENTION} (view VARCHAR, millis BIGINT)"
WRITTEN = "__headrace_written"
"""The column with the time at which a row was written, of a view whose rows are kept for a time only."""
ROWS_AT_ONCE = 16_384
ROWS = "__rows"
_MEMORY_MB = 64


class DuckDbSnapshot:
    """A `ViewSnapshot` of a view in DuckDB."""

    def __init__(self, database: duckdb.DuckDBPyConnection, view_id: str) -> None:
        self._view = view_id
        self._cursor = database.cursor()
        self._cursor.begin()
        # The first read of a transaction fixes the moment that all of its reads see.
        self._epochs = self._rows(f"SELECT query_id, view, epoch FROM {EPOCHS} WHERE view = ?")  # noqa: S608

    @property
    def epoch(self) -> int:
        """The last epoch that was written into the view; -1 without one."""
        return max((epoch for _, _, epoch in self._epochs), default=-1)

    def copy(self, copy: duckdb.DuckDBPyConnection) -> bool:
        """Write the view with its epochs into another database; return False if it does not exist."""
        columns = self._rows(
            "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ? ORDER BY column_index"
        )
        if not columns:
            return False
        view, described = quote(self._view), ", ".join(f"{quote(name)} {kind}" for name, kind in columns)
        reader: Any = self._cursor.sql(f"SELECT * FROM {view}").to_arrow_reader(ROWS_AT_ONCE)  # noqa: S608
        copy.begin()
        copy.execute(f"CREATE TABLE {view} ({described})")
        copy.register(ROWS, reader)
        copy.execute(f"INSERT INTO {view} SELECT * FROM {ROWS}")  # noqa: S608
        copy.unregister(ROWS)
        retention = self._rows(f"SELECT view, millis FROM {RETENTION} WHERE view = ?")  # noqa: S608
        for table, rows in ((EPOCHS, self._epochs), (RETENTION, retention)):
            for row in rows:
                copy.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", list(row))  # noqa: S608
        copy.commit()
        return True

    def close(self) -> None:
        """End the transaction."""
        self._cursor.close()

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self._cursor.execute(sql, [self._view]).fetchall()


class CopiedView:
    """The rows of a view in a copy, in the file `path`, to fill another view with them."""

    def __init__(self, path: Path, view_id: str) -> None:
        self._path = path
        self._view = view_id

    def batches(self) -> Iterator[Any]:
        """Yield the rows as `pyarrow.RecordBatch`es with the columns of the view, and `WRITTEN` if the copied view had it.

        Raises UserError XX001 if the copy has no such view, or is damaged.
        """
        try:
            with closing(open_database(self._path, memory_mb=_MEMORY_MB, read_only=True)) as database:
                reader: Any = database.sql(f"SELECT * FROM {quote(self._view)}").to_arrow_reader(ROWS_AT_ONCE)  # noqa: S608
                yield from reader
        except duckdb.Error as error:
            raise UserError(
                SqlState.DATA_CORRUPTED,
                f"the copied rows of the view {self._view} cannot be read: {str(error).partition(chr(10))[0]}",
                hint="Restore the folder of the savepoint from a backup, or use another savepoint.",
            ) from error


def new_copy(path: Path) -> duckdb.DuckDBPyConnection:
    """Create a database for the copies of views."""
    database = open_database(path, memory_mb=_MEMORY_MB)
    database.execute(EPOCHS_SQL)
    database.execute(RETENTION_SQL)
    return database
