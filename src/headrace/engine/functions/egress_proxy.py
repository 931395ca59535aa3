"""Connections of users' functions to the hosts that they declare (ADR 78).

A confined worker cannot open a connection by itself. Its launcher connects to this proxy before it is confined, and sends the
destinations that the function declares. The proxy compares each connection with the destinations and with the operator's addresses.
A worker in Python requests connections, a packet each, and is passed the connected socket. A worker in Java requests addresses of names;
its sockets are connected by `SupervisedConnects`. A request is hostile, its contents and its attachments.
"""

from __future__ import annotations

import json
import shutil
import socket
import struct
import tempfile
import threading
from contextlib import suppress
from fnmatch import fnmatchcase
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import structlog

from headrace.connectors.egress import Egress
from headrace.core.errors import ExternalError, UserError
from headrace.engine.functions.supervised_connects import SupervisedConnects

log = structlog.get_logger()

_PACKET_BYTES_MAX = 64 * 1024
_CONNECT_S = 10.0
_NAMES_MAX = 1000
"""Of a worker: addresses of names, and names of one address."""


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
            threading.Thread(target=serve, args=(worker, self._egress), daemon=True).start()


def serve(worker: socket.socket, egress: Egress) -> None:
    """Serve the connections of a worker, from the packet that describes it to its end. Blocks."""
    with worker, suppress(OSError):
        launch: dict[str, Any] = json.loads(worker.recv(_PACKET_BYTES_MAX))
        destinations = _Destinations(egress, launch["destinations"])
        if launch["supervised"]:
            _supervise(worker, destinations)
        while request := worker.recv(_PACKET_BYTES_MAX):
            try:
                _answer(worker, json.loads(request), destinations)
            except (OSError, ValueError, TypeError, KeyError, AttributeError, ExternalError) as error:
                worker.send(json.dumps({"error": str(error)[:1000]}).encode())


class _Destinations:
    """Places to which the functions of a worker may connect: their hosts, and the addresses that these had when they were looked up."""

    def __init__(self, egress: Egress, declared: list[str]) -> None:
        self._egress = egress
        self._declared = declared
        self._names: dict[str, set[str]] = {}
        self._lock = threading.Lock()

    def addresses(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host to connect to. Raises PermissionError if it is not declared, or an address is not allowed."""
        if not self._is_declared(host, port):
            raise PermissionError(f"{host}:{port} is not in 'egress.allow.uris' of the function")
        return self._allowed(host, port)

    def look_up(self, name: str) -> list[str]:
        """Return the addresses of a host of which some port is declared, and keep them for `permits`. Raises as `addresses` does."""
        if not any(_includes(destination, name) for destination in self._declared):
            raise PermissionError(f"{name} is not in 'egress.allow.uris' of the function")
        addresses = [str(ip_address(address)) for address in self._allowed(name, 0)]
        with self._lock:
            for address in addresses:
                names = self._names.pop(address, set())
                self._names[address] = {*names, name} if len(names) < _NAMES_MAX else {name}
            while len(self._names) > _NAMES_MAX:
                del self._names[next(iter(self._names))]
        return addresses

    def permits(self, address: str, port: int) -> bool:
        """Return True for an address that is declared itself, or that a declared host had when it was looked up."""
        with self._lock:
            names = tuple(self._names.get(address, ()))
        if any(self._is_declared(name, port) for name in names):
            return True
        try:
            return bool(self.addresses(address, port))
        except (PermissionError, ExternalError):
            log.info("function_egress_refused", host=address, port=port)
            return False

    def _is_declared(self, host: str, port: int) -> bool:
        return any(permits(destination, host, port) for destination in self._declared)

    def _allowed(self, host: str, port: int) -> list[str]:
        try:
            return self._egress.addresses(host, port)
        except UserError:
            log.info("function_egress_refused", host=host, port=port)
            raise PermissionError(
                f"functions of this server do not connect to {host!r}: its operator allows addresses with HEADRACE_FUNCTIONS_EGRESS"
            ) from None


def _supervise(worker: socket.socket, destinations: _Destinations) -> None:
    """Serve the connects of a worker, whose launcher sends the listener before it runs anything of the user."""
    _, descriptors, _, _ = socket.recv_fds(worker, _PACKET_BYTES_MAX, 1)
    if not descriptors:
        raise ConnectionAbortedError("the launcher has ended before it was confined")
    process, _, _ = struct.unpack("3i", worker.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    connects = SupervisedConnects(descriptors[0], process, destinations.permits)
    threading.Thread(target=connects.serve, daemon=True).start()


def _answer(worker: socket.socket, fields: dict[str, Any], destinations: _Destinations) -> None:
    """Answer a request: the addresses of a name, a connected socket, or, for an empty request, a socket that stands for one until then."""
    if "name" in fields:
        addresses = destinations.look_up(_plain(fields["name"]))
        worker.send(json.dumps({"addresses": addresses}).encode())
        return
    if fields:
        host, port = _plain(fields["host"]), int(fields["port"])
        opened = _connected(destinations.addresses(host, port), host, port)
    else:
        opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    with opened:
        socket.send_fds(worker, [b"{}"], [opened.fileno()])


def _plain(host: object) -> str:
    return str(host).lower().rstrip(".")


def _connected(addresses: list[str], host: str, port: int) -> socket.socket:
    failure = OSError(f"{host} has no address")
    for address in addresses:
        try:
            return socket.create_connection((address, port), _CONNECT_S)
        except OSError as error:
            failure = error
    raise failure


def permits(destination: str, host: str, port: int) -> bool:
    """True if a destination of `egress.allow.uris`, such as `*.example.com:443`, includes a port of a host; without a port, any."""
    return _includes(destination, host) and urlsplit(f"//{destination}").port in (None, port)


def _includes(destination: str, host: str) -> bool:
    return fnmatchcase(host, urlsplit(f"//{destination}").hostname or "")
