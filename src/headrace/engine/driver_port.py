"""The port at which drivers that run on other machines connect: TLS, and a token for each driver that is valid once.

The certificate is created when the port opens and lives as long as the server. A driver gets it together with its token, and trusts no
other one.
"""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import hmac
import secrets
import socket
import ssl
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import structlog
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import ValidationError

from headrace.core.errors import ExternalError
from headrace.core.sqlstate import SqlState
from headrace.engine.protocol import FRAME_HEADER, SERVER_NAME, Authenticate, decode_message
from headrace.engine.tcp import keep_alive

log = structlog.get_logger()

HANDSHAKE_TIMEOUT_S = 10.0
"""For TLS, and again for the token."""
STRANGERS_MAX = 64
"""Connections that have not authenticated yet; further ones are closed."""
AUTHENTICATION_BYTES_MAX = 1024
_SHUTDOWN_TIMEOUT_S = 5.0
_VALID = datetime.timedelta(days=3650)
_CLOCK_SKEW = datetime.timedelta(days=1)

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True)
class ExpectedDriver:
    """A driver that is to connect: its token, the certificate that it trusts, and its connection once it has one."""

    token: str
    certificate: str
    connected: asyncio.Future[Streams]


class DriverPort:
    """A listener, from `open` to `close`. Used from one event loop."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._context: ssl.SSLContext
        self._certificate = ""
        self._expected: dict[bytes, asyncio.Future[Streams]] = {}
        self._strangers: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        """The port that was opened."""
        assert self._listener is not None  # noqa: S101 - after `open`
        port: int = self._listener.getsockname()[1]
        return port

    def open(self) -> None:
        """Listen. Raises ExternalError 57015 if the port cannot be opened."""
        self._context, self._certificate = _create_certificate()
        host, port = self._address
        listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            listener.listen(STRANGERS_MAX)
        except OSError as error:
            listener.close()
            raise ExternalError(
                SqlState.REMOTE_UNAVAILABLE,
                f"cannot listen for drivers on {host} port {port}: {error.strerror}",
                hint="Choose another port with HEADRACE_DRIVER_PORT.",
            ) from None
        listener.setblocking(False)
        self._listener = listener
        self._accepting = asyncio.create_task(self._accept(listener), name="driver port")

    async def close(self) -> None:
        """Close the port, and the connections that have not authenticated."""
        tasks = [task for task in (self._accepting, *self._strangers) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()

    def expect(self) -> ExpectedDriver:
        """Return the token of a driver that is to connect."""
        token = secrets.token_urlsafe(32)
        connected: asyncio.Future[Streams] = asyncio.get_running_loop().create_future()
        self._expected[_digest(token)] = connected
        return ExpectedDriver(token, self._certificate, connected)

    def forget(self, driver: ExpectedDriver) -> None:
        """Let the token of a driver be valid no more."""
        self._expected.pop(_digest(driver.token), None)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                peer, address = await loop.sock_accept(listener)
            except OSError as error:
                # Out of file descriptors, or a peer that left the queue.
                log.warning("driver_not_accepted", reason=str(error))
                await asyncio.sleep(1)
                continue
            if len(self._strangers) >= STRANGERS_MAX:
                peer.close()
                continue
            task = asyncio.create_task(self._admit(peer, address[0]), name="driver connects")
            self._strangers.add(task)
            task.add_done_callback(self._strangers.discard)

    async def _admit(self, peer: socket.socket, host: str) -> None:
        """Give a connection to whom its token belongs, or close it."""
        writer = None
        try:
            peer.setblocking(False)
            keep_alive(peer)
            reader, writer = await self._secured(peer)
            async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
                token = await read_token(reader)
            connected = self._take(token)
            if connected is not None:
                connected.set_result((reader, writer))
                return
            reason = "its token is not one of a driver that is to connect"
        except (OSError, EOFError, ValueError, TimeoutError) as error:
            reason = type(error).__name__
        except asyncio.CancelledError:
            _close(peer, writer)
            raise
        log.warning("driver_refused", host=host, reason=reason)
        _close(peer, writer)

    async def _secured(self, peer: socket.socket) -> Streams:
        loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol,
            peer,
            ssl=self._context,
            ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S,
            ssl_shutdown_timeout=_SHUTDOWN_TIMEOUT_S,
        )
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    def _take(self, token: str) -> asyncio.Future[Streams] | None:
        """Return who expects a token, which is valid no more; None if nobody does."""
        digest = _digest(token)
        # All of them are compared, so that the time depends on no digest.
        matching = [each for each in self._expected if hmac.compare_digest(each, digest)]
        connected = self._expected.pop(matching[0]) if matching else None
        return None if connected is None or connected.done() else connected


async def read_token(reader: asyncio.StreamReader) -> str:
    """Return the token of the first frame. Raises ValueError if it is another message or too long, EOFError at the end."""
    body_length, payload_length = FRAME_HEADER.unpack(await reader.readexactly(FRAME_HEADER.size))
    if body_length > AUTHENTICATION_BYTES_MAX or payload_length:
        raise ValueError("the first frame is too long")
    try:
        message = decode_message(await reader.readexactly(body_length))
    except ValidationError:
        # Its text contains the input.
        raise ValueError("the first frame is no message") from None
    if not isinstance(message, Authenticate):
        raise ValueError("the first frame has no token")
    return message.token


def _close(peer: socket.socket, writer: asyncio.StreamWriter | None) -> None:
    if writer is not None:
        # At once: a peer that reads nothing would keep an orderly end waiting.
        writer.transport.abort()
    else:
        with suppress(OSError):
            peer.close()


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _create_certificate() -> tuple[ssl.SSLContext, str]:
    """Return a context with a new key and its certificate, and the certificate as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, SERVER_NAME)])
    present = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(present - _CLOCK_SKEW)
        .not_valid_after(present + _VALID)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(SERVER_NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # The ssl module reads keys from files only. The folder is this user's alone, and is removed.
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
        file = Path(folder, "certificate.pem")
        file.touch(mode=0o600)
        file.write_bytes(private + pem)
        context.load_cert_chain(file)
    return context, pem.decode()
