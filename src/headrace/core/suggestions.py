"""Suggestions for misspelt names: "Did you mean …?"."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from headrace.core.idioms import Remedy

_SIMILARITY_MIN = 0.65
"""Of difflib's ratio: lap is lab (0.67). At 0.6, VERSION() was answered with SIN, and origin with JOIN."""


def nearest(text: str, known: Iterable[str], *, count: int = 2) -> list[str]:
    """Return at most `count` of `known` that `text` may be a misspelling of, the nearest first."""
    return difflib.get_close_matches(text, list(known), n=count, cutoff=_SIMILARITY_MIN)


def did_you_mean(names: Sequence[str]) -> Remedy | None:
    """Return the hint that suggests `names`; None if there are none."""
    return Remedy(f"Did you mean {' or '.join(names)}?", tuple(names)) if names else None


def suggestion(name: str, known: Iterable[str], *, otherwise: str | None = None) -> Remedy | str | None:
    """Return the hint that suggests the nearest of `known`, or else `otherwise`."""
    return did_you_mean(nearest(name, known)) or otherwise
