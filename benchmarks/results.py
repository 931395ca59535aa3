"""Summary of a query's output in few numbers: two engines wrote the same if these are equal."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

_ZEROS = re.compile(r"(\d\d:\d\d:\d\d)\.?(\d*?)0*$")


@dataclass(frozen=True)
class Digest:
    """Number of rows, an order-independent checksum, and the sum of the column `n` if the rows have one."""

    rows: int
    checksum: str
    n: int


def digest(records: Iterable[tuple[bytes | None, bytes | None]], *, changelog: bool) -> Digest:
    """Return the digest of all records, or of a changelog's last record of each key, unless it is a tombstone."""
    values: Iterable[bytes | None] = dict(records).values() if changelog else (value for _, value in records)
    rows = n = checksum = 0
    for value in values:
        if value is None:
            continue
        row = json.loads(value)
        rows += 1
        n += row.get("n") or 0
        text = json.dumps({name: _plain(item) for name, item in row.items()}, sort_keys=True)
        checksum += int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
    return Digest(rows, f"{checksum % 2**64:016x}", n)


def _plain(value: Any) -> Any:
    """Each engine writes a timestamp with as many zeros at its end as it likes."""
    return _ZEROS.sub(lambda match: f"{match[1]}.{match[2]}", value) if isinstance(value, str) else value
