"""Choice of a stream's uri by the client's User-Agent (client-contract, fact 3).

Over TLS `https:` serves everybody. Over plain HTTP the public Python client needs `ws:` and all others `http:`.
"""

from __future__ import annotations

from starlette.requests import Request

from headrace.server.hosts import Hosts

_PYTHON_CONNECTOR = "OpenAPI-Generator/"


def stream_uri(request: Request, hosts: Hosts, statement_id: str) -> str:
    """Return the address of the statement's stream, at the host that the client itself used, or the public one of the settings."""
    scheme, authority = hosts.base(request.scope)
    agent = request.headers.get("user-agent", "")
    if scheme == "http" and agent.startswith(_PYTHON_CONNECTOR) and agent.endswith("/python"):
        scheme = "ws"
    return f"{scheme}://{authority}/v2/statements/{statement_id}"
