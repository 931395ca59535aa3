"""The client against the real application."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from harness.patience import PATIENCE_S
from headrace.client import (
    AuthenticationFailedError,
    Client,
    ConnectionFailedError,
    LiveRow,
    ServerUnreachableError,
    SqlError,
)
from headrace.core.context import SessionContext
from headrace.core.errors import Span, UserError
from headrace.core.resultset import result
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT
from tests.unit.server.scripted import ORGANIZATION, ScriptedStatements, ScriptedStream

NUMBERS = result([("n", BIGINT)], [(n,) for n in range(8)])


async def test_all_partitions_of_a_result_are_gathered(address: str, statements: ScriptedStatements) -> None:
    statements.answer("SELECT", NUMBERS)
    async with Client(f"http://{address}/", "good-token") as client:
        answer = await client.execute("SELECT")
    assert not answer.is_stream
    assert [(column.name, column.type) for column in answer.columns] == [("n", "BIGINT")]
    assert answer.rows == tuple((str(n),) for n in range(8))


@pytest.mark.parametrize("limits", [{"statement_timeout_ms": 50}])
async def test_a_slow_statement_is_waited_for(address: str, statements: ScriptedStatements) -> None:
    statements.answer("SLOW", NUMBERS, after_s=0.3)
    async with Client(f"http://{address}", "good-token") as client:
        assert len((await client.execute("SLOW")).rows) == 8


async def test_the_context_of_an_answer_goes_with_the_next_statement(
    address: str, statements: ScriptedStatements
) -> None:
    start = SessionContext("", database="d", timezone="Europe/Berlin")
    async with Client(f"http://{address}", "good-token", context=start) as client:
        await client.execute("one")
        assert client.context == SessionContext(
            ORGANIZATION, role="sysadmin", database="d", timezone="Europe/Berlin"
        )
        await client.execute("two")
        await client.execute("three", context=SessionContext("", database="e"))
    assert [context.database for context in statements.contexts] == ["d", "d", "e"]
    assert statements.contexts[1].role == "sysadmin"


async def test_an_error_has_its_parts(address: str, statements: ScriptedStatements) -> None:
    statements.answer(
        "SELECT",
        UserError(SqlState.SYNTAX_ERROR, "unexpected FORM", hint="Write FROM.", span=Span(9, 13, 2, 3)),
    )
    async with Client(f"http://{address}", "good-token") as client:
        with pytest.raises(SqlError) as raised:
            await client.execute("SELECT")
    error = raised.value
    assert (error.sqlstate, error.message, error.hint) == ("42601", "unexpected FORM", "Write FROM.")
    assert (error.line, error.column) == (2, 3)


async def test_a_live_result_is_iterated_and_leaving_it_ends_the_query(
    address: str, statements: ScriptedStatements
) -> None:
    stream = ScriptedStream()
    stream.running.set()
    statements.answer("SELECT", stream)
    async with Client(f"http://{address}", "good-token") as client:
        answer = await client.execute("SELECT")
        assert answer.is_stream
        await stream.put(["1", "a"], ["2", None])
        async with aclosing(answer.stream()) as rows:
            seen = [await anext(rows), await anext(rows)]
        await asyncio.wait_for(stream.closed.wait(), PATIENCE_S)
    assert seen == [LiveRow(("1", "a")), LiveRow(("2", None))]


async def test_a_live_result_that_ends_ends_the_iteration(
    address: str, statements: ScriptedStatements
) -> None:
    stream = ScriptedStream()
    stream.running.set()
    statements.answer("SELECT", stream)
    async with Client(f"http://{address}", "good-token") as client:
        answer = await client.execute("SELECT")
        await stream.put(["1", "a"])
        ending = asyncio.create_task(stream.finish())
        assert [row async for row in answer.stream()] == [LiveRow(("1", "a"))]
        await ending


async def test_a_failed_query_raises_after_its_rows(address: str, statements: ScriptedStatements) -> None:
    stream = ScriptedStream()
    stream.running.set()
    statements.answer("SELECT", stream)
    async with Client(f"http://{address}", "good-token") as client:
        answer = await client.execute("SELECT")
        await stream.put(["1", "a"])
        failing = asyncio.create_task(
            stream.finish(UserError(SqlState.INVALID_RECORD, "bad", hint="Mend it."))
        )
        rows = answer.stream()
        assert await anext(rows) == LiveRow(("1", "a"))
        with pytest.raises(SqlError) as raised:
            await anext(rows)
        await failing
    assert (raised.value.sqlstate, raised.value.hint) == ("22P02", "Mend it.")


async def test_the_server_s_version(address: str) -> None:
    async with Client(f"http://{address}", "good-token") as client:
        assert (await client.version()).count(".") == 2


async def test_a_refused_token_is_its_own_error(address: str) -> None:
    async with Client(f"http://{address}", "wrong") as client:
        with pytest.raises(AuthenticationFailedError):
            await client.execute("SELECT")


async def test_no_server_is_its_own_error(unused_tcp_port: int) -> None:
    async with Client(f"http://127.0.0.1:{unused_tcp_port}", "good-token") as client:
        with pytest.raises(ServerUnreachableError, match="no server answers"):
            await client.execute("SELECT")


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://host", "http://", ""])
def test_an_invalid_url_is_reported(url: str) -> None:
    with pytest.raises(ConnectionFailedError, match="expected a URL"):
        Client(url, "token")


def test_tokens_are_in_no_representation() -> None:
    from headrace.client.wire import StreamOffer

    assert "private" not in repr(StreamOffer("ws://host", "private"))
