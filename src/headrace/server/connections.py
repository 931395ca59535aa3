"""Limits of connections: the time in which a request must arrive, and the connections per address, per user, and unauthenticated in total.

A connection counts for its address until a request or a stream on it is authenticated, and then for its user (ADR 45). When the limit is
reached, a new connection replaces the oldest unauthenticated one. A client that presents a token at once is therefore always accepted,
even if many half-sent requests are open.
"""

from __future__ import annotations

import asyncio
from asyncio.sslproto import SSLProtocol
from collections import OrderedDict
from functools import partial
from ssl import SSLContext
from typing import Any

import h11
import structlog
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.utils import get_remote_addr
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

log = structlog.get_logger()

HEADER_TIMEOUT_S = 10.0
BODY_TIMEOUT_S = 120.0
"""From the first byte (of a new connection: from its start) to the end of the headers, and from there to the end of the body.

A TLS handshake has the time of headers.
"""
STRANGERS_MAX = 1024
PER_OWNER_MAX = 256
BACKLOG = 256
"""Connections that the kernel accepts ahead of us: the most that are opened before the oldest are closed."""

_Connection = Any
"""An instance of a protocol class below."""


class Connections:
    """The open connections of one server."""

    def __init__(self) -> None:
        self._owners: dict[_Connection, str] = {}
        self._owned: dict[str, OrderedDict[_Connection, None]] = {}
        self._strangers: OrderedDict[_Connection, None] = OrderedDict()

    def options(self, tls: SSLContext | None = None) -> dict[str, Any]:
        """Return the options of `uvicorn.Config` that enforce these limits, and serve https if `tls` is set."""
        http = partial(_Http, self) if tls is None else partial(_tls, self, tls)
        return {"http": http, "ws": partial(_WebSocket, self), "backlog": BACKLOG}

    def opened(self, connection: _Connection) -> None:
        """Add a connection, and close the oldest ones beyond the bounds."""
        owner = _owner(connection)
        self._assign(connection, owner)
        self._evict(self._owned[owner], PER_OWNER_MAX)
        self._evict(self._strangers, STRANGERS_MAX)

    def closed(self, connection: _Connection) -> None:
        """Forget a connection; unknown ones are ignored."""
        owner = self._owners.pop(connection, None)
        if owner is None:
            return
        self._strangers.pop(connection, None)
        owned = self._owned[owner]
        del owned[connection]
        if not owned:
            del self._owned[owner]

    def _assign(self, connection: _Connection, owner: str) -> None:
        self._owners[connection] = owner
        self._owned.setdefault(owner, OrderedDict())[connection] = None
        if owner.startswith("address "):
            self._strangers[connection] = None

    def _evict(self, candidates: OrderedDict[_Connection, None], most: int) -> None:
        while len(candidates) > most:
            oldest = next(iter(candidates))
            known, owner = self._owners[oldest], _owner(oldest)
            self.closed(oldest)
            if owner != known:
                # It has signed in since it was opened.
                self._assign(oldest, owner)
                continue
            log.warning("connection_evicted", owner=owner)
            oldest.transport.abort()


def _owner(connection: _Connection) -> str:
    state = (getattr(connection, "scope", None) or {}).get("state", {})
    principal = state.get("principal")
    if principal is not None:
        return f"user {principal.user}"
    return f"address {connection.client[0] if connection.client else ''}"


class _Tls(SSLProtocol):
    """TLS below HTTP. uvicorn's own would neither count a connection nor let us limit its time before the handshake is over."""

    def __init__(self, open_connections: Connections, context: SSLContext, http: _Http) -> None:
        super().__init__(
            http.loop,
            http,
            context,
            None,  # type: ignore[arg-type] # nobody waits for the handshake
            server_side=True,
            ssl_handshake_timeout=HEADER_TIMEOUT_S,  # type: ignore[arg-type] # asyncio takes a float
        )
        self._open = open_connections
        self.client: tuple[str, int] | None = None
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport, self.client = transport, get_remote_addr(transport)
        self._open.opened(self)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._open.closed(self)
        super().connection_lost(exc)


def _tls(open_connections: Connections, context: SSLContext, **named: Any) -> _Tls:
    http = _Http(open_connections, **named)
    http.handshake = _Tls(open_connections, context, http)
    return http.handshake


class _Http(H11Protocol):
    """HTTP with time limits for headers and bodies."""

    def __init__(self, open_connections: Connections, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._open = open_connections
        self._arriving: tuple[object, object] | None = None
        self._limit: asyncio.TimerHandle | None = None
        self.handshake: _Tls | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        # The handshake is over: this object replaces the handshake's protocol.
        self._open.closed(self.handshake)
        self._open.opened(self)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        self._open.closed(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._unwatch()
        self._open.closed(self)
        super().handle_websocket_upgrade(event)

    def _watch(self) -> None:
        """Start the time limit for the client's next request, unless it already runs."""
        state = self.conn.their_state
        # Another request on the same connection has another scope.
        arriving = (state, self.scope)
        if self._arriving is not None and self._arriving[0] is state and self._arriving[1] is self.scope:
            return
        self._unwatch()
        seconds = {h11.IDLE: HEADER_TIMEOUT_S, h11.SEND_BODY: BODY_TIMEOUT_S}.get(state)
        # The transport of a stream has another protocol by now, and only that one knows how the stream does.
        if seconds is not None and not self.transport.is_closing() and self.transport.get_protocol() is self:
            self._arriving = arriving
            self._limit = self.loop.call_later(seconds, self._too_slow)

    def _unwatch(self) -> None:
        self._arriving = None
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _too_slow(self) -> None:
        log.warning("request_too_slow", client=self.client[0] if self.client else None)
        self.transport.abort()


class _WebSocket(WebSocketsSansIOProtocol):
    """A stream, which belongs to its address until its ticket was redeemed."""

    def __init__(self, open_connections: Connections, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._open = open_connections

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._open.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.closed(self)
        super().connection_lost(exc)
