"""Passwords, stored only as Argon2id hashes. Hashing deliberately takes tens of milliseconds and 64 MiB: use a thread."""

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
    """Return the hash of a password. Raises UserError 3D008, without the password, for one that is too short or too long."""
    if not LENGTH_MIN <= len(password) <= LENGTH_MAX:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"a password must have {LENGTH_MIN} to {LENGTH_MAX} characters, found {len(password)}",
            hint="A few unrelated words are easy to remember.",
        )
    return _HASHER.hash(password)


def matches(stored_hash: str | None, password: str) -> bool:
    """True if `password` matches `stored_hash`. A missing hash takes the same time, so that timing does not reveal which users have one."""
    try:
        _HASHER.verify(stored_hash or _nobodys(), password[: LENGTH_MAX + 1])
    except (VerificationError, InvalidHashError):
        return False
    return stored_hash is not None


@cache
def _nobodys() -> str:
    return _HASHER.hash("the password of nobody")
