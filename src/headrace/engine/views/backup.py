"""Copies of materialized views, each as of one moment, while others are read and written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb

from headrace.core.names import quote
from headrace.engine.views.database import open_database

EPOCHS = "__epochs"
RETENTION = "__retention"
EPOCHS_SQL = f"CREATE TABLE IF NOT EXISTS {EPOCHS} (query_id VARCHAR, view VARCHAR, epoch BIGINT)"
RETENTION_SQL = f"CREATE TABLE IF NOT EXISTS {RETENTION} (view VARCHAR, millis BIGINT)"
_ROWS_AT_ONCE = 16_384
_ROWS = "__rows"


class ViewSnapshot:
    """A view as it is when the snapshot is taken. Used by one thread at a time; `close` it."""

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
        reader: Any = self._cursor.sql(f"SELECT * FROM {view}").to_arrow_reader(_ROWS_AT_ONCE)  # noqa: S608
        copy.begin()
        copy.execute(f"CREATE TABLE {view} ({described})")
        copy.register(_ROWS, reader)
        copy.execute(f"INSERT INTO {view} SELECT * FROM {_ROWS}")  # noqa: S608
        copy.unregister(_ROWS)
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


def new_copy(path: Path, *, memory_mb: int) -> duckdb.DuckDBPyConnection:
    """Create a database for the copies of views."""
    database = open_database(path, memory_mb=memory_mb)
    database.execute(EPOCHS_SQL)
    database.execute(RETENTION_SQL)
    return database
