"""The routes of single sign-on: to the provider and back, and then a session as any other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import structlog
from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from headrace.catalog.audit import AuditOutcome, Event
from headrace.catalog.objects import User
from headrace.catalog.single_sign_on import Admitted
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.server import device_sign_in
from headrace.server.auditing import Audit, at_the_page
from headrace.server.hosts import Hosts, address_of
from headrace.server.openid import AWAY_LASTS_S, Identity, OpenIdProvider, RefusedError, Travellers
from headrace.server.ports import Accounts
from headrace.server.throttle import Throttle

log = structlog.get_logger()

PATH, START_PATH, BACK_PATH = "/v2/session/provider", "/v2/session/openid", "/v2/session/openid/callback"
COOKIE = "headrace_sign_in"
WAY = "single sign-on"
"""The way of signing in, in the audit log."""


def router(
    settings: Settings,
    hosts: Hosts,
    accounts: Accounts,
    audit: Audit,
    throttle: Throttle,
    begin: Callable[[Request, User, Response], Response],
) -> APIRouter:
    """Return the routes; they need no token. `begin` adds a session to a response."""
    routes = APIRouter()
    provider, travellers = OpenIdProvider(settings), Travellers()
    record = _Record(settings, accounts, audit)

    @routes.get(PATH, summary="The provider of single sign-on")
    async def name() -> dict[str, str | None]:
        """Return the text of the page's button, null without a provider."""
        return {"name": settings.oidc_name if settings.oidc_issuer else None}

    known = provider if settings.oidc_issuer is not None else None
    routes.include_router(device_sign_in.router(known, throttle, record.complete, record.refuse, begin))
    if settings.oidc_issuer is None:
        return routes

    @routes.get(START_PATH, **_away("Sign in with the provider"))
    async def start(request: Request) -> Response:
        scheme, authority = hosts.base(request.scope)
        state, cookie, away = travellers.send(f"{scheme}://{authority}{BACK_PATH}")
        try:
            answer = RedirectResponse(await provider.address(state, away), 303)
        except RefusedError as error:
            return refused(request, error)
        # Lax, since it is the provider's page that sends the browser back.
        answer.set_cookie(
            COOKIE,
            cookie,
            int(AWAY_LASTS_S),
            path=START_PATH,
            secure=scheme == "https",
            httponly=True,
            samesite="lax",
        )
        return answer

    @routes.get(BACK_PATH, **_away("Come back from the provider"))
    async def back(request: Request, code: str = "", state: str = "", error: str = "") -> Response:
        try:
            away = travellers.back(state, request.cookies.get(COOKIE, ""))
            if not code:
                raise RefusedError("refused", f"the provider did not authenticate the user: {error[:64]}")
            user = await record.complete(request, await provider.identity(code, away), WAY)
        except RefusedError as refusal:
            return refused(request, refusal)
        return begin(request, user, ended(RedirectResponse("/#signed-in", 303)))

    def refused(request: Request, error: RefusedError) -> Response:
        record.refuse(request, error, WAY)
        return ended(RedirectResponse(f"/#not-signed-in={error.code}", 303))

    def ended(answer: Response) -> Response:
        answer.delete_cookie(COOKIE, path=START_PATH, httponly=True, samesite="lax")
        return answer

    return routes


class _Record:
    """Completes and refuses sign-ins, and records them in the audit log with their way."""

    def __init__(self, settings: Settings, accounts: Accounts, audit: Audit) -> None:
        self._settings = settings
        self._accounts = accounts
        self._audit = audit

    async def complete(self, request: Request, identity: Identity, way: str) -> User:
        """Return the user of an identity, with the roles of the groups. Raises RefusedError if there is none."""
        admitted = await _admitted(identity, self._settings, self._accounts)
        user, address = admitted.user, address_of(request.scope)
        log.info("signed_in", user=user.name, client=address, provider=self._settings.oidc_issuer)
        detail = "; ".join([way, *_changes(admitted)])
        self._audit(at_the_page(request.scope, Event.SIGN_IN, AuditOutcome.ALLOWED, user.name, detail))
        return user

    def refuse(self, request: Request, error: RefusedError, way: str) -> None:
        """Record a refused sign-in."""
        log.warning("sign_in_failed", client=address_of(request.scope), reason=str(error))
        detail = f"{way}: {error}"
        self._audit(at_the_page(request.scope, Event.SIGN_IN, AuditOutcome.DENIED, detail=detail))


def _away(summary: str) -> dict[str, Any]:
    """Return the API document's entry for a route that redirects the browser."""
    answer = {"description": "Redirect to the provider, or to the page, which shows the result."}
    return {
        "summary": summary,
        "status_code": 303,
        "response_class": RedirectResponse,
        "responses": {303: answer},
    }


def is_single_sign_on(path: str) -> bool:
    """True if a GET of that path needs no token."""
    return path in (PATH, START_PATH, BACK_PATH)


async def _admitted(identity: Identity, settings: Settings, accounts: Accounts) -> Admitted:
    roles = {role: False for _, role in settings.oidc_roles}
    roles |= {role: True for group, role in settings.oidc_roles if group in identity.groups}
    try:
        admitted = await asyncio.to_thread(
            accounts.admit, identity.email, roles, create=settings.oidc_create_users
        )
    except HeadraceError as error:
        raise RefusedError("away", error.message) from None
    if admitted is None:
        raise RefusedError("unknown", f"{identity.email} is not a user, and has no invitation")
    return admitted


def _changes(admitted: Admitted) -> list[str]:
    """Return the audit log's texts: the roles that the groups changed."""
    words = {"given": admitted.given, "taken": admitted.taken, "left unchanged": admitted.left}
    return [f"roles {word}: {', '.join(roles)}" for word, roles in words.items() if roles]
