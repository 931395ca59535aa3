"""Choice of faults: some in `make test`, all in `make faults`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def some(faults: Iterable[T], count: int = 1) -> list[T]:
    """Return the first `count` faults, or all if HEADRACE_FAULTS is set. Put the most different faults first."""
    return list(faults) if os.environ.get("HEADRACE_FAULTS") else list(islice(faults, count))
