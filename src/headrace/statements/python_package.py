"""Checks of the uploaded files of functions in Python: a module, a wheel, a list of requirements. Nothing of them is run."""

from __future__ import annotations

import re

from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.statements.archive import ArchiveKind, shown

MODULE_BYTES_MAX = 4 * 1024 * 1024
REQUIREMENTS_BYTES_MAX = 256 * 1024
_NATIVE = (".so", ".pyd", ".dylib", ".dll")
_REQUIREMENT = re.compile(
    r"[A-Za-z0-9][\w.-]*(\[[\w.,\s-]+\])?==[\w.!+-]+(\s*;[\w\s.<>=!~'\"(),]*)?(\s+--hash=sha256:[0-9a-f]{64})+",
    re.ASCII,
)


def module_text(data: bytes) -> str:
    """Return the text of a module. Raises UserError 22000 for a file that is not text, or is too long."""
    if len(data) > MODULE_BYTES_MAX:
        raise _refusal(f"expected a module of at most {MODULE_BYTES_MAX} bytes, received {len(data)}")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise _refusal(f"the module is not text in UTF-8: {error.reason}") from None


def check_wheel(data: bytes) -> None:
    """Raise UserError 22000 for a wheel that is hostile or without modules, 0A000 for one that must be unpacked to be imported."""
    with ArchiveKind.WHEEL.opened(data) as archive:
        entries = archive.infolist()
        ArchiveKind.WHEEL.check(entries)
    native = next((entry.filename for entry in entries if entry.filename.lower().endswith(_NATIVE)), None)
    if native is not None:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"the wheel contains native code: {shown(native)}",
            hint="Upload a module, and name the package in 'requirements'.",
        )
    if not any(entry.filename.endswith(".py") for entry in entries):
        raise ArchiveKind.WHEEL.refusal("it contains no module")


def wheel_module(data: bytes, name: str) -> str | None:
    """Return the text of a module of a wheel by its dotted name; None without it."""
    path = name.replace(".", "/")
    with ArchiveKind.WHEEL.opened(data) as archive:
        known = set(archive.namelist())
        entry = next((each for each in (f"{path}.py", f"{path}/__init__.py") if each in known), None)
        if entry is None:
            return None
        if archive.getinfo(entry).file_size > MODULE_BYTES_MAX:
            raise ArchiveKind.WHEEL.refusal(
                f"the entry {shown(entry)} has more than {MODULE_BYTES_MAX} bytes"
            )
        return module_text(archive.read(entry))


def check_requirements(data: bytes) -> None:
    """Raise UserError 22000 for a line that is not `name==version --hash=sha256:…`: options could read files or name other servers."""
    if len(data) > REQUIREMENTS_BYTES_MAX:
        raise _refusal(
            f"expected at most {REQUIREMENTS_BYTES_MAX} bytes of requirements, received {len(data)}"
        )
    text = data.decode(errors="replace").replace("\\\r\n", " ").replace("\\\n", " ")
    lines = [line for line in (re.sub(r"(^|\s)#.*", "", line).strip() for line in text.splitlines()) if line]
    if not lines:
        raise _refusal("the list of requirements is empty")
    for line in lines:
        if not _REQUIREMENT.fullmatch(line):
            raise UserError(
                SqlState.DATA_EXCEPTION,
                f"expected a requirement such as name==1.0 --hash=sha256:…, found {line[:80]!r}",
                hint="Write the list with `uv pip compile --generate-hashes` or `pip-compile --generate-hashes`.",
            )


def _refusal(message: str) -> UserError:
    return UserError(SqlState.DATA_EXCEPTION, message, hint="Divide it, or correct the file.")


def is_wheel(data: bytes) -> bool:
    """True for a file of a function source in Python that is a wheel, False for a module."""
    return data.startswith(b"PK\x03\x04")
