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
    """Return the hash of a password. Raises UserError 3D008, without the password, for one that is too short or too long."""
    if not LENGTH_MIN <= len(password) <= LENGTH_MAX:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"a password must have {LENGTH_MIN} to {LENGTH_MAX} characters, found {len(password)}",
            hint="A few unrelated words are easy to remember.",
        )
    return _HASHER.hash(password)


def matches(stored_hash: str | None, password: str) -> bool:
    """True if `password` fits `stored_hash`. A missing hash takes as long, so that timing does not reveal which users have a password."""
    try:
        _HASHER.verify(stored_hash or _nobodys(), password[: LENGTH_MAX + 1])
    except (VerificationError, InvalidHashError):
        return False
    return stored_hash is not None


@cache
def _nobodys() -> str:
    return _HASHER.hash("the password of nobody")
