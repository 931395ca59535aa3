"""Free ports for servers that cannot be started at port 0, or that keep their port when they are started again.

The system gives outgoing connections ports of its own range (`ip_local_port_range`, 32768 to 60999). A probe at port 0 returns one of
those, and until the server binds it, half a minute later on a busy machine, a connection or another server may have taken it. These
ports are below that range.
"""

from __future__ import annotations

import random
import socket
from contextlib import suppress

_LOWEST, _HIGHEST = 15_000, 32_000
_CHOICE = random.SystemRandom()  # not the seeded generator: each worker of a run would try the same ports


def free_port() -> int:
    """Return a port on which nobody listens at the loopback address."""
    while True:
        port = _CHOICE.randint(_LOWEST, _HIGHEST)
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
