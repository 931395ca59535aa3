"""Detection of late rows: a warning if nearly all rows of a running query are too late to count."""

from __future__ import annotations

import datetime
from collections import deque
from dataclasses import dataclass, field

from headrace.engine.protocol import QueryProgress

_ROWS = 1000
"""Number of newest rows that count. A notice requires that a tenth of them have been read."""

_SHARE = 0.9


@dataclass
class Lateness:
    """The newest rows of one run of a query."""

    _batches: deque[tuple[int, int]] = field(default_factory=deque)
    _watermark_ms: int | None = None

    def add(self, progress: QueryProgress) -> None:
        """Add the rows that have been read since the last call."""
        self._watermark_ms = progress.watermark_ms
        if progress.input_rows:
            self._batches.append((progress.input_rows, progress.late_rows))
        while (
            len(self._batches) > 1 and sum(rows for rows, _ in self._batches) - self._batches[0][0] >= _ROWS
        ):
            self._batches.popleft()

    def message(self) -> str | None:
        """Return a sentence while at least nine of ten rows are late, else None."""
        rows, late = (
            (sum(figures) for figures in zip(*self._batches, strict=True)) if self._batches else (0, 0)
        )
        if rows < _ROWS / 10 or late < rows * _SHARE:
            return None
        reached = ""
        if self._watermark_ms is not None:
            moment = datetime.datetime.fromtimestamp(self._watermark_ms / 1000, datetime.UTC)
            reached = f" ({moment.strftime('%Y-%m-%d %H:%M:%S')})"
        return (
            f"{late / rows:.0%} of the last {rows:,} rows were behind the watermark{reached} and are not counted: "
            "see late_rows in DESCRIBE QUERY METRICS"
        )
