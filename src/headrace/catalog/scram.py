"""Verifiers of secrets for SCRAM-SHA-256 (RFC 5802, RFC 7677): they prove that a client knows a secret which it does not send.

A verifier can be attacked by guessing more cheaply than an Argon2id hash, so that it is stored encrypted, and only if the server offers
SCRAM (docs/adr/0099). Deriving one deliberately takes a tenth of a second: use a thread.
"""

from __future__ import annotations

import hashlib
import hmac
import stringprep
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from sqlalchemy import update

from headrace.catalog import principals, tables
from headrace.catalog.objects import Principal, User
from headrace.catalog.secrets import SecretBox
from headrace.catalog.storage import Storage

ITERATIONS = 100_000
"""Rounds of PBKDF2, which each client runs for each connection."""

_SALT_BYTES = 16


@dataclass(frozen=True)
class Verifier:
    """The stored half of a secret. `current` returns the principal of the secret as of now, None once the secret is no longer valid."""

    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    current: Callable[[], Principal | None] = field(repr=False)

    def signature(self, message: bytes, proof: bytes) -> bytes | None:
        """Return the server's signature of the exchanged `message` if `proof` shows that the client knows the secret, else None."""
        signed = hmac.digest(self.stored_key, message, "sha256")
        if len(proof) != len(signed):
            return None
        client_key = bytes(one ^ other for one, other in zip(proof, signed, strict=True))
        if not hmac.compare_digest(hashlib.sha256(client_key).digest(), self.stored_key):
            return None
        return hmac.digest(self.server_key, message, "sha256")


class Verifiers:
    """The verifiers of the catalog's users. A password's is encrypted for its user's name, and a token's for the token's id."""

    def __init__(self, storage: Storage, box: Callable[[], SecretBox], *, is_kept: bool) -> None:
        self._storage = storage
        self._box = box
        self._is_kept = is_kept

    def salt(self, user: str) -> bytes:
        """Return the salt of all secrets of a user name. It is the same whether the user exists or not, so that it shows nobody which
        names do, and one salt lets a server that does not know which secret the client has compare them all."""
        organization = self._storage.state.organization.id
        return hashlib.sha256(f"scram {organization} {user}".encode()).digest()[:_SALT_BYTES]

    def sealed(self, label: str, user: str, secret: str) -> bytes | None:
        """Return the encrypted verifier of a user's secret; None if this server does not offer SCRAM."""
        return self._box().seal(derived(secret, self.salt(user)), label) if self._is_kept else None

    def of(self, user: str) -> list[Verifier]:
        """Return the verifiers of a user's password and API tokens; none of secrets that were set while there was no SCRAM."""
        members = self._storage.state.members
        if (known := members.users.get(user)) is None:
            return []
        every: list[tuple[str, bytes | None, Callable[[], Principal | None]]] = [
            (user, known.scram, partial(self._by_password, known))
        ]
        every += [
            (token.id, token.scram, partial(self._by_digest, digest))
            for digest, token in members.tokens.items()
            if token.user == user
        ]
        return [
            Verifier(*halves(self._box().open(sealed, label)), current)
            for label, sealed, current in every
            if sealed is not None
        ]

    def seal_again(self) -> None:
        """Encrypt all verifiers with the newest key, within a transaction."""
        members = self._storage.state.members
        rows = [(tables.users.c.id, user.id, user.name, user.scram) for user in members.users.values()]
        rows += [(tables.tokens.c.id, token.id, token.id, token.scram) for token in members.tokens.values()]
        for column, identifier, label, sealed in rows:
            if sealed is not None:
                again = update(column.table).where(column == identifier)
                self._storage.execute(again.values(scram=self._box().sealed_again(sealed, label)))
        principals.reread(self._storage)

    def _by_password(self, user: User) -> Principal | None:
        return principals.by_password(self._storage.state.members.users.get(user.name), user)

    def _by_digest(self, digest: str) -> Principal | None:
        state = self._storage.state
        token = state.members.tokens.get(digest)
        return None if token is None else principals.principal_of(state, token)


def derived(secret: str, salt: bytes) -> bytes:
    """Return the stored key and the server key of a secret, 32 bytes each."""
    salted = hashlib.pbkdf2_hmac("sha256", _prepared(secret).encode(), salt, ITERATIONS)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    return hashlib.sha256(client_key).digest() + hmac.digest(salted, b"Server Key", "sha256")


def halves(keys: bytes) -> tuple[bytes, bytes]:
    """Return the stored key and the server key of `derived`."""
    return keys[:32], keys[32:]


def _prepared(secret: str) -> str:
    """Return a secret as clients normalize it (SASLprep, RFC 4013): unchanged if it contains characters that SASLprep refuses."""
    kept = (character for character in secret if not stringprep.in_table_b1(character))
    spaced = "".join(" " if stringprep.in_table_c12(character) else character for character in kept)
    normal = unicodedata.normalize("NFKC", spaced)
    refused = any(stringprep.in_table_c21_c22(character) for character in normal)
    return secret if refused or not normal else normal
