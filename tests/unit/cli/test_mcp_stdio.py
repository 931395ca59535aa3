"""`headrace mcp`: the SDK's client starts it as a process, and the tools are those of the server for the token."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters

from headrace.core.resultset import result
from headrace.core.types import BIGINT
from headrace.server.mcp.tools import TOOLS
from tests.unit.cli.test_command_line import GOOD, headrace
from tests.unit.server.mcp_world import content
from tests.unit.server.scripted import TOKENS, ScriptedStatements

SELECT = "SELECT n FROM s"


def command(address: str, *more: str, **environment: str) -> Any:
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "headrace.cli", "mcp", *more],
        env={"HEADRACE_URL": f"http://{address}", "HEADRACE_TOKEN": GOOD, **environment},
    )


async def test_calls_are_forwarded_with_the_users_token(address: str, statements: ScriptedStatements) -> None:
    statements.answer(SELECT, result([("n", BIGINT)], [(1,), (2,)]))
    async with Client(command(address, "--role", "analyst")) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert names == {tool.name for tool in TOOLS} - {"run_statement"}
        assert "streaming SQL database" in (client.instructions or "")
        answer = content(await client.call_tool("select", {"statement": SELECT}))
        assert answer["rows"] == [["1"], ["2"]]
        assert statements.contexts[-1].role == "analyst"
        refused = await client.call_tool("run_statement", {"statement": "DROP DATABASE shop"})
        assert content(refused)["error"]["sqlState"] == "42501"
        # The token is checked with each request: it may be revoked meanwhile.
        principal = TOKENS.pop(GOOD)
        try:
            with pytest.raises(MCPError):
                await client.call_tool("select", {"statement": SELECT})
        finally:
            TOKENS[GOOD] = principal


async def test_a_wrong_token_or_address_is_reported_at_the_start(address: str) -> None:
    wrong = await headrace(address, "mcp", token="wrong")
    assert (wrong.code, "the token is not valid" in wrong.err) == (4, True)
    away = await headrace("127.0.0.1:1", "mcp")
    assert (away.code, "no server answers" in away.err) == (3, True)
