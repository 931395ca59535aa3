"""Signing in to the page: a password for a session, which a cookie names that no script can read (docs/adr/0028).

Sessions are kept only in memory, as digests, so a restart ends all of them. A session also ends when it was idle for too long, after its
maximum lifetime, by signing out, and when its user is dropped or changes the password.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from http.cookies import CookieError, SimpleCookie
from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Scope

from headrace.catalog.audit import AuditOutcome, Event
from headrace.catalog.objects import Principal, User
from headrace.catalog.principals import digest
from headrace.core.errors import UserError
from headrace.core.settings import Settings
from headrace.server import device_sign_in, single_sign_on
from headrace.server.auditing import Audit, at_the_page
from headrace.server.failures import Refused
from headrace.server.hosts import Hosts, address_of
from headrace.server.ports import Accounts
from headrace.server.throttle import FREE_OF_ADDRESS, Attempts, TooManyAttemptsError

log = structlog.get_logger()

ALLOWED, DENIED = AuditOutcome.ALLOWED, AuditOutcome.DENIED

COOKIE = "headrace_session"
PATH, INVITATION_PATH = "/v2/session", "/v2/session/invitation"
SESSIONS_MAX = 10_000
_HASTY: dict[int | str, dict[str, Any]] = {
    204: {"description": "The response sets a cookie."},
    429: {"model": Refused, "description": "Too many wrong ones; `Retry-After` is the time to wait."},
}
_TEXT = Field(max_length=1024, repr=False)


class Credentials(BaseModel):
    """Credentials of a sign-in."""

    user: Annotated[str, Field(max_length=255)]
    password: Annotated[str, _TEXT]


class Acceptance(BaseModel):
    """An invitation's code with the chosen password."""

    invitation: Annotated[str, _TEXT]
    password: Annotated[str, _TEXT]


@dataclass
class _Session:
    user: str
    user_id: str
    password: str | None = field(repr=False)
    began: float = field(default_factory=time.monotonic)
    used: float = field(default_factory=time.monotonic)


class Sessions:
    """Sessions of the page. `user` looks a user up in memory."""

    def __init__(self, settings: Settings, user: Callable[[str], User | None]) -> None:
        self._idle_s = settings.session_idle_minutes * 60
        self._longest_s = settings.session_hours * 3600
        self._user = user
        self._known: dict[str, _Session] = {}

    def begin(self, user: User) -> str:
        """Create a session, and return the content of its cookie."""
        self._known = {key: session for key, session in self._known.items() if self._over(session) is None}
        if len(self._known) >= SESSIONS_MAX:
            del self._known[next(iter(self._known))]
        secret = secrets.token_urlsafe(32)
        self._known[digest(secret)] = _Session(user.name, user.id, user.password)
        return secret

    def end(self, secret: str) -> None:
        """End a session."""
        self._known.pop(digest(secret), None)

    def principal(self, secret: str) -> Principal | None:
        """Return the principal of a session; this counts as using it."""
        key = digest(secret)
        session = self._known.get(key)
        if session is None or self._over(session) is not None:
            self._known.pop(key, None)
            return None
        user = self._user(session.user)
        if user is None:
            return None
        session.used = time.monotonic()
        return Principal(
            user.name, user.roles, user.default_role, session=key, credential=f"session {key[:8]}"
        )

    def ended(self, principal: Principal) -> str | None:
        """Return why the session of `principal` has ended; None while it lasts, and for a principal without one."""
        if principal.session is None:
            return None
        session, user = self._known.get(principal.session), self._user(principal.user)
        if session is None or user is None:
            return "the session was ended"
        if not set(principal.roles) <= set(user.roles):
            return f"the roles of the user {user.name!r} were changed"
        return self._over(session)

    def _over(self, session: _Session) -> str | None:
        now = time.monotonic()
        if now - session.began >= self._longest_s or now - session.used >= self._idle_s:
            return "the session has expired; sign in again"
        user = self._user(session.user)
        if user is None or (user.id, user.password) != (session.user_id, session.password):
            return "the session was ended"
        return None


def cookie_of(scope: Scope) -> str | None:
    """Return the session of a request. A request that changes something, and a websocket, must name an origin of ours."""
    headers = dict(scope["headers"])
    reads_only = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
    if not reads_only and b"origin" not in headers:
        return None
    try:
        cookie = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1")).get(COOKIE)
    except CookieError:
        return None
    return cookie.value if cookie is not None else None


def router(
    settings: Settings,
    hosts: Hosts,
    accounts: Accounts,
    sessions: Sessions,
    audit: Audit,
    attempts: Attempts,
) -> APIRouter:
    """Return the routes of signing in, which need no token, and of signing out."""
    routes = APIRouter()
    signed_in = partial(_with_session, settings, hosts, sessions)

    @contextmanager
    def unhurried(request: Request, event: Event) -> Iterator[None]:
        try:
            yield
        except TooManyAttemptsError as error:
            audit(at_the_page(request.scope, event, DENIED, error.user, "throttled"))
            raise HTTPException(429, str(error), {"Retry-After": str(error.wait_s)}) from None

    @routes.post(PATH, status_code=204, summary="Sign in with a password", responses=_HASTY)
    async def sign_in(request: Request, given: Credentials) -> Response:
        name = given.user.strip().lower()
        with unhurried(request, Event.SIGN_IN):
            user = await attempts.matches(accounts.user, name, given.password, _address(request))
        if user is None:
            known = accounts.user(name)
            log.warning("sign_in_failed", client=_address(request))
            audit(
                at_the_page(request.scope, Event.SIGN_IN, DENIED, known.name if known else None, "password")
            )
            raise HTTPException(403, "the user or the password is wrong")
        log.info("signed_in", user=user.name, client=_address(request))
        audit(at_the_page(request.scope, Event.SIGN_IN, ALLOWED, user.name, "password"))
        return signed_in(request, user, Response(status_code=204))

    @routes.post(INVITATION_PATH, status_code=204, summary="Accept an invitation", responses=_HASTY)
    async def accept(request: Request, given: Acceptance) -> Response:
        keys = {f"address {_address(request)}": FREE_OF_ADDRESS}
        try:
            async with attempts.hashing:
                with unhurried(request, Event.INVITATION):
                    attempts.refuse_hasty(keys, None)
                user = await asyncio.to_thread(accounts.accept_invitation, given.invitation, given.password)
        except UserError as error:
            raise HTTPException(400, error.text()) from None
        if user is None:
            attempts.throttle.failed(keys)
            audit(at_the_page(request.scope, Event.INVITATION, DENIED))
            raise HTTPException(403, "the invitation is not valid: it was used, was revoked or has expired")
        log.info("invitation_accepted", user=user.name, client=_address(request))
        audit(at_the_page(request.scope, Event.INVITATION, ALLOWED, user.name))
        return signed_in(request, user, Response(status_code=204))

    @routes.delete(PATH, status_code=204, summary="Sign out")
    async def sign_out(request: Request) -> Response:
        cookie = cookie_of(request.scope) or ""
        principal = sessions.principal(cookie)
        if principal is not None:
            signed_out = at_the_page(request.scope, Event.SIGN_OUT, ALLOWED, principal.user)
            audit(replace(signed_out, credential=principal.credential))
        sessions.end(cookie)
        answer = Response(status_code=204)
        answer.delete_cookie(COOKIE, path="/v2", httponly=True, samesite="strict")
        return answer

    routes.include_router(
        single_sign_on.router(settings, hosts, accounts, audit, attempts.throttle, signed_in)
    )
    return routes


def is_sign_in(scope: Scope) -> bool:
    """True if the request needs no token."""
    if scope["method"] == "POST":
        return scope["path"] in (PATH, INVITATION_PATH, *device_sign_in.PATHS)
    return scope["method"] == "GET" and single_sign_on.is_single_sign_on(scope["path"])


def _with_session(
    settings: Settings, hosts: Hosts, sessions: Sessions, request: Request, user: User, answer: Response
) -> Response:
    """Return the answer, with the cookie of a new session of the user."""
    secure = "https" in (hosts.base(request.scope)[0], (settings.public_url or "").partition(":")[0])
    answer.set_cookie(
        COOKIE, sessions.begin(user), path="/v2", secure=secure, httponly=True, samesite="strict"
    )
    return answer


def _address(request: Request) -> str:
    return address_of(request.scope) or ""
