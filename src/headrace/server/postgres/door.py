"""The listener of this door: connections from their start to their end, and requests to cancel statements."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import secrets
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

import structlog

from headrace.core.context import SessionContext
from headrace.core.errors import UserError
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.server.connections import BACKLOG, HEADER_TIMEOUT_S, Connections
from headrace.server.metrics import Metrics
from headrace.server.ports import BoundedRunner, ServerParts
from headrace.server.postgres import messages
from headrace.server.postgres.authentication import SignedIn, signed_in, signed_in_by_proof
from headrace.server.postgres.connection import Connection, as_response
from headrace.server.postgres.dispatch import Dispatch
from headrace.server.postgres.errors import FatalError, PostgresError, protocol_violation
from headrace.server.postgres.messages import Fields
from headrace.server.postgres.own_words import State
from headrace.server.postgres.variables import Variables, startup_options
from headrace.server.postgres.wire import Wire

log = structlog.get_logger()

STARTUP_BYTES_MAX = 10_000
NEGOTIATIONS_MAX = 3
"""Requests for encryption before the startup message."""

_CONNECTION_PARAMETERS = frozenset({"user", "database", "options", "replication"})


def check_listener(settings: Settings) -> None:
    """Raise UserError 3D008 if the settings would send passwords over a network without TLS."""
    if settings.postgres_port is not None and settings.tls_cert is None and not is_loopback(settings.host):
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"HEADRACE_POSTGRES_PORT on the address {settings.host} requires TLS: clients send passwords",
            hint="Set HEADRACE_TLS_CERT and HEADRACE_TLS_KEY, or bind a loopback address.",
        )


def is_loopback(address: str | None) -> bool:
    """True for `localhost` and the addresses of this machine's loopback."""
    if address == "localhost":
        return True
    with suppress(ValueError):
        parsed = ipaddress.ip_address(address or "")
        mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
        return (mapped or parsed).is_loopback
    return False


class PostgresDoor:
    """Serves PostgreSQL's protocol."""

    def __init__(self, parts: ServerParts, runner: BoundedRunner, metrics: Metrics) -> None:
        self._parts = parts
        self._runner = runner
        self._metrics = metrics
        self._tasks: set[asyncio.Task[None]] = set()
        self._keys: dict[tuple[int, int], Connection] = {}
        self._tls: ssl.SSLContext | None = None

    @asynccontextmanager
    async def listening(
        self, listener: socket.socket, tls: ssl.SSLContext | None, connections: Connections
    ) -> AsyncIterator[None]:
        """Accept connections while the context is open; at its end, close those that are open."""
        self._tls = tls
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: Wire(connections, self._opened), sock=listener, backlog=BACKLOG
        )
        try:
            yield
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def announce(self, address: str) -> None:
        """Print the address, as the server prints that of its broker."""
        print(f"headrace: PostgreSQL clients at {address}", file=sys.stderr, flush=True)  # noqa: T201

    def _opened(self, wire: Wire) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(wire))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, wire: Wire) -> None:
        try:
            async with asyncio.timeout(HEADER_TIMEOUT_S):
                started = await self._started(wire)
            if started is not None:
                await self._serve_started(wire, started)
        except (ConnectionError, TimeoutError, ssl.SSLError):
            return
        except asyncio.CancelledError:
            wire.write(messages.error_response(PostgresError("57P01", "the connection was ended"), "FATAL"))
        except Exception as error:  # noqa: BLE001 - reported to the client, and logged if it is a defect
            wire.write(messages.error_response(as_response(error), "FATAL"))
        finally:
            wire.close()

    async def _serve_started(self, wire: Wire, dispatch: Dispatch) -> None:
        key = secrets.randbits(31), secrets.randbits(32)
        connection = Connection(wire, dispatch, self._parts.settings)
        self._keys[key] = connection
        wire.write(messages.AUTHENTICATED + messages.backend_key(*key))
        try:
            await connection.serve()
        finally:
            del self._keys[key]
            await asyncio.shield(connection.close())

    async def _started(self, wire: Wire) -> Dispatch | None:
        """Return the state of a client that has signed in, None for a request to cancel. Raises FatalError."""
        is_encrypted = False
        for _ in range(NEGOTIATIONS_MAX):
            size = int.from_bytes(await wire.read(4), signed=True)
            if not 8 <= size <= STARTUP_BYTES_MAX:
                # Not PostgreSQL's protocol: nothing to answer in.
                raise ConnectionAbortedError
            fields = Fields(await wire.read(size - 4))
            code = fields.int32()
            if code == messages.CANCEL_REQUEST:
                self._cancel(fields.bytes(4), fields.bytes(4))
                return None
            if code == messages.SSL_REQUEST and self._tls is not None and not is_encrypted:
                wire.write(b"S")
                await wire.flush()
                await wire.start_tls(self._tls)
                is_encrypted = True
            elif code in (messages.SSL_REQUEST, messages.GSS_REQUEST):
                wire.write(b"N")
                await wire.flush()
            else:
                if not (is_encrypted or is_loopback(wire.address)):
                    raise FatalError(
                        "28000", "this server requires TLS", hint="Connect with sslmode=require."
                    )
                return await self._signed_in(wire, code, fields)
        raise protocol_violation("expected the startup message")

    async def _signed_in(self, wire: Wire, version: int, fields: Fields) -> Dispatch:
        if version >> 16 != messages.PROTOCOL_VERSION >> 16:
            raise FatalError(
                "0A000", f"expected version 3 of the protocol, found {version >> 16}.{version & 0xFFFF}"
            )
        parameters: dict[str, str] = {}
        while name := fields.text():
            parameters[name] = fields.text()
        fields.end()
        options = [name for name in parameters if name.startswith("_pq_.")]
        if version > messages.PROTOCOL_VERSION or options:
            wire.write(messages.older_protocol(options))
        if parameters.get("replication", "false") not in ("false", "off", "no", "0"):
            raise FatalError("0A000", "replication is not supported")
        user_name = parameters.get("user", "")
        if not user_name:
            raise FatalError("28000", "expected the name of a user, found none")
        accounts = self._parts.accounts if self._parts.settings.postgres_scram else None
        try:
            if accounts is not None:
                user = await signed_in_by_proof(self._parts, accounts, user_name, wire)
            else:
                wire.write(messages.CLEARTEXT_PASSWORD)
                await wire.flush()
                user = await signed_in(self._parts, user_name, await _password(wire), wire.address)
        except FatalError:
            self._metrics.refused()
            log.warning("authentication_failed", client=wire.address, path="postgres")
            raise
        principal = user.principal()
        # The connection belongs to its user from now on (`server.connections`).
        wire.scope["state"]["principal"] = principal
        return await self._dispatch(user, parameters)

    async def _dispatch(self, user: SignedIn, parameters: Mapping[str, str]) -> Dispatch:
        """Return the state of a connection with the names and settings that its client chose. Raises FatalError."""
        database = parameters.get("database") or user.user
        asked = {
            name.lower(): value for name, value in parameters.items() if name not in _CONNECTION_PARAMETERS
        }
        state = State(SessionContext("", database=database), Variables(user.user))
        settled = self._runner.settled(state.context, user.principal())
        if settled.database is None and database != user.user:
            raise FatalError(
                "3D000",
                f"the database {database[:100]!r} does not exist",
                hint="Choose another, or leave it out to connect without one.",
            )
        state.context = SessionContext("", database=settled.database)
        dispatch = Dispatch(self._runner, self._parts.turns, self._metrics, user, state)
        try:
            asked |= startup_options(parameters.get("options", ""))
            role = asked.pop("role", None)
            for name, value in asked.items():
                if not name.startswith("_pq_."):
                    state.variables.set(name, value)
            state.variables.begin()
            state.follow()
            if role is not None:
                await dispatch.use_role(role)
        except PostgresError as error:
            raise FatalError(error.state, error.message, hint=error.hint) from None
        return dispatch

    def _cancel(self, process: bytes, secret: bytes) -> None:
        for (number, key), connection in self._keys.items():
            if number == int.from_bytes(process) and hmac.compare_digest(key.to_bytes(4), secret):
                connection.cancel()


async def _password(wire: Wire) -> str:
    fields = Fields(await wire.secret_message("a password"))
    password = fields.text()
    fields.end()
    return password
