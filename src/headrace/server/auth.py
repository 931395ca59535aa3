"""Authentication: every HTTP request needs a bearer token or a session's cookie, except requests for the static page and sign-in.

Source: client-contract section 1. A bad token returns 403, never 401: the Go client treats 401 as a temporary failure
and keeps polling. Websockets pass here; they authenticate with a ticket in their first frame (`dataplane`).
"""

from __future__ import annotations

from collections.abc import Callable
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


class TokenGate:
    """Refuses every HTTP request without a valid token, unless `is_public` is true for the request.

    `on_refusal` is called with the refused request, its token if present, and the reason.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        signed_in: Callable[[str], Principal | None],
        authenticate: Callable[[str], Principal | None],
        is_public: Callable[[Scope], bool],
        on_refusal: Callable[[Scope, str | None, str], None],
    ) -> None:
        self._app = app
        self._signed_in = signed_in
        self._authenticate = authenticate
        self._is_public = is_public
        self._on_refusal = on_refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, with the principal in the scope's state, or answer 403."""
        if scope["type"] != "http" or self._is_public(scope):
            await self._app(scope, receive, send)
            return
        token = _bearer(scope)
        if token:
            principal = self._authenticate(token) if len(token) <= TOKEN_LENGTH_MAX else None
        else:
            principal = self._signed_in(cookie) if (cookie := cookie_of(scope)) else None
        if principal is not None:
            scope.setdefault("state", {})["principal"] = replace(principal, address=address_of(scope))
            await self._app(scope, receive, send)
            return
        reason = "not valid" if token else "no bearer token"
        log.warning("authentication_failed", client=address_of(scope), path=scope["path"], reason=reason)
        self._on_refusal(scope, token, reason)
        answer = refusal(403, "the token is not valid" if token else "expected a bearer token, found none")
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
