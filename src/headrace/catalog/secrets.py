"""Encryption at rest of the properties of stores and schema registries.

Envelope: each value is sealed with AES-256-GCM under a data key of its own, which is sealed under the key of the data directory.
Sealed form: 12-byte nonce and 48 bytes of sealed data key, then 12-byte nonce and the sealed value. `label` (the object's name) is
authenticated, so that a sealed value cannot be moved to another object.
"""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from headrace.core.errors import InternalError

KEY_FILE = "catalog.key"
_KEY_BYTES, _NONCE_BYTES, _TAG_BYTES = 32, 12, 16
_HEAD_BYTES = _NONCE_BYTES + _KEY_BYTES + _TAG_BYTES


class SecretBox:
    """Seals and opens under the key file of a data directory, which is made (mode 0600) when missing."""

    def __init__(self, directory: Path) -> None:
        path = directory / KEY_FILE
        if not path.exists():
            _make_key(path)
        key = path.read_bytes()
        if len(key) != _KEY_BYTES:
            raise InternalError(
                f"expected a key of {_KEY_BYTES} bytes in {KEY_FILE}, found {len(key)}",
                hint="Restore that file from a backup: without it the stores' properties cannot be decrypted.",
            )
        self._key = AESGCM(key)

    def seal(self, value: bytes, label: str) -> bytes:
        """`value`, sealed for `label`."""
        data_key = AESGCM.generate_key(bit_length=256)
        first, second = os.urandom(_NONCE_BYTES), os.urandom(_NONCE_BYTES)
        head = first + self._key.encrypt(first, data_key, label.encode())
        return head + second + AESGCM(data_key).encrypt(second, value, label.encode())

    def open(self, sealed: bytes, label: str) -> bytes:
        """What was sealed for `label`; raises InternalError when the key file is not the one it was sealed with."""
        head, rest = sealed[:_HEAD_BYTES], sealed[_HEAD_BYTES:]
        try:
            data_key = self._key.decrypt(head[:_NONCE_BYTES], head[_NONCE_BYTES:], label.encode())
            return AESGCM(data_key).decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], label.encode())
        except InvalidTag:
            raise InternalError(
                f"the properties of {label} cannot be decrypted",
                hint=f"The file {KEY_FILE} is not the one that this catalog was written with.",
            ) from None


def _make_key(path: Path) -> None:
    """A new key, whole or not at all: it is written beside `path` and takes its name when it is on disk."""
    unfinished = path.with_suffix(".new")
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(AESGCM.generate_key(bit_length=256))
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(path)
