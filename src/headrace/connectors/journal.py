"""Journal of batches on the local disk, written before a store gets them: a batch that is repeated after a crash has the same files."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from pyarrow import parquet


@dataclass(frozen=True)
class _Kept:
    """The last epoch that was kept as a whole, the version of its rows, and its files in order. One that is not there was sent."""

    epoch: int
    version: int
    files: list[str]


class Journal:
    """The files of an epoch and their unsent rest, in a folder that outlives the driver."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._state = folder / "state.json"
        folder.mkdir(parents=True, exist_ok=True)
        self._kept = _Kept(**json.loads(self._state.read_text())) if self._state.exists() else None

    @property
    def version(self) -> int | None:
        """The version of the last epoch."""
        return None if self._kept is None else self._kept.version

    def contains(self, epoch: int) -> bool:
        """True if an epoch was kept, and perhaps sent, before."""
        return self._kept is not None and self._kept.epoch >= epoch

    def begin(self, epoch: int) -> Path:
        """Create an empty folder for the files of an epoch, and delete the files of other epochs."""
        for folder in self._folder.iterdir():
            if folder.is_dir():
                shutil.rmtree(folder)
        return self._files(epoch)

    def complete(self, epoch: int, version: int) -> None:
        """Returns when the files of an epoch, and that they are all of them, are on the disk."""
        files = sorted(
            file for file in self._files(epoch).glob("*.parquet") if parquet.read_metadata(file).num_rows
        )
        for file in files:
            _sync(file)
        _sync(self._files(epoch))
        self._kept = _Kept(epoch, version, [file.name for file in files])
        new = self._state.with_suffix(".new")
        new.write_text(json.dumps(asdict(self._kept)))
        _sync(new)
        new.replace(self._state)
        _sync(self._folder)

    def left(self) -> Iterator[Path]:
        """Yield the files of the last epoch that are still to be sent."""
        if self._kept is not None:
            files = (self._files(self._kept.epoch) / name for name in self._kept.files)
            yield from (file for file in files if file.exists())

    def _files(self, epoch: int) -> Path:
        return self._folder / str(epoch)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
