"""The moment between two batches of a running query, at which its checkpoint belongs to one batch."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from headrace.connectors.checkpoint_store import CheckpointStore
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.engine.checkpoint_copy import Border, border
from headrace.engine.protocol import HOLD_S

T = TypeVar("T")
POLL_S = 0.02


class BatchBorder:
    """Lets work run between two batches of one query: the next batch waits until it is done.

    Spark commits a batch before it begins the next one. So the checkpoint belongs to the batch before when a batch enters, and to the last
    batch while the query waits for rows, once that batch is committed. A sink of Spark's own, which writes at least once, enters nothing.
    """

    def __init__(self, checkpoint: CheckpointStore, stopping: threading.Event) -> None:
        self._checkpoint = checkpoint
        self._stopping = stopping
        self._lock = threading.Lock()
        self._entered = -1
        self._held_until = 0.0
        self._waiting: list[tuple[Callable[[Border], Any], Future[Any], bool]] = []

    def enter(self, batch: int) -> None:
        """Do the work that waits for a border; to be called at the start of each batch, before it has an effect.

        Returns at a held border when the query is to stop or is released, or HOLD_S later.
        """
        with self._lock:
            self._entered = batch
            if self._waiting and batch > 0:
                self._work(Border(batch - 1, is_interrupted=False))
        while time.monotonic() < self._held_until and not self._stopping.wait(POLL_S):
            pass

    def release(self) -> None:
        """Let a query that is held at a border begin its next batch."""
        self._held_until = 0.0

    def call(self, do: Callable[[Border], T], *, timeout_s: float, hold: bool = False) -> T:
        """Call `do` at the next border and return its result; raise its exception. With `hold` no batch begins afterwards: the query is to
        be stopped there, or released.

        Raises UserError 57014 if no batch ends in time. Called from any thread but that of the query.
        """
        future: Future[T] = Future()
        with self._lock:
            self._waiting.append((do, future, hold))
        deadline = time.monotonic() + timeout_s
        while not future.done():
            with self._lock:
                last = border(self._checkpoint)
                if last is not None and last.batch >= self._entered:
                    self._work(Border(last.batch, is_interrupted=False))
                elif time.monotonic() > deadline and not future.done():
                    self._waiting.remove((do, future, hold))
                    raise _no_border(timeout_s)
            wait([future], POLL_S)
        return future.result()

    def _work(self, last: Border) -> None:
        waiting, self._waiting = self._waiting, []
        for do, future, hold in waiting:
            try:
                result = do(last)
                # Before the result, which may be followed by a release at once.
                if hold:
                    self._held_until = time.monotonic() + HOLD_S
                future.set_result(result)
            except Exception as error:  # noqa: BLE001 - raised in the thread that waits
                future.set_exception(error)


def _no_border(timeout_s: float) -> UserError:
    return UserError(
        SqlState.TIMEOUT,
        f"the query did not finish a batch within {timeout_s:g} s",
        hint="Repeat the statement. EXPLAIN WHY shows the cause.",
    )
