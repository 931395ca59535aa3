"""Errors of the client that its caller may handle.

ClientError
├── SqlError                      the server refused or failed a statement
├── AuthenticationFailedError     the token is not valid
├── RequestRefusedError           the server refused the request itself, for example because the request is too large
└── ConnectionFailedError         a lost connection, or a response that is not Headrace's
    └── ServerUnreachableError    nothing answers at the address
"""

from __future__ import annotations

import re

_PLACE = re.compile(r" at line (\d+), column (\d+)\Z")


class ClientError(Exception):
    """Base of all."""


class AuthenticationFailedError(ClientError):
    """The server does not accept the token."""


class ConnectionFailedError(ClientError):
    """The server cannot be reached, or the connection broke."""


class ServerUnreachableError(ConnectionFailedError):
    """The server does not answer at its address."""


class RequestRefusedError(ClientError):
    """The server refused a request without reading its statements; asking again does not help."""


class SqlError(ClientError):
    """A statement's error; `line` and `column` are 1-based in the text that was sent, None when no place is known."""

    def __init__(
        self,
        sqlstate: str,
        message: str,
        *,
        hint: str | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.message = message
        self.hint = hint
        self.line = line
        self.column = column

    def __str__(self) -> str:
        return f"{self.sqlstate}: {self.message}"

    @classmethod
    def read(cls, sqlstate: str, text: str) -> SqlError:
        """Parse the text that `core.errors.HeadraceError.text` writes: message, position, hint."""
        message, _, hint = text.partition("\nHint: ")
        place = _PLACE.search(message)
        if place is None:
            return cls(sqlstate, message, hint=hint or None)
        return cls(
            sqlstate,
            message[: place.start()],
            hint=hint or None,
            line=int(place[1]),
            column=int(place[2]),
        )
