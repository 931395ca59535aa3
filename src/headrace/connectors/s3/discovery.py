"""Log of the files that a query has found, next to its checkpoint, so that a repeated batch has the same files.

Each line is a file, in the order of discovery; an offset is a number of lines. The first line marks the start of the reading.

The log is the file `files`. In a bucket, to whose files nothing can be appended, each batch is a file of its own, `files-<number of its
first line>`. A hundred of them are joined to the first. A log may move from a bucket to a folder and back.
"""

from __future__ import annotations

import json
import os
import tempfile
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, cast

from headrace.connectors.checkpoint_store import CheckpointStore, LocalFolder
from headrace.connectors.s3.client import File
from headrace.core.atomic_file import write_atomically
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState

_BEGUN = b'"begun"\n'
_NAME = "files"
_PIECES_MAX = 100
"""Files of a log in a bucket, of which all but the first are one batch each. Each of them is a request when a query starts."""


class FileLog:
    """A log in `file`, which has its lines."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
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
        """Return how many lines there are, when they would survive a crash."""
        self._append(
            [
                json.dumps([file.key, file.size, file.etag, file.modified_ms]).encode() + b"\n"
                for file in files
            ]
        )
        return len(self._ends) - 1

    def between(self, start: int, end: int) -> list[tuple[int, File]]:
        """Return the files of the lines from one offset to another, with their numbers."""
        lines = enumerate(self._lines(start, end).splitlines(keepends=True), start)
        return [(number, File(*json.loads(line))) for number, line in lines if line != _BEGUN]

    def __contains__(self, file: File) -> bool:
        """True if a file of that name was listed before: a file that is overwritten is not read again."""
        return file.key in self._seen

    def close(self) -> None:
        self._file.close()

    def _lines(self, start: int, end: int) -> bytes:
        self._file.seek(self._ends[start])
        return self._file.read(self._ends[end] - self._ends[start])

    def _append(self, lines: Sequence[bytes]) -> None:
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


class RemoteFileLog(FileLog):
    """A log in a bucket, of whose pieces `file` has the lines. Only the process that appends to it changes it."""

    def __init__(self, file: BinaryIO, store: CheckpointStore, pieces: Sequence[int]) -> None:
        super().__init__(file)
        self._store = store
        self._pieces = list(pieces)
        self._is_compared = False

    def rewind(self, count: int) -> None:
        is_shorter = count < len(self._ends) - 1
        super().rewind(count)
        # Each poll of the source comes here.
        if self._is_compared and not is_shorter:
            return
        self._pieces = [first for first in self._pieces if first < count]
        # The last one first, so that the process may be killed in between.
        for first in reversed(_pieces(self._store)):
            if first not in self._pieces:
                self._store.delete(_piece(first))
        if is_shorter and self._pieces:
            # It ends elsewhere if batches were joined since.
            self._write(self._pieces[-1])
        self._is_compared = True

    def _append(self, lines: Sequence[bytes]) -> None:
        first = len(self._ends) - 1
        super()._append(lines)
        if not lines:
            return
        self._pieces.append(first)
        self._write(first)
        if len(self._pieces) > _PIECES_MAX:
            joined, self._pieces = self._pieces[1:], self._pieces[:1]
            self._write(self._pieces[0])
            for piece in joined:
                self._store.delete(_piece(piece))

    def _write(self, first: int) -> None:
        """Write a piece with all lines from the first one on."""
        self._store.write(_piece(first), self._lines(first, len(self._ends) - 1))


def open_log(store: CheckpointStore | None) -> FileLog:
    """Return the log in a place; None: a log that ends with this process. Raises UserError XX001 for one that lacks a file."""
    if isinstance(store, LocalFolder):
        return FileLog(_local_file(store.path))
    file = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 - closed with the log
    if store is None:
        return FileLog(file)
    try:
        with store.reading(Path(tempfile.gettempdir())) as folder:
            joined = _join(folder, file)
    except BaseException:
        file.close()
        raise
    return RemoteFileLog(file, store, joined)


def _local_file(folder: Path) -> BinaryIO:
    """Return the file of a log in a folder, of one file also if it was in a bucket before."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / _NAME
    if pieces := list(folder.glob(f"{_NAME}-*")):
        with tempfile.TemporaryFile() as whole:
            _join(folder, cast(BinaryIO, whole))
            whole.seek(0)
            write_atomically(path, whole.read())
        for piece in pieces:
            piece.unlink(missing_ok=True)
    return path.open("a+b")


def _join(folder: Path, file: BinaryIO) -> list[int]:
    """Write the lines of the pieces in a folder to `file`, and return the numbers of the pieces. What is in the one before already is left
    out: the process that joined them was killed. Raises UserError XX001 if lines are missing between two pieces."""
    count, joined = 0, []
    for first in _pieces(LocalFolder(folder)):
        if first < count:
            continue
        if first > count:
            raise UserError(
                SqlState.DATA_CORRUPTED,
                f"the log of the files that the query has read lacks the lines {count} to {first - 1}",
                hint="Restore the checkpoint of the query from a backup, or create the query again.",
            )
        content = (folder / _piece(first)).read_bytes()
        # A folder has the end of a line that was being written when its process was killed.
        content = content[: content.rfind(b"\n") + 1]
        file.write(content)
        count += content.count(b"\n")
        joined.append(first)
    return joined


def _pieces(store: CheckpointStore) -> list[int]:
    """Return the numbers of the lines with which the pieces of a log begin, in order."""
    names = store.names("")
    appended = (name.removeprefix(f"{_NAME}-") for name in names if name.startswith(f"{_NAME}-"))
    return sorted(
        [*([0] if _NAME in names else []), *(int(number) for number in appended if number.isdecimal())]
    )


def _piece(first: int) -> str:
    return f"{_NAME}-{first}" if first else _NAME
