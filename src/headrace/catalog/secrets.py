"""Encryption at rest of secrets and of the properties of stores and schema registries.

Envelope: each value is sealed with AES-256-GCM under its own data key, which is sealed under the catalog's key, so that a new
catalog key only seals the data keys again. Sealed form: 12-byte nonce and 48 bytes of sealed data key, then 12-byte nonce and the
sealed value.
`label` (the object's id) is authenticated, so that a sealed value cannot be moved to another object.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from headrace.catalog.keys import KEY_BYTES
from headrace.core.errors import InternalError

_NONCE_BYTES, _TAG_BYTES = 12, 16
_HEAD_BYTES = _NONCE_BYTES + KEY_BYTES + _TAG_BYTES


class SecretBox:
    """Seals with the first of some keys, and opens with any of them."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = [AESGCM(key) for key in keys]

    def seal(self, value: bytes, label: str) -> bytes:
        """Encrypt `value` for `label`."""
        data_key = AESGCM.generate_key(bit_length=256)
        second = os.urandom(_NONCE_BYTES)
        return self._head(data_key, label) + second + AESGCM(data_key).encrypt(second, value, label.encode())

    def open(self, sealed: bytes, label: str) -> bytes:
        """Decrypt a value that was encrypted for `label`. Raises InternalError if no key matches."""
        rest = sealed[_HEAD_BYTES:]
        return AESGCM(self._data_key(sealed, label)).decrypt(
            rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], label.encode()
        )

    def opens(self, sealed: bytes, label: str) -> bool:
        """Return True if `sealed` was sealed with one of the keys."""
        try:
            self._data_key(sealed, label)
        except InternalError:
            return False
        return True

    def sealed_again(self, sealed: bytes, label: str) -> bytes:
        """Encrypt the value's data key with the first key, and return the result; raises as `open`."""
        return self._head(self._data_key(sealed, label), label) + sealed[_HEAD_BYTES:]

    def _head(self, data_key: bytes, label: str) -> bytes:
        first = os.urandom(_NONCE_BYTES)
        return first + self._keys[0].encrypt(first, data_key, label.encode())

    def _data_key(self, sealed: bytes, label: str) -> bytes:
        nonce, head = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:_HEAD_BYTES]
        for key in self._keys:
            try:
                return key.decrypt(nonce, head, label.encode())
            except InvalidTag:
                continue
        raise InternalError(
            f"the secrets of {label} cannot be decrypted",
            hint="The catalog's key differs from the key that encrypted them: set the right one.",
        )
