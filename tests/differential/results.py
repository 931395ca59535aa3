"""Both engines' results in one form, and how they differ."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from headrace.testing.topics import Pair

Bag = Counter[tuple[Any, ...]]
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?$")


def bag(records: Iterable[Pair], names: list[str], *, changelog: bool) -> Bag:
    """All rows of a topic; of a changelog the last of each key, unless it is a tombstone. `names` are the columns, in order."""
    pairs = list(records)
    values = dict(pairs).values() if changelog else (value for _, value in pairs)
    rows = (json.loads(value) for value in values if value is not None)
    return Counter(tuple(_plain(row.get(name)) for name in names) for row in rows)


def difference(ours: Bag, flinks: Bag) -> str:
    """Empty when they agree."""
    if ours == flinks:
        return ""
    return f"only Headrace has {_some(ours - flinks)}; only Flink has {_some(flinks - ours)}"


def _plain(value: Any) -> Any:
    """Return one spelling for equal values: SQL leaves each engine its own for timestamps, and the last digit of a DOUBLE."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, str) and _TIMESTAMP.match(value):
        return datetime.fromisoformat(value).isoformat()
    if isinstance(value, list):
        return tuple(map(_plain, value))
    if isinstance(value, dict):
        return tuple(sorted((name, _plain(item)) for name, item in value.items()))
    return value


def _some(rows: Bag) -> str:
    first = ", ".join(f"{row} x{count}" for row, count in sorted(rows.items(), key=str)[:3])
    return f"{rows.total()} rows [{first}{', …' if len(rows) > 3 else ''}]"
