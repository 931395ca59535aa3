"""Read of a table's existing rows in chunks by primary key, and their combination with changes from the log.

The slot is created first, so that no change is missed. A run reads chunks in one transaction, whose snapshot determines exactly which
transactions its rows contain. A change from the log is skipped if the snapshot of its row's chunk already contains it. So no change is
missed and none is reported twice, and the chunks may be read in several runs. For each run, only its snapshot and the last key are
stored.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import pyarrow as pa
from psycopg.sql import SQL, Composable, Identifier, Literal

from headrace.connectors.postgresql.changes import Change, Position, Row, Table, lsn_of
from headrace.connectors.postgresql.connection import Connection, connect
from headrace.connectors.postgresql.copying import copied
from headrace.connectors.postgresql.failures import classified
from headrace.connectors.postgresql.identity import Identity
from headrace.connectors.postgresql.replication import oldest_transaction
from headrace.core.errors import ExternalError, UserError
from headrace.core.sqlstate import SqlState

_SETTLE_S = 60.0
_HALF = 1 << 31
_WHOLE = 1 << 32


@dataclass(frozen=True)
class Visible:
    """The transactions that a snapshot of PostgreSQL holds, as `pg_current_snapshot` writes them: 'xmin:xmax:running,…'."""

    text: str

    def holds(self, xid: int) -> bool:
        """True if a committed transaction is in it; `xid` are the lower 32 bits of its number, as the log has them."""
        least, most, running = self._bounds
        number = most - (most - xid) % _WHOLE
        if most - number > _HALF:
            number += _WHOLE
        return number < least or (number < most and number not in running)

    @cached_property
    def _bounds(self) -> tuple[int, int, frozenset[int]]:
        least, most, running = self.text.split(":")
        return int(least), int(most), frozenset(int(xid) for xid in running.split(",") if xid)


@dataclass(frozen=True)
class Part:
    """Rows of a table that one run read: from the end of the part before to the key `upto`, None being the table's end."""

    table: int
    upto: Row | None
    snapshot: Visible


@dataclass(frozen=True)
class Progress:
    """Progress of a reader of tables.

    `log` is the next position in the log, `parts` the chunks that were read. Transactions after `held_to` are in no chunk; it is known
    after all chunks were read. `count` is the number of reported changes; the first is at `began_us` or later, in microseconds.
    `identity` identifies the source; None in progress of versions without identities.
    """

    log: Position
    parts: tuple[Part, ...] = ()
    held_to: int = 0
    count: int = 0
    began_us: int = 0
    identity: Identity | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        parts = [[part.table, part.upto, part.snapshot.text] for part in self.parts]
        # Without an identity, the text must equal that of older versions: names of files with rows contain it.
        identity = {} if self.identity is None else {"identity": self.identity.to_json()}
        return {
            "lsn": self.log.lsn,
            "changes": self.log.changes,
            "parts": parts,
            "held_to": self.held_to,
            "count": self.count,
            "began_us": self.began_us,
            **identity,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Progress:
        """Return the opposite of `to_json`."""
        parts = tuple(
            Part(table, None if upto is None else tuple(upto), Visible(snapshot))
            for table, upto, snapshot in data["parts"]
        )
        return cls(
            Position(data["lsn"], data["changes"]),
            parts,
            data["held_to"],
            data["count"],
            data["began_us"],
            Identity.from_json(data["identity"]) if "identity" in data else None,
        )

    @property
    def is_whole(self) -> bool:
        """True if all rows of the tables were read, and only changes are left."""
        return self.held_to > 0

    def next_part(self) -> tuple[int, Row | None]:
        """Return the next table to read, and the key behind which; None for its beginning."""
        last = self.parts[-1] if self.parts else Part(-1, None, Visible(""))
        return (last.table + 1, None) if last.upto is None else (last.table, last.upto)

    def with_part(self, part: Part) -> Progress:
        """Return the progress after another chunk; the chunks of a run form a single part."""
        last = self.parts[-1] if self.parts else None
        same = last is not None and (last.table, last.snapshot) == (part.table, part.snapshot)
        return replace(self, parts=(*(self.parts[:-1] if same else self.parts), part))


@dataclass(frozen=True)
class Rows:
    """Rows of a chunk, by column: PostgreSQL's texts. One by one they are changes of the op `r`."""

    table: Table
    texts: pa.Table
    log: Position
    began_us: int

    def __len__(self) -> int:
        return int(self.texts.num_rows)

    def __iter__(self) -> Iterator[Change]:
        # The time of what follows must not be before it, whenever the chunk was read.
        at = (self.log.lsn, 0, self.began_us, self.log)
        for row in zip(*(column.to_pylist() for column in self.texts.columns), strict=True):
            yield Change("r", self.table, None, row, *at)

    def last_key(self) -> Row:
        """Return the primary key of the last of them."""
        return tuple(self.texts.column(name)[-1].as_py() for name in self.table.key)


class Run:
    """Reads chunks in one transaction."""

    def __init__(self, connection: Connection, publication: str, tables: Sequence[Table]) -> None:
        self._connection = connection
        self._tables = [
            _resolved(connection, publication, table) if table.whole else table for table in tables
        ]
        row = connection.execute("SELECT pg_current_snapshot()::text").fetchone() or ("",)
        self.snapshot = Visible(row[0])

    def chunk(self, progress: Progress, at_most: int) -> tuple[Rows, Progress]:
        """Return the next rows, by key, and what is read with them; raises `psycopg.Error`."""
        number, after = progress.next_part()
        table = self._tables[number]
        rows = Rows(table, self._texts(table, after, at_most), progress.log, progress.began_us)
        upto = rows.last_key() if len(rows) == at_most else None
        progress = replace(progress, count=progress.count + len(rows))
        progress = progress.with_part(Part(number, upto, self.snapshot))
        if upto is None and number == len(self._tables) - 1:
            (end,) = self._connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone() or (
                "0/0",
            )
            progress = replace(progress, held_to=lsn_of(end))
        return rows, progress

    def _texts(self, table: Table, after: Row | None, at_most: int) -> pa.Table:
        key = SQL(", ").join(map(Identifier, table.key))
        beyond: Composable = SQL("")
        if after is not None:
            beyond = SQL(" WHERE ({}) > ({})").format(key, SQL(", ").join(map(Literal, after)))
        query = SQL("SELECT {} FROM ONLY {}{} ORDER BY {} LIMIT {}").format(
            SQL(", ").join(map(Identifier, table.columns)),
            Identifier(*table.path),
            beyond,
            key,
            Literal(at_most),
        )
        return copied(self._connection, query, table.columns)


@contextmanager
def run(
    store: Mapping[str, str], database: str | None, publication: str, tables: Sequence[Table]
) -> Iterator[Run]:
    """Yield a run over tables that all have keys; raises ExternalError 57015 for the server's errors."""
    with classified(store), connect(store, database) as connection:
        _settle(connection)
        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield Run(connection, publication, tables)


def unseen(
    store: Mapping[str, str],
    database: str | None,
    tables: Sequence[Table],
    progress: Progress,
    changes: Sequence[Change],
) -> list[Change]:
    """Return the log's changes that the rows read before do not include.

    Raises UserError 22000 for a TRUNCATE that only some of them hold, ExternalError 57015.
    """
    if changes[0].position.lsn > progress.held_to:
        return list(changes)
    with classified(store), ExitStack() as opened:
        # Seldom needed: when runs differ in what they hold.
        ask = cache(lambda: opened.enter_context(connect(store, database)))
        return [change for change in changes if not _is_held(ask, tables, progress.parts, change)]


def key_of(table: Table, row: Row) -> Row:
    """Return the values of a row's primary key."""
    return tuple(row[table.columns.index(name)] for name in table.key)


def _is_held(
    ask: Callable[[], Connection], tables: Sequence[Table], parts: Sequence[Part], change: Change
) -> bool:
    own = [part for part in parts if tables[part.table].path == change.table.path]
    held = {part.snapshot.holds(change.xid) for part in own}
    if len(held) < 2:
        return held == {True}
    image = change.after or change.before
    if image is None:
        where = f"{change.table.schema}.{change.table.name}"
        raise UserError(
            SqlState.DATA_EXCEPTION,
            f"the table {where} was truncated while its rows were read, with a restart between them",
            hint="Drop the replication slot, and create the query again: it reads the table from the start.",
        )
    key = key_of(change.table, image)
    part = next(part for part in own if part.upto is None or _is_upto(ask(), change.table, key, part.upto))
    return part.snapshot.holds(change.xid)


def _is_upto(connection: Connection, table: Table, key: Row, upto: Row) -> bool:
    """Compare keys as the table itself orders them: by the types and collations of its columns."""
    condition = SQL("SELECT ({}) <= ({}) FROM {}, {}").format(
        SQL(", ").join(Identifier("a", name) for name in table.key),
        SQL(", ").join(Identifier("b", name) for name in table.key),
        _record("a", table, key),
        _record("b", table, upto),
    )
    return bool((connection.execute(condition).fetchone() or (False,))[0])


def _record(alias: str, table: Table, key: Row) -> Composable:
    pairs = [
        part for name, value in zip(table.key, key, strict=True) for part in (Literal(name), Literal(value))
    ]
    return SQL("json_populate_record(NULL::{}, json_build_object({})) AS {}").format(
        Identifier(*table.path), SQL(", ").join(pairs), Identifier(alias)
    )


def _resolved(connection: Connection, publication: str, table: Table) -> Table:
    """Return a whole table with the columns that it has now, as far as its changes have them: generated columns are seldom published."""
    columns = connection.execute(
        "SELECT attname::text, atttypid::int8 FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid "
        "JOIN pg_namespace ON pg_namespace.oid = relnamespace "
        "JOIN pg_publication_tables ON schemaname = nspname AND tablename = relname AND attname = ANY(attnames) "
        "WHERE nspname = %s AND relname = %s AND pubname = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        (*table.path, publication),
    ).fetchall()
    return replace(
        table, columns=tuple(name for name, _ in columns), type_oids=tuple(oid for _, oid in columns)
    )


def _settle(connection: Connection) -> None:
    """Waits until every transaction that runs now has ended.

    One may have written its commit into the log before the slot began, and still be in no snapshot.
    """
    deadline = time.monotonic() + _SETTLE_S
    (end,) = connection.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text").fetchone() or ("0",)
    while True:
        (least,) = connection.execute("SELECT pg_snapshot_xmin(pg_current_snapshot())::text").fetchone() or (
            "0",
        )
        if int(least) >= int(end):
            return
        if time.monotonic() > deadline:
            raise ExternalError(
                SqlState.REMOTE_UNAVAILABLE,
                f"transactions that started before the tables are read still run after {_SETTLE_S:.0f} s: {oldest_transaction(connection)}",
                hint="End them. A continuous query retries automatically.",
            )
        time.sleep(0.05)
