"""Ends of transactions in a broker's log."""

from __future__ import annotations

import struct
from pathlib import Path

from harness.kafka_log import Transactions, transactions

COMMIT, ABORT = 1, 0


def batch(records: bytes, attributes: int) -> bytes:
    """Return a batch of one record as the broker stores it, from the length on by the protocol's description."""
    content = struct.pack(">iBI", 0, 2, 0) + struct.pack(">Hiqqqhii", attributes, 0, 1, 1, 4000, 0, -1, 1)
    content += records
    return struct.pack(">qi", 0, len(content)) + content


def control(kind: int) -> bytes:
    key, value = struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 3)
    # Lengths and deltas are zigzag varints.
    record = bytes((0, 0, 0, 2 * len(key))) + key + bytes((2 * len(value),)) + value + b"\0"
    return batch(bytes((2 * len(record),)) + record, 0x30)


def test_commits_and_aborts_of_all_partitions_are_counted(tmp_path: Path) -> None:
    data = batch(b"0123456789", 0x10)
    for folder, log in (
        ("sink-0", data + control(COMMIT) + data + control(ABORT)),
        ("sink-1", data + control(COMMIT) + control(COMMIT)[:-3]),
        ("sink_of_others-0", control(ABORT)),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "00000000000000000000.log").write_bytes(log)
    assert transactions(tmp_path, "sink") == Transactions(committed=2, aborted=1)
