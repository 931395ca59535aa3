"""Time limits of tests: a wait ends when its condition holds, so that a long limit costs nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headrace.testing.script import ExpectationError

_SHORTEST_S = 0.1
_LONGEST_S = 1.0
_SHARE = 0.1


def _pauses() -> Iterator[float]:
    """Yield the pauses of a wait, in seconds: a tenth of what has passed, so that a long wait asks rarely and a short one ends soon."""
    began = time.monotonic()
    while True:
        yield min(_LONGEST_S, max(_SHORTEST_S, (time.monotonic() - began) * _SHARE))


@dataclass(frozen=True)
class Patience:
    """Limit in seconds of each wait."""

    seconds: float

    def until(self, condition: Callable[[], object], what: Callable[[], object] | str) -> None:
        """Wait for `condition`; after the time limit, raise ExpectationError with the expectation `what`."""
        deadline, pauses = time.monotonic() + self.seconds, _pauses()
        while not condition():
            state = what if isinstance(what, str) else what()
            if time.monotonic() > deadline:
                raise ExpectationError(f"not within {self.seconds:.0f} s: {state}")
            time.sleep(next(pauses))

    def retry(self, check: Callable[[], None]) -> None:
        """Repeat `check` until it raises no ExpectationError; after the time limit, raise its last one."""
        deadline, pauses = time.monotonic() + self.seconds, _pauses()
        while True:
            try:
                check()
                return
            except ExpectationError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(next(pauses))
