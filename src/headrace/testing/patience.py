"""Time limits of tests: a wait ends when its condition holds, so that a long limit costs nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from headrace.testing.script import ExpectationError

_INTERVAL_S = 0.3


@dataclass(frozen=True)
class Patience:
    """Limit in seconds of each wait."""

    seconds: float

    def until(self, condition: Callable[[], object], what: Callable[[], object] | str) -> None:
        """Wait for `condition`; after the time limit, raise ExpectationError with the expectation `what`."""
        deadline = time.monotonic() + self.seconds
        while not condition():
            state = what if isinstance(what, str) else what()
            if time.monotonic() > deadline:
                raise ExpectationError(f"not within {self.seconds:.0f} s: {state}")
            time.sleep(_INTERVAL_S)

    def retry(self, check: Callable[[], None]) -> None:
        """Repeat `check` until it raises no ExpectationError; after the time limit, raise its last one."""
        deadline = time.monotonic() + self.seconds
        while True:
            try:
                check()
                return
            except ExpectationError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_INTERVAL_S)
