"""TCP between server and drivers: both sides notice within half a minute that the other machine is gone."""

from __future__ import annotations

import socket

_OPTIONS = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 25_000}
"""Seconds of silence before the first probe, between two, unanswered probes; milliseconds that sent bytes may wait for their receipt.

Linux counts the last of them against a peer that lives but reads nothing, too, once its buffers are full: on both sides one thread always
reads, and waits for nothing else.
"""


def keep_alive(connection: socket.socket) -> None:
    """Let the kernel end a connection whose peer does not answer."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _OPTIONS.items():
        # macOS lacks some of them.
        if (option := getattr(socket, name, None)) is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
