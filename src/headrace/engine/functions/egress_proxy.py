"""Connections of users' functions to the hosts that they declare (ADR 78).

A confined worker has no system call that opens a connection. Its launcher connects to this proxy before it is confined, and sends the
destinations that the function declares. The worker then requests connections, a packet each; the proxy compares them with the destinations
and with the operator's addresses, connects, and passes the connected socket. A request is hostile, its contents and its attachments.
"""

from __future__ import annotations

import json
import shutil
import socket
import tempfile
import threading
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import urlsplit

import structlog

from headrace.connectors.egress import Egress
from headrace.core.errors import ExternalError, UserError

log = structlog.get_logger()

_PACKET_BYTES_MAX = 64 * 1024
_CONNECT_S = 10.0


class EgressProxy:
    """Listener on a Unix socket, which starts with the first function that requires it. `allowed` are the operator's addresses."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        self._egress = Egress(allowed)
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._listener: socket.socket | None = None

    def address(self) -> str:
        """Return the path of the socket, which only processes of this user can open."""
        with self._lock:
            if self._folder is None:
                # Not in the data directory, whose path may be longer than that of a socket can be.
                self._folder = Path(tempfile.mkdtemp(prefix="headrace-egress-"))
                self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                self._listener.bind(str(self._folder / "s"))
                self._listener.listen(64)
                threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()
            return str(self._folder / "s")

    def close(self) -> None:
        """Stop listening. Connections that were passed stay open."""
        with self._lock:
            if self._listener is not None and self._folder is not None:
                with suppress(OSError):
                    self._listener.shutdown(socket.SHUT_RDWR)
                self._listener.close()
                shutil.rmtree(self._folder, ignore_errors=True)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                worker, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(worker,), daemon=True).start()

    def _serve(self, worker: socket.socket) -> None:
        with worker, suppress(OSError):
            destinations: list[str] = json.loads(worker.recv(_PACKET_BYTES_MAX))
            while request := worker.recv(_PACKET_BYTES_MAX):
                try:
                    with self._opened(request, destinations) as opened:
                        socket.send_fds(worker, [b"{}"], [opened.fileno()])
                except (OSError, ValueError, TypeError, KeyError, ExternalError) as error:
                    worker.send(json.dumps({"error": str(error)[:1000]}).encode())

    def _opened(self, request: bytes, destinations: list[str]) -> socket.socket:
        """Return the connected socket of a request; for an empty request, one that stands for a connection until it is requested."""
        fields = json.loads(request)
        if not fields:
            return socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        host, port = str(fields["host"]).lower().rstrip("."), int(fields["port"])
        if not any(permits(destination, host, port) for destination in destinations):
            raise PermissionError(f"{host}:{port} is not in 'egress.allow.uris' of the function")
        try:
            addresses = self._egress.addresses(host, port)
        except UserError:
            log.info("function_egress_refused", host=host, port=port)
            raise PermissionError(
                f"functions of this server do not connect to {host!r}: its operator allows addresses with HEADRACE_FUNCTIONS_EGRESS"
            ) from None
        failure = OSError(f"{host} has no address")
        for address in addresses:
            try:
                return socket.create_connection((address, port), _CONNECT_S)
            except OSError as error:
                failure = error
        raise failure


def permits(destination: str, host: str, port: int) -> bool:
    """True if a destination of `egress.allow.uris`, such as `*.example.com:443`, includes a port of a host; without a port, any."""
    parts = urlsplit(f"//{destination}")
    return fnmatchcase(host, parts.hostname or "") and parts.port in (None, port)
