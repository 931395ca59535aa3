"""Who is asking: every HTTP request carries a bearer token, except those for the static page.

Source: client-contract section 1. A bad token is answered 403, never 401: the Go client reads 401 as a passing trouble
and polls on. Websockets are let through here; they authenticate with a ticket in their first frame (`dataplane`).
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable

import structlog
from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.catalog.objects import Principal
from headrace.core.errors import InternalError
from headrace.server.failures import refusal

log = structlog.get_logger()

KNOWN_TOKEN_S = 2.0
"""How long an accepted token is believed without asking the catalog again: a revoked one works no longer than that."""

KNOWN_TOKENS_MAX = 1024
TOKEN_LENGTH_MAX = 4096


class Authenticator:
    """Tokens to principals, with a small memory of recent good answers, which holds digests and no tokens."""

    def __init__(self, authenticate: Callable[[str], Principal | None]) -> None:
        self._authenticate = authenticate
        self._known: OrderedDict[bytes, tuple[float, Principal]] = OrderedDict()

    async def principal(self, token: str) -> Principal | None:
        """The principal of `token`, or None when it is not valid."""
        if not token or len(token) > TOKEN_LENGTH_MAX:
            return None
        digest = hashlib.sha256(token.encode()).digest()
        found = self._known.get(digest)
        if found and found[0] > time.monotonic():
            return found[1]
        principal = await asyncio.to_thread(self._authenticate, token)
        if principal is None:
            self._known.pop(digest, None)
            return None
        self._known[digest] = (time.monotonic() + KNOWN_TOKEN_S, principal)
        self._known.move_to_end(digest)
        while len(self._known) > KNOWN_TOKENS_MAX:
            self._known.popitem(last=False)
        return principal


class TokenGate:
    """Refuses every HTTP request without a valid token, unless `is_public` says that it is for the static page."""

    def __init__(
        self,
        app: ASGIApp,
        authenticator: Authenticator,
        *,
        is_public: Callable[[Scope], bool],
        on_refusal: Callable[[], None],
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._is_public = is_public
        self._on_refusal = on_refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, with the principal in the scope's state, or answer 403."""
        if scope["type"] != "http" or self._is_public(scope):
            await self._app(scope, receive, send)
            return
        token = _bearer(scope)
        principal = await self._authenticator.principal(token) if token else None
        if principal is not None:
            scope.setdefault("state", {})["principal"] = principal
            await self._app(scope, receive, send)
            return
        client = scope.get("client")
        log.warning(
            "authentication_failed",
            client=client[0] if client else None,
            path=scope["path"],
            reason="not valid" if token else "no bearer token",
        )
        self._on_refusal()
        answer = refusal(403, "the token is not valid" if token else "expected a bearer token, found none")
        await answer(scope, receive, send)


def principal_of(request: Request) -> Principal:
    """The principal that the gate found; for routes."""
    principal = request.scope.get("state", {}).get("principal")
    if not isinstance(principal, Principal):
        raise InternalError(f"expected {request.url.path} behind the token gate")
    return principal


def _bearer(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, token = value.decode("latin-1").partition(" ")
            return token.strip() or None if scheme.lower() == "bearer" else None
    return None
