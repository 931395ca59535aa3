"""Materialized views, kept in an embedded DuckDB file that this process owns. See docs/adr/0010.

A view is one table named by the view's id. Where rows are kept for a time only, a hidden column says when each was written.
One row of `__epochs` per query and view says which epoch was applied last; it is written in the transaction that applies the
epoch, so that an epoch which arrives again after a crash changes nothing.
"""

from __future__ import annotations

import datetime
import threading
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb

from headrace.core.errors import InternalError, UserError
from headrace.core.names import quote
from headrace.core.sqlstate import SqlState
from headrace.core.types import parse_type
from headrace.engine.data_errors import data_error
from headrace.engine.protocol import ApplyView
from headrace.engine.view_functions import OWN_ERROR, install
from headrace.planner.duckdb_sql import type_name
from headrace.planner.physical import Column

MEMORY_MB = 64
READER_THREADS = 2
PURGE_INTERVAL_S = 5.0
ROWS_MAX = 100_000
QUERY_TIMEOUT_S = 15.0
"""Less than the statement timeout: a query that its client has stopped waiting for must not hold its thread."""
_EPOCHS = "__epochs"
_RETENTION = "__retention"
_WRITTEN = "__headrace_written"
_BATCH = "__batch"
_OF_DATA = (duckdb.DataError, duckdb.InvalidInputException)
_OUT_OF_RANGE = ("out of range", " to DECIMAL(", "Timestamp(MS)")
"""In DuckDB's sentences of conversions that fail; a text that is no number does not come so far."""


class ViewStore:
    """The views of one server. Safe to use from any thread: writes are one at a time, reads see a snapshot.

    Call `query` in one of `readers` and `apply` in `writer`: both may take long, and threads that others wait for are none of theirs.
    """

    def __init__(self, path: Path, *, memory_mb: int = MEMORY_MB, rows_max: int = ROWS_MAX) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.readers = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="views-read")
        self.writer = ThreadPoolExecutor(1, thread_name_prefix="views-write")
        self._rows_max = rows_max
        self._reading: set[duckdb.DuckDBPyConnection] = set()
        self._closing = False
        self._writing = threading.Lock()
        self._database = duckdb.connect(
            str(path),
            config={
                "memory_limit": f"{memory_mb}MB",
                "threads": 1,
                "preserve_insertion_order": "false",
                # What reaches this engine was compiled from checked SQL; should that ever fail, there is nothing here to reach.
                "enable_external_access": "false",
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "python_enable_replacements": "false",
                # DuckDB 2.0 takes a needed join for an unneeded one under NOT IN and then fails with an internal error.
                "disabled_optimizers": "join_elimination",
                "lock_configuration": "true",
            },
        )
        install(self._database)
        self._database.execute(
            f"CREATE TABLE IF NOT EXISTS {_EPOCHS} (query_id VARCHAR, view VARCHAR, epoch BIGINT)"
        )
        self._database.execute(f"CREATE TABLE IF NOT EXISTS {_RETENTION} (view VARCHAR, millis BIGINT)")

    def create(
        self,
        view_id: str,
        columns: Sequence[Column],
        key_columns: Sequence[str],
        *,
        retention_ms: int | None = None,
    ) -> None:
        """Make an empty view; `key_columns` must be among `columns`. A view that exists already is left as it is.

        With `retention_ms`, `purge` deletes the rows that were last written longer ago.
        """
        missing = set(key_columns) - {column.name for column in columns}
        if missing:
            raise InternalError(f"the key columns {sorted(missing)} are not columns of the view {view_id}")
        described = ", ".join(
            f"{quote(column.name)} {type_name(parse_type(column.type))}" for column in columns
        )
        if retention_ms is not None:
            described += f", {_WRITTEN} TIMESTAMP"
        with self._writing, _Transaction(self._database):
            self._database.execute(f"CREATE TABLE IF NOT EXISTS {quote(view_id)} ({described})")
            if retention_ms is not None:
                self._database.execute(f"INSERT INTO {_RETENTION} VALUES (?, ?)", [view_id, retention_ms])  # noqa: S608

    def drop(self, view_id: str) -> None:
        """Remove a view and what is known of its epochs; one that does not exist is no error."""
        with self._writing, _Transaction(self._database):
            self._database.execute(f"DROP TABLE IF EXISTS {quote(view_id)}")
            for table in (_EPOCHS, _RETENTION):
                self._database.execute(f"DELETE FROM {table} WHERE view = ?", [view_id])  # noqa: S608 - constants

    def retain(self, view_ids: Collection[str]) -> None:
        """Drop every view but these: what a crash between making a view and recording it has left."""
        found = self._database.cursor().execute("SELECT table_name FROM duckdb_tables()").fetchall()
        for (name,) in found:
            if name not in (_EPOCHS, _RETENTION, *view_ids):
                self.drop(name)

    def apply(self, message: ApplyView, payload: bytes) -> bool:
        """Apply one epoch, an Arrow IPC stream, in one transaction; False when it was applied before.

        With key columns a row replaces the one of its key, or removes it where `message.deleted` is true; a key comes once in an
        epoch. With `message.sign` a row is added once more, or one that is equal to it is removed. Else rows are appended.
        Raises InternalError for a view that does not exist or rows that do not fit it.
        """
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
        """Delete the rows that are older than their views keep them, for ever; how many there were. Readers go on meanwhile."""
        kept = self._database.cursor().execute(f"SELECT view, millis FROM {_RETENTION}").fetchall()  # noqa: S608
        purged = 0
        for view_id, millis in kept:
            with self._writing:
                oldest = _now() - datetime.timedelta(milliseconds=millis)
                found = self._database.execute(
                    f"DELETE FROM {quote(view_id)} WHERE {_WRITTEN} < ?",  # noqa: S608
                    [oldest],
                ).fetchone()
            purged += int(found[0]) if found else 0
        return purged

    def query(
        self, sql: str, timeout_s: float = QUERY_TIMEOUT_S, *, beside: Mapping[str, Any] | None = None
    ) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        """Column names and rows of a SELECT in DuckDB's SQL, as of one moment. `beside` the views it sees these Arrow tables.

        Raises UserError when its data does not allow it, 53000 for too much memory or too many rows, 57014 when it takes too long.
        """
        cursor = self._database.cursor()
        self._reading.add(cursor)
        timer = threading.Timer(timeout_s, cursor.interrupt)
        timer.daemon = True
        timer.start()
        try:
            for name, table in (beside or {}).items():
                cursor.register(name, table)
            cursor.execute(sql)
            names = tuple(column[0] for column in cursor.description or ())
            found = cursor.fetchmany(self._rows_max + 1)
            if len(found) > self._rows_max:
                raise UserError(
                    SqlState.CONFIGURATION_LIMIT_EXCEEDED,
                    f"the query of materialized views has more than {self._rows_max} rows",
                    hint=f"Add LIMIT {self._rows_max}, or raise HEADRACE_SNAPSHOT_ROWS_MAX.",
                )
            return names, found
        except duckdb.InterruptException as error:
            if self._closing:
                raise UserError(SqlState.CANCELLED, "the server is being stopped") from error
            raise UserError(
                SqlState.TIMEOUT,
                f"the query of materialized views took longer than {timeout_s:g} s",
                hint="Aggregate in the view's own query, or join on a condition that fewer rows meet.",
            ) from error
        except duckdb.OutOfMemoryException as error:
            raise UserError(
                SqlState.CONFIGURATION_LIMIT_EXCEEDED,
                "the query needs more memory than views may use",
                hint="Select fewer rows or columns, or aggregate in the view's own query.",
            ) from error
        except duckdb.Error as error:
            of_data = _data_error(error)
            if of_data is not None:
                raise of_data from error
            raise InternalError(f"the views cannot answer the query: {error}") from error
        finally:
            timer.cancel()
            timer.join()
            self._reading.discard(cursor)
            cursor.close()

    def close(self) -> None:
        """End the queries, write everything out and release the file."""
        self._closing = True
        for cursor in self._reading.copy():
            cursor.interrupt()
        self.readers.shutdown(cancel_futures=True)
        self.writer.shutdown()
        with self._writing:
            self._database.close()

    def _applied(self, message: ApplyView) -> int:
        row = self._database.execute(
            f"SELECT max(epoch) FROM {_EPOCHS} WHERE query_id = ? AND view = ?",  # noqa: S608 - a constant
            [message.query_id, message.view],
        ).fetchone()
        return -1 if row is None or row[0] is None else int(row[0])

    def _remember(self, message: ApplyView) -> None:
        key = [message.query_id, message.view]
        self._database.execute(f"DELETE FROM {_EPOCHS} WHERE query_id = ? AND view = ?", key)  # noqa: S608
        self._database.execute(f"INSERT INTO {_EPOCHS} VALUES (?, ?, ?)", [*key, message.epoch])  # noqa: S608

    def _merge(self, message: ApplyView, payload: bytes) -> None:
        import pyarrow

        view = quote(message.view)
        batch = _plain_times(pyarrow.ipc.open_stream(payload).read_all())
        described = self._database.execute(f"SELECT * FROM {view} LIMIT 0").description or []  # noqa: S608
        columns = [column[0] for column in described]
        names = [name for name in columns if name != _WRITTEN]
        into = ", ".join(map(quote, columns))
        values = ", ".join(quote(name) if name in names else f"TIMESTAMP '{_now()}'" for name in columns)
        self._database.register(_BATCH, batch)
        try:
            if message.sign:
                rows = self._take_away(view, names, quote(message.sign))
            else:
                self._replace(view, message.key_columns)
                kept = f" WHERE {quote(message.deleted)} IS NOT TRUE" if message.deleted else ""
                rows = f"SELECT * FROM {_BATCH}{kept}"  # noqa: S608
            self._database.execute(f"INSERT INTO {view} ({into}) SELECT {values} FROM ({rows})")  # noqa: S608
        finally:
            self._database.unregister(_BATCH)

    def _replace(self, view: str, keys: Sequence[str]) -> None:
        """Delete the rows of the keys that come."""
        if keys:
            # The key may be NULL (a group may), which no PRIMARY KEY allows.
            same = _same(view, _BATCH, keys)
            self._database.execute(f"DELETE FROM {view} USING {_BATCH} WHERE {same}")  # noqa: S608

    def _take_away(self, view: str, names: Sequence[str], sign: str) -> str:
        """Delete as many rows, of those that are equal, as were taken away; what selects those that were added."""
        columns = ", ".join(map(quote, names))
        net = f"SELECT {columns}, CAST(sum({sign}) AS BIGINT) AS {sign} FROM {_BATCH} GROUP BY ALL"  # noqa: S608
        equal = ", ".join(f"kept.{quote(name)}" for name in names)
        gone = (
            f"SELECT kept.rowid FROM {view} AS kept JOIN ({net}) AS net ON {_same('kept', 'net', names)} "  # noqa: S608
            f"WHERE net.{sign} < 0 QUALIFY row_number() OVER (PARTITION BY {equal}) <= -net.{sign}"
        )
        self._database.execute(f"DELETE FROM {view} WHERE rowid IN ({gone})")  # noqa: S608
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


def _data_error(error: duckdb.Error) -> UserError | None:
    """What DuckDB, or a function of ours in it, could not do with a value; None for any other error."""
    text = _in_short(error)
    if isinstance(error, duckdb.InvalidInputException):
        own = OWN_ERROR.search(text)
        if own is not None:
            return (
                data_error(own[1], own[2]) if own[1].startswith("22") else UserError(SqlState(own[1]), own[2])
            )
        if "ivision by zero" in text:
            return data_error(SqlState.DIVISION_BY_ZERO.value, text)
    if isinstance(error, duckdb.OutOfRangeException) or any(word in text for word in _OUT_OF_RANGE):
        return data_error(SqlState.NUMERIC_VALUE_OUT_OF_RANGE.value, text)
    return data_error(SqlState.DATA_EXCEPTION.value, text) if isinstance(error, _OF_DATA) else None


def _in_short(error: duckdb.Error) -> str:
    """DuckDB's sentence without its kind and without the SQL that we wrote for it."""
    sentence = str(error).partition("\n\nLINE ")[0].partition("Error: ")[2] or str(error)
    return sentence[:1].lower() + sentence[1:]


def _plain_times(table: Any) -> Any:
    """`table` without time zones: Spark's times are UTC whatever zone they carry."""
    import pyarrow

    schema = pyarrow.schema([field.with_type(_without_zone(field.type)) for field in table.schema])
    return table if schema.equals(table.schema) else table.cast(schema)


def _without_zone(kind: Any) -> Any:
    import pyarrow

    types = pyarrow.types
    if types.is_timestamp(kind) and kind.tz is not None:
        return pyarrow.timestamp(kind.unit)
    if types.is_struct(kind):
        return pyarrow.struct([field.with_type(_without_zone(field.type)) for field in kind])
    if types.is_list(kind):
        return pyarrow.list_(kind.value_field.with_type(_without_zone(kind.value_type)))
    if types.is_map(kind):
        return pyarrow.map_(
            kind.key_field.with_type(_without_zone(kind.key_type)),
            kind.item_field.with_type(_without_zone(kind.item_type)),
        )
    return kind
