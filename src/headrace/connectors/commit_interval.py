"""The time between two commits of a query into a table, for tables where every commit costs."""

from __future__ import annotations

import time

from headrace.connectors.streaming import RowSinkRequest


class CommitInterval:
    """Holds a batch back until `milliseconds` have passed since the last commit: rows that come meanwhile are in one batch, the next.

    A query that is behind does not wait: its batches are as large as one may be.
    """

    def __init__(self, request: RowSinkRequest, milliseconds: int) -> None:
        self._request = request
        self._interval_s = milliseconds / 1000
        self._due = 0.0

    def wait(self) -> None:
        """Wait before a commit. Raises InterruptedError when the query is to stop."""
        if self._request.is_behind():
            return
        if self._request.stopping.wait(max(0.0, self._due - time.monotonic())):
            raise InterruptedError("the query is to stop")

    def committed(self) -> None:
        """Record a commit."""
        self._due = time.monotonic() + self._interval_s
