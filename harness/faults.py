"""Choice of the faults to strike: some in `make test`, all in `make faults`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def some(faults: Iterable[T], count: int = 1) -> list[T]:
    """The first of them, so put those there that differ most; all with HEADRACE_FAULTS in the environment."""
    return list(faults) if os.environ.get("HEADRACE_FAULTS") else list(islice(faults, count))
