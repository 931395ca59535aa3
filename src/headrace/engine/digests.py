"""Sizes and digests of the files in a folder, by which a changed file is recognised."""

from __future__ import annotations

import hashlib
from pathlib import Path

Digests = dict[str, tuple[int, str]]
"""The size in bytes and the SHA-256 of each file, by its path in the folder."""


def digests(folder: Path) -> Digests:
    """Return the digests of all files in a folder. Raises OSError."""
    files: Digests = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            files[path.relative_to(folder).as_posix()] = (path.stat().st_size, digest)
    return files
