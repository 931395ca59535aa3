"""Task of Spark that writes its rows in one transaction of a session that it opens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TypeVar

import pyarrow as pa

from headrace.connectors.carried_errors import carrying_errors

Part = TypeVar("Part")
WRITTEN = "written BIGINT"
"""The columns of what a task gives: there are no rows."""


def in_a_transaction(
    part: Callable[[pa.RecordBatch], Part], write: Callable[[Iterator[Part]], None]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for `mapInArrow`: it calls `write` once with what `part` returns for the rows, and not without rows."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = (part(batch) for batch in batches if batch.num_rows)
        first = next(parts, None)
        if first is not None:
            with carrying_errors():
                write(chain([first], parts))
        # What an epoch that was written before leaves unread.
        for _ in parts:
            pass
        yield pa.RecordBatch.from_pydict({"written": pa.array([], pa.int64())})

    return task
