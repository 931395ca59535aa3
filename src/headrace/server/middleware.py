"""What holds for every HTTP request and answer: clean paths, a largest body, security headers."""

from __future__ import annotations

import re

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.server.hosts import Hosts

_SLASHES = re.compile("/{2,}")

DRAINED_BYTES_MAX = 64 * 1024 * 1024
"""How much of a too large body is read and thrown away, so that its sender sees the answer and not a reset."""

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class CleanPaths:
    """Makes one slash of several: clients join a base that ends in a slash with `/version` textually."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on with a clean path."""
        if scope["type"] in ("http", "websocket") and "//" in scope["path"]:
            path = _SLASHES.sub("/", scope["path"])
            scope = {**scope, "path": path, "raw_path": path.encode()}
        await self._app(scope, receive, send)


class SecurityHeaders:
    """Adds the headers that keep a browser from running or framing what is not ours; API answers are not cached."""

    def __init__(self, app: ASGIApp, *, hosts: Hosts) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, with more headers on the answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers["Content-Security-Policy"] = self._policy(scope)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, send_with_headers)

    def _policy(self, scope: Scope) -> str:
        # 'self' covers websockets in some browsers only, so that their addresses are spelled out.
        sources = " ".join(["'self'", *self._hosts.socket_addresses(scope)])
        # Styles may be inline (the page sets sizes); scripts never.
        return (
            f"default-src 'self'; style-src 'self' 'unsafe-inline'; connect-src {sources}; "
            "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
        )


class BodyLimit:
    """Refuses bodies larger than `bytes_max` with 400, which every client knows (413 none)."""

    def __init__(self, app: ASGIApp, *, bytes_max: int) -> None:
        self._app = app
        self._bytes_max = bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on with a `receive` that counts."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        received = 0

        async def receive_some() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._bytes_max:
                await _drain(receive, message)
                raise HTTPException(
                    400,
                    f"the request is larger than {self._bytes_max} bytes, the limit of this server "
                    "(setting HEADRACE_REQUEST_BYTES_MAX)",
                    {"Connection": "close"},
                )
            return message

        await self._app(scope, receive_some, send)


async def _drain(receive: Receive, message: Message) -> None:
    drained = 0
    while message.get("more_body", False) and drained <= DRAINED_BYTES_MAX:
        message = await receive()
        drained += len(message.get("body", b""))
