"""Timeouts of tests."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

PATIENCE_S = float(os.environ.get("HEADRACE_PATIENCE_S", "180"))
"""Long enough for a machine whose disk or processors others use: a wait that is granted ends when the thing comes."""


def until(condition: Callable[[], object], what: Callable[[], object] | str) -> None:
    """Wait for `condition`; after the time limit, fail with the expectation `what`."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        state = what if isinstance(what, str) else what()
        assert time.monotonic() < deadline, f"not within {PATIENCE_S:.0f} s: {state}"
        time.sleep(0.3)
