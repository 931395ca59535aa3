"""The SDK's client at the endpoint of an application, in process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from fastapi import FastAPI
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent

from headrace.server.mcp.answers import NOTE


@asynccontextmanager
async def running(app: FastAPI) -> AsyncIterator[None]:
    """Run the application's lifespan in a task of its own: a fixture is closed in another task than it was opened in."""
    started, over = asyncio.Event(), asyncio.Event()

    async def live() -> None:
        async with app.router.lifespan_context(app):
            started.set()
            await over.wait()

    task = asyncio.create_task(live())
    await started.wait()
    yield
    over.set()
    await task


@asynccontextmanager
async def connected(app: FastAPI, token: str, query: str = "", **options: Any) -> AsyncIterator[Client]:
    """Connect with a token; the application must run."""
    http = httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app), headers={"Authorization": f"Bearer {token}"}
    )
    async with (
        http,
        Client(streamable_http_client(f"http://localhost/mcp{query}", http_client=http), **options) as client,
    ):
        yield client


async def tool_names(client: Client) -> set[str]:
    return {tool.name for tool in (await client.list_tools()).tools}


def content(result: CallToolResult) -> dict[str, Any]:
    """Return the structured content, which is that of the text behind the note."""
    note, text = result.content
    assert isinstance(note, TextContent)
    assert isinstance(text, TextContent)
    assert note.text == NOTE
    assert json.loads(text.text) == result.structured_content
    return dict(result.structured_content)


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool that must succeed."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.structured_content
    return content(result)


async def refusal(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool that must be refused, and return the error."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.structured_content
    return dict(content(result)["error"])
