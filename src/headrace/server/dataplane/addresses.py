"""Which uri a client can open its stream with, by its User-Agent (client-contract, fact 3).

Over TLS `https:` serves everybody. Over plain HTTP the public Python client needs `ws:` and all others `http:`.
"""

from __future__ import annotations

from starlette.requests import Request

_PYTHON_CONNECTOR = "OpenAPI-Generator/"


def stream_uri(request: Request, statement_id: str) -> str:
    """The address of the statement's stream, at the host that the client itself used."""
    host = request.headers.get("host") or request.url.netloc
    agent = request.headers.get("user-agent", "")
    scheme = request.url.scheme
    if scheme == "http" and agent.startswith(_PYTHON_CONNECTOR) and agent.endswith("/python"):
        scheme = "ws"
    return f"{scheme}://{host}/v2/statements/{statement_id}"
