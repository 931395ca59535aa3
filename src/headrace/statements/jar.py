"""Checks and content of an uploaded JAR. The file comes from a user and may be hostile, so nothing in it is unpacked or run."""

from __future__ import annotations

import zipfile

from headrace.catalog.objects import UserFunction
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.core.suggestions import suggestion
from headrace.statements.archive import ArchiveKind, shown
from headrace.statements.function_class import FunctionClass, function_class

CLASS_BYTES_MAX = 4 * 1024 * 1024
JAVA_MAX = 17
"""The oldest Java that compute pools run in: what is compiled for a later one might not start."""
_CLASS = b"\xca\xfe\xba\xbe"
_CLASS_VERSION_0 = 44
"""Java 17 writes 61, which is 44 + 17."""


def count_classes(data: bytes) -> int:
    """Return the number of classes in a JAR; raises UserError 22000 for any other file, or for one that is unsafe to unpack."""
    with ArchiveKind.JAR.opened(data) as archive:
        entries = archive.infolist()
        ArchiveKind.JAR.check(entries)
        classes = [entry for entry in entries if entry.filename.endswith(".class")]
        for entry in classes:
            with archive.open(entry) as stream:
                if stream.read(len(_CLASS)) != _CLASS:
                    raise ArchiveKind.JAR.refusal(
                        f"the entry {shown(entry.filename)} is not a compiled class"
                    )
    if not classes:
        raise ArchiveKind.JAR.refusal("it contains no class")
    return len(classes)


def checked_class(data: bytes, function: UserFunction, library: bytes | None = None) -> FunctionClass:
    """Return what the class of a function is; classes that it extends may be in the JAR of its libraries.

    Raises UserError 3D017 for a class that the JAR does not hold, 22000 for one of a Java that is too new, 42804 for one that is not the
    declared function.
    """
    with ArchiveKind.JAR.opened(data) as archive:
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
            raise ArchiveKind.JAR.refusal(f"the class {name} has more than {CLASS_BYTES_MAX} bytes")
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
        with ArchiveKind.JAR.opened(library) as more:
            return function_class(function, lambda each: _class(archive, each) or _class(more, each))


def _class(archive: zipfile.ZipFile, name: str) -> bytes | None:
    try:
        entry = archive.getinfo(f"{name.replace('.', '/')}.class")
    except KeyError:
        return None
    return archive.read(entry) if entry.file_size <= CLASS_BYTES_MAX else None
