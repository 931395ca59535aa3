"""Journal of batches beside the checkpoint, written before a store gets them: a batch that is repeated after a crash has the same files."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyarrow import parquet

from headrace.connectors.batch_files import write_files
from headrace.connectors.checkpoint_store import CheckpointStore, LocalFolder, sync

_STATE = "state.json"


@dataclass(frozen=True)
class _Kept:
    """The last epoch that was kept as a whole, the version of its rows, and its files in order. One that is not there was sent."""

    epoch: int
    version: int
    files: list[str]


class Journal:
    """The files of an epoch and their unsent rest, in a place that outlives the driver.

    Of a place in a bucket the files are on this machine too while they are sent, in a temporary folder that ends with `resources`.
    """

    def __init__(self, store: CheckpointStore, resources: ExitStack) -> None:
        self._store = store
        if isinstance(store, LocalFolder):
            self._folder, self._is_remote = store.path, False
            self._folder.mkdir(parents=True, exist_ok=True)
        else:
            folder = resources.enter_context(tempfile.TemporaryDirectory(prefix="headrace-journal-"))
            self._folder, self._is_remote = Path(folder), True
        state = store.read(_STATE)
        self._kept = _Kept(**json.loads(state)) if state is not None else None

    @property
    def version(self) -> int | None:
        """The version of the last epoch."""
        return None if self._kept is None else self._kept.version

    def contains(self, epoch: int) -> bool:
        """True if an epoch was kept, and perhaps sent, before."""
        return self._kept is not None and self._kept.epoch >= epoch

    def keep(self, rows: Any, epoch: int, version: int, *, rows_per_file: int) -> None:
        """Keep the rows of a DataFrame, those of an epoch, in files of at most so many rows, which Spark writes."""
        shared = self._store.at(str(epoch))
        is_shared = write_files(rows, self.begin(epoch), shared, rows_per_file=rows_per_file)
        self.complete(epoch, version, is_uploaded=is_shared)

    def begin(self, epoch: int) -> Path:
        """Return an empty folder of this machine for the files of an epoch, and delete the files of other epochs."""
        for folder in self._folder.iterdir():
            if folder.is_dir():
                shutil.rmtree(folder)
        if self._is_remote:
            for name in self._store.names(""):
                if name.isdecimal():
                    self._store.at(name).remove()
        return self._files(epoch)

    def complete(self, epoch: int, version: int, *, is_uploaded: bool = False) -> None:
        """Return when the files of an epoch, and that they are all of them, would survive a crash; with `is_uploaded` the files do."""
        files = sorted(
            file for file in self._files(epoch).glob("*.parquet") if parquet.read_metadata(file).num_rows
        )
        if self._is_remote and not is_uploaded:
            with self._store.at(str(epoch)).writing(self._folder) as uploaded:
                for file in files:
                    os.link(file, uploaded / file.name)
        elif not self._is_remote:
            for file in files:
                sync(file)
            sync(self._files(epoch))
        self._kept = _Kept(epoch, version, [file.name for file in files])
        self._store.write(_STATE, json.dumps(asdict(self._kept)))

    def left(self) -> Iterator[Path]:
        """Yield the files of the last epoch that are still to be sent."""
        for name in self._kept.files if self._kept is not None else ():
            if (file := self._here(name)) is not None:
                yield file

    def sent(self, file: Path) -> None:
        """Delete a file of the last epoch."""
        file.unlink()
        if self._is_remote and self._kept is not None:
            self._store.at(str(self._kept.epoch)).delete(file.name)

    def _here(self, name: str) -> Path | None:
        """Return a file of the last epoch on this machine; None if it was sent."""
        if self._kept is None:
            return None
        file = self._files(self._kept.epoch) / name
        if self._is_remote and not file.exists():
            content = self._store.at(str(self._kept.epoch)).read(name)
            if content is not None:
                file.parent.mkdir(exist_ok=True)
                file.write_bytes(content)
        return file if file.exists() else None

    def _files(self, epoch: int) -> Path:
        return self._folder / str(epoch)
