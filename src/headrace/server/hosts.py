"""Names and origins under which the server accepts requests.

A foreign page can make its visitor's browser send requests to this server: through a host name that resolves to this machine
(DNS rebinding), which the header `Host` reveals, or directly across origins, which `Origin` reveals. A page cannot choose either
header. Clients other than browsers send no `Origin`.
"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.core.settings import Settings
from headrace.server.failures import refusal

log = structlog.get_logger()

_AUTHORITY = re.compile(
    r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?)(?::(?P<port>\d{1,5}))?\Z"
)
_SHOWN_LENGTH = 100


class Hosts:
    """The names of this server: loopback, the address that it is bound to or was reached at, and the names in the settings.

    Ports are compared only for the names in the settings: a tunnel or a container's port mapping changes ports, and no foreign page
    has one of the other names.
    """

    def __init__(self, settings: Settings) -> None:
        self._bound = settings.host.lower()
        self._public = urlsplit(settings.public_url) if settings.public_url else None
        public = {self._public.netloc} if self._public else set[str]()
        self._allowed = frozenset({*settings.allowed_hosts, *public})

    def authority(self, scope: Scope) -> str | None:
        """Return `name[:port]` that the request was sent to, or None when that is not this server (or cannot be read)."""
        values = _values(scope, b"host")
        text = values[0].lower() if len(values) == 1 else ""
        match = _AUTHORITY.match(text)
        if match is None:
            return None
        name = match["name"]
        own = _is_loopback(name) or name.strip("[]") == self._bound or _is_reached(name, scope)
        return text if own or self._is_allowed(text) else None

    def admits(self, origin: str, authority: str) -> bool:
        """True if a page of `origin` may send requests to `authority`: the server's own pages, and pages of the names in the settings."""
        scheme, _, place = origin.lower().partition("://")
        return scheme in ("http", "https") and (place == authority or self._is_allowed(place))

    def base(self, scope: Scope) -> tuple[str, str]:
        """Return scheme and authority for addresses in the response to a request that `HostGate` accepted.

        For a page they are those of its `Origin`; for other clients those of the public URL in the settings, or of the header `Host`.
        """
        for origin in _values(scope, b"origin"):
            scheme, _, authority = origin.lower().partition("://")
            return scheme, authority
        if self._public is not None:
            return self._public.scheme, self._public.netloc
        return str(scope["scheme"]).replace("ws", "http"), self.authority(scope) or ""

    def socket_addresses(self, scope: Scope) -> list[str]:
        """Return the addresses at which the requested page may open its streams; empty for a request to another host."""
        authority = self.authority(scope)
        own = {authority, self._public.netloc if self._public else authority}
        return sorted(f"{scheme}://{name}" for scheme in ("ws", "wss") for name in own) if authority else []

    def _is_allowed(self, authority: str) -> bool:
        match = _AUTHORITY.match(authority)
        return match is not None and not self._allowed.isdisjoint((authority, match["name"]))


class HostGate:
    """Refuses requests to other names (400, a status whose message every client shows) and from foreign pages (403)."""

    def __init__(self, app: ASGIApp, *, hosts: Hosts) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or answer; upgrades to a websocket likewise."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        authority = self._hosts.authority(scope)
        if authority is None:
            await self._refuse(400, "host", scope, receive, send)
            return
        if all(self._hosts.admits(origin, authority) for origin in _values(scope, b"origin")):
            await self._app(scope, receive, send)
            return
        await self._refuse(403, "origin", scope, receive, send)

    async def _refuse(self, status: int, header: str, scope: Scope, receive: Receive, send: Send) -> None:
        shown = ", ".join(_values(scope, header.encode()))[:_SHOWN_LENGTH]
        log.warning("foreign_request", header=header, received=shown, client=address_of(scope))
        what = "is not a name of this server" if header == "host" else "is not allowed to call this server"
        hint = "add it to HEADRACE_ALLOWED_HOSTS to allow it"
        answer = refusal(status, f"the {header.title()} {shown!r} {what}; {hint}")
        await answer(scope, receive, send)


def address_of(scope: Scope) -> str | None:
    """Return the client's address, or that of a proxy."""
    client = scope.get("client")
    return str(client[0]) if client else None


def _values(scope: Scope, header: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name == header]


def _is_loopback(name: str) -> bool:
    address = _address(name)
    return name == "localhost" or (address is not None and address.is_loopback)


def _is_reached(name: str, scope: Scope) -> bool:
    """True if `name` is the address of our end of the connection: a server that is bound to all addresses has many."""
    server = scope.get("server")
    if server is None:
        return False
    reached = str(server[0]).lower()
    address = _address(name)
    return name == reached if address is None else address == _address(reached)


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(name.strip("[]").partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
