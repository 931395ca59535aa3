"""The rows of a live result on their way from one producer to one reader."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import structlog

from headrace.core.errors import HeadraceError, InternalError, UserError
from headrace.core.resultset import LiveRows, ResultColumn
from headrace.core.sqlstate import SqlState

log = structlog.get_logger()

_JOINED_ROWS_MAX = 1000


class ResultChannel:
    """A bounded queue of row batches with a beginning (`started`) and an end (`finish` by the producer, `close` by the reader).

    The producer may be `capacity_rows` ahead of the reader (more by one batch); then `put` waits, which is the back-pressure.
    `lost` tells what the reader's role lacks by now of what it took to read; None: nothing.
    `message` is for a reader who sees no rows yet: which records are read at all. None: those that are there, and what follows.
    `rows_read` counts the rows that the reader has taken, and `is_started` is true once the query runs.
    `changelog_key` is set when the rows are changes: the columns among `columns` that are their key (none, if it is not selected).
    Used from one event loop only.
    """

    def __init__(
        self,
        query_id: str,
        columns: tuple[ResultColumn, ...],
        capacity_rows: int,
        *,
        changelog_key: tuple[str, ...] | None = None,
    ) -> None:
        self.query_id = query_id
        self.columns = columns
        self.changelog_key = changelog_key
        self.message: str | None = None
        self.lost: Callable[[], str | None] = lambda: None
        self._capacity = capacity_rows
        self._batches: deque[LiveRows] = deque()
        self.rows_read = 0
        self._held = 0
        self._started = asyncio.Event()
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()
        self._finished = False
        self._closed = False
        self._error: HeadraceError | None = None
        self._close_callbacks: list[Callable[[], None]] = []
        self._producer: asyncio.Task[None] | None = None
        self._feeding: Coroutine[Any, Any, None] | None = None

    # --- the producer's side

    async def put(self, rows: LiveRows) -> bool:
        """Add a batch, and wait for space if necessary. Return False if the result is over and has no reader."""
        while self._held >= self._capacity and not self._over:
            self._writable.clear()
            await self._writable.wait()
        if self._over:
            return False
        if rows.cells:
            self._add(rows)
            self._held += len(rows.cells)
            self._readable.set()
        self._started.set()
        return True

    def _add(self, rows: LiveRows) -> None:
        """Queue rows, together with those that wait already: PRINT puts one after the other, and each batch costs its reader time."""
        last = self._batches[-1] if self._batches else None
        if last is None or len(last.cells) + len(rows.cells) > _JOINED_ROWS_MAX:
            self._batches.append(LiveRows([*rows.cells], rows.kinds and [*rows.kinds]))
        else:
            last.cells.extend(rows.cells)
            if last.kinds is not None:
                last.kinds.extend(rows.kinds or ())

    def mark_started(self) -> None:
        """Release `started`: the query runs."""
        self._started.set()

    def finish(self, error: HeadraceError | None = None) -> None:
        """Finish the result because of `error`, or because it is complete; only the first call counts."""
        if self._over:
            return
        self._finished = True
        self._error = error
        self._wake()

    def on_close(self, callback: Callable[[], None]) -> None:
        """Call `callback` once when the reader closes; at once when it has."""
        if self._closed:
            callback()
        else:
            self._close_callbacks.append(callback)

    def feed(self, producer: Coroutine[Any, Any, None]) -> None:
        """Run `producer`, which calls `put`, until it ends or the reader closes; its end and its HeadraceError become ours."""
        self._feeding = producer
        self._producer = asyncio.create_task(self._run(producer), name=f"feed-{self.query_id}")

    # --- the reader's side

    async def started(self) -> None:
        """Return once the query runs; raises the HeadraceError that it ended with before that."""
        await self._started.wait()
        if self._error is not None and not self._held:
            raise self._error
        if self._closed:
            raise UserError(SqlState.CANCELLED, "the query was ended before it started")

    async def __aiter__(self) -> AsyncIterator[LiveRows]:
        """Yield batches of rows; raises the HeadraceError given to `finish` after the rows before it."""
        while True:
            if self._batches:
                rows = self._batches.popleft()
                self._held -= len(rows.cells)
                self.rows_read += len(rows.cells)
                self._writable.set()
                yield rows
            elif self._over:
                if self._error is not None:
                    raise self._error
                return
            else:
                self._readable.clear()
                await self._readable.wait()

    async def close(self) -> None:
        """End the query and forget its rows; closing twice does nothing."""
        if self._closed:
            return
        self._closed = True
        self._batches.clear()
        self._held = 0
        self._wake()
        for callback in self._close_callbacks:
            callback()
        if self._producer is not None:
            self._producer.cancel()
            await asyncio.gather(self._producer, return_exceptions=True)
        if self._feeding is not None:
            # A task that is cancelled before its first step never awaits its coroutine.
            self._feeding.close()

    @property
    def is_started(self) -> bool:
        """True once the query runs."""
        return self._started.is_set()

    @property
    def closed(self) -> bool:
        """True if the reader has closed the channel."""
        return self._closed

    @property
    def _over(self) -> bool:
        return self._finished or self._closed

    def _wake(self) -> None:
        for event in (self._started, self._readable, self._writable):
            event.set()

    async def _run(self, producer: Coroutine[Any, Any, None]) -> None:
        self.mark_started()
        try:
            await producer
        except HeadraceError as error:
            self.finish(error)
        except Exception:
            log.exception("feeding a result failed", query_id=self.query_id)
            self.finish(
                InternalError(
                    "the result ended because of a fault of the server", hint="See the server's log."
                )
            )
        else:
            self.finish()
