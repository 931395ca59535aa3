"""Places of checkpoints: a folder of files that outlives the driver, whatever it is stored in."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from headrace.connectors.checkpoint_bucket import SCHEME, Login, S3Folder, driver_login, folder_at
from headrace.core.atomic_file import write_atomically

INTERACTIVE = "interactive-"
"""The first part of the names of checkpoints of interactive queries, before their ids."""
_URI = "uri"


class CheckpointStore(Protocol):
    """A folder of a checkpoint, or of several. Names of files are relative to it, with slashes.

    All methods block. A local folder raises OSError; a store elsewhere raises HeadraceError, within a bounded time.
    """

    @property
    def uri(self) -> str:
        """The address for Spark: the path of a local folder, or a URI."""
        ...

    def at(self, *names: str) -> CheckpointStore:
        """Return a folder inside."""
        ...

    def exists(self) -> bool:
        """Return True if there is a file inside, at any depth; of a local folder, if it is there."""
        ...

    def names(self, folder: str) -> list[str]:
        """Return the names of what is directly in a folder; none if the folder is missing."""
        ...

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if it is missing."""
        ...

    def write(self, name: str, content: str | bytes) -> None:
        """Write or replace a file: a reader sees the old content or the new one, also after a crash."""
        ...

    def delete(self, name: str) -> None:
        """Delete a file; do nothing if it is missing."""
        ...

    def written_at(self, name: str) -> float | None:
        """Return when a file was written last, in seconds since 1970; None if it is missing."""
        ...

    def remove(self) -> None:
        """Delete the folder and all that is in it; do nothing if it is missing."""
        ...

    def reading(self, beside: Path) -> AbstractContextManager[Path]:
        """Yield the folder on this machine, to be read: of a store elsewhere a temporary copy in the folder `beside`."""
        ...

    def writing(self, beside: Path) -> AbstractContextManager[Path]:
        """Yield a folder on this machine, whose files are the folder afterwards: of a store elsewhere a temporary one in `beside`, which is
        uploaded. After an exception nothing is left."""
        ...

    def local(self) -> Path:
        """Return the folder on this machine, for what keeps files there. Raises UserError 0A000 for a store elsewhere."""
        ...


@dataclass(frozen=True)
class LocalFolder:
    """A folder on this machine, or on a file system that is mounted here."""

    path: Path

    @property
    def uri(self) -> str:
        return str(self.path)

    def at(self, *names: str) -> LocalFolder:
        return LocalFolder(self.path.joinpath(*names))

    def exists(self) -> bool:
        return self.path.is_dir()

    def names(self, folder: str) -> list[str]:
        return [path.name for path in (self.path / folder).glob("*")]

    def read(self, name: str) -> bytes | None:
        with suppress(FileNotFoundError):
            return (self.path / name).read_bytes()
        return None

    def write(self, name: str, content: str | bytes) -> None:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, content)
        sync(file.parent)

    def delete(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)

    def written_at(self, name: str) -> float | None:
        with suppress(FileNotFoundError):
            return (self.path / name).stat().st_mtime
        return None

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    @contextmanager
    def reading(self, beside: Path) -> Iterator[Path]:  # noqa: ARG002 - nothing is temporary
        yield self.path

    @contextmanager
    def writing(self, beside: Path) -> Iterator[Path]:  # noqa: ARG002 - nothing is temporary
        try:
            yield self.path
        except BaseException:
            self.remove()
            raise

    def local(self) -> Path:
        return self.path


def sync(path: Path) -> None:
    """Return when a file is on the disk, or the names in a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def store_at(address: str, login: Login | None = None) -> CheckpointStore:
    """Return the store of an address, as `CheckpointStore.uri` returns it.

    `login` is that of S3; None: that in the environment of this process, a driver.
    """
    if address.startswith(SCHEME):
        return folder_at(address, login or driver_login())
    return LocalFolder(Path(address))


def facts_of(store: CheckpointStore) -> dict[str, str]:
    """Return a store as texts, with its key, for a process that has no login of its own: a worker of Python, which reads a source."""
    variables = store.login.variables() if isinstance(store, S3Folder) else {}
    return {_URI: store.uri, **variables}


def store_of(facts: Mapping[str, str]) -> CheckpointStore:
    """Return the opposite of `facts_of`."""
    return store_at(facts[_URI], Login.of(facts))


def has_offsets(checkpoint: CheckpointStore) -> bool:
    """Return True if the query of a checkpoint has planned a batch."""
    return any(name.isdecimal() for name in checkpoint.names("offsets"))
