"""PRINT of entities whose rows have no order in time: tables and files. Rows are JSON objects, with separate key columns."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence

from headrace.connectors.base import PrintedRecord, PrintStart
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.core.wording import with_article

SAMPLE_ROWS = 100
ROWS_MAX = 100_000


async def printed(
    read: Callable[[int], Iterable[PrintedRecord]], start: PrintStart
) -> AsyncGenerator[PrintedRecord]:
    """Yield the rows of `read`, which may block: at most `ROWS_MAX` from the start, otherwise a sample of `SAMPLE_ROWS`.

    Raises UserError 0A000 for a start time, and the errors of `read`.
    """
    refuse_time(start, "table")
    return _each(await asyncio.to_thread(read, ROWS_MAX if start.at == "earliest" else SAMPLE_ROWS))


def refuse_time(start: PrintStart, of: str) -> None:
    """Raise UserError 0A000 for a start time."""
    if isinstance(start.at, int):
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"the rows of {with_article(of)} have no time to be printed from",
            hint="Use 'starting.position' = 'earliest' to print all rows.",
        )


def printed_row(number: int, row: str, key: Sequence[str]) -> PrintedRecord:
    """Return a numbered row as a JSON object, with one `key` column as its text, several as a JSON object."""
    key_text: str | None = None
    if key:
        values = json.loads(row)
        value = values[key[0]] if len(key) == 1 else {name: values[name] for name in key}
        key_text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return PrintedRecord(key_text, row, f"row {number}")


async def _each(records: Iterable[PrintedRecord]) -> AsyncGenerator[PrintedRecord]:
    for one in records:
        yield one
