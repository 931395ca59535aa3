"""The data plane over a real websocket."""

from __future__ import annotations

import asyncio
import datetime
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from harness.patience import PATIENCE_S
from headrace.catalog.catalog import Catalog
from headrace.catalog.objects import ApiToken
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.server import connections
from headrace.server.app import create_app
from headrace.server.dataplane.frames import PYTHON_FRAME_BYTES_MAX
from headrace.server.ports import ServerParts
from tests.unit.server.scripted import TOKENS, ScriptedStatements, ScriptedStream, serving

TOKEN = "good-token"
GO, PYTHON, OWN = "Go-http-client/1.1", "Python/3.11 websockets/14.0", "headrace/0.1.0"
FAILURE = ExternalError(SqlState.STORE_NOT_READY, "the broker does not answer")


async def offer(
    address: str, statements: ScriptedStatements, stream: ScriptedStream, token: str = TOKEN
) -> dict[str, str]:
    statements.answer("SELECT", stream)
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as http:
        answer = await http.post(
            f"http://{address}/v2/statements",
            json={"statement": "SELECT"},
            headers={"Authorization": f"Bearer {token}"},
        )
    request: dict[str, str] = answer.json()["metadata"]["dataplaneRequest"]
    return request


@asynccontextmanager
async def opened(
    address: str,
    statements: ScriptedStatements,
    stream: ScriptedStream,
    *,
    agent: str = GO,
    token: str = TOKEN,
    **asked: str,
) -> AsyncIterator[ClientConnection]:
    request = await offer(address, statements, stream, token)
    uri = request["uri"].replace("http:", "ws:")
    async with connect(
        uri, user_agent_header=agent, proxy=None, open_timeout=PATIENCE_S, max_size=None
    ) as socket:
        first = {"type": "auth", "accessToken": request["token"], "sessionId": "", **asked}
        await socket.send(json.dumps(first))
        yield socket


async def frame(socket: ClientConnection) -> dict[str, object]:
    body: dict[str, object] = json.loads(await asyncio.wait_for(socket.recv(), PATIENCE_S))
    return body


async def test_metadata_comes_once_the_query_runs_and_then_one_row_a_frame(
    address: str, statements: ScriptedStatements
) -> None:
    stream = ScriptedStream()
    async with opened(address, statements, stream) as socket:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(socket.recv(), 0.1)
        stream.running.set()
        assert await frame(socket) == {
            "type": "metadata",
            "headers": {},
            "columns": [
                {"name": "id", "type": "BIGINT", "nullable": False},
                {"name": "name", "type": "VARCHAR", "nullable": True},
            ],
        }
        await stream.put(["1", "a"], ["2", None])
        assert await frame(socket) == {"type": "data", "headers": {}, "data": ["1", "a"]}
        assert await frame(socket) == {"type": "data", "headers": {}, "data": ["2", None]}


async def test_a_client_that_reads_lines_gets_the_rows_that_are_there_in_few_messages(
    address: str, statements: ScriptedStatements
) -> None:
    stream = ScriptedStream()
    stream.running.set()
    large, sent = "x" * 40_000, [["1", "a\nb"], ["2", None], ["3", "c"]]
    async with opened(address, statements, stream, rows="lines") as socket:
        assert (await frame(socket))["type"] == "metadata"
        await stream.put(*sent, ["4", large], ["5", large])
        messages = [str(await asyncio.wait_for(socket.recv(), PATIENCE_S)).split("\n") for _ in range(2)]
        assert [len(lines) for lines in messages] == [4, 1]
        rows = [json.loads(line) for lines in messages for line in lines]
        assert [row["data"] for row in rows] == [*sent, ["4", large], ["5", large]]
        assert {row["type"] for row in rows} == {"data"}


async def test_a_changelog_names_its_key_and_each_row_what_it_does(
    address: str, statements: ScriptedStatements
) -> None:
    stream = ScriptedStream()
    stream.changelog_key = ("id",)
    stream.running.set()
    async with opened(address, statements, stream) as socket:
        metadata = await frame(socket)
        assert metadata["headers"] == {"relationType": "CHANGELOG", "primaryKey": '["id"]'}
        await stream.put(["1", "a"], ["1", None], kinds=["+I", "-D"])
        assert await frame(socket) == {"type": "data", "headers": {"op": "+I"}, "data": ["1", "a"]}
        assert await frame(socket) == {"type": "data", "headers": {"op": "-D"}, "data": ["1", None]}


async def test_a_stream_outlives_the_time_limits_of_requests(
    address: str, statements: ScriptedStatements, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEADER_TIMEOUT_S", 0.5)
    monkeypatch.setattr(connections, "BODY_TIMEOUT_S", 0.5)
    stream = ScriptedStream()
    async with opened(address, statements, stream) as socket:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(socket.recv(), 1)
        stream.running.set()
        assert (await frame(socket))["type"] == "metadata"


async def test_closing_the_socket_ends_the_query(address: str, statements: ScriptedStatements) -> None:
    stream = ScriptedStream()
    async with opened(address, statements, stream):
        pass
    await asyncio.wait_for(stream.closed.wait(), PATIENCE_S)


@pytest.mark.parametrize("is_reading", [True, False])
async def test_a_stream_ends_when_its_token_is_good_no_longer(
    address: str, statements: ScriptedStatements, *, is_reading: bool
) -> None:
    stream = ScriptedStream()
    if is_reading:
        stream.running.set()
    async with opened(address, statements, stream, agent=GO) as socket:
        if is_reading:
            assert (await frame(socket))["type"] == "metadata"
        statements.endings[TOKENS[TOKEN]] = "the API token was dropped"
        message = await frame(socket)
        assert (message["sqlCode"], message["message"]) == (
            "42501",
            "the stream was ended: the API token was dropped",
        )
        with pytest.raises(ConnectionClosed) as closed:
            await frame(socket)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1008
    await asyncio.wait_for(stream.closed.wait(), PATIENCE_S)


async def test_a_stream_ends_when_its_role_may_read_no_longer(
    address: str, statements: ScriptedStatements
) -> None:
    stream = ScriptedStream()
    stream.running.set()
    async with opened(address, statements, stream) as socket:
        assert (await frame(socket))["type"] == "metadata"
        stream.lacking = "the role r lacks SELECT"
        message = await frame(socket)
        assert message["message"] == "the stream was ended: the role r lacks SELECT"
    await asyncio.wait_for(stream.closed.wait(), PATIENCE_S)


async def test_a_stream_ends_within_seconds_after_its_token_was_dropped(
    tmp_path: Path, settings: Settings, port: int, statements: ScriptedStatements
) -> None:
    catalog = Catalog.open(tmp_path)
    now = datetime.datetime.now(datetime.UTC)
    token = ApiToken("ci", "admin", "public", now, now)
    secret = catalog.create_api_token(token)
    stream = ScriptedStream()
    stream.running.set()
    app = create_app(ServerParts(settings, statements, catalog.authenticate, ended=catalog.ended))
    async with serving(app, port), opened(f"127.0.0.1:{port}", statements, stream, token=secret) as socket:
        assert (await frame(socket))["type"] == "metadata"
        catalog.drop_api_token(token)
        assert (await frame(socket))["message"] == "the stream was ended: the API token was dropped"
    await asyncio.wait_for(stream.closed.wait(), PATIENCE_S)
    catalog.close()


async def test_a_lost_connection_ends_the_query(address: str, statements: ScriptedStatements) -> None:
    stream = ScriptedStream()
    stream.running.set()
    async with opened(address, statements, stream) as socket:
        await frame(socket)
        socket.transport.abort()
        await asyncio.wait_for(stream.closed.wait(), PATIENCE_S)


@pytest.mark.parametrize("before_metadata", [True, False])
@pytest.mark.parametrize("agent", [GO, PYTHON])
async def test_an_error_has_the_keys_that_the_client_reads(
    address: str, statements: ScriptedStatements, agent: str, *, before_metadata: bool
) -> None:
    stream = ScriptedStream()
    async with opened(address, statements, stream, agent=agent) as socket:
        if before_metadata:
            stream.refusal = FAILURE
            stream.running.set()
        else:
            stream.running.set()
            assert (await frame(socket))["type"] == "metadata"
            await stream.finish(FAILURE)
        message = await frame(socket)
        common = {"type": "error", "headers": {}, "message": FAILURE.message}
        if agent == PYTHON:
            assert message == {**common, "sql_code": "3E001"}
        else:
            nested = {"message": FAILURE.message, "sqlCode": "3E001"}
            assert message == {**common, "sqlCode": "3E001", "error": nested}
        with pytest.raises(ConnectionClosed):
            await frame(socket)
    assert stream.closed.is_set()


async def test_the_end_is_a_normal_close_for_our_own_clients(
    address: str, statements: ScriptedStatements
) -> None:
    stream = ScriptedStream()
    stream.running.set()
    async with opened(address, statements, stream, agent=OWN) as socket:
        await frame(socket)
        await stream.finish()
        with pytest.raises(ConnectionClosed) as closed:
            await frame(socket)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1000


async def test_the_end_is_an_error_for_clients_that_would_wait_for_ever(
    address: str, statements: ScriptedStatements
) -> None:
    stream = ScriptedStream()
    stream.running.set()
    async with opened(address, statements, stream, agent=PYTHON) as socket:
        await frame(socket)
        await stream.finish()
        assert (await frame(socket))["sql_code"] == "02000"


async def test_a_row_that_python_cannot_take_is_an_error_it_can_read(
    address: str, statements: ScriptedStatements
) -> None:
    stream = ScriptedStream()
    stream.running.set()
    async with opened(address, statements, stream, agent=PYTHON) as socket:
        await frame(socket)
        await stream.put(["1", "x" * PYTHON_FRAME_BYTES_MAX])
        assert (await frame(socket))["sql_code"] == "53000"


@pytest.mark.parametrize(
    "first",
    [
        '{"type": "auth", "accessToken": "wrong"}',
        '{"type": "auth"}',
        '{"type": "hello", "accessToken": "wrong"}',
        "not json",
        "[]",
    ],
)
async def test_a_stream_without_its_ticket_is_refused(
    address: str, statements: ScriptedStatements, first: str
) -> None:
    request = await offer(address, statements, ScriptedStream())
    async with connect(
        request["uri"].replace("http:", "ws:"), proxy=None, open_timeout=PATIENCE_S, user_agent_header=GO
    ) as socket:
        await socket.send(first)
        assert (await frame(socket))["sqlCode"] == "42501"
        with pytest.raises(ConnectionClosed) as closed:
            await frame(socket)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1008


async def test_a_ticket_is_good_once_and_for_its_own_statement(
    address: str, statements: ScriptedStatements
) -> None:
    first, second = ScriptedStream(), ScriptedStream()
    one, two = await offer(address, statements, first), await offer(address, statements, second)
    first.running.set()

    async def present(uri: str, token: str) -> dict[str, object]:
        async with connect(
            uri.replace("http:", "ws:"), proxy=None, open_timeout=PATIENCE_S, user_agent_header=GO
        ) as socket:
            await socket.send(json.dumps({"type": "auth", "accessToken": token}))
            return await frame(socket)

    assert (await present(two["uri"], one["token"]))["type"] == "error"
    assert (await present(one["uri"], one["token"]))["type"] == "metadata"
    assert (await present(one["uri"], one["token"]))["type"] == "error"


@pytest.mark.parametrize("limits", [{"result_channel_grace_ms": 300}])
async def test_a_query_whose_reader_never_comes_is_ended(
    address: str, statements: ScriptedStatements
) -> None:
    stream = ScriptedStream()
    request = await offer(address, statements, stream)
    await asyncio.wait_for(stream.closed.wait(), PATIENCE_S)
    async with connect(
        request["uri"].replace("http:", "ws:"), proxy=None, open_timeout=PATIENCE_S, user_agent_header=GO
    ) as socket:
        await socket.send(json.dumps({"type": "auth", "accessToken": request["token"]}))
        assert (await frame(socket))["type"] == "error"


async def test_a_slow_reader_holds_the_query_and_loses_nothing(
    address: str, statements: ScriptedStatements
) -> None:
    stream = ScriptedStream()
    stream.running.set()
    request = await offer(address, statements, stream)
    uri = request["uri"].replace("http:", "ws:")
    produced = 0

    async def produce() -> None:
        nonlocal produced
        while produced < 400:
            await stream.put(*([str(produced), "x" * 1000] for _ in range(100)))
            produced += 1

    async with connect(uri, user_agent_header=GO, proxy=None, open_timeout=PATIENCE_S, max_queue=1) as socket:
        await socket.send(json.dumps({"type": "auth", "accessToken": request["token"]}))
        await frame(socket)
        producing = asyncio.create_task(produce())
        held = -1
        while held != produced:
            held = produced
            await asyncio.sleep(1)
        # 40 MB are waiting to be sent; what the kernel and two small buffers hold is on its way.
        assert held < 200
        seen = [int(json.loads(await socket.recv())["data"][0]) for _ in range(400 * 100)]
        await producing
        assert seen == [batch for batch in range(400) for _ in range(100)]


@pytest.mark.parametrize("error", [None, UserError(SqlState.CANCELLED, "the query was terminated")])
async def test_shutting_down_ends_streams_and_their_queries(
    app: FastAPI, port: int, statements: ScriptedStatements, error: HeadraceError | None
) -> None:
    read, unread = ScriptedStream(), ScriptedStream()
    read.running.set()
    async with serving(app, port), opened(f"127.0.0.1:{port}", statements, read) as socket:
        await frame(socket)
        await offer(f"127.0.0.1:{port}", statements, unread)
        if error:
            await read.finish(error)
            assert (await frame(socket))["sqlCode"] == "57000"
    await asyncio.wait_for(read.closed.wait(), PATIENCE_S)
    await asyncio.wait_for(unread.closed.wait(), PATIENCE_S)
