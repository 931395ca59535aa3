"""The threads in which users query the views and the system relations."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from weakref import WeakValueDictionary

from headrace.engine.views.store import ABANDONED, READER_THREADS

T = TypeVar("T")


class Readers:
    """Threads for queries, shared by users: a user has all of these but one at a time. Used from one event loop."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads = threads
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def read(self, user: str, read: Callable[[], T]) -> T:
        """Call `read` in one of the threads. If the caller is cancelled, the query ends within a second."""
        turns = self._turns.get(user)
        if turns is None:
            turns = self._turns[user] = asyncio.Semaphore(READER_THREADS - 1)
        await turns.acquire()
        is_abandoned, context = threading.Event(), contextvars.copy_context()
        context.run(ABANDONED.set, is_abandoned)
        reading = asyncio.get_running_loop().run_in_executor(self._threads, context.run, read)

        def finished(done: asyncio.Future[T]) -> None:
            # Not before: a user who cancels would otherwise have more readers than others.
            turns.release()
            if not done.cancelled():
                done.exception()

        reading.add_done_callback(finished)
        try:
            return await asyncio.shield(reading)
        except asyncio.CancelledError:
            is_abandoned.set()
            raise
