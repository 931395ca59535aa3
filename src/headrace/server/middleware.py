"""Common parts of HTTP requests and answers: clean paths, a largest body, security headers."""

from __future__ import annotations

import re
import secrets
from collections import Counter

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.server.failures import refusal
from headrace.server.hosts import Hosts

_SLASHES = re.compile("/{2,}")

DRAINED_BYTES_MAX = 64 * 1024 * 1024
DRAINED_OF_STRANGERS_BYTES_MAX = 1024 * 1024
"""How much of a too large body is read and thrown away, so that its sender sees the answer and not a reset."""

LARGE_ROUTES = frozenset(
    {"/v2/statements", "/v2/validate", "/v2/plan", "/v2/complete", "/mcp", "/graphql", "/v2/graphql"}
)
LARGE_BELOW = "/v2/worksheets/"
"""The routes below this path take large bodies too."""
SMALL_BYTES_MAX = 16 * 1024
"""The largest body of all other routes, and of requests without authentication: signing in takes 2 KiB."""

BODIES_PER_USER = 4
"""The bodies of the largest size that one user may have under way at a time, or as many bytes in smaller ones."""

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class CleanPaths:
    """Collapses several slashes into one: clients join a base that ends in a slash with `/version` textually."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on with a clean path."""
        if scope["type"] in ("http", "websocket") and "//" in scope["path"]:
            path = _SLASHES.sub("/", scope["path"])
            scope = {**scope, "path": path, "raw_path": path.encode()}
        await self._app(scope, receive, send)


STYLE_NONCE = "style_nonce"
"""The key, in the state of a request, of the nonce with which the page may add styles."""


class SecurityHeaders:
    """Adds the headers that keep a browser from running foreign scripts, from framing the page, and from caching API responses."""

    def __init__(self, app: ASGIApp, *, hosts: Hosts) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, with more headers on the answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        nonce = secrets.token_urlsafe(16)
        scope.setdefault("state", {})[STYLE_NONCE] = nonce

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers["Content-Security-Policy"] = self._policy(scope, nonce)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, send_with_headers)

    def _policy(self, scope: Scope, nonce: str) -> str:
        # 'self' covers websockets in some browsers only, so that their addresses are spelled out.
        sources = " ".join(["'self'", *self._hosts.socket_addresses(scope)])
        # The console's editor adds a style element, which has the nonce. No other style and no script may be inline.
        return (
            f"default-src 'self'; style-src 'self' 'nonce-{nonce}'; connect-src {sources}; "
            "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
        )


class BodyLimit:
    """Refuses bodies that are too large with 400, which every client knows (413 none), if possible before they are read.

    `bytes_max` is for statements of a user; all other bodies are small. Runs behind the token gate.
    """

    def __init__(self, app: ASGIApp, *, bytes_max: int) -> None:
        self._app = app
        self._bytes_max = bytes_max
        self._under_way: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on with a `receive` that counts."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        principal = scope.get("state", {}).get("principal")
        path = scope["path"]
        large = principal is not None and (path in LARGE_ROUTES or path.startswith(LARGE_BELOW))
        most = self._bytes_max if large else min(SMALL_BYTES_MAX, self._bytes_max)
        drained_max = DRAINED_BYTES_MAX if principal is not None else DRAINED_OF_STRANGERS_BYTES_MAX
        user = principal.user if principal is not None else ""
        received = 0

        async def receive_some() -> Message:
            nonlocal received
            message = await receive()
            size = len(message.get("body", b""))
            received += size
            self._under_way[user] += size
            if received > most:
                await _drain(receive, message, drained_max)
                raise HTTPException(400, _too_large(most, large=large), {"Connection": "close"})
            if principal is not None and self._under_way[user] > BODIES_PER_USER * self._bytes_max:
                await _drain(receive, message, drained_max)
                text = "too many large requests of this user are in progress; try again soon"
                raise HTTPException(503, text, {"Connection": "close", "Retry-After": "2"})
            return message

        try:
            if _declared(scope) > most:
                await _drain(receive, {"more_body": True}, drained_max)
                answer = refusal(400, _too_large(most, large=large))
                answer.headers["Connection"] = "close"
                await answer(scope, receive, send)
                return
            await self._app(scope, receive_some, send)
        finally:
            self._under_way[user] -= received
            self._under_way += Counter()  # drops zeros


def _declared(scope: Scope) -> int:
    """Return the size of a body that its headers declare; 0 without one."""
    return next((int(value) for name, value in scope["headers"] if name == b"content-length"), 0)


def _too_large(most: int, *, large: bool) -> str:
    setting = " (setting HEADRACE_REQUEST_BYTES_MAX)" if large else ""
    return f"the request is larger than {most} bytes, the limit of this server{setting}"


async def _drain(receive: Receive, message: Message, most: int) -> None:
    drained = 0
    while message.get("more_body", False) and drained <= most:
        message = await receive()
        drained += len(message.get("body", b""))
