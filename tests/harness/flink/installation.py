"""Where Flink is on this machine, and how it gets there."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from headrace.core.errors import HeadraceError
from headrace.runtime.jars import jars
from headrace.runtime.paths import cache_dir

LOCK = Path(__file__).with_name("requirements.lock")
JARS = "flink-peer"


class NotInstalledError(Exception):
    """Flink is not here, and why."""


@dataclass(frozen=True)
class Installation:
    """The Python that has PyFlink, and the jars that its distribution lacks."""

    python: Path
    jars: tuple[Path, ...]


def installed() -> Installation:
    """Flink as the lock names it. Raises `NotInstalledError`."""
    python = _folder() / "bin" / "python"
    if not _complete().is_file():
        raise NotInstalledError("Apache Flink is not installed: `make flink` installs it (0.7 GB, from PyPI)")
    try:
        return Installation(python, tuple(jars(JARS)))
    except HeadraceError as error:
        raise NotInstalledError(f"Flink's Kafka connector is missing: {error.text()}") from error


def install() -> Installation:
    """Makes the virtual environment when it is missing. Raises `NotInstalledError` when a package cannot be had."""
    if not _complete().is_file():
        uv = Path(sys.executable).with_name("uv")
        for command in (
            [uv, "venv", "--quiet", "--clear", "--python", sys.executable, _folder()],
            [uv, "pip", "install", "--quiet", "--require-hashes", "--requirement", LOCK],
        ):
            done = subprocess.run(
                list(map(str, command)),
                env={**os.environ, "VIRTUAL_ENV": str(_folder())},
                check=False,
                text=True,
                stderr=subprocess.PIPE,
            )
            if done.returncode:
                raise NotInstalledError(f"Apache Flink cannot be installed: {done.stderr.strip()[-600:]}")
        _complete().touch()
    return installed()


def _folder() -> Path:
    """A folder for each state of the lock, so that a new lock never meets an old environment."""
    return cache_dir() / "flink" / hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]


def _complete() -> Path:
    return _folder() / ".complete"
