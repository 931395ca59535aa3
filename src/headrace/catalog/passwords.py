"""Passwords, of which only Argon2id hashes are kept. Hashing takes some tens of milliseconds and 64 MiB on purpose: use a thread."""

from __future__ import annotations

from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState

LENGTH_MIN = 12
LENGTH_MAX = 256
_HASHER = PasswordHasher()


def hashed(password: str) -> str:
    """What is kept of a password. Raises UserError 3D008 for one that is too short or too long; its text never shows it."""
    if not LENGTH_MIN <= len(password) <= LENGTH_MAX:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"a password must have {LENGTH_MIN} to {LENGTH_MAX} characters, this one has {len(password)}",
            hint="A few words that do not belong together are easy to keep.",
        )
    return _HASHER.hash(password)


def matches(kept: str | None, password: str) -> bool:
    """Whether `password` is the one that `kept` is of. Takes as long where there is none: that tells nobody who has one."""
    try:
        _HASHER.verify(kept or _nobodys(), password[: LENGTH_MAX + 1])
    except (VerificationError, InvalidHashError):
        return False
    return kept is not None


@cache
def _nobodys() -> str:
    return _HASHER.hash("the password of nobody")
