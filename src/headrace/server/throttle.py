"""Delays after failed attempts to authenticate."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Mapping

WAIT_MAX_S = 60.0
FORGOTTEN_S = 900.0
KEYS_MAX = 10_000


class Throttle:
    """Counts failures per user and per address, even for unknown users. After the free failures, each doubles the wait, up to a minute."""

    def __init__(self) -> None:
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def wait_s(self, keys: Mapping[str, int]) -> int:
        """Return whole seconds until the next try is looked at; `keys` have how many failures are free."""
        now = time.monotonic()
        waits = [0.0]
        for key, free in keys.items():
            count, last = self._failures.get(key, (0, now))
            if count >= free and now - last < FORGOTTEN_S:
                waits.append(min(WAIT_MAX_S, 2.0 ** min(count - free, 10)) - (now - last))
        return math.ceil(max(waits))

    def failed(self, keys: Mapping[str, int]) -> None:
        """Count a failure."""
        now = time.monotonic()
        for key in keys:
            count, last = self._failures.pop(key, (0, now))
            self._failures[key] = (1 if now - last >= FORGOTTEN_S else count + 1, now)
        while len(self._failures) > KEYS_MAX:
            self._failures.popitem(last=False)

    def forget(self, key: str) -> None:
        """Forget the failures of a key."""
        self._failures.pop(key, None)
