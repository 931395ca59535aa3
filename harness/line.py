"""A connection to a server that tests can cut and repair: its clients see a server that is away, at the same address."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

from headrace.runtime.ports import free_port


class Line:
    """Proxy of a new port to `behind`, a port of loopback; a context manager."""

    def __init__(self, behind: int) -> None:
        self._behind = behind
        self._open: list[socket.socket] = []
        self._listener: socket.socket | None = None
        self.port = free_port()

    def mend(self) -> None:
        """Listen, each time at the same port."""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def cut(self) -> None:
        """Ends every connection, and takes no other."""
        assert self._listener is not None
        ended, self._open = [self._listener, *self._open], []
        for one in ended:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def __enter__(self) -> Self:
        self.mend()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                self._open.append(client)
                server = socket.create_connection(("127.0.0.1", self._behind))
                self._open.append(server)
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=_pass_on, args=ends, daemon=True).start()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
