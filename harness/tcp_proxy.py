"""A TCP proxy that can drop all of its connections, as a network that fails."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

_BYTES = 1 << 16


class TcpProxy:
    """Forwards connections to `host` and `port` to another address, unless it is cut."""

    def __init__(self, host: str, port: int, behind: tuple[str, int]) -> None:
        self._behind = behind
        self._is_cut = False
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server((host, port))

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    @property
    def connections(self) -> int:
        """The number of open connections."""
        with self._lock:
            return len(self._open) // 2

    def cut(self) -> None:
        """Drop all connections, and each new one."""
        with self._lock:
            self._is_cut = True
            for each in self._open:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def restore(self) -> None:
        """Forward new connections again."""
        with self._lock:
            self._is_cut = False

    def _accept(self) -> None:
        while True:
            try:
                front, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._forward, args=(front,), daemon=True).start()

    def _forward(self, front: socket.socket) -> None:
        with front, suppress(OSError), socket.socket() as back:
            with self._lock:
                if self._is_cut:
                    return
                self._open |= {front, back}
            try:
                back.connect(self._behind)
                returning = threading.Thread(target=_copy, args=(back, front), daemon=True)
                returning.start()
                _copy(front, back)
                returning.join()
            finally:
                with self._lock:
                    self._open -= {front, back}


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(_BYTES):
            target.sendall(data)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
