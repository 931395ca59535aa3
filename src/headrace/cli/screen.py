"""Destination of the prompt's rows: the terminal, with a pager for results that are higher than it, or a file."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

_PAGER = "less -SRFX"


class Screen:
    """Standard output of the prompt. Printers write to it as to a file."""

    def __init__(self, terminal: TextIO | None = None) -> None:
        self._terminal = terminal or sys.stdout
        self._target: TextIO = self._terminal
        self.pager = True

    def write(self, text: str) -> int:
        """Write to the terminal, to the file, or into the result that is kept for the pager."""
        return self._target.write(text)

    def flush(self) -> None:
        """Flush what was written."""
        self._target.flush()

    def isatty(self) -> bool:
        """True while rows are written to the terminal."""
        return (
            self._target is not self._terminal and isinstance(self._target, io.StringIO)
        ) or self._target.isatty()

    def fileno(self) -> int:
        """Return the descriptor of the terminal."""
        return self._terminal.fileno()

    @contextmanager
    def paged(self) -> Iterator[None]:
        """Keep what is written inside, and show it at once: by the pager if it is higher than the terminal."""
        if self._target is not self._terminal or not self._terminal.isatty() or not self.pager:
            yield
            return
        self._target = io.StringIO()
        try:
            yield
        finally:
            text, self._target = self._target.getvalue(), self._terminal
            self._show(text)

    @contextmanager
    def redirected(self, file: Path) -> Iterator[None]:
        """Write to a file inside; raises OSError."""
        with file.expanduser().open("w", encoding="utf-8") as target:
            before, self._target = self._target, target
            try:
                yield
            finally:
                self._target = before

    def redirect(self, file: Path | None) -> None:
        """Write to a file from now on, or to the terminal again; raises OSError."""
        target = self._terminal if file is None else file.expanduser().open("w", encoding="utf-8")
        if self._target is not self._terminal:
            self._target.close()
        self._target = target

    def _show(self, text: str) -> None:
        command = shlex.split(os.environ.get("PAGER", _PAGER)) or [""]
        is_high = text.count("\n") >= shutil.get_terminal_size().lines
        if not is_high or shutil.which(command[0]) is None:
            self._terminal.write(text)
            self._terminal.flush()
            return
        # The pager handles Ctrl-C itself, and may be left before it has read everything.
        subprocess.run(command, input=text, text=True, check=False)
