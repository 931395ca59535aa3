"""Sign-in of programs that have no browser: device authorization (RFC 8628), for `headrace login --device` (docs/adr/0090).

The server is the client of the provider: the provider's device code, its tokens and the client's secret stay here. The program gets the
code to show, and a secret of ours that it polls with.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from headrace.catalog.objects import User
from headrace.catalog.principals import digest
from headrace.server.failures import Refused
from headrace.server.hosts import address_of
from headrace.server.openid import DeviceCode, Identity, ProviderRefusedError, RefusedError
from headrace.server.throttle import Throttle

START_PATH, POLL_PATH = "/v2/session/device", "/v2/session/device/poll"
PATHS = (START_PATH, POLL_PATH)
WAY = "single sign-on by a device code"
WAITING_MAX = 10_000
INTERVAL_MIN_S = 1.0
SLOW_DOWN_S = 5.0
"""What `slow_down` adds to the interval (RFC 8628, section 3.5)."""
STARTS_FREE = 20
"""Sign-ins that an address may start in vain before the next must wait."""

_REFUSALS: dict[int | str, dict[str, Any]] = {
    404: {"model": Refused, "description": "The server or its provider does not support it."},
    429: {"model": Refused, "description": "Too many started ones; `Retry-After` is the time to wait."},
    424: {"model": Refused, "description": "The provider does not answer."},
}
_MESSAGES = {
    "unverified": "the provider reports no verified e-mail address",
    "unknown": "you are not a user of this server, and have no invitation",
    "again": "the code has expired or was used; sign in again",
    "denied": "the sign-in was denied at the provider",
}


class _Camel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class DeviceStart(_Camel):
    """A started sign-in: what to show to the user, and the secret to poll with."""

    device: Annotated[str, Field(repr=False)]
    user_code: str
    verification_uri: str
    verification_uri_complete: str | None
    expires_in: float
    interval: float


class DevicePoll(BaseModel):
    """The secret of a started sign-in."""

    device: Annotated[str, Field(max_length=1024, repr=False)]


class DeviceWait(BaseModel):
    """Seconds to wait before the next poll."""

    interval: float


class DeviceProvider(Protocol):
    """Provider of the identity of a user who entered a code."""

    async def device_code(self) -> DeviceCode:
        """Start a sign-in; raises RefusedError."""
        ...

    async def device_identity(self, code: DeviceCode) -> Identity:
        """Return the identity of the user; raises ProviderRefusedError while nobody entered the code, and RefusedError."""
        ...


@dataclass
class _Waiting:
    code: DeviceCode = field(repr=False)
    ends: float
    interval_s: float
    asked: float


class DeviceSignIns:
    """Sign-ins that wait for their users, by the digest of the program's secret."""

    def __init__(self, provider: DeviceProvider) -> None:
        self._provider = provider
        self._waiting: OrderedDict[str, _Waiting] = OrderedDict()

    async def start(self) -> DeviceStart:
        """Start a sign-in. Raises RefusedError."""
        code, secret = await self._provider.device_code(), secrets.token_urlsafe(32)
        now = time.monotonic()
        waiting = _Waiting(code, now + code.expires_in, max(code.interval, INTERVAL_MIN_S), asked=now)
        self._waiting[digest(secret)] = waiting
        while len(self._waiting) > WAITING_MAX:
            self._waiting.popitem(last=False)
        complete = code.verification_uri_complete
        return DeviceStart(
            device=secret,
            user_code=code.user_code,
            verification_uri=str(code.verification_uri),
            verification_uri_complete=str(complete) if complete is not None else None,
            expires_in=code.expires_in,
            interval=waiting.interval_s,
        )

    async def poll(self, secret: str) -> Identity | float:
        """Return the identity of the user, or the seconds until the next poll. Raises RefusedError when the sign-in has ended."""
        key, now = digest(secret), time.monotonic()
        waiting = self._waiting.get(key)
        if waiting is None or now >= waiting.ends:
            self._waiting.pop(key, None)
            raise RefusedError("again", "the device code has expired, was used or is unknown")
        if now - waiting.asked < waiting.interval_s:
            return waiting.interval_s
        waiting.asked = now
        try:
            identity = await self._provider.device_identity(waiting.code)
        except RefusedError as error:
            if not _goes_on(error, waiting):
                self._waiting.pop(key, None)
                raise _ended(error) from None
            return waiting.interval_s
        if self._waiting.pop(key, None) is None:
            raise RefusedError("again", "the device code was used")
        return identity


def _goes_on(error: RefusedError, waiting: _Waiting) -> bool:
    """True if the user may still sign in; slows polling down if the provider asks for it or does not answer."""
    pending = isinstance(error, ProviderRefusedError) and error.error in (
        "authorization_pending",
        "slow_down",
    )
    if isinstance(error, ProviderRefusedError) and error.error == "slow_down":
        waiting.interval_s += SLOW_DOWN_S
    elif error.code == "away":
        waiting.interval_s *= 2
    return pending or error.code == "away"


def _ended(error: RefusedError) -> RefusedError:
    """Return the error with the code of its message."""
    codes = {"access_denied": "denied", "expired_token": "again"}
    code = codes.get(error.error) if isinstance(error, ProviderRefusedError) else None
    return RefusedError(code, str(error)) if code is not None else error


def router(
    provider: DeviceProvider | None,
    throttle: Throttle,
    complete: Callable[[Request, Identity, str], Awaitable[User]],
    refuse: Callable[[Request, RefusedError, str], None],
    begin: Callable[[Request, User, Response], Response],
) -> APIRouter:
    """Return the routes; they need no token. `complete` returns the user of an identity, `refuse` records a refused sign-in, and `begin`
    adds a session to a response."""
    routes = APIRouter()
    sign_ins = DeviceSignIns(provider) if provider is not None else None

    @routes.post(START_PATH, summary="Start a sign-in by a device code", responses=_REFUSALS)
    async def start(request: Request) -> DeviceStart:
        keys = _keys(request)
        wait_s = throttle.wait_s(keys)
        if wait_s > 0:
            message = f"too many sign-ins were started; try again in {wait_s} seconds"
            raise HTTPException(429, message, {"Retry-After": str(wait_s)})
        # Each start is a request to the provider that a stranger can cause; a sign-in that succeeds makes up for it.
        throttle.failed(keys)
        try:
            return await _known(sign_ins).start()
        except RefusedError as error:
            refuse(request, error, WAY)
            raise _failure(error) from None

    @routes.post(
        POLL_PATH,
        status_code=204,
        summary="Poll a sign-in by a device code",
        responses={
            202: {"model": DeviceWait, "description": "The user has not signed in yet."},
            204: {"description": "The user signed in; the response sets a cookie."},
            **{status: _REFUSALS[status] for status in (404, 424)},
        },
    )
    async def poll(request: Request, given: DevicePoll) -> Response:
        try:
            identity = await _known(sign_ins).poll(given.device)
            if not isinstance(identity, Identity):
                return JSONResponse({"interval": identity}, 202)
            user = await complete(request, identity, WAY)
        except RefusedError as error:
            refuse(request, error, WAY)
            raise _failure(error) from None
        throttle.forget(*_keys(request))
        return begin(request, user, Response(status_code=204))

    return routes


def _keys(request: Request) -> dict[str, int]:
    return {f"device {address_of(request.scope) or ''}": STARTS_FREE}


def _known(sign_ins: DeviceSignIns | None) -> DeviceSignIns:
    if sign_ins is None:
        raise HTTPException(404, "this server has no single sign-on: sign in with a password or an API token")
    return sign_ins


def _failure(error: RefusedError) -> HTTPException:
    """Return the response to a refused sign-in; the reasons of other refusals are for the audit log only."""
    if error.code == "unsupported":
        return HTTPException(404, f"{error}: sign in with a password or an API token")
    if error.code == "away":
        return HTTPException(424, "the provider of single sign-on does not answer")
    message = _MESSAGES.get(error.code, "the provider refused the sign-in; the audit log contains the reason")
    return HTTPException(403, message)
