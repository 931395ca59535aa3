"""The errors of the product, one class per reaction of the caller.

    HeadraceError            anything a client may see: SQLSTATE, message, hint, place
    ├── UserError            the statement or the data is wrong; never retried
    ├── ExternalError        a system of the user does not answer or refuses; retried with back-off
    └── InternalError        our own fault; retried, logged with its trace

Texts say what was expected, what was found and what to do; values put into them are data, never secrets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from headrace.core.idioms import Remedy
from headrace.core.sqlstate import SqlState


class ErrorDomain(Enum):
    """Cause of an error; decides whether a query is restarted."""

    USER = "user"
    EXTERNAL = "external"
    INTERNAL = "internal"


class RetryHint(Enum):
    """Advice on whether a retry may help."""

    NEVER = "never"
    BACKOFF = "backoff"


@dataclass(frozen=True)
class Span:
    """A place in a statement's text: 0-based `start` and `end` offsets, 1-based `line` and `column` of the start."""

    start: int
    end: int
    line: int
    column: int


@dataclass(frozen=True)
class Diagnostic:
    """Parts of an error that a program shows or acts on. `expected` and `received` are set if the message contains both.

    One that is no `error` keeps nothing from being run. Each of `replacements` may stand in the place of what is at `span`.
    """

    sqlstate: str
    message: str
    hint: str | None = None
    span: Span | None = None
    expected: str | None = None
    received: str | None = None
    severity: str = "error"
    replacements: tuple[str, ...] = ()


_PARTS = re.compile(r"(?:.*: )?expected (?P<expected>.+?), found (?P<found>.+)", re.DOTALL)


class HeadraceError(Exception):
    """Base of all errors that leave the product; `str()` is the message alone."""

    domain = ErrorDomain.INTERNAL
    retry = RetryHint.NEVER

    def __init__(
        self,
        state: SqlState,
        message: str,
        *,
        hint: Remedy | str | None = None,
        span: Span | None = None,
    ) -> None:
        super().__init__(message)
        self.state = state
        self.message = message
        self.hint = str(hint) if hint else None
        self.replacements = hint.replacements if isinstance(hint, Remedy) else ()
        self.span = span

    def text(self) -> str:
        """Return the message as every door prints it: message, place, hint; several lines."""
        place = f" at line {self.span.line}, column {self.span.column}" if self.span else ""
        hint = f"\nHint: {self.hint}" if self.hint else ""
        return f"{self.message}{place}{hint}"

    def diagnostic(self) -> Diagnostic:
        """Return the message in parts. All messages with an expected and a received value are worded alike."""
        parts = _PARTS.fullmatch(self.message)
        expected, received = (parts["expected"], parts["found"]) if parts else (None, None)
        return Diagnostic(
            self.state.value,
            self.message,
            self.hint,
            self.span,
            expected,
            received,
            replacements=self.replacements,
        )


class UserError(HeadraceError):
    """The statement, its names or the user's records are wrong."""

    domain = ErrorDomain.USER


class ExternalError(HeadraceError):
    """A store (or another system that we do not own) is unreachable or refuses."""

    domain = ErrorDomain.EXTERNAL
    retry = RetryHint.BACKOFF


class InternalError(HeadraceError):
    """A fault of the product itself."""

    retry = RetryHint.BACKOFF

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(SqlState.INTERNAL_ERROR, message, hint=hint)
