"""Checks of uploaded zip files. They come from users and may be hostile, so nothing in them is unpacked or run."""

from __future__ import annotations

import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import PurePosixPath

from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState

ENTRIES_MAX = 50_000
UNPACKED_BYTES_MAX = 512 * 1024 * 1024
_ENTRY = b"PK\x01\x02"
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, struct.error, ValueError, OverflowError)


class ArchiveKind(Enum):
    """Kind of a zip file, with how to build it."""

    JAR = "Build the file with `jar` or a build tool such as Maven: a zip file of compiled classes."
    WHEEL = "Build the file with `python -m build --wheel`."

    @contextmanager
    def opened(self, data: bytes) -> Iterator[zipfile.ZipFile]:
        """Open a file. Raises UserError 22000 for one that is not such a file."""
        # Each entry's record begins with this signature: entries are counted before they use memory.
        if data.count(_ENTRY) > ENTRIES_MAX:
            raise self.refusal(f"it has more than {ENTRIES_MAX} entries")
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                yield archive
        except _BROKEN as error:
            raise self.refusal(f"it cannot be read as a zip file ({error})") from None
        except NotImplementedError:
            raise self.refusal("it uses a compression that is not supported") from None

    def check(self, entries: list[zipfile.ZipInfo]) -> None:
        """Raise UserError 22000 for entries that are unsafe to unpack, or that programs read differently."""
        unpacked = 0
        names: set[str] = set()
        for entry in entries:
            name = entry.filename
            unpacked += entry.file_size
            if _leads_out(name):
                raise self.refusal(f"the entry {shown(name)} points outside the {self.label}")
            if name in names:
                raise self.refusal(f"it contains the entry {shown(name)} twice")
            names.add(name)
            if stat.S_ISLNK(entry.external_attr >> 16):
                raise self.refusal(f"the entry {shown(name)} is a symbolic link")
            if entry.flag_bits & 1 or entry.compress_type not in _METHODS:
                raise self.refusal(
                    f"the entry {shown(name)} is encrypted, or uses a compression that is not supported"
                )
        if unpacked > UNPACKED_BYTES_MAX:
            raise self.refusal(f"it has {unpacked} bytes when unpacked, more than {UNPACKED_BYTES_MAX}")

    @property
    def label(self) -> str:
        """The name for users."""
        return "JAR" if self is ArchiveKind.JAR else "wheel"

    def refusal(self, why: str) -> UserError:
        """Return the error for a file that is not such a file."""
        return UserError(
            SqlState.DATA_EXCEPTION, f"the file is not a valid {self.label}: {why}", hint=self.value
        )


def _leads_out(name: str) -> bool:
    path = PurePosixPath(name)
    return path.is_absolute() or ".." in path.parts or any(char in name for char in "\\\0:")


def shown(name: str) -> str:
    """Return the name of an entry as errors show it."""
    return repr(name if len(name) <= 80 else f"{name[:80]}…")
