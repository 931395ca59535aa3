"""Folders whose content other processes change."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def paths_below(folder: Path) -> Iterator[Path]:
    """Yield the paths below a folder. Some may be gone by then: `Path.rglob` raises an error for a folder that goes while it looks."""
    for parent, folders, files in os.walk(folder):
        yield from (Path(parent, name) for name in (*folders, *files))


def logs_below(folder: Path) -> Iterator[Path]:
    """Yield the logs below a folder."""
    return (path for path in paths_below(folder) if path.suffix == ".log")
