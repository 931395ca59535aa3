from __future__ import annotations

import asyncio
import inspect

import pytest

from headrace.core.errors import ExternalError, HeadraceError, InternalError, UserError
from headrace.core.resultset import LiveRows, ResultColumn
from headrace.core.sqlstate import SqlState
from headrace.engine.results import ResultChannel


def channel(capacity: int = 2) -> ResultChannel:
    return ResultChannel("q", (ResultColumn("n"),), capacity)


def failure() -> HeadraceError:
    return ExternalError(SqlState.REMOTE_UNAVAILABLE, "gone")


async def test_a_full_channel_holds_its_producer_until_something_is_read() -> None:
    rows = channel()
    assert await rows.put(LiveRows([["1"], ["2"]]))
    waiting = asyncio.create_task(rows.put(LiveRows([["3"]])))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    assert await anext(aiter(rows)) == LiveRows([["1"], ["2"]])
    assert await waiting


async def test_rows_that_wait_are_read_together() -> None:
    rows, first = channel(5000), LiveRows([["1"]], ["+I"])
    await rows.put(first)
    await rows.put(LiveRows([["2"], ["1"]], ["+I", "-D"]))
    await rows.put(LiveRows([["x"]] * 1000, ["+I"] * 1000))
    batches = aiter(rows)
    assert await anext(batches) == LiveRows([["1"], ["2"], ["1"]], ["+I", "+I", "-D"])
    assert len((await anext(batches)).cells) == 1000
    assert first.cells == [["1"]]


async def test_rows_before_an_error_are_read_first() -> None:
    rows = channel()
    await rows.put(LiveRows([["1"]]))
    rows.finish(failure())
    await rows.started()
    batches = aiter(rows)
    assert await anext(batches) == LiveRows([["1"]])
    with pytest.raises(ExternalError):
        await anext(batches)


async def test_an_error_before_the_start_is_the_answer_of_started() -> None:
    rows = channel()
    asyncio.get_running_loop().call_later(0.01, rows.finish, failure())
    with pytest.raises(ExternalError):
        await rows.started()


async def test_closing_releases_a_waiting_producer_and_calls_back_once() -> None:
    rows, calls = channel(1), []
    rows.on_close(lambda: calls.append(1))
    await rows.put(LiveRows([["1"]]))
    waiting = asyncio.create_task(rows.put(LiveRows([["2"]])))
    await asyncio.sleep(0)
    await rows.close()
    await rows.close()
    assert await waiting is False
    assert calls == [1]
    assert [batch async for batch in rows] == []


async def test_a_result_closed_before_its_start_is_cancelled() -> None:
    rows = channel()
    await rows.close()
    with pytest.raises(UserError) as caught:
        await rows.started()
    assert caught.value.state is SqlState.CANCELLED


async def test_a_fed_channel_ends_with_its_producer() -> None:
    rows = channel()

    async def produce() -> None:
        await rows.put(LiveRows([["1"]]))

    rows.feed(produce())
    await rows.started()
    assert [batch async for batch in rows] == [LiveRows([["1"]])]


async def test_an_error_of_the_feeding_producer_reaches_the_reader() -> None:
    for raised, expected in ((failure(), ExternalError), (ValueError("x"), InternalError)):
        rows = channel()

        async def produce(error: Exception = raised) -> None:
            raise error

        rows.feed(produce())
        with pytest.raises(expected):
            async for _ in rows:
                pass


async def test_closing_cancels_the_feeding_producer() -> None:
    rows, ended = channel(), asyncio.Event()

    async def produce() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    rows.feed(produce())
    await rows.started()
    await rows.close()
    assert ended.is_set()


async def test_a_feed_that_is_closed_before_its_first_step_leaves_nothing_behind() -> None:
    async def produce() -> None:
        await rows.put(LiveRows([["1"]]))

    rows = channel()
    producer = produce()
    rows.feed(producer)
    await rows.close()
    assert inspect.getcoroutinestate(producer) == inspect.CORO_CLOSED
