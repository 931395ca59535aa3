"""The files of this machine that statements name, which a client sends with them."""

from __future__ import annotations

import re
from pathlib import Path

from headrace.client.errors import RequestRefusedError

_TAKES_FILES = re.compile(r"(\s|--[^\n]*\n|/\*.*?\*/)*(CREATE|UPDATE)\b", re.IGNORECASE | re.DOTALL)
_FILE = re.compile(r"(?:=|\bFROM)\s*'@((?:[^'\n]|'')+)'", re.IGNORECASE)


def attached(statement: str, folder: Path = Path()) -> dict[str, bytes]:
    """Return the files that a CREATE or UPDATE names, `'@path'` behind `=` or FROM; paths are relative to `folder`.

    Raises RequestRefusedError for a file that cannot be read, or that has the name of another one.
    """
    if not _TAKES_FILES.match(statement):
        return {}
    files: dict[str, bytes] = {}
    for match in _FILE.finditer(statement):
        path = folder / Path(match[1].replace("''", "'")).expanduser()
        try:
            content = path.read_bytes()
        except OSError as error:
            raise RequestRefusedError(f"cannot read the file {path}: {error.strerror}") from None
        if files.setdefault(path.name, content) != content:
            # The server knows files by their names without folders.
            raise RequestRefusedError(f"two files of the statement are named {path.name}: rename one of them")
    return files
