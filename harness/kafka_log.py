"""Control records in the log of a broker on this machine: the ends of transactions, which no consumer shows."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_HEADER = struct.Struct(">qiiBIHiqqqhii")
"""Of a batch of records, version 2: base offset, length, epoch, magic, checksum, attributes, …, number of records."""
_LENGTH_AFTER = 12
"""The length of a batch counts the bytes after base offset and length."""
_IS_CONTROL = 0x20
_KEY = struct.Struct(">BBBBBhh")
"""Of a control record: length, attributes, two deltas and the length of the key, in one byte each, being small; then version and type."""
_ABORT, _COMMIT = 0, 1


@dataclass(frozen=True)
class Transactions:
    """Number of transactions that ended in a topic, counted once for each partition that they wrote."""

    committed: int
    aborted: int


def transactions(data: Path, topic: str) -> Transactions:
    """Return how the transactions of `topic` ended, from the segments in the broker's folder `data`."""
    ends = [
        kind
        for log in sorted(data.glob(f"{topic}-[0-9]*/*.log"))
        for kind in _control_types(log.read_bytes())
    ]
    return Transactions(ends.count(_COMMIT), ends.count(_ABORT))


def _control_types(log: bytes) -> Iterator[int]:
    """Yield the type of each control record of a segment. The last batch may be half written."""
    start = 0
    while start + _HEADER.size <= len(log):
        _offset, length, _epoch, magic, _checksum, attributes, *_rest = _HEADER.unpack_from(log, start)
        end = start + _LENGTH_AFTER + length
        if magic != 2 or end > len(log):
            return
        if attributes & _IS_CONTROL:
            *_sizes, _version, kind = _KEY.unpack_from(log, start + _HEADER.size)
            yield kind
        start = end
