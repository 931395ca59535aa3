"""Suggestions for misspelt names: "Did you mean …?"."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from headrace.core.idioms import Remedy
from headrace.core.names import printed

_SIMILARITY_MIN = 0.65
"""Of difflib's ratio: lap is lab (0.67). At 0.6, VERSION() was answered with SIN, and origin with JOIN."""


def nearest(text: str, known: Iterable[str], *, count: int = 2) -> list[str]:
    """Return at most `count` of `known` that `text` may be a misspelling of, the nearest first.

    Names that differ in case alone exclude all others.
    """
    candidates = list(known)
    same = [name for name in candidates if name.casefold() == text.casefold() and name != text]
    return same[:count] or difflib.get_close_matches(text, candidates, n=count, cutoff=_SIMILARITY_MIN)


def did_you_mean(names: Sequence[str]) -> Remedy | None:
    """Return the hint that suggests `names`; None if there are none."""
    return Remedy(f"Did you mean {' or '.join(names)}?", tuple(names)) if names else None


def name_suggestion(
    name: str, known: Iterable[str], *, before: str = "", after: str = "", otherwise: str | None = None
) -> Remedy | str | None:
    """Return the hint that suggests the nearest of the names `known`, in quotes if they need them, or else `otherwise`.

    `before` and `after` are the rest of what the error points at, such as the alias of a column: a replacement includes it.
    """
    close = [f"{before}{printed(other)}{after}" for other in nearest(name, known)]
    return did_you_mean(close) or otherwise


def suggestion(name: str, known: Iterable[str], *, otherwise: str | None = None) -> Remedy | str | None:
    """Return the hint that suggests the nearest of `known`, or else `otherwise`."""
    return did_you_mean(nearest(name, known)) or otherwise
