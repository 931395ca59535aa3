"""Sources of the keys that encrypt secrets: a file, the environment, or the output of a command.

The first key seals, all of them open: so a key can be replaced by one that is put before it.
"""

from __future__ import annotations

import base64
import binascii
import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from headrace.core.errors import ExternalError, InternalError, UserError
from headrace.core.sqlstate import SqlState

KEY_FILE = "catalog.key"
KEY_BYTES = 32
COMMAND_TIMEOUT_S = 30


class FileKeys:
    """The file of a data directory (mode 0600): one key or several, as bytes."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / KEY_FILE

    def read(self) -> list[bytes]:
        """Return the keys, or a new key if there is no file; `keep` writes the new key. Raises InternalError for a file without a key."""
        if not self._path.exists():
            return [AESGCM.generate_key(bit_length=256)]
        try:
            text = self._path.read_bytes()
        except OSError as error:
            raise InternalError(
                f"cannot read {self._path}: {error.strerror}",
                hint="The server's user must be able to read it: it is the key to all secrets in the catalog.",
            ) from None
        if not text or len(text) % KEY_BYTES:
            raise InternalError(
                f"expected a key of {KEY_BYTES} bytes in {KEY_FILE}, found {len(text)}",
                hint="Restore the file from a backup: without it no secret can be decrypted.",
            )
        return [text[start : start + KEY_BYTES] for start in range(0, len(text), KEY_BYTES)]

    def next(self) -> list[bytes]:
        """Return a new key followed by the present ones, on disk when this returns."""
        keys = [AESGCM.generate_key(bit_length=256), *self.read()]
        self._write(keys)
        return keys

    def keep(self, key: bytes) -> None:
        """Drop every key but this one: nothing is encrypted with them any more."""
        self._write([key])

    def _write(self, keys: Sequence[bytes]) -> None:
        """Write the file atomically: beside its place, then renamed when it is on disk."""
        unfinished = self._path.with_suffix(".new")
        unfinished.unlink(missing_ok=True)
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(b"".join(keys))
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(self._path)


class GivenKeys:
    """Keys in a setting, as base64, separated by commas or white space."""

    def __init__(self, text: str) -> None:
        self._keys = _decoded(text, "HEADRACE_CATALOG_KEY")

    def read(self) -> list[bytes]:
        """Return the keys."""
        return self._keys

    def next(self) -> list[bytes]:
        """Raises UserError 0A000: the environment of a running server does not change."""
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "the key is in HEADRACE_CATALOG_KEY, which a running server cannot change",
            hint=(
                "Start the server with HEADRACE_CATALOG_KEY=new,old: it encrypts everything with the new "
                "key, and the old one can be removed."
            ),
        )

    def keep(self, key: bytes) -> None:
        """Do nothing: the operator removes old keys from the variable."""


class CommandKeys:
    """Keys in base64 that a command prints, separated by commas or white space. It is run without a shell."""

    def __init__(self, command: str) -> None:
        self._command = command

    def read(self) -> list[bytes]:
        """Run the command and return the keys that it prints; raises ExternalError 57015 when it fails, without its output."""
        try:
            done = subprocess.run(
                shlex.split(self._command), capture_output=True, check=True, timeout=COMMAND_TIMEOUT_S
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise ExternalError(
                SqlState.REMOTE_UNAVAILABLE,
                f"the command that prints the catalog's key failed ({type(error).__name__})",
                hint="Run the command of HEADRACE_CATALOG_KEY_COMMAND as the server's user to see its error.",
            ) from None
        return _decoded(done.stdout.decode(errors="replace"), "what HEADRACE_CATALOG_KEY_COMMAND prints")

    next = read

    def keep(self, key: bytes) -> None:
        """Do nothing: the operator's command must stop returning old keys."""


KeySource = FileKeys | GivenKeys | CommandKeys


def _decoded(text: str, where: str) -> list[bytes]:
    keys = []
    for word in text.replace(",", " ").split():
        try:
            keys.append(base64.b64decode(word, validate=True))
        except binascii.Error:
            keys.append(b"")
    if not keys or any(len(key) != KEY_BYTES for key in keys):
        raise InternalError(
            f"expected keys of {KEY_BYTES} bytes in base64 in {where}",
            hint="Create a key with: openssl rand -base64 32",
        )
    return keys
