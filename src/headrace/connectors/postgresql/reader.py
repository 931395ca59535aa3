"""Tables as one sequence of changes: first the rows that they have, then what happens to them; it can go on from any `Progress`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import Self

from headrace.connectors.postgresql import replication, snapshot
from headrace.connectors.postgresql.changes import Change, Position, Table
from headrace.connectors.postgresql.connection import connect
from headrace.connectors.postgresql.failures import classified
from headrace.connectors.postgresql.replication import ChangeStream
from headrace.connectors.postgresql.snapshot import Progress, Rows
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState

_READ_AGAIN = 10_000
_CHUNK_ROWS = 50_000
"""At most: two chunks are in memory, the one that is at work and the next."""


def begin(
    store: Mapping[str, str], database: str | None, slot: str, tables: Sequence[Table], *, rows: bool = True
) -> Progress:
    """Makes slot and publication where they are missing, and gives the progress of one who has read nothing.

    Without `rows` only changes are read: from now on, or those that a slot that was there has kept. With them that slot is
    moved to now, since the rows have what it has kept. Raises UserError 3D008 as `replication.prepare` does, and for a table
    without a key; ExternalError 57015.
    """
    for table in tables:
        if not table.key:
            raise UserError(
                SqlState.INVALID_PARAMETER,
                f"the table {table.schema}.{table.name} has no primary key, by which its rows could be read",
                hint=f"ALTER TABLE {table.schema}.{table.name} ADD PRIMARY KEY (…).",
            )
    with classified(store), connect(store, database) as connection:
        (moment,) = connection.execute("SELECT clock_timestamp()").fetchone() or (datetime.now(UTC),)
        lsn = replication.prepare(connection, slot, tables)
        if lsn is None and rows:
            lsn = replication.advance(connection, slot)
    began_us = int(moment.timestamp() * 1_000_000)
    return Progress(Position(lsn or 0), held_to=0 if rows else 1, began_us=began_us)


class TableReader:
    """Reads tables from `progress` on; a context manager. Its connections are opened when they are needed."""

    def __init__(
        self,
        store: Mapping[str, str],
        database: str | None,
        slot: str,
        tables: Sequence[Table],
        progress: Progress,
    ) -> None:
        self._store = store
        self._database = database
        self._slot = slot
        self._tables = tables
        self.progress = progress
        self._open = ExitStack()
        self._read_ahead: Callable[[], Future[tuple[Rows, Progress]]]
        self._ahead: Future[tuple[Rows, Progress]] | None = None
        self._stream: ChangeStream | None = None

    def read(self, *, at_most: int, wait_s: float) -> Sequence[Change] | Rows:
        """The next changes, about `at_most`, waiting so long for the first; `progress` is then behind them.

        Raises UserError for a table or a server that cannot be read on, ExternalError 57015 when a connection broke: then open
        another reader at the last progress.
        """
        if not self.progress.is_whole:
            return self._rows(at_most)
        return self._changes(at_most, wait_s)

    def _changes(self, at_most: int, wait_s: float) -> list[Change]:
        if self._stream is None:
            self._stream = self._open.enter_context(
                ChangeStream(self._store, self._database, self._slot, self._tables, self.progress.log)
            )
        changes = self._stream.read(at_most=at_most, wait_s=wait_s)
        if not changes:
            return []
        left = snapshot.unseen(self._store, self._database, self._tables, self.progress, changes)
        count = self.progress.count + len(left)
        self.progress = replace(self.progress, log=changes[-1].position, count=count)
        return left

    def read_to(self, end: Progress) -> Iterator[list[Change]]:
        """What `read` gave of the log on its way from `progress` to `end`, again; raises as it does."""
        while self.progress.log < end.log:
            changes = self._changes(_READ_AGAIN, 1.0)
            yield [change for change in changes if change.position <= end.log]

    def confirm(self, progress: Progress) -> None:
        """What comes before it need not be kept; raises ExternalError 57015."""
        if self._stream is not None and progress.is_whole:
            self._stream.confirm(progress.log)

    def close(self) -> None:
        """Closes what is open."""
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _rows(self, at_most: int) -> Rows:
        """The next chunk; the one after it is read while its taker is at work."""
        if self._ahead is None:
            run = self._open.enter_context(snapshot.run(self._store, self._database, self._tables))
            thread = self._open.enter_context(ThreadPoolExecutor(1, "rows-of-tables"))
            size = min(at_most, _CHUNK_ROWS)
            self._read_ahead = lambda: thread.submit(run.chunk, self.progress, size)
            self._ahead = self._read_ahead()
        with classified(self._store):
            rows, self.progress = self._ahead.result()
        if self.progress.is_whole:
            self._open.close()  # the transaction holds locks
        else:
            self._ahead = self._read_ahead()
        return rows
