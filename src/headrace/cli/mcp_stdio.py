"""MCP over standard input and output: every request is forwarded to the server's `/mcp` with the user's own token."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams

from headrace import __version__
from headrace.client.trust import is_loopback, trusted

_CONNECT_TIMEOUT_S, _ANSWER_TIMEOUT_S = 10.0, 180.0


async def forward(url: str, token: str, names: Mapping[str, str | None]) -> None:
    """Serve standard input until it ends. `names` are those that statements run in, such as the role."""
    chosen = {name: value for name, value in names.items() if value}
    address = f"{url.rstrip('/').removesuffix('/v2')}/mcp{'?' + urlencode(chosen) if chosen else ''}"
    parts = urlsplit(address)
    is_local = is_loopback(parts.hostname or "")
    http = httpx2.AsyncClient(
        headers={"Authorization": f"Bearer {token}"},
        timeout=httpx2.Timeout(_ANSWER_TIMEOUT_S, connect=_CONNECT_TIMEOUT_S),
        # A proxy of the environment leads away from this machine.
        trust_env=not is_local,
        verify=trusted() if parts.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
    )
    async with http, Client(streamable_http_client(address, http_client=http)) as remote:
        server = _forwarding(remote)
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())


def _forwarding(remote: Client) -> Server[Any]:
    """Return a server whose tools are those of `remote`."""

    async def list_tools(
        _context: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return await remote.list_tools(cursor=params.cursor if params else None)

    async def call_tool(
        _context: ServerRequestContext[Any, Any], params: CallToolRequestParams
    ) -> CallToolResult:
        return await remote.call_tool(params.name, params.arguments)

    return Server(
        "headrace",
        version=__version__,
        instructions=remote.instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
