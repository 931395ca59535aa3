"""A client of REST v2 and the data plane, for the command line, the tests and programs that want one.

Role: text in, an `Answer` out: a bounded result with all its rows, or a live one to iterate. It keeps the session's context
between statements, as the public clients do.
Entry point: `Client`. Errors: `errors`.
May import: core, httpx, websockets; nothing of the server's inside.
To follow a change of the protocol: `wire` alone knows its JSON.
"""

from __future__ import annotations

from headrace.client.client import Answer, Client, LiveRow
from headrace.client.errors import (
    AuthenticationFailedError,
    ClientError,
    ConnectionFailedError,
    RequestRefusedError,
    ServerUnreachableError,
    SqlError,
)
from headrace.client.wire import AnswerColumn, DeviceCode

__all__ = [
    "Answer",
    "AnswerColumn",
    "AuthenticationFailedError",
    "Client",
    "ClientError",
    "ConnectionFailedError",
    "DeviceCode",
    "LiveRow",
    "RequestRefusedError",
    "ServerUnreachableError",
    "SqlError",
]
