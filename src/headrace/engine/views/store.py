"""Interface of the store of materialized views; ADR 10 names its implementations."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Event
from typing import Any, Protocol

import duckdb

from headrace.engine.functions.runtime import LentWorker
from headrace.engine.protocol import ApplyView
from headrace.engine.views.backup import CopiedView
from headrace.planner.physical import Column
from headrace.planner.view_reads import ViewRead

PURGE_INTERVAL_S = 5.0
READER_THREADS = 3
ABANDONED: ContextVar[Event | None] = ContextVar("abandoned", default=None)
"""Set when nobody waits for the query of this context any longer."""


@dataclass(frozen=True)
class Bounds:
    """Limits of one snapshot query: rows and bytes of its result, the memory of the process that evaluates it, and its time.

    The time is less than the statement timeout: a query that its client has stopped waiting for must not hold its thread.
    """

    rows: int = 100_000
    bytes: int = 32 * 1024 * 1024
    memory_mb: int = 512
    timeout_s: float = 15.0


class ViewSnapshot(Protocol):
    """A view as of one moment, while it is written on. Used by one thread at a time; `close` it."""

    @property
    def epoch(self) -> int:
        """The last epoch that was written into the view; -1 without one."""
        ...

    def copy(self, copy: duckdb.DuckDBPyConnection) -> bool:
        """Write the rows into another database, of `backup.new_copy`; return False if the view does not exist."""
        ...

    def close(self) -> None:
        """End the reading."""
        ...


class ViewStore(Protocol):
    """The views of one server. Safe to use from any thread: writes are one at a time, reads see whole epochs.

    Call `query` in one of `readers` and `apply` in `writer`: both may take long, and other threads are waited for.
    """

    readers: ThreadPoolExecutor
    writer: ThreadPoolExecutor

    def create(
        self,
        view_id: str,
        columns: Sequence[Column],
        key_columns: Sequence[str],
        *,
        retention_ms: int | None = None,
    ) -> None:
        """Create an empty view; `key_columns` must be among `columns`. A view that exists already is left as it is.

        With `retention_ms`, `purge` deletes the rows that were last written longer ago.
        """
        ...

    def drop(self, view_id: str) -> None:
        """Remove a view and its epochs. A view that does not exist is not an error."""
        ...

    def retain(self, view_ids: Collection[str], *, days: int) -> None:
        """Set aside every view but these, and drop what was set aside more than `days` ago.

        A crash between making a view and recording it leaves one. If it is the catalog that is wrong, the rows can be restored.
        """
        ...

    def apply(self, message: ApplyView, payload: bytes) -> bool:
        """Apply one epoch, an Arrow IPC stream, as a whole; False when it was applied before.

        With key columns a row replaces the one of its key, or removes it where `message.deleted` is true; a key comes once in an
        epoch. With `message.sign` a row is added once more, or one that is equal to it is removed. Else rows are appended.
        Raises InternalError for a view that does not exist or rows that do not fit it, ExternalError when the store is away: then it
        may come again.
        """
        ...

    def purge(self) -> int:
        """Delete the rows that are older than their views keep them, for ever; how many were deleted now. Readers go on meanwhile."""
        ...

    def snapshot(self, view_id: str) -> ViewSnapshot:
        """Return a snapshot of a view, to copy it. Raises ExternalError when the store is away."""
        ...

    def fill(self, view_id: str, rows: CopiedView) -> None:
        """Add copied rows to an empty view with the same columns and the same key; not as a whole. Raises UserError XX001 for a damaged
        copy, ExternalError when the store is away."""
        ...

    def query(
        self,
        sql: str,
        timeout_s: float | None = None,
        *,
        reads: Sequence[ViewRead] = (),
        arrow_tables: Mapping[str, Any] | None = None,
        workers: Sequence[LentWorker] = (),
    ) -> tuple[tuple[tuple[str, str], ...], list[tuple[Any, ...]]]:
        """Return columns (names and DuckDB's types) and rows of a SELECT in DuckDB's SQL, as of one moment. It sees `arrow_tables` beside
        the views, and calls the users' functions of `workers`.

        `reads` names every view in it, and says what of that view is enough. Raises ExternalError when the store is away, UserError
        when the data does not allow it, 53200 for too much memory, 53000 for too large a result, 57014 when it takes too long.
        """
        ...

    def warm_up(self) -> None:
        """Start the processes of queries ahead of the first query."""
        ...

    def close(self) -> None:
        """End the queries, write all changes and release the resources."""
        ...
