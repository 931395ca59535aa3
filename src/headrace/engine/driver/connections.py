"""Connections of a driver to its server: a Unix socket on one machine, TLS from another one."""

from __future__ import annotations

import select
import socket
import ssl
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from headrace.engine.protocol import CERTIFICATE_FILE, SERVER_NAME, TOKEN_FILE, Authenticate, encode_frame
from headrace.engine.tcp import keep_alive

_CONNECT_TIMEOUT_S = 10.0
RETRIES_S = 60.0
"""The name of the server may not resolve, and its network policy may not be known on this node, in the first seconds of a pod."""
_CHUNK_BYTES = 1 << 20


class Stream(Protocol):
    """A connection: one thread reads while others write."""

    def sendall(self, data: bytes, /) -> None:
        """Write all bytes. Raises OSError."""
        ...

    def recv(self, length: int, /) -> bytes:
        """Return at most `length` bytes, none at the end. Raises OSError."""
        ...

    def settimeout(self, seconds: float | None, /) -> None:
        """Let reads and writes raise TimeoutError after so many seconds; None: never."""
        ...

    def close(self) -> None:
        """End the connection."""
        ...


def connect_locally(path: Path, token: str | None = None) -> Stream:
    """Return a connection to the server's Unix socket, authenticated with a token if there is one. Raises OSError."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(str(path))
        if token is not None:
            connection.sendall(encode_frame(Authenticate(token=token)))
    except OSError:
        connection.close()
        raise
    return connection


def connect_securely(address: str, credentials: Path, *, retries_s: float = RETRIES_S) -> TlsStream:
    """Return an authenticated connection to `host:port`. The folder contains the token, and the only certificate that is trusted.

    Raises OSError, ssl.SSLError included, if nothing has listened there for `retries_s`.
    """
    host, _, port = address.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(credentials / CERTIFICATE_FILE)
    token = (credentials / TOKEN_FILE).read_text(encoding="ascii").strip()
    deadline = time.monotonic() + retries_s
    while True:
        try:
            connection = socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_TIMEOUT_S)
            break
        except OSError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(1)
    try:
        keep_alive(connection)
        stream = TlsStream(connection, context)
        connection.settimeout(None)
        stream.sendall(encode_frame(Authenticate(token=token)))
    except OSError:
        connection.close()
        raise
    return stream


class TlsStream:
    """A connection with TLS that one thread reads while others write, which `ssl.SSLSocket` does not allow: OpenSSL's connections are not
    thread-safe. Here a lock guards them, which the reader does not hold while it waits for bytes."""

    def __init__(self, connection: socket.socket, context: ssl.SSLContext) -> None:
        self._socket = connection
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=SERVER_NAME)
        self._lock = threading.Lock()
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._flush()
                self._receive()
        self._flush()

    def sendall(self, data: bytes) -> None:
        """Encrypt and write all bytes. Raises OSError."""
        with self._lock:
            view = memoryview(data)
            while view:
                view = view[self._tls.write(view[:_CHUNK_BYTES]) :]
                # In the lock: the records of two threads must leave in the order of their encryption.
                self._flush()

    def recv(self, length: int) -> bytes:
        """Return at most `length` decrypted bytes, none at the end. Raises OSError."""
        while True:
            with self._lock:
                try:
                    return self._tls.read(length)
                except ssl.SSLWantReadError:
                    # Such as the answer to a new key.
                    self._flush()
                except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                    return b""
            self._receive()

    def settimeout(self, seconds: float | None) -> None:
        """Let reads and writes raise TimeoutError after so many seconds; None: never."""
        self._socket.settimeout(seconds)

    def close(self) -> None:
        """End the connection; a thread that reads returns."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def wait_end(self) -> None:
        """Return when the server has closed the connection, or the kernel has; bytes that arrived before remain to be read."""
        if sys.platform == "linux":
            poller = select.poll()
            poller.register(self._socket, select.POLLRDHUP)
            poller.poll()
        else:
            threading.Event().wait()

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._socket.sendall(self._outgoing.read())

    def _receive(self) -> None:
        data = self._socket.recv(_CHUNK_BYTES)
        with self._lock:
            if data:
                self._incoming.write(data)
            else:
                self._incoming.write_eof()
