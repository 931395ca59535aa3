"""Limits of attempts to authenticate, which all interfaces share: delays after failed ones, and passwords checked side by side."""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping

from headrace.catalog import passwords
from headrace.catalog.objects import User

WAIT_MAX_S = 60.0
FORGOTTEN_S = 900.0
KEYS_MAX = 10_000
HASHING_MAX = 2
"""How many passwords are looked at side by side: each takes 64 MiB."""

FREE_OF_USER, FREE_OF_ADDRESS = 5, 20
"""Wrong passwords before the next must wait. An address may be a proxy, and many people behind it."""


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


class TooManyAttemptsError(Exception):
    """Too many wrong passwords; the next attempt is possible in `wait_s` seconds. `user` is the user's name if the user exists."""

    def __init__(self, wait_s: int, user: str | None) -> None:
        super().__init__(f"too many wrong passwords; try again in {wait_s} seconds")
        self.wait_s = wait_s
        self.user = user


class Attempts:
    """Attempts to sign in with a password or an invitation."""

    def __init__(self) -> None:
        self.throttle = Throttle()
        self.hashing = asyncio.Semaphore(HASHING_MAX)

    def refuse_hasty(self, keys: Mapping[str, int], user: str | None) -> None:
        """Raise TooManyAttemptsError while one of the keys must wait."""
        wait_s = self.throttle.wait_s(keys)
        if wait_s > 0:
            raise TooManyAttemptsError(wait_s, user)

    def keys(self, name: str, address: str | None) -> dict[str, int]:
        """Return what an attempt with a user's name counts for, with how many failures are free."""
        return {f"user {name}": FREE_OF_USER, f"address {address or ''}": FREE_OF_ADDRESS}

    async def matches(
        self, named: Callable[[str], User | None], name: str, password: str, address: str | None
    ) -> User | None:
        """Return the user with that name and password, None if either is wrong. Raises TooManyAttemptsError."""
        keys = self.keys(name, address)
        async with self.hashing:
            user = named(name)
            # Not before: of many guesses at once all would pass.
            self.refuse_hasty(keys, user.name if user is not None else None)
            stored_hash = user.password if user is not None else None
            if not await asyncio.to_thread(passwords.matches, stored_hash, password):
                self.throttle.failed(keys)
                return None
        self.throttle.forget(f"user {name}")
        return user
