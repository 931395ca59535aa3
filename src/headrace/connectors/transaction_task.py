"""What a task of Spark's does with its rows, for stores where they are one transaction of a session that the task opens."""

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
    """For `mapInArrow`: `write` is given all that `part` makes of the rows, once, and is not called where there are none."""

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
