"""Processes of snapshot queries that serve one test after the other: to start one takes a third of a second of a processor."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from headrace.engine.views import snapshots
from headrace.engine.views.worker import OutOfMemory


class SnapshotWorkers:
    """The idle workers, by their memory. In place of `snapshots._Worker`, it creates a worker only if none is idle."""

    def __init__(self) -> None:
        self._idle: dict[int, list[LastingWorker]] = defaultdict(list)
        self._spill = tempfile.TemporaryDirectory(prefix="headrace-snapshots-")

    def __call__(self, _spill: Path, memory_mb: int) -> LastingWorker:
        idle = self._idle[memory_mb]
        return idle.pop() if idle else LastingWorker(Path(self._spill.name), memory_mb, idle)

    def close(self) -> None:
        """End all workers."""
        for idle in self._idle.values():
            while idle:
                idle.pop().discard()
        self._spill.cleanup()


class LastingWorker(snapshots._Worker):
    """Worker that becomes idle when its server ends; it really ends only if its last query has no result."""

    def __init__(self, spill: Path, memory_mb: int, idle: list[LastingWorker]) -> None:
        super().__init__(Path(tempfile.mkdtemp(dir=spill)), memory_mb)
        self._idle = idle
        self._is_fit = True

    def evaluate(self, *arguments: Any) -> tuple[Any, Any]:
        """Evaluate a query as every worker does."""
        self._is_fit = False
        outcome = super().evaluate(*arguments)
        self._is_fit = outcome[0] != OutOfMemory.__name__
        return outcome

    def kill(self) -> None:
        """End the process if it evaluates a query."""
        if not self._is_fit:
            super().kill()

    def end(self) -> int:
        """Return 0 and wait for the next server, if the last query has a result."""
        if not self._is_fit:
            return self.discard()
        self._idle.append(self)
        return 0

    def discard(self) -> int:
        """End the process, and return its exit code."""
        super().kill()
        return super().end()
