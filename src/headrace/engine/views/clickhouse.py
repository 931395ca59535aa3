"""Materialized views, kept in a ClickHouse database of this server's own. See docs/adr/0040.

A view is one ReplacingMergeTree, named by the view's id, where the newest row of a key counts. What tells the rows of a view without a
key apart is made up: a digest of the row, and a number. An epoch is one INSERT of one block, and so one part of the table: it is
there whole or not at all. One of its rows marks, under the query's id, which epoch it was.
"""

from __future__ import annotations

import io
import math
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import duckdb
import structlog

from headrace.connectors.clickhouse.client import ClickHouse, identifier, literal
from headrace.connectors.clickhouse.options import PASSWORD, URIS, USERNAME
from headrace.connectors.tls import TLS_DISABLED, TLS_VERIFY
from headrace.core.errors import ExternalError, HeadraceError, InternalError, UserError
from headrace.core.internal_columns import PREFIX
from headrace.core.names import quote
from headrace.core.settings import VIEWS_SCHEMES
from headrace.engine.functions.runtime import LentWorker
from headrace.engine.protocol import ApplyView
from headrace.engine.views.aside import aside, is_aside, is_expired
from headrace.engine.views.backup import CopiedView
from headrace.engine.views.clickhouse_snapshot import READING, ClickHouseSnapshot
from headrace.engine.views.clickhouse_tables import (
    DELETED,
    DIGEST,
    EPOCH,
    QUERY,
    ROW,
    VERSION,
    WRITTEN,
    ViewTable,
    condition_sql,
    decoded,
    encoded,
    selected,
)
from headrace.engine.views.database import open_database
from headrace.engine.views.epochs import rows_of
from headrace.engine.views.snapshots import Left, Snapshots, ViewRows
from headrace.engine.views.store import Bounds
from headrace.engine.views.worker import Table
from headrace.planner.duckdb_sql import text_literal, type_name
from headrace.planner.physical import Column
from headrace.planner.view_reads import ViewRead

log = structlog.get_logger()

DEAD_ROWS_MAX = 100_000
"""After so many more rows of keys that have ended it is time to see whether they are a quarter of the table, and to take them out."""
_MEMORY_MB = 64
_DIGESTS_AT_ONCE = 5000
_WHOLE = 1 << 40
_ONE_PART = {
    # An epoch is one block: no number of rows or bytes makes two of it, and it waits for no other.
    "min_insert_block_size_rows": _WHOLE,
    "min_insert_block_size_bytes": 0,
    "max_insert_block_size": _WHOLE,
    "async_insert": 0,
}
_COUNT = f"{PREFIX}count"


def store_of(url: str, password: str) -> dict[str, str]:
    """Return the server and user of HEADRACE_VIEWS as the properties of a ClickHouse store."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return {
        URIS.name: f"clickhouse://{place}{parts.path}",
        USERNAME.name: unquote(parts.username or ""),
        PASSWORD.name: password,
        TLS_DISABLED.name: str(parts.scheme == VIEWS_SCHEMES[1]).upper(),
        TLS_VERIFY.name: "TRUE",
    }


@dataclass
class _Marks:
    """The last epoch of each query that was applied to a view, the highest version, and how many keys have ended lately."""

    epochs: dict[str, int]
    version: int
    dead: int


class ClickHouseViews:
    """ClickHouse as a `ViewStore`. A query of several views blocks writers while it reads them, so that it sees one moment.

    `owner` tells the tables of this server from those of others, and `spill` is as of `DuckDbViews`.
    """

    def __init__(self, store: Mapping[str, str], *, owner: str, spill: Path, bounds: Bounds) -> None:
        self._owner = owner
        self._snapshots = Snapshots(spill, bounds)
        # Epochs are put into ClickHouse's form here.
        self._database = open_database(":memory:", memory_mb=_MEMORY_MB, spill=spill)
        self.readers = self._snapshots.readers
        self.writer = ThreadPoolExecutor(1, thread_name_prefix="views-write")
        self._cleaner = ThreadPoolExecutor(1, thread_name_prefix="views-clean")
        self._clients = ExitStack()
        self._clickhouse = self._clients.enter_context(ClickHouse(store))
        self._reading = self._clients.enter_context(ClickHouse(store, timeout_s=bounds.timeout_s))
        self._writing = threading.Lock()
        self._tables: dict[str, ViewTable] = {}
        self._marks: dict[str, _Marks] = {}
        self._undropped: set[str] = set()

    def create(
        self,
        view_id: str,
        columns: Sequence[Column],
        key_columns: Sequence[str],
        *,
        retention_ms: int | None = None,
    ) -> None:
        types = {column.name: column.type for column in columns}
        missing = set(key_columns) - set(types)
        if missing:
            raise InternalError(f"the key columns {sorted(missing)} are not columns of the view {view_id}")
        table = ViewTable(self._owner, types, tuple(key_columns), retention_ms)
        with self._writing, _named():
            self._clickhouse.execute(table.creation(view_id))

    def drop(self, view_id: str) -> None:
        with self._writing:
            self._tables.pop(view_id, None)
            self._marks.pop(view_id, None)
            try:
                self._clickhouse.execute(f"DROP TABLE IF EXISTS {identifier(view_id)} SYNC")
            except ExternalError as error:
                # Nobody knows the view any more: its table goes with the next purge, or the next start.
                log.warning("view_not_dropped", view=view_id, reason=error.message)
                self._undropped.add(view_id)
            else:
                self._undropped.discard(view_id)

    def retain(self, view_ids: Collection[str], *, days: int) -> None:
        with _named():
            tables = self._clickhouse.rows(
                "SELECT name, comment FROM system.tables WHERE database = currentDatabase()"
            )
        for row in tables:
            table = ViewTable.read(row["comment"])
            name = row["name"]
            if table is None or table.owner != self._owner or name in view_ids:
                continue
            if is_expired(name, days):
                self.drop(name)
            elif not is_aside(name):
                with self._writing, _named():
                    self._clickhouse.execute(f"RENAME TABLE {identifier(name)} TO {identifier(aside(name))}")

    def apply(self, message: ApplyView, payload: bytes) -> bool:
        with self._writing, _named():
            try:
                return self._applied(message, payload)
            except (duckdb.Error, UserError) as error:
                raise InternalError(
                    f"epoch {message.epoch} of the view {message.view} was not applied: {error}"
                ) from error

    def purge(self) -> int:
        """Return 0: expired rows are hidden, and ClickHouse deletes them when it merges."""
        for view in self._undropped.copy():
            self.drop(view)
        for view, marks in self._marks.copy().items():
            if marks.dead > DEAD_ROWS_MAX:
                marks.dead = 0
                self._cleaner.submit(self._take_out_dead, view)
        return 0

    def snapshot(self, view_id: str) -> ClickHouseSnapshot:
        with self._writing, _named():

            def last_epoch() -> int:
                # Not as they are known: an INSERT without an answer may have ended since.
                self._marks.pop(view_id, None)
                return max(self._marks_of(view_id).epochs.values(), default=-1)

            return ClickHouseSnapshot(self._clickhouse, view_id, self._table(view_id), _now(), last_epoch)

    def fill(self, view_id: str, rows: CopiedView) -> None:
        first = 0
        with _named():
            table = self._table(view_id)
        for batch in rows.batches():
            filled = self._filled(table, batch, first)
            first += batch.num_rows
            with self._writing, _named():
                self._clickhouse.insert_arrow(
                    f"{identifier(view_id)} ({', '.join(map(identifier, filled.column_names))})",
                    _stream(filled),
                    {**_ONE_PART, "insert_deduplication_token": f"copy:{first}"},
                )

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
        def fetch(left: Left) -> Iterator[Iterator[ViewRows]]:
            with self._one_moment(left) if len(reads) > 1 else ExitStack(), _named():
                yield (self._read(read, left) for read in reads)

        return self._snapshots.query(sql, timeout_s, arrow_tables or {}, fetch, workers)

    def warm_up(self) -> None:
        self._snapshots.warm_up()

    def close(self) -> None:
        self._snapshots.close()
        self.writer.shutdown()
        self._cleaner.shutdown(cancel_futures=True)
        with self._writing:
            self._clients.close()
            self._database.close()

    # --- writing

    def _applied(self, message: ApplyView, payload: bytes) -> bool:
        view, table = identifier(message.view), self._table(message.view)
        marks = self._marks_of(message.view)
        if marks.epochs.get(message.query_id, -1) >= message.epoch:
            return False
        if tuple(message.key_columns) != table.key:
            raise InternalError(f"the key of the view {message.view} is {table.key}")
        rows = self._rows(message, table, marks.version + 1, rows_of(payload))
        # What is known is asked again unless this ends well: a server that did not answer may have taken the rows.
        del self._marks[message.view]
        self._clickhouse.insert_arrow(
            f"{view} ({', '.join(map(identifier, rows.column_names))})",
            _stream(rows),
            {**_ONE_PART, "insert_deduplication_token": f"{message.query_id}:{message.epoch}"},
        )
        marks.epochs[message.query_id] = message.epoch
        marks.version += 1
        marks.dead += sum(rows[DELETED].to_pylist())
        self._marks[message.view] = marks
        return True

    def _table(self, view: str) -> ViewTable:
        """Raise InternalError if the view's table does not exist."""
        if view not in self._tables:
            comments = self._clickhouse.rows(
                "SELECT comment FROM system.tables WHERE database = currentDatabase() AND name = {name:String}",
                {"name": view},
            )
            table = ViewTable.read(comments[0]["comment"]) if comments else None
            if table is None:
                raise InternalError(
                    f"the rows of the view {view} are not in ClickHouse",
                    hint="If the view was created before HEADRACE_VIEWS was set, DROP it and create it again.",
                )
            self._tables[view] = table
        return self._tables[view]

    def _marks_of(self, view: str) -> _Marks:
        if view not in self._marks:
            table = identifier(view)
            marks = self._clickhouse.rows(
                f"SELECT {QUERY} AS query, {EPOCH} AS epoch, {VERSION} AS version FROM {table} FINAL WHERE {QUERY} != ''"  # noqa: S608
            )
            self._marks[view] = _Marks(
                {mark["query"]: int(mark["epoch"]) for mark in marks},
                max((int(mark["version"]) for mark in marks), default=0),
                self._size(view)[0],
            )
        return self._marks[view]

    def _size(self, view: str) -> tuple[int, int]:
        """Return the number of rows of ended keys in the table, and of all rows."""
        (size,) = self._clickhouse.rows(
            f"SELECT countIf({DELETED} = 1) AS dead, count() AS every FROM {identifier(view)}"  # noqa: S608
        )
        return int(size["dead"]), int(size["every"])

    def _rows(self, message: ApplyView, table: ViewTable, version: int, batch: Any) -> Any:
        """Return the rows that an epoch writes, with the row that marks the epoch: a `pyarrow.Table` of the table's columns."""
        cursor = self._database.cursor()
        try:
            cursor.register("__batch", batch)
            if table.key:
                deleted = f"{quote(message.deleted)} IS TRUE" if message.deleted else "FALSE"
                rows = f"SELECT {encoded(table.types)}, CAST({deleted} AS UTINYINT) AS {DELETED} FROM __batch"  # noqa: S608
            else:
                rows = self._bag(cursor, message, table, version)
            every = f"CAST({version} AS UBIGINT) AS {VERSION}, CAST({_now()} AS BIGINT) AS {WRITTEN}"
            made_up = "" if table.key else f"'' AS {DIGEST}, CAST(0 AS UBIGINT) AS {ROW}, "
            return cursor.sql(
                f"SELECT *, '' AS {QUERY}, CAST(0 AS BIGINT) AS {EPOCH}, {every} FROM ({rows}) "  # noqa: S608
                f"UNION ALL BY NAME SELECT {made_up}CAST(0 AS UTINYINT) AS {DELETED}, {text_literal(message.query_id)} AS {QUERY}, "
                f"CAST({message.epoch} AS BIGINT) AS {EPOCH}, {every}"
            ).to_arrow_table()
        finally:
            cursor.close()

    def _filled(self, table: ViewTable, batch: Any, first: int) -> Any:
        """Return copied rows as a `pyarrow.Table` of the table's columns. They are older than those of all epochs, and numbered from
        `first` on if they have no key."""
        import pyarrow

        cursor = self._database.cursor()
        try:
            cursor.register("__batch", pyarrow.Table.from_batches([batch]))
            written = f"epoch_us({WRITTEN})" if WRITTEN in batch.schema.names else str(_now())
            values = ", ".join(map(quote, table.columns))
            numbered = (
                ""
                if table.key
                else f"left(sha256(CAST(ROW({values}) AS VARCHAR)), 32) AS {DIGEST}, "
                f"CAST({first} + row_number() OVER () AS UBIGINT) AS {ROW}, "
            )
            return cursor.sql(
                f"SELECT {values}, {numbered}CAST(0 AS UTINYINT) AS {DELETED}, '' AS {QUERY}, CAST(0 AS BIGINT) AS {EPOCH}, "  # noqa: S608
                f"CAST(0 AS UBIGINT) AS {VERSION}, CAST({WRITTEN} AS BIGINT) AS {WRITTEN} "
                f"FROM (SELECT {encoded(table.types)}, {written} AS {WRITTEN} FROM __batch)"
            ).to_arrow_table()
        finally:
            cursor.close()

    def _bag(
        self, cursor: duckdb.DuckDBPyConnection, message: ApplyView, table: ViewTable, version: int
    ) -> str:
        """Return the query for the rows that arrived, each with its digest and a number of its own, and those that left."""
        values = ", ".join(map(quote, table.columns))
        count = f"CAST(sum({quote(message.sign)}) AS BIGINT)" if message.sign else "count(*)"
        cursor.execute(
            f"CREATE TEMP TABLE __net AS SELECT *, left(sha256(CAST(ROW({values}) AS VARCHAR)), 32) AS {DIGEST} "  # noqa: S608
            f"FROM (SELECT {encoded(table.types)}, {count} AS {_COUNT} FROM __batch GROUP BY ALL)"
        )
        ending = dict(cursor.execute(f"SELECT {DIGEST}, -{_COUNT} FROM __net WHERE {_COUNT} < 0").fetchall())  # noqa: S608
        ended_rows = list(self._kept(message.view, table, ending))
        cursor.execute(f"CREATE TEMP TABLE __gone ({DIGEST} VARCHAR, {ROW} UBIGINT)")
        if ended_rows:
            import pyarrow

            digests, numbers = zip(*ended_rows, strict=True)
            columns = {DIGEST: digests, ROW: pyarrow.array(numbers, pyarrow.uint64())}
            cursor.register("__ending", pyarrow.table(columns))
            cursor.execute("INSERT INTO __gone FROM __ending")
        return (
            f"SELECT {values}, {DIGEST}, CAST({version << 32} + row_number() OVER () AS UBIGINT) AS {ROW}, "  # noqa: S608
            f"CAST(0 AS UTINYINT) AS {DELETED} FROM (SELECT *, unnest(range({_COUNT})) FROM __net WHERE {_COUNT} > 0) "
            f"UNION ALL BY NAME SELECT *, CAST(1 AS UTINYINT) AS {DELETED} FROM __gone"
        )

    def _kept(self, view: str, table: ViewTable, ending: Mapping[str, int]) -> Iterator[tuple[str, int]]:
        """Yield for each digest the numbers of as many rows as are present."""
        left = Counter(ending)
        every = list(ending)
        for first in range(0, len(every), _DIGESTS_AT_ONCE):
            digests = every[first : first + _DIGESTS_AT_ONCE]
            most = max(ending[digest] for digest in digests)
            for row in self._clickhouse.rows(
                f"SELECT {DIGEST} AS digest, {ROW} AS number FROM {identifier(view)} FINAL "  # noqa: S608
                f"WHERE {table.alive(_now())} AND {DIGEST} IN ({', '.join(map(literal, digests))}) "
                f"ORDER BY {DIGEST}, {ROW} LIMIT {most} BY {DIGEST}"
            ):
                if left[row["digest"]] > 0:
                    left[row["digest"]] -= 1
                    yield row["digest"], int(row["number"])

    def _take_out_dead(self, view: str) -> None:
        try:
            dead, rows = self._size(view)
            if dead > rows // 4:
                self._clickhouse.execute(f"OPTIMIZE TABLE {identifier(view)} FINAL CLEANUP")
        except HeadraceError as error:
            log.warning("view_not_cleaned_up", view=view, reason=error.message)

    # --- reading

    @contextmanager
    def _one_moment(self, left: Left) -> Iterator[None]:
        while not self._writing.acquire(timeout=0.1):
            left()
        try:
            yield
        finally:
            self._writing.release()

    def _read(self, read: ViewRead, left: Left) -> ViewRows:
        table = self._table(read.view)
        names = table.columns if read.columns is None else read.columns
        types = {name: table.types[name] for name in names}
        columns = ", ".join(f"{quote(name)} {type_name(kind)}" for name, kind in types.items())
        given = [condition_sql(each, table.types[each.column]) for each in read.conditions]
        conditions = [table.alive(_now()), *filter(None, given)]
        limit = f" LIMIT {read.limit}" if read.limit is not None and None not in given else ""
        sql = f"SELECT {selected(types)} FROM {identifier(read.view)} FINAL WHERE {' AND '.join(conditions)}{limit}"  # noqa: S608
        return ViewRows(Table(read.view, columns, decoded(types)), *self._batches(sql, left))

    def _batches(self, sql: str, left: Left) -> tuple[Any, Iterator[Any]]:
        """Return the schema of an answer, and its Arrow batches as they come."""
        import pyarrow

        def read() -> Iterator[Any]:
            try:
                with self._reading.arrow(
                    sql, {**READING, "max_execution_time": math.ceil(left())}
                ) as content:
                    stream = pyarrow.ipc.open_stream(content)
                    yield stream.schema
                    yield from stream
            except ExternalError:
                left()
                raise
            except UserError as error:
                raise InternalError(f"the views cannot answer the query: {error}") from error

        batches = read()
        return next(batches), batches


def _stream(table: Any) -> bytes:
    """Return an Arrow stream with a single block."""
    import pyarrow

    stream = io.BytesIO()
    with pyarrow.ipc.new_stream(stream, table.schema) as out:
        for batch in table.combine_chunks().to_batches():
            out.write_batch(batch)
    return stream.getvalue()


@contextmanager
def _named() -> Iterator[None]:
    """Name the ClickHouse server in errors: a user of views knows of none."""
    try:
        yield
    except ExternalError as error:
        raise ExternalError(
            error.state,
            f"the ClickHouse that keeps the materialized views: {error.message}",
            hint=(
                "The query that writes the view waits and continues by itself. The server's setting "
                "HEADRACE_VIEWS has the address."
            ),
        ) from error


def _now() -> int:
    return time.time_ns() // 1000
