"""Checks that a host is known and that a server listens there, for clients that do not distinguish the two errors."""

from __future__ import annotations

import socket

from headrace.core.errors import ExternalError
from headrace.core.sqlstate import SqlState

_HINT = "Check the name in 'uris', and that it can be resolved from where Headrace runs."


def resolve(host: str, port: int | None = None) -> list[str]:
    """Return the addresses of a host, in the order in which to try them. Raises ExternalError 57015 when it is not known."""
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise _unknown(host, _HINT) from None
    return list(dict.fromkeys(str(info[4][0]) for info in answers))


def check_listening(host: str, port: int, *, timeout_s: float, hint: str = _HINT) -> None:
    """Check that something listens there; `hint` is for an unknown host. Raises ExternalError 57015 for that, else OSError."""
    try:
        socket.create_connection((host, port), timeout_s).close()
    except (socket.gaierror, UnicodeError):
        raise _unknown(host, hint) from None


def _unknown(host: str, hint: str) -> ExternalError:
    return ExternalError(SqlState.REMOTE_UNAVAILABLE, f"DNS: the host {host!r} is not known", hint=hint)
