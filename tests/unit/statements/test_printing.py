"""Printed records on their way to a reader: filter, limit and columns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from harness.patience import PATIENCE_S
from headrace.connectors.base import PrintedRecord
from headrace.engine.results import ResultChannel
from headrace.statements.entity import Choice, printed_rows
from headrace.statements.record_filter import record_filter


async def records(count: int) -> AsyncGenerator[PrintedRecord]:
    for number in range(count):
        yield PrintedRecord("k", f'{{"n": {number}}}', "", 1, str(number), 1000 * number, "{}")
    await asyncio.Event().wait()  # as a topic, it does not end


def rows(choice: Choice, count: int = 10) -> list[list[str | None]]:
    async def read() -> list[list[str | None]]:
        channel = ResultChannel("q", (), 100)
        channel.feed(printed_rows(channel, records(count), choice))
        return [row async for part in channel for row in part.cells]

    return asyncio.run(asyncio.wait_for(read(), PATIENCE_S))


def test_a_result_with_a_limit_ends_after_so_many_matching_records() -> None:
    matches = record_filter("$.n >= 3")
    assert [row[1] for row in rows(Choice(limit=2, matches=matches))] == ['{"n": 3}', '{"n": 4}']


def test_positions_are_columns() -> None:
    assert rows(Choice(details=True, limit=2))[1] == [
        "k",
        '{"n": 1}',
        "1",
        "1",
        "1970-01-01 00:00:01.000Z",
        "{}",
    ]
    long = f'{{"text": "{"x" * 20_000}"}}'

    async def one() -> AsyncGenerator[PrintedRecord]:
        for moment in (10**18, -1, None):
            yield PrintedRecord(None, long, "", 0, "0", moment)

    async def read() -> list[str | None]:
        channel = ResultChannel("q", (), 100)
        channel.feed(printed_rows(channel, one(), Choice(details=True, matches=record_filter("$.text ~ x"))))
        return [row[4] async for part in channel for row in part.cells]

    assert asyncio.run(read()) == [None, None, None]
