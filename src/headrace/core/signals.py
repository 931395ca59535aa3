"""A signal between threads and event loops: it reports that something has changed, and the listener reads what.

A listener that is slow misses no change and collects none: any number of signals are one to it. So nothing is queued for anybody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock


class Signal:
    """`notify` may be called in any thread; it never blocks, and costs nothing if nobody listens."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._listeners: set[Callable[[], None]] = set()
        self.count = 0
        """Number of calls of `notify`: a listener of several signals compares it."""

    def notify(self) -> None:
        """Wake all listeners."""
        with self._lock:
            self.count += 1
            listeners = tuple(self._listeners)
        for wake in listeners:
            # The loop of a listener that ended with its server is closed.
            with suppress(RuntimeError):
                wake()

    def add(self, wake: Callable[[], None]) -> None:
        """Call `wake` at each `notify`, in the thread of that."""
        with self._lock:
            self._listeners.add(wake)

    def remove(self, wake: Callable[[], None]) -> None:
        """Call `wake` no longer."""
        with self._lock:
            self._listeners.discard(wake)


@contextmanager
def listening(*signals: Signal) -> Iterator[asyncio.Event]:
    """Return an event that each of the signals sets while the context is open; the listener clears it. For the running event loop."""
    loop, event = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        loop.call_soon_threadsafe(event.set)

    for signal in signals:
        signal.add(wake)
    try:
        yield event
    finally:
        for signal in signals:
            signal.remove(wake)
