"""Materialized views, kept in an embedded DuckDB file that this process owns. See docs/adr/0010.

A view is one table named by the view's id. Where rows are kept for a time only, a hidden column says when each was written.
One row of `__epochs` per query and view says which epoch was applied last; it is written in the transaction that applies the
epoch, so that an epoch which arrives again after a crash changes nothing.
"""

from __future__ import annotations

import datetime
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from headrace.core.errors import InternalError
from headrace.core.names import quote
from headrace.core.types import parse_type
from headrace.engine.functions.runtime import LentWorker
from headrace.engine.protocol import ApplyView
from headrace.engine.views.aside import aside, is_aside, is_expired
from headrace.engine.views.backup import (
    EPOCHS,
    EPOCHS_SQL,
    RETENTION,
    RETENTION_SQL,
    ROWS_AT_ONCE,
    WRITTEN,
    CopiedView,
    DuckDbSnapshot,
)
from headrace.engine.views.conditions import condition_sql
from headrace.engine.views.database import open_database
from headrace.engine.views.epochs import rows_of
from headrace.engine.views.snapshots import Left, Snapshots, ViewRows
from headrace.engine.views.store import Bounds
from headrace.engine.views.worker import Table
from headrace.planner.duckdb_sql import type_name
from headrace.planner.physical import Column
from headrace.planner.view_reads import ViewRead

_BATCH = "__batch"
_MEMORY_MB = 64


class DuckDbViews:
    """DuckDB as a `ViewStore`. Reads see a snapshot of all views; `spill` is the folder for the rows that queries read and for large
    results. A server without views has no file: the first view creates it. A file that exists is opened at once, so that a damaged one
    is reported when the server starts."""

    def __init__(self, path: Path, *, spill: Path, bounds: Bounds) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._snapshots = Snapshots(spill, bounds)
        self.readers = self._snapshots.readers
        self.writer = ThreadPoolExecutor(1, thread_name_prefix="views-write")
        self._writing = threading.Lock()
        self._types: dict[str, dict[str, str]] = {}
        self._path = path
        self._opening = threading.Lock()
        self._opened = self._open() if path.exists() else None

    def _open(self) -> duckdb.DuckDBPyConnection:
        database = open_database(self._path, memory_mb=_MEMORY_MB)
        database.execute(EPOCHS_SQL)
        database.execute(RETENTION_SQL)
        return database

    @property
    def _database(self) -> duckdb.DuckDBPyConnection:
        with self._opening:
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    def create(
        self,
        view_id: str,
        columns: Sequence[Column],
        key_columns: Sequence[str],
        *,
        retention_ms: int | None = None,
    ) -> None:
        missing = set(key_columns) - {column.name for column in columns}
        if missing:
            raise InternalError(f"the key columns {sorted(missing)} are not columns of the view {view_id}")
        described = ", ".join(
            f"{quote(column.name)} {type_name(parse_type(column.type))}" for column in columns
        )
        if retention_ms is not None:
            described += f", {WRITTEN} TIMESTAMP"
        with self._writing, _Transaction(self._database):
            self._database.execute(f"CREATE TABLE IF NOT EXISTS {quote(view_id)} ({described})")
            if retention_ms is not None:
                self._database.execute(f"DELETE FROM {RETENTION} WHERE view = ?", [view_id])  # noqa: S608
                self._database.execute(f"INSERT INTO {RETENTION} VALUES (?, ?)", [view_id, retention_ms])  # noqa: S608

    def drop(self, view_id: str) -> None:
        self._types.pop(view_id, None)
        with self._writing, _Transaction(self._database):
            self._database.execute(f"DROP TABLE IF EXISTS {quote(view_id)}")
            for table in (EPOCHS, RETENTION):
                self._database.execute(f"DELETE FROM {table} WHERE view = ?", [view_id])  # noqa: S608 - constants

    def retain(self, view_ids: Collection[str], *, days: int) -> None:
        if self._opened is None:
            return
        tables = self._database.cursor().execute("SELECT table_name FROM duckdb_tables()").fetchall()
        for (name,) in tables:
            if is_expired(name, days):
                self.drop(name)
            elif name not in (EPOCHS, RETENTION, *view_ids) and not is_aside(name):
                with self._writing, _Transaction(self._database):
                    self._database.execute(f"ALTER TABLE {quote(name)} RENAME TO {quote(aside(name))}")
                    self._database.execute(f"DELETE FROM {RETENTION} WHERE view = ?", [name])  # noqa: S608 - a constant

    def apply(self, message: ApplyView, payload: bytes) -> bool:
        with self._writing:
            if self._applied(message) >= message.epoch:
                return False
            try:
                with _Transaction(self._database):
                    self._merge(message, payload)
                    self._remember(message)
            except duckdb.Error as error:
                raise InternalError(
                    f"epoch {message.epoch} of the view {message.view} was not applied: {error}"
                ) from error
        return True

    def purge(self) -> int:
        if self._opened is None:
            return 0
        retentions = self._database.cursor().execute(f"SELECT view, millis FROM {RETENTION}").fetchall()  # noqa: S608
        purged = 0
        for view_id, millis in retentions:
            with self._writing:
                oldest = _now() - datetime.timedelta(milliseconds=millis)
                deleted = self._database.execute(
                    f"DELETE FROM {quote(view_id)} WHERE {WRITTEN} < ?",  # noqa: S608
                    [oldest],
                ).fetchone()
            purged += int(deleted[0]) if deleted else 0
        return purged

    def query(
        self,
        sql: str,
        timeout_s: float | None = None,
        *,
        reads: Sequence[ViewRead] = (),
        arrow_tables: Mapping[str, Any] | None = None,
        workers: Sequence[LentWorker] = (),
    ) -> tuple[tuple[tuple[str, str], ...], list[tuple[Any, ...]]]:
        @contextmanager
        def fetch(_left: Left) -> Iterator[Iterator[ViewRows]]:
            if not reads:
                yield iter(())
                return
            cursor = self._database.cursor()
            try:
                # One transaction, so that all views are of one moment; closing the cursor ends it.
                cursor.begin()
                yield (self._read(cursor, read) for read in reads)
            except duckdb.Error as error:
                raise InternalError(f"the views cannot answer the query: {error}") from error
            finally:
                cursor.close()

        return self._snapshots.query(sql, timeout_s, arrow_tables or {}, fetch, workers)

    def snapshot(self, view_id: str) -> DuckDbSnapshot:
        return DuckDbSnapshot(self._database, view_id)

    def fill(self, view_id: str, rows: CopiedView) -> None:
        import pyarrow

        view = quote(view_id)
        for batch in rows.batches():
            has_written = WRITTEN in batch.schema.names
            with self._writing, _Transaction(self._database):
                self._database.register(_BATCH, pyarrow.Table.from_batches([batch]))
                try:
                    self._insert(view, f"SELECT * FROM {_BATCH}", has_written=has_written)  # noqa: S608
                finally:
                    self._database.unregister(_BATCH)

    def warm_up(self) -> None:
        self._snapshots.warm_up()

    def close(self) -> None:
        self._snapshots.close()
        self.writer.shutdown()
        with self._writing:
            if self._opened is not None:
                self._opened.close()

    def _read(self, cursor: duckdb.DuckDBPyConnection, read: ViewRead) -> ViewRows:
        """Return the rows of a view, a batch at a time: the server never has all of them in memory."""
        known = self._types_of(cursor, read.view)
        types = {name: kind for name, kind in known.items() if read.columns is None or name in read.columns}
        conditions = [condition_sql(each, known[each.column]) for each in read.conditions]
        where = " AND ".join(filter(None, conditions)) or "TRUE"
        limit = f" LIMIT {read.limit}" if read.limit is not None and None not in conditions else ""
        names = ", ".join(map(quote, types))
        rows = cursor.sql(f"SELECT {names} FROM {quote(read.view)} WHERE {where}{limit}")  # noqa: S608
        reader: Any = rows.to_arrow_reader(ROWS_AT_ONCE)
        columns = ", ".join(f"{quote(name)} {kind}" for name, kind in types.items())
        return ViewRows(Table(read.view, columns), reader.schema, reader)

    def _types_of(self, cursor: duckdb.DuckDBPyConnection, view: str) -> dict[str, str]:
        """Return DuckDB's types of a view's columns, which never change."""
        if view not in self._types:
            sql = "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ?"
            types = dict(cursor.execute(sql, [view]).fetchall())
            types.pop(WRITTEN, None)
            if not types:
                raise InternalError(f"the rows of the view {view} do not exist")
            self._types[view] = types
        return self._types[view]

    def _applied(self, message: ApplyView) -> int:
        row = self._database.execute(
            f"SELECT max(epoch) FROM {EPOCHS} WHERE query_id = ? AND view = ?",  # noqa: S608 - a constant
            [message.query_id, message.view],
        ).fetchone()
        return -1 if row is None or row[0] is None else int(row[0])

    def _remember(self, message: ApplyView) -> None:
        key = [message.query_id, message.view]
        self._database.execute(f"DELETE FROM {EPOCHS} WHERE query_id = ? AND view = ?", key)  # noqa: S608
        self._database.execute(f"INSERT INTO {EPOCHS} VALUES (?, ?, ?)", [*key, message.epoch])  # noqa: S608

    def _merge(self, message: ApplyView, payload: bytes) -> None:
        view = quote(message.view)
        self._database.register(_BATCH, rows_of(payload))
        try:
            if message.sign:
                names = [name for name in self._columns(view) if name != WRITTEN]
                rows = self._take_away(view, names, quote(message.sign))
            else:
                self._replace(view, message.key_columns)
                condition = f" WHERE {quote(message.deleted)} IS NOT TRUE" if message.deleted else ""
                rows = f"SELECT * FROM {_BATCH}{condition}"  # noqa: S608
            self._insert(view, rows)
        finally:
            self._database.unregister(_BATCH)

    def _columns(self, view: str) -> list[str]:
        described = self._database.execute(f"SELECT * FROM {view} LIMIT 0").description or []  # noqa: S608
        return [column[0] for column in described]

    def _insert(self, view: str, rows: str, *, has_written: bool = False) -> None:
        """Insert the rows of a SELECT; with `has_written` they have the time at which they were written."""
        columns = self._columns(view)
        now = f"TIMESTAMP '{_now()}'"
        values = ", ".join(now if name == WRITTEN and not has_written else quote(name) for name in columns)
        into = ", ".join(map(quote, columns))
        self._database.execute(f"INSERT INTO {view} ({into}) SELECT {values} FROM ({rows})")  # noqa: S608

    def _replace(self, view: str, keys: Sequence[str]) -> None:
        """Delete the rows of the keys that come."""
        if keys:
            # The key may be NULL (a group may), which no PRIMARY KEY allows.
            same = _same(view, _BATCH, keys)
            self._database.execute(f"DELETE FROM {view} USING {_BATCH} WHERE {same}")  # noqa: S608

    def _take_away(self, view: str, names: Sequence[str], sign: str) -> str:
        """Delete as many of the equal rows as were retracted; return the SQL that selects the added rows."""
        columns = ", ".join(map(quote, names))
        net = f"SELECT {columns}, CAST(sum({sign}) AS BIGINT) AS {sign} FROM {_BATCH} GROUP BY ALL"  # noqa: S608
        equal = ", ".join(f"kept.{quote(name)}" for name in names)
        row_ids = (
            f"SELECT kept.rowid FROM {view} AS kept JOIN ({net}) AS net ON {_same('kept', 'net', names)} "  # noqa: S608
            f"WHERE net.{sign} < 0 QUALIFY row_number() OVER (PARTITION BY {equal}) <= -net.{sign}"
        )
        self._database.execute(f"DELETE FROM {view} WHERE rowid IN ({row_ids})")  # noqa: S608
        return f"SELECT {columns}, unnest(range({sign})) FROM ({net}) WHERE {sign} > 0"  # noqa: S608


def _same(left: str, right: str, names: Sequence[str]) -> str:
    return " AND ".join(f"{left}.{quote(name)} IS NOT DISTINCT FROM {right}.{quote(name)}" for name in names)


class _Transaction:
    def __init__(self, database: duckdb.DuckDBPyConnection) -> None:
        self._database = database

    def __enter__(self) -> None:
        self._database.begin()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._database.commit()
        else:
            self._database.rollback()


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
