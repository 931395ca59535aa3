"""Search for the file of a checkpoint that cannot be read: after a crash of the machine, a full disk or a failed copy.

Spark's exceptions name the class that could not parse, and seldom the file. So the files are read here, once their query has failed for no
reason that is known.
"""

from __future__ import annotations

import json
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from headrace.connectors.checkpoint_store import CheckpointStore, LocalFolder
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.engine.checkpoint_copy import IDENTITIES

_LOGS_READ = 2
"""Spark reads the newest file of `offsets` and `commits`, and the one before."""
_LZ4_HEADER = struct.Struct("<8sBIII")
"""Header of a block: magic, codec, compressed length, length, checksum. A block of length 0 ends the file."""
_LZ4_MAGIC = b"LZ4Block"
_STATE_FILE = re.compile(r"/(state/\d+/\d+/[^\s'\",()]+)")
_STATE_FAILURE = "CANNOT_LOAD_STATE_STORE"
"""Spark's condition when it cannot read the state of a version that the checkpoint names."""


def remove_unfinished(checkpoint: CheckpointStore) -> None:
    """Delete the files of the logs that a killed process did not finish: on a disk, Spark writes them under other names, and renames them.

    One of the first batch would keep the query from ever starting: before that batch Spark requires folders without any file.
    """
    if isinstance(checkpoint, LocalFolder):
        for log in ("offsets", "commits"):
            for path in (checkpoint.path / log).glob(".*.tmp"):
                path.unlink()


def damage(checkpoint: Path, trace: str) -> UserError | None:
    """Return XX001 with the name of the damaged file for a query that failed with `trace`; None if the checkpoint is not the reason."""
    path = damaged_file(checkpoint) or _missing_file(checkpoint, trace)
    if path is None:
        return None
    # The parts of an application have checkpoints in that of the whole.
    _, in_directory, folder = checkpoint.as_posix().rpartition("/checkpoints/")
    place = f"checkpoints/{folder} of the data directory" if in_directory else str(checkpoint)
    return UserError(
        SqlState.DATA_CORRUPTED,
        f"the file {path.relative_to(checkpoint)} of the query's checkpoint is damaged, in {place}",
        hint="Restore the folder from a backup and RESTART the query. Or TERMINATE it and create it again: "
        "it then starts at the starting positions of its sources.",
    )


def _missing_file(checkpoint: Path, trace: str) -> Path | None:
    """Return the file of the state that Spark looked for in vain."""
    if _STATE_FAILURE not in trace:
        return None
    paths = (checkpoint / name for name in _STATE_FILE.findall(trace))
    return next((path for path in paths if not path.exists()), None)


def damaged_file(checkpoint: Path) -> Path | None:
    """Return the first file below `checkpoint` that is cut off, empty or otherwise unreadable; None if there is none."""
    checks: list[tuple[Iterable[Path], Callable[[Path], object]]] = [
        (checkpoint.glob("metadata"), _read_json),
        (checkpoint.glob(IDENTITIES), _read_json),
        (_newest(checkpoint / "offsets"), _read_log),
        (_newest(checkpoint / "commits"), _read_log),
        (checkpoint.glob("state/**/*.changelog"), _read_changelog),
        (checkpoint.glob("state/**/*.zip"), _read_snapshot),
    ]
    for paths, read in checks:
        for path in sorted(paths):
            # Hadoop's checksums and unfinished files begin with a dot. Spark does not need them.
            if path.name.startswith("."):
                continue
            try:
                read(path)
            except _DamagedError as error:
                return error.path
            except (OSError, ValueError, LookupError, zipfile.BadZipFile, zlib.error):
                return path
    return None


class _DamagedError(Exception):
    """A file other than the one that was read is damaged."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.path = path


def _newest(folder: Path) -> Iterator[Path]:
    batches = sorted(int(path.name) for path in folder.glob("*") if path.name.isdecimal())
    return (folder / str(batch) for batch in batches[-_LOGS_READ:])


def _read_json(path: Path) -> None:
    json.loads(path.read_text(encoding="utf-8"))


def _read_log(path: Path) -> None:
    """Read a version and at least one line. A line that begins like JSON must be JSON."""
    version, *lines = path.read_text(encoding="utf-8").splitlines()
    if not version.startswith("v") or not any(lines):
        raise ValueError("the file has no entry")
    for line in lines:
        if line.startswith("{"):
            json.loads(line)


def _read_changelog(path: Path) -> None:
    """Follow the blocks of LZ4 to the empty block that ends the file."""
    data, start = path.read_bytes(), 0
    while True:
        try:
            magic, _, compressed, length, _ = _LZ4_HEADER.unpack_from(data, start)
        except struct.error:
            raise ValueError("the file is cut off") from None
        if magic != _LZ4_MAGIC:
            raise ValueError("the file has no block")
        start += _LZ4_HEADER.size + compressed
        if not length:
            return


def _read_snapshot(path: Path) -> None:
    """Read the archive, and compare the lengths of RocksDB's files with those that it lists. Raises _DamagedError for a difference."""
    with zipfile.ZipFile(path) as archive:
        if archive.testzip() is not None:
            raise ValueError("an entry of the archive is damaged")
        described = archive.read("metadata").decode()
    for file in json.loads(described.partition("\n")[2])["sstFiles"]:
        part = path.parent / "SSTs" / file["dfsSstFileName"]
        if not part.is_file() or part.stat().st_size != file["sizeBytes"]:
            raise _DamagedError(part)
