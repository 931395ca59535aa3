"""Bounded collection of sampled records: by number, by bytes and by time, whatever an entity contains."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

RECORDS_MAX = 1000
BYTES_MAX = 4 << 20
RECORD_BYTES_MAX = 256 << 10
SECONDS_MAX = 5.0


@dataclass
class Collection:
    """Records so far. Larger records than `RECORD_BYTES_MAX` are left out."""

    records: list[bytes] = field(default_factory=list)
    _bytes_left: int = BYTES_MAX
    _ends_at: float = field(default_factory=lambda: time.monotonic() + SECONDS_MAX)

    @property
    def is_complete(self) -> bool:
        """True if a bound is reached."""
        return len(self.records) >= RECORDS_MAX or self._bytes_left <= 0 or time.monotonic() >= self._ends_at

    def add(self, record: bytes | None) -> None:
        """Add a record, unless it has no value or a bound is reached."""
        if record is not None and len(record) <= RECORD_BYTES_MAX and not self.is_complete:
            self.records.append(record)
            self._bytes_left -= len(record)
