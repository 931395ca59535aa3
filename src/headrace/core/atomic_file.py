"""Files that are there as a whole or not at all, also after a crash."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from pathlib import Path


def write_atomically(path: Path, content: str | bytes, *, mode: int = 0o666) -> None:
    """Write a file beside `path`, flush it to the disk, and rename it over `path`; `mode` has its permissions, before the umask.

    Several threads may write the same path. An unfinished file is deleted. Raises OSError.
    """
    unfinished = path.with_name(f"{path.name}.{uuid.uuid4().hex}.new")
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError:
        with suppress(OSError):
            unfinished.unlink()
        raise
