"""Tables as one sequence of changes: first the rows that they have, then what happens to them; it can go on from any `Progress`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Self

from headrace.connectors.postgresql import replication, snapshot
from headrace.connectors.postgresql.changes import Change, Position, Table
from headrace.connectors.postgresql.connection import connect
from headrace.connectors.postgresql.failures import classified
from headrace.connectors.postgresql.replication import ChangeStream
from headrace.connectors.postgresql.snapshot import Progress, Run
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState


def begin(store: Mapping[str, str], database: str | None, slot: str, tables: Sequence[Table]) -> Progress:
    """Makes slot and publication where they are missing, and gives the progress of one who has read nothing.

    A slot that was there gives what it has kept, after the rows. Raises UserError 3D008 as `replication.prepare` does, and for a
    table without a key; ExternalError 57015.
    """
    for table in tables:
        if not table.key:
            raise UserError(
                SqlState.INVALID_PARAMETER,
                f"the table {table.schema}.{table.name} has no primary key, by which its rows could be read",
                hint=f"ALTER TABLE {table.schema}.{table.name} ADD PRIMARY KEY (…).",
            )
    with classified(store), connect(store, database) as connection:
        lsn = replication.prepare(connection, slot, tables)
    return Progress(Position(lsn or 0))


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
        self._run: Run | None = None
        self._stream: ChangeStream | None = None

    def read(self, *, at_most: int, wait_s: float) -> list[Change]:
        """The next changes, about `at_most`, waiting so long for the first; `progress` is then behind them.

        Raises UserError for a table or a server that cannot be read on, ExternalError 57015 when a connection broke: then open
        another reader at the last progress.
        """
        if not self.progress.is_whole:
            return self._rows(at_most)
        if self._stream is None:
            self._open.close()  # the run's transaction
            self._run = None
            self._stream = self._open.enter_context(
                ChangeStream(self._store, self._database, self._slot, self._tables, self.progress.log)
            )
        changes = self._stream.read(at_most=at_most, wait_s=wait_s)
        if not changes:
            return []
        left = snapshot.unseen(self._store, self._database, self._tables, self.progress, changes)
        self.progress = replace(self.progress, log=changes[-1].position)
        return left

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

    def _rows(self, at_most: int) -> list[Change]:
        if self._run is None:
            self._run = self._open.enter_context(snapshot.run(self._store, self._database, self._tables))
        with classified(self._store):
            changes, self.progress = self._run.chunk(self.progress, at_most)
        return changes
