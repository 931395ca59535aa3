"""Errors in PostgreSQL's terms: those of the protocol itself, and the product's errors as this door sends them."""

from __future__ import annotations

from headrace.core.errors import HeadraceError

STATE_LENGTH = 5
DUPLICATE_OBJECT = "42710"


class PostgresError(Exception):
    """An error response. `position` counts code points of the client's text from 1; None if there is no place."""

    def __init__(
        self, state: str, message: str, *, hint: str | None = None, position: int | None = None
    ) -> None:
        super().__init__(message)
        self.state = state
        self.message = message
        self.hint = hint
        self.position = position


class FatalError(PostgresError):
    """An error after which the connection is closed."""


def protocol_violation(message: str) -> FatalError:
    """Return the error of a message that cannot be read."""
    return FatalError("08P01", message)


def converted(error: HeadraceError) -> PostgresError:
    """Return the product's error; its position is in the text that was run."""
    state = error.state.value
    return PostgresError(
        # A SQLSTATE of six characters is always an object that exists already.
        state if len(state) == STATE_LENGTH else DUPLICATE_OBJECT,
        error.message,
        hint=error.hint,
        position=error.span.start + 1 if error.span else None,
    )
