"""Authentication: every HTTP request needs a bearer token or a session's cookie, except requests for the static page and sign-in.

Source: client-contract section 1. A bad token returns 403, never 401: the Go client treats 401 as a temporary failure
and keeps polling. MCP is the exception: its clients find out by a 401 how to authenticate, and a page's cookie does not count there.
Websockets pass here; they authenticate with a ticket in their first frame (`dataplane`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import structlog
from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.catalog.objects import Principal
from headrace.core.errors import InternalError
from headrace.server.failures import refusal
from headrace.server.hosts import address_of
from headrace.server.signin import cookie_of

log = structlog.get_logger()

TOKEN_LENGTH_MAX = 4096


class InsufficientScopeError(Exception):
    """A valid access token that lacks a required scope."""


class TokenGate:
    """Refuses every HTTP request without a valid token, unless `is_public` is true for the request.

    `challenge` returns the header WWW-Authenticate for a request that requires a bearer token and is refused by 401, None for others;
    for such requests `access_token` returns the principal of a token that is no API token, or raises InsufficientScopeError.
    `on_refusal` is called with the refused request, its token if present, and the reason.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        signed_in: Callable[[str], Principal | None],
        authenticate: Callable[[str], Principal | None],
        is_public: Callable[[Scope], bool],
        challenge: Callable[[Scope], str | None],
        access_token: Callable[[str], Awaitable[Principal | None]],
        on_refusal: Callable[[Scope, str | None, str], None],
    ) -> None:
        self._app = app
        self._signed_in = signed_in
        self._authenticate = authenticate
        self._is_public = is_public
        self._challenge = challenge
        self._access_token = access_token
        self._on_refusal = on_refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, with the principal in the scope's state, or answer 403 or 401."""
        if scope["type"] != "http" or self._is_public(scope):
            await self._app(scope, receive, send)
            return
        token, challenge, principal = _bearer(scope), self._challenge(scope), None
        error = "invalid_token"
        if token and len(token) <= TOKEN_LENGTH_MAX:
            principal = self._authenticate(token)
            if principal is None and challenge is not None:
                try:
                    principal = await self._access_token(token)
                except InsufficientScopeError:
                    error = "insufficient_scope"
        elif not token and challenge is None:
            principal = self._signed_in(cookie) if (cookie := cookie_of(scope)) else None
        if principal is not None:
            scope.setdefault("state", {})["principal"] = replace(principal, address=address_of(scope))
            await self._app(scope, receive, send)
            return
        lacks_scope = error == "insufficient_scope"
        reason = "no bearer token" if not token else "lacks a scope" if lacks_scope else "not valid"
        log.warning("authentication_failed", client=address_of(scope), path=scope["path"], reason=reason)
        self._on_refusal(scope, token, reason)
        message = "the token is not valid" if token else "expected a bearer token, found none"
        if lacks_scope:
            message = "the access token lacks a scope that the server requires"
        answer = refusal(403 if challenge is None or lacks_scope else 401, message)
        if challenge is not None:
            answer.headers["WWW-Authenticate"] = challenge + (f', error="{error}"' if token else "")
        await answer(scope, receive, send)


def principal_of(request: Request) -> Principal:
    """Return the principal that the gate found; for routes."""
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
