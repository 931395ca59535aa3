"""MCP over scripted statements: limits of rows, bytes and seconds, live results, and rights that end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from mcp import Client

from harness.patience import PATIENCE_S
from harness.session import NOW
from headrace.catalog.access import Privilege
from headrace.catalog.objects import Relation, RelationKind
from headrace.core.errors import Diagnostic, UserError
from headrace.core.names import RelationName
from headrace.core.resultset import ResultSet, result
from headrace.core.schema import Column, Schema
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT, VARCHAR
from headrace.server import turns
from headrace.server.app import create_app
from headrace.server.dataplane.tickets import TicketOffice
from headrace.server.mcp.answers import shown
from headrace.server.mcp.running import Limits, ToolStatements
from headrace.server.metrics import Metrics
from headrace.server.ports import ServerParts
from headrace.server.rest.runs import StatementRuns
from tests.unit.server.mcp_world import call, connected, refusal, running
from tests.unit.server.scripted import TOKENS, ScriptedStatements, ScriptedStream

SELECT = "SELECT id, name FROM s"


@pytest.fixture
async def app(statements: ScriptedStatements, tmp_path: Path) -> AsyncIterator[FastAPI]:
    settings = Settings(
        data_dir=tmp_path,
        mcp_rows_max=10,
        mcp_bytes_max=1024,
        mcp_seconds_max=int(PATIENCE_S),
        mcp_view_tools_max=2,
        request_bytes_max=100_000,
    )
    app = create_app(ServerParts(settings, statements, TOKENS.get, ended=statements.endings.get))
    async with running(app):
        yield app


@pytest.fixture
async def streamed(statements: ScriptedStatements) -> ScriptedStream:
    stream = ScriptedStream()
    stream.running.set()
    statements.answer(SELECT, stream)
    return stream


def numbers(count: int, text: str = "") -> Any:
    return result([("n", BIGINT), ("t", VARCHAR)], [(n, text) for n in range(count)])


async def test_rows_and_bytes_are_limited(app: FastAPI, statements: ScriptedStatements) -> None:
    async with connected(app, "good-token") as client:
        for outcome, count, truncated in (
            (numbers(10), 10, None),
            (numbers(11), 10, "rows"),
            (numbers(4, "x" * 400), 2, "bytes"),
            (numbers(4, "ü" * 200), 2, "bytes"),
            (numbers(1, "x" * 5_000_000), 0, "bytes"),
        ):
            statements.answer(SELECT, outcome)
            answer = await call(client, "select", statement=SELECT, max_rows=10_000)
            assert (len(answer["rows"]), answer.get("truncated")) == (count, truncated)
        statements.answer(SELECT, numbers(2, "\ud800\u202e"))
        assert (await call(client, "select", statement=SELECT, max_rows=1))["rows"] == [["0", "?\u202e"]]


async def test_a_statement_that_takes_too_long_is_reported(
    app: FastAPI, statements: ScriptedStatements
) -> None:
    statements.answer(SELECT, numbers(1), after_s=PATIENCE_S)
    async with connected(app, "good-token") as client:
        error = await refusal(client, "select", statement=SELECT, max_seconds=0.01)
        assert (error["sqlState"], "continues" in error["message"]) == ("57014", True)


async def test_rows_of_a_live_result_are_collected_up_to_the_limit(
    app: FastAPI, streamed: ScriptedStream
) -> None:
    rows = [[str(n), "x"] for n in range(4)]
    async with connected(app, "good-token") as client:
        await streamed.put(*rows, kinds=["+I", "+I", "+U", "-D"])
        answer = await call(client, "select", statement=SELECT, max_rows=3)
    assert answer["rows"] == rows[:3]
    assert answer["changes"] == ["+I", "+I", "+U"]
    assert answer["truncated"] == "rows"
    assert streamed.closed.is_set()


async def test_a_live_result_ends_with_the_time_or_with_its_query(
    app: FastAPI, statements: ScriptedStatements, streamed: ScriptedStream
) -> None:
    streamed.message = "Only new records are read."
    async with connected(app, "good-token") as client:
        await streamed.put(["1", None])
        answer = await call(client, "select", statement=SELECT, max_seconds=1)
        assert (answer["rows"], answer["truncated"]) == ([["1", None]], "seconds")
        assert answer["message"] == "Only new records are read."
        assert streamed.closed.is_set()
        text = "SELECT * FROM shop.public.orders WITH ('starting.position' = 'earliest')"
        whole = ScriptedStream()
        whole.running.set()
        statements.answer(text, whole)

        async def feed() -> None:
            await whole.put(["2", "b"])
            await whole.finish()

        fed = asyncio.create_task(feed())
        answer = await call(client, "sample_relation", relation="shop.public.orders")
        await fed
        assert (answer["rows"], "truncated" in answer) == ([["2", "b"]], False)


async def test_a_query_that_fails_is_an_error(app: FastAPI, streamed: ScriptedStream) -> None:
    streamed.refusal = UserError(SqlState.DIVISION_BY_ZERO, "division by zero", hint="Exclude zeros.")
    async with connected(app, "good-token") as client:
        error = await refusal(client, "select", statement=SELECT)
    assert (error["sqlState"], error["hint"]) == ("22012", "Exclude zeros.")
    assert streamed.closed.is_set()


async def test_rows_are_kept_from_a_reader_who_lost_the_right(
    app: FastAPI, statements: ScriptedStatements, streamed: ScriptedStream
) -> None:
    async def refused_with(client: Client) -> str:
        stream = ScriptedStream()
        stream.running.set()
        stream.lacking = streamed.lacking
        statements.answer(SELECT, stream)
        await stream.put(["1", "secret"])
        error = await refusal(client, "select", statement=SELECT, max_rows=1)
        assert stream.closed.is_set()
        assert error["sqlState"] == "42501"
        return str(error["message"])

    async with connected(app, "good-token") as client:
        streamed.lacking = "SELECT on s is missing"
        assert await refused_with(client) == "the result was ended: SELECT on s is missing"
        streamed.lacking = None
        statements.endings[TOKENS["good-token"]] = "the API token was dropped"
        assert await refused_with(client) == "the result was ended: the API token was dropped"


async def test_a_statement_with_a_live_result_is_no_statement_to_run(
    app: FastAPI, statements: ScriptedStatements, streamed: ScriptedStream
) -> None:
    statements.privileges.add(Privilege.EXECUTE_BY_MCP)
    statements.diagnostics = [Diagnostic("42601", "no")]
    async with connected(app, "good-token") as client:
        error = await refusal(client, "run_statement", statement=SELECT, dry_run=False)
        assert error["sqlState"] == "0A000"
        assert streamed.closed.is_set()
        ran = len(statements.texts)
        checked = await call(client, "run_statement", statement=SELECT)
        assert [item["sqlState"] for item in checked["diagnostics"]] == ["42601"]
        assert len(statements.texts) == ran + 1  # the check's


async def test_the_tools_of_views_are_limited(app: FastAPI, statements: ScriptedStatements) -> None:
    statements.views = [
        Relation(
            RelationName("d", "s", name),
            RelationKind.MATERIALIZED_VIEW,
            Schema(tuple(Column(f"c{n}" * 50, BIGINT) for n in range(500))),
            "sysadmin",
            NOW,
            NOW,
            description="x" * 10_000,
        )
        for name in ("a", "b", "c")
    ]
    async with connected(app, "good-token") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {name for name in tools if name.startswith("view_")} == {"view_d__s__a", "view_d__s__b"}
        assert all(len(tool.description or "") < 15_000 for tool in tools.values())
        assert all(len(str(tool.input_schema)) < 5_000 for tool in tools.values())
        assert "and 400 more" in (tools["view_d__s__a"].description or "")
        statements.answer('SELECT * FROM "d"."s"."c" LIMIT 11', numbers(1))
        assert len((await call(client, "view_d__s__c"))["rows"]) == 1


async def test_a_body_that_is_too_large_is_refused(app: FastAPI, statements: ScriptedStatements) -> None:
    statements.privileges.add(Privilege.EXECUTE_BY_MCP)
    async with connected(app, "good-token") as client:
        await call(client, "validate", statements="-" * 50_000)
        with pytest.raises(Exception, match="error response"):
            await client.call_tool("validate", {"statements": "-" * 200_000})

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b" " * 10_000

    headers = {"Authorization": "Bearer good-token", "Content-Type": "application/json"}
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        answer = await http.post("/mcp", content=chunks(), headers=headers)
    assert (answer.status_code, "100000 bytes" in answer.text) == (400, True)


async def test_a_call_is_refused_if_too_many_wait(
    app: FastAPI, statements: ScriptedStatements, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "RUNNING_PER_SESSION_MAX", 1)
    monkeypatch.setattr(turns, "WAITING_PER_SESSION_MAX", 1)
    runs, release = asyncio.Event(), asyncio.Event()

    async def step() -> ResultSet:
        runs.set()
        await release.wait()
        return ResultSet()

    statements.steps[SELECT] = step
    async with connected(app, "good-token") as client:
        running_call = asyncio.create_task(call(client, "select", statement=SELECT))
        await runs.wait()
        others = [asyncio.create_task(client.call_tool("select", {"statement": SELECT})) for _ in range(2)]
        done, _ = await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
        assert [task.result().structured_content["error"]["sqlState"] for task in done] == ["53000"]
        release.set()
        assert (await running_call)["rows"] == []
        waited = [await task for task in others if task not in done]
        assert [answer.is_error for answer in waited] == [False]


def test_limits_are_at_most_those_of_the_settings(statements: ScriptedStatements, tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, mcp_rows_max=10, mcp_seconds_max=5)
    tickets = TicketOffice(grace_ms=1)
    tools = ToolStatements(
        settings,
        StatementRuns(statements, tickets, Metrics(tuple), turns.Turns()),
        tickets,
        lambda _principal: None,
    )
    assert tools.limits() == tools.limits(10**6, 10**6) == Limits(10, 5)
    assert tools.limits(2, 0.5) == Limits(2, 0.5)


def test_texts_of_users_are_shown_on_one_line() -> None:
    assert shown('a\n"b"\t\u200b\u202e\U000e0041c', 100) == '"a \\"b\\" c"'
    assert shown("x" * 100, 10) == '"' + "x" * 9 + '…"'
    assert shown("déjà vu 東京", 100) == '"déjà vu 東京"'
