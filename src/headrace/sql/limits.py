"""Limits of a statement, so that every walk over it ends: 53000 with the number, at the position."""

from __future__ import annotations

from headrace.core.errors import Span, UserError
from headrace.core.sqlstate import SqlState
from headrace.core.types import NESTING_MAX

TOKENS_MAX = 500_000
COLUMNS_MAX = 2_000
"""Columns of a relation, and of a SELECT."""
LIST_MAX = 10_000
NUMBER_CHARACTERS_MAX = 400
CHAIN_MAX = 200
"""Most operators in a chain such as a + b + c. Each is a level of the query's tree. Chains of AND and of OR are not limited."""
DEPTH_MAX = CHAIN_MAX + 10
"""Levels of the tree: there is something around such a chain, and in it."""

DAY_MS = 86_400_000
DURATION_MAX_MS = 3_660 * DAY_MS
"""Longest window, and longest time that a join keeps rows: about ten years."""
INTERVAL_MAX_MS = 3_652_059 * DAY_MS
"""From the year 1 to the year 9999."""

_DIVIDE = "Divide it into several relations, or named subqueries (WITH name AS …)."


def too_nested(span: Span | None) -> UserError:
    """Return the error for too many levels of brackets, calls, CASEs and subqueries."""
    return _exceeded(f"expected {NESTING_MAX} levels of nesting at most, found more here", _DIVIDE, span)


def too_deep(span: Span | None) -> UserError:
    """Return the error for too long a chain of operators."""
    hint = "Put parts of a long chain in parentheses: (a + b) + (c + d). " + _DIVIDE
    return _exceeded(
        f"expected a chain of {CHAIN_MAX} operators at most, found a longer one here", hint, span
    )


def too_many_columns(span: Span | None) -> UserError:
    """Return the error for too many columns of a relation, or of a SELECT."""
    hint = "Put columns that belong together into an ARRAY, a MAP or a STRUCT."
    return _exceeded(f"expected {COLUMNS_MAX} columns at most, found more", hint, span)


def too_many_items(span: Span | None) -> UserError:
    """Return the error for too many values, arguments, fields or properties."""
    return _exceeded(f"expected a list of {LIST_MAX} items at most, found more", None, span)


def too_long_text(length: int, span: Span | None) -> UserError:
    """Return the error for too long a text of statements."""
    return _exceeded(
        f"expected a text of {TOKENS_MAX} words and symbols at most, found {length}",
        "Split the text into several requests.",
        span,
    )


def too_long_number(length: int, span: Span | None) -> UserError:
    """Return the error for too long a number."""
    return _exceeded(
        f"expected a number of {NUMBER_CHARACTERS_MAX} characters at most, found {length}", None, span
    )


def too_long_time(most_ms: int, span: Span | None) -> UserError:
    """Return the error for too long a time span or INTERVAL."""
    return _exceeded(
        f"expected a time span of {most_ms // DAY_MS} days at most, found a longer one", None, span
    )


def _exceeded(message: str, hint: str | None, span: Span | None) -> UserError:
    return UserError(SqlState.CONFIGURATION_LIMIT_EXCEEDED, message, hint=hint, span=span)
