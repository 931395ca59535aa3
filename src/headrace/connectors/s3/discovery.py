"""Log of the files that a query has found, next to its checkpoint, so that a repeated batch has the same files.

Each line is a file, in the order of discovery; an offset is a number of lines. The first line marks the start of the reading.
"""

from __future__ import annotations

import json
import os
import tempfile
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, cast

from headrace.connectors.s3.client import File

_BEGUN = b'"begun"\n'


class FileLog:
    """The log in `folder`; None: a log in memory only."""

    def __init__(self, folder: str | None) -> None:
        if folder is None:
            self._file = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 - closed with the log
        else:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self._file = Path(folder, "files").open("a+b")  # noqa: SIM115 - closed with the log
        self._seen: set[str] = set()
        self._ends = array("Q", [0])
        self._file.seek(0)
        for line in self._file:
            if not line.endswith(b"\n"):
                break  # the end of one that was being written when its process was killed
            self._ends.append(self._ends[-1] + len(line))
            self._note(line)

    def rewind(self, count: int) -> None:
        """Remove the lines after the first ones, which Spark has not received."""
        if count >= len(self._ends) - 1:
            return
        del self._ends[count + 1 :]
        self._file.truncate(self._ends[-1])
        self._seen.clear()
        self._file.seek(0)
        for line in self._file:
            self._note(line)

    def begin(self) -> None:
        """Write the first line."""
        self._append([_BEGUN])

    def append(self, files: Iterable[File]) -> int:
        """Returns how many lines there are, when they are on the disk."""
        self._append(
            [
                json.dumps([file.key, file.size, file.etag, file.modified_ms]).encode() + b"\n"
                for file in files
            ]
        )
        return len(self._ends) - 1

    def between(self, start: int, end: int) -> list[tuple[int, File]]:
        """Return the files of the lines from one offset to another, with their numbers."""
        self._file.seek(self._ends[start])
        data = self._file.read(self._ends[end] - self._ends[start])
        lines = enumerate(data.splitlines(keepends=True), start)
        return [(number, File(*json.loads(line))) for number, line in lines if line != _BEGUN]

    def __contains__(self, file: File) -> bool:
        """True if a file of that name was listed before: a file that is overwritten is not read again."""
        return file.key in self._seen

    def close(self) -> None:
        self._file.close()

    def _append(self, lines: list[bytes]) -> None:
        self._file.truncate(self._ends[-1])
        self._file.seek(0, os.SEEK_END)
        for line in lines:
            self._file.write(line)
            self._ends.append(self._ends[-1] + len(line))
            self._note(line)
        self._file.flush()
        os.fsync(self._file.fileno())

    def _note(self, line: bytes) -> None:
        if line != _BEGUN:
            self._seen.add(json.loads(line)[0])
