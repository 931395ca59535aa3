"""The port at which drivers that run on other machines connect: TLS, and a token for each driver that is valid once for each server.

A driver gets the certificate of the port together with its token, and trusts no other one.
"""

from __future__ import annotations

import asyncio
import datetime
import socket
import ssl
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Self

import structlog
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import BaseModel, ConfigDict, Field

from headrace.core.errors import ExternalError
from headrace.core.sqlstate import SqlState
from headrace.engine.handshake import HANDSHAKE_TIMEOUT_S, Handshake, read_token
from headrace.engine.launch import Streams
from headrace.engine.protocol import SERVER_NAME
from headrace.engine.tcp import keep_alive

log = structlog.get_logger()

STRANGERS_MAX = 64
"""Connections that have not authenticated yet; further ones are closed."""
_SHUTDOWN_TIMEOUT_S = 5.0
_VALID = datetime.timedelta(days=3650)
_CLOCK_SKEW = datetime.timedelta(days=1)


class PortIdentity(BaseModel):
    """The key of the port and its certificate, as PEM."""

    model_config = ConfigDict(frozen=True)

    key: str = Field(repr=False)
    certificate: str

    @classmethod
    def create(cls) -> Self:
        """Return a new key and its certificate."""
        key = ec.generate_private_key(ec.SECP256R1())
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return cls(key=private.decode(), certificate=_certificate(key))

    def context(self) -> ssl.SSLContext:
        """Return what a listener needs."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        # The ssl module reads keys from files only. The folder is this user's alone, and is removed.
        with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
            file = Path(folder, "certificate.pem")
            file.touch(mode=0o600)
            file.write_text(self.key + self.certificate)
            context.load_cert_chain(file)
        return context


class DriverPort:
    """A listener with an identity, from `open` to `close`. Used from one event loop."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self.identity: PortIdentity
        self._listener: socket.socket | None = None
        self._context: ssl.SSLContext
        self._expected: set[Handshake] = set()
        self._strangers: dict[asyncio.Task[None], socket.socket] = {}

    @property
    def port(self) -> int:
        """The port that was opened."""
        assert self._listener is not None  # noqa: S101 - after `open`
        port: int = self._listener.getsockname()[1]
        return port

    def open(self, identity: PortIdentity) -> None:
        """Listen. Raises ExternalError 57015 if the port cannot be opened."""
        self.identity = identity
        self._context = identity.context()
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
        asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    async def close(self) -> None:
        """Close the port, and the connections that have not authenticated."""
        listener, self._listener = self._listener, None
        if listener is not None:
            asyncio.get_running_loop().remove_reader(listener)
            listener.close()
        strangers = dict(self._strangers)
        for task in strangers:
            task.cancel()
        await asyncio.gather(*strangers, return_exceptions=True)
        for task, peer in strangers.items():
            # A task that is cancelled before its first step runs none of its own code.
            if task.cancelled():
                peer.close()

    def expect(self, driver: Handshake) -> None:
        """Admit a driver by its token from now on."""
        self._expected.add(driver)

    def forget(self, driver: Handshake) -> None:
        """Let the token of a driver be valid no more."""
        self._expected.discard(driver)

    def _accept(self, listener: socket.socket) -> None:
        """Accept whoever waits. Not by `sock_accept`, which drops an accepted connection if its task is cancelled meanwhile."""
        try:
            peer, address = listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            # Out of file descriptors, or a peer that left the queue. The loop calls again as long as somebody waits.
            log.warning("driver_not_accepted", reason=str(error))
            loop = asyncio.get_running_loop()
            loop.remove_reader(listener)
            loop.call_later(1, self._accept_again, listener)
            return
        if len(self._strangers) >= STRANGERS_MAX:
            peer.close()
            return
        task = asyncio.create_task(self._admit(peer, address[0]), name="driver connects")
        self._strangers[task] = peer
        task.add_done_callback(self._strangers.pop)

    def _accept_again(self, listener: socket.socket) -> None:
        if self._listener is listener:
            asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    async def _admit(self, peer: socket.socket, host: str) -> None:
        """Give a connection to whom its token belongs, or close it."""
        writer = None
        try:
            peer.setblocking(False)
            keep_alive(peer)
            reader, writer = await self._secured(peer)
            async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
                await self._expecting(await read_token(reader)).admit(reader, writer)
            return
        except (OSError, EOFError, ValueError, TimeoutError) as error:
            reason = str(error) or type(error).__name__
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

    def _expecting(self, token: str) -> Handshake:
        """Return who expects a token. Raises ValueError if nobody does."""
        # All of them are compared, so that the time depends on none.
        matching = [each for each in self._expected if each.knows(token)]
        if not matching:
            raise ValueError("its token is not one of a driver that is to connect")
        return matching[0]


def _close(peer: socket.socket, writer: asyncio.StreamWriter | None) -> None:
    if writer is not None:
        # At once: a peer that reads nothing would keep an orderly end waiting.
        writer.transport.abort()
    else:
        with suppress(OSError):
            peer.close()


def _certificate(key: ec.EllipticCurvePrivateKey) -> str:
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
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
