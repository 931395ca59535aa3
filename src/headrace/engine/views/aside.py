"""Names of the tables of views that no catalog knows: set aside for some days, so that they can be restored."""

from __future__ import annotations

import re
import time

_ASIDE = re.compile(r"aside_(\d+)_.+")


def aside(name: str) -> str:
    """Return the name of a table that is set aside now."""
    return f"aside_{int(time.time())}_{name}"


def is_aside(name: str) -> bool:
    """Return True for the name of a table that was set aside."""
    return _ASIDE.fullmatch(name) is not None


def is_expired(name: str, days: int) -> bool:
    """Return True for the name of a table that was set aside more than `days` ago."""
    match = _ASIDE.fullmatch(name)
    return match is not None and int(match[1]) < time.time() - days * 86_400
