"""Programs that cannot share our environment get one of their own, as a lock names it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from headrace.runtime.paths import cache_dir

_COMPLETE = ".complete"


class VirtualEnvironment:
    """A virtual environment in the cache folder for each state of a lock, so that a new lock never meets an old environment."""

    def __init__(self, name: str, lock: Path) -> None:
        self._lock = lock
        self._folder = cache_dir() / name / hashlib.sha256(lock.read_bytes()).hexdigest()[:16]

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self._folder / "bin" / "python"

    @property
    def is_made(self) -> bool:
        """True if all packages of the lock are installed."""
        return (self._folder / _COMPLETE).is_file()

    def make(self) -> None:
        """Create the environment if it is missing. Raises `subprocess.CalledProcessError` if a package cannot be installed."""
        if self.is_made:
            return
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        uv = Path(sys.executable).with_name("uv")
        with tempfile.TemporaryDirectory(dir=self._folder.parent, ignore_cleanup_errors=True) as made:
            for command in (
                [uv, "venv", "--quiet", "--clear", "--python", sys.executable, made],
                [uv, "pip", "install", "--quiet", "--require-hashes", "--requirement", self._lock],
            ):
                environment = {**os.environ, "VIRTUAL_ENV": made}
                subprocess.run(
                    list(map(str, command)), env=environment, check=True, text=True, stderr=subprocess.PIPE
                )
            (Path(made) / _COMPLETE).touch()
            try:
                Path(made).rename(self._folder)
            except OSError:
                # Another worker of the run may have been faster.
                if not self.is_made:
                    raise
