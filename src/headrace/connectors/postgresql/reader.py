"""Tables as one sequence of changes: first the existing rows, then their changes. Reading can continue from any `Progress`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Self

from headrace.connectors.postgresql import identity, replication, snapshot
from headrace.connectors.postgresql.changes import Change, Position, Table
from headrace.connectors.postgresql.connection import connect
from headrace.connectors.postgresql.failures import classified
from headrace.connectors.postgresql.identity import Identity
from headrace.connectors.postgresql.replication import ChangeStream
from headrace.connectors.postgresql.snapshot import Progress, Rows
from headrace.core.errors import ExternalError, UserError
from headrace.core.sqlstate import SqlState

_READ_AGAIN = 10_000
_CHUNK_ROWS = 50_000
"""At most: two chunks are in memory, the one that is at work and the next."""
_IDLE_STEP_BYTES = 16 * 2**20
"""A segment of the log, which the server frees as a whole: nothing is won by going on past less of what others write."""
_CHECK_INTERVAL_S = 10.0


def begin(
    store: Mapping[str, str], database: str | None, slot: str, tables: Sequence[Table], *, rows: bool = True
) -> Progress:
    """Create slot and publication if they are missing, and return the progress of a new reader.

    Without `rows`, only changes are read: new changes, or the changes that an existing slot has retained. With `rows`, an existing slot
    is advanced to the present, since the rows contain the retained changes.

    Raises UserError 3D008 as `replication.prepare` does, and for a table
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
        if lsn is None:
            lsn = (replication.advance if rows else replication.confirmed_lsn)(connection, slot)
        origin = identity.read(connection, slot, tables)
    began_us = int(moment.timestamp() * 1_000_000)
    return Progress(Position(lsn), held_to=0 if rows else 1, began_us=began_us, identity=origin)


class TableReader:
    """Reader of tables from `progress` on; a context manager. It opens connections on demand.

    It compares the identity of its source with the progress at the start, and again every `check_interval_s`.
    """

    def __init__(
        self,
        store: Mapping[str, str],
        database: str | None,
        slot: str,
        tables: Sequence[Table],
        progress: Progress,
        *,
        check_interval_s: float = _CHECK_INTERVAL_S,
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
        self._check_interval_s = check_interval_s
        self._check_at = 0.0

    def read(self, *, at_most: int, wait_s: float) -> Sequence[Change] | Rows:
        """Return about `at_most` changes, waiting at most `wait_s` for the first; `progress` then follows them.

        Without changes, `progress` may still advance over other tables' changes. Raises UserError if reading cannot continue, 22000 if
        changes may be missing; ExternalError 57015 if a connection broke: then open another reader at the last progress.
        """
        if not self.progress.is_whole:
            return self._rows(at_most)
        return self._changes(at_most, wait_s)

    def _changes(self, at_most: int, wait_s: float) -> list[Change]:
        if self._stream is None:
            self._stream = self._opened()
        elif time.monotonic() >= self._check_at:
            # The stream itself reports a server that is away.
            with suppress(ExternalError):
                self._check()
        changes = self._stream.read(at_most=at_most, wait_s=wait_s)
        if not changes:
            if self._stream.idle_at - self.progress.log.lsn >= _IDLE_STEP_BYTES:
                self.progress = replace(self.progress, log=Position(self._stream.idle_at))
            return []
        left = snapshot.unseen(self._store, self._database, self._tables, self.progress, changes)
        count = self.progress.count + len(left)
        self.progress = replace(self.progress, log=changes[-1].position, count=count)
        return left

    def read_to(self, end: Progress) -> Iterator[list[Change]]:
        """Yield again the changes that `read` returned between `progress` and `end`; raises the errors of `read`."""
        # The log may end before `end` until another write, so do not wait for positions after the last change.
        while self.progress.count < end.count:
            changes = self._changes(_READ_AGAIN, 1.0)
            yield [change for change in changes if change.position <= end.log]

    def confirm(self, progress: Progress) -> None:
        """Confirm that the log before a progress need not be kept; raises ExternalError 57015."""
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
        """Return the next chunk; the one after it is read while its taker is at work."""
        if self._ahead is None:
            self._check()
            run = self._open.enter_context(
                snapshot.run(self._store, self._database, self._slot, self._tables)
            )
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

    def _opened(self) -> ChangeStream:
        """Return a stream of all changes after the progress. While the slot is read, no other client can move it."""
        oids = [oid for oid, _ in self._origin().published.tables]
        tables = [replace(table, oid=oid) for table, oid in zip(self._tables, oids, strict=True)]
        stream = self._open.enter_context(
            ChangeStream(self._store, self._database, self._slot, tables, self.progress.log)
        )
        self._check(reads_slot=True)
        return stream

    def _check(self, *, reads_slot: bool = False) -> None:
        """Raise UserError 22000 if the server, the publication, the tables or the slot were replaced since the last read."""
        origin, lsn = self._origin(), self.progress.log.lsn
        with classified(self._store), connect(self._store, self._database) as connection:
            if reads_slot:
                replication.check_slot(connection, self._slot, lsn)
            origin = identity.check(self._store, connection, self._slot, self._tables, origin, lsn)
        self.progress = replace(self.progress, identity=origin)
        self._check_at = time.monotonic() + self._check_interval_s

    def _origin(self) -> Identity:
        """Returns what the progress belongs to: for progress of an older version, which did not say so, what is there now.

        Such a version confirmed more than its progress says, where only others wrote.
        """
        origin = self.progress.identity
        if origin is None:
            with classified(self._store), connect(self._store, self._database) as connection:
                origin = identity.read(connection, self._slot, self._tables)
                log = self.progress.log
                if self.progress.is_whole:
                    log = max(log, Position(replication.confirmed_lsn(connection, self._slot)))
            self.progress = replace(self.progress, log=log, identity=origin)
        return origin
