"""A connection's bytes: reading with a bound, writing that waits for a slow client, and the start of TLS."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.utils import get_remote_addr

from headrace.server.connections import HEADER_TIMEOUT_S, Connections
from headrace.server.postgres.errors import protocol_violation

BUFFERED_MAX = 256 * 1024
"""Bytes that are read ahead of what is processed, besides the message that is awaited."""

WRITTEN_AT_ONCE = 64 * 1024

SECRET_BYTES_MAX = 8192
"""Bytes of a message of a sign-in, with its length: a client that has not signed in yet may fill no memory."""


class Wire(asyncio.Protocol):
    """Bytes of one connection. `opened` is called with it once it is open, `lost` once it is closed.

    It has the attributes that `server.connections` needs: `client`, `scope` and `transport`.
    """

    def __init__(self, connections: Connections, opened: Callable[[Wire], None]) -> None:
        self._connections = connections
        self._opened = opened
        self._buffer = bytearray()
        self._out = bytearray()
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._is_paused = False
        self.is_lost = False
        self.lost: Callable[[], None] = lambda: None
        self.client: tuple[str, int] | None = None
        self.scope: dict[str, Any] = {"state": {}}
        self.transport: Any = None

    # --- asyncio's side

    def connection_made(self, transport: Any) -> None:
        """Count the connection, and start to serve it."""
        self.transport, self.client = transport, get_remote_addr(transport)
        self._connections.opened(self)
        self._opened(self)

    def connection_lost(self, _exc: Exception | None) -> None:
        """Wake whoever waits for this connection."""
        self._connections.closed(self)
        self.is_lost = True
        self._readable.set()
        self._writable.set()
        self.lost()

    def data_received(self, data: bytes) -> None:
        """Keep the bytes; no more are read while too many are here."""
        self._buffer += data
        self._readable.set()
        if len(self._buffer) > BUFFERED_MAX and not self._is_paused:
            self._is_paused = True
            self.transport.pause_reading()

    def pause_writing(self) -> None:
        """Hold the writer: the client does not read."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let the writer continue."""
        self._writable.set()

    # --- the server's side

    @property
    def address(self) -> str | None:
        """The client's address."""
        return self.client[0] if self.client else None

    async def read(self, size: int) -> bytes:
        """Return the next `size` bytes. Raises ConnectionError if the client has closed the connection."""
        while len(self._buffer) < size:
            if self.is_lost or self.transport.is_closing():
                raise ConnectionResetError
            if self._is_paused:
                self._is_paused = False
                self.transport.resume_reading()
            self._readable.clear()
            await self._readable.wait()
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    async def secret_message(self, expected: str) -> bytes:
        """Return the content of the next message of a sign-in, a password or a part of SCRAM. Raises FatalError 08P01 for any other."""
        head = await self.read(5)
        size = int.from_bytes(head[1:], signed=True)
        if head[:1] != b"p" or not 5 <= size <= SECRET_BYTES_MAX:
            raise protocol_violation(f"expected {expected}")
        return await self.read(size - 4)

    def write(self, data: bytes) -> None:
        """Add to what `flush` sends."""
        self._out += data

    async def flush(self) -> None:
        """Send what was written, and wait while the client does not read. Raises ConnectionError if the connection is closed."""
        if self.is_lost:
            raise ConnectionResetError
        if self._out:
            self.transport.write(bytes(self._out))
            self._out.clear()
        if not self._writable.is_set():
            await self._writable.wait()
            if self.is_lost:
                raise ConnectionResetError

    async def write_rows(self, data: bytes) -> None:
        """Write, and flush if it has become much."""
        self._out += data
        if len(self._out) >= WRITTEN_AT_ONCE:
            await self.flush()

    async def start_tls(self, context: ssl.SSLContext) -> None:
        """Continue in TLS. Raises FatalError 08P01 if bytes came before it: they are nobody's (CVE-2021-23214)."""
        if self._buffer:
            raise protocol_violation("bytes came before the TLS handshake")
        self.transport = await asyncio.get_running_loop().start_tls(
            self.transport, self, context, server_side=True, ssl_handshake_timeout=HEADER_TIMEOUT_S
        )

    def close(self) -> None:
        """Send what was written, and close. A client that does not read is cut off."""
        if self._out and not self.is_lost:
            self.transport.write(bytes(self._out))
            self._out.clear()
        if self._writable.is_set():
            self.transport.close()
        else:
            self.transport.abort()
