"""Checks and content of an uploaded JAR. The file comes from a user and may be hostile, so nothing in it is unpacked or run."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath

from headrace.catalog.objects import UserFunction
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.core.suggestions import suggestion
from headrace.statements.function_class import FunctionClass, function_class

ENTRIES_MAX = 50_000
UNPACKED_BYTES_MAX = 512 * 1024 * 1024
CLASS_BYTES_MAX = 4 * 1024 * 1024
JAVA_MAX = 17
"""The oldest Java that compute pools run in: what is compiled for a later one might not start."""
_CLASS = b"\xca\xfe\xba\xbe"
_CLASS_VERSION_0 = 44
"""Java 17 writes 61, which is 44 + 17."""
_ENTRY = b"PK\x01\x02"
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, struct.error, ValueError, OverflowError)
_HINT = "Build the file with `jar` or a build tool such as Maven: a zip file of compiled classes."


def count_classes(data: bytes) -> int:
    """Return the number of classes in a JAR; raises UserError 22000 for any other file, or for one that is unsafe to unpack."""
    with _opened(data) as archive:
        entries = archive.infolist()
        _check(entries)
        classes = [entry for entry in entries if entry.filename.endswith(".class")]
        for entry in classes:
            with archive.open(entry) as stream:
                if stream.read(len(_CLASS)) != _CLASS:
                    raise _refusal(f"the entry {_shown(entry.filename)} is not a compiled class")
    if not classes:
        raise _refusal("it contains no class")
    return len(classes)


def checked_class(data: bytes, function: UserFunction, library: bytes | None = None) -> FunctionClass:
    """Return what the class of a function is; classes that it extends may be in the JAR of its libraries.

    Raises UserError 3D017 for a class that the JAR does not hold, 22000 for one of a Java that is too new, 42804 for one that is not the
    declared function.
    """
    with _opened(data) as archive:
        name = function.class_name
        try:
            entry = archive.getinfo(f"{name.replace('.', '/')}.class")
        except KeyError:
            known = [
                member.removesuffix(".class").replace("/", ".")
                for member in archive.namelist()
                if member.endswith(".class")
            ]
            near = suggestion(name, known, otherwise=f"It holds {', '.join(sorted(known)[:3])}, …")
            raise UserError(
                SqlState.FUNCTION_NOT_FOUND, f"the JAR contains no class {name}", hint=near
            ) from None
        if entry.file_size > CLASS_BYTES_MAX:
            raise _refusal(f"the class {name} has more than {CLASS_BYTES_MAX} bytes")
        head = archive.read(entry)[:8]
        version = int.from_bytes(head[6:8]) - _CLASS_VERSION_0
        if len(head) < 8 or version > JAVA_MAX:
            raise UserError(
                SqlState.DATA_EXCEPTION,
                f"the class {name} is compiled for Java {version}, but functions run in Java {JAVA_MAX}",
                hint=f"Compile it with --release {JAVA_MAX}.",
            )
        if library is None:
            return function_class(function, lambda each: _class(archive, each))
        with _opened(library) as more:
            return function_class(function, lambda each: _class(archive, each) or _class(more, each))


def _class(archive: zipfile.ZipFile, name: str) -> bytes | None:
    try:
        entry = archive.getinfo(f"{name.replace('.', '/')}.class")
    except KeyError:
        return None
    return archive.read(entry) if entry.file_size <= CLASS_BYTES_MAX else None


@contextmanager
def _opened(data: bytes) -> Iterator[zipfile.ZipFile]:
    # Each entry's record begins with this signature: entries are counted before they use memory.
    if data.count(_ENTRY) > ENTRIES_MAX:
        raise _refusal(f"it has more than {ENTRIES_MAX} entries")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            yield archive
    except _BROKEN as error:
        raise _refusal(f"it cannot be read as a zip file ({error})") from None
    except NotImplementedError:
        raise _refusal("it uses a compression that Java does not support") from None


def _check(entries: list[zipfile.ZipInfo]) -> None:
    unpacked = 0
    names: set[str] = set()
    for entry in entries:
        name = entry.filename
        unpacked += entry.file_size
        if _leads_out(name):
            raise _refusal(f"the entry {_shown(name)} points outside the JAR")
        if name in names:
            raise _refusal(f"it contains the entry {_shown(name)} twice")
        names.add(name)
        if entry.flag_bits & 1 or entry.compress_type not in _METHODS:
            raise _refusal(
                f"the entry {_shown(name)} is encrypted, or uses a compression that Java does not support"
            )
    if unpacked > UNPACKED_BYTES_MAX:
        raise _refusal(f"it has {unpacked} bytes when unpacked, more than {UNPACKED_BYTES_MAX}")


def _leads_out(name: str) -> bool:
    path = PurePosixPath(name)
    return path.is_absolute() or ".." in path.parts or any(char in name for char in "\\\0:")


def _shown(name: str) -> str:
    return repr(name if len(name) <= 80 else f"{name[:80]}…")


def _refusal(why: str) -> UserError:
    return UserError(SqlState.DATA_EXCEPTION, f"the file is not a valid JAR: {why}", hint=_HINT)
