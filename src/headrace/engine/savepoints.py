"""Folders of savepoints: copies of checkpoints, with a manifest of their files. ADRs 54 and 102.

A savepoint is a folder with the name of its id: `manifest.json` and the copied `checkpoint`. The manifest is written last, so that a
folder without one is half written. It contains all that the catalog knows about the savepoint, so that another server can use it. The
copy has a folder for each part of an application, and a file with the rows of materialized views.

The savepoint of a query whose checkpoint is in S3 is there too, in `savepoints/` of its pool: it is downloaded when it is used on a machine
that lacks it. ADR 87.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.connectors.checkpoint_store import CheckpointStore
from headrace.core.atomic_file import write_atomically
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.engine.checkpoint_copy import (
    PARTS,
    VIEWS,
    Border,
    Continuation,
    copy_failure,
    copy_whole,
    place_parts,
)
from headrace.engine.digests import digests

FORMAT = 2
"""Version of the folder's layout. A later release reads all earlier ones."""
_PLAIN_FORMAT = 1
"""The version of a folder without parts and without rows of views, which earlier releases read too."""
_MANIFEST = "manifest.json"
_CHECKPOINT = "checkpoint"
_BUCKET_FOLDER = "savepoints"
_HALF_WRITTEN_S = 3600


@dataclass(frozen=True)
class Manifest:
    """Content of a savepoint's manifest: `facts` are those of its query, with `is_final` as in `Border`; `files` the size in bytes and the
    SHA-256 of each file."""

    batch: int
    is_interrupted: bool
    facts: Mapping[str, Any]
    files: Mapping[str, tuple[int, str]]

    @property
    def size(self) -> int:
        """The bytes of the copied files."""
        return sum(size for size, _ in self.files.values())


Copy = Callable[[Path], Border]
"""Copies a checkpoint at a batch border into the folder, which does not exist, and returns the border."""


class Savepoints:
    """The savepoints under `folder`, and in the buckets that `buckets` returns.

    All methods block; a full disk or a missing right is an ExternalError 53000, and an error of a bucket is as of S3Folder.
    """

    def __init__(
        self, folder: Path, buckets: Callable[[], Collection[CheckpointStore]] = tuple[CheckpointStore]
    ) -> None:
        self._folder = folder
        self._buckets = buckets

    def take(
        self, identifier: str, facts: Mapping[str, Any], copy: Copy, bucket: CheckpointStore | None = None
    ) -> Manifest:
        """Let `copy` copy a checkpoint, and complete it to a savepoint, also in `bucket`. If it fails, nothing is left on this machine."""
        folder = self._folder / identifier
        try:
            folder.mkdir(parents=True)
            last = copy(folder / _CHECKPOINT)
            facts = {**facts, "is_final": last.is_final}
            manifest = Manifest(last.batch, last.is_interrupted, facts, digests(folder / _CHECKPOINT))
            is_plain = not any((folder / _CHECKPOINT / name).exists() for name in (PARTS, VIEWS))
            form = {"format": _PLAIN_FORMAT if is_plain else FORMAT}
            content = json.dumps({**form, **vars(manifest)}, indent=1, ensure_ascii=False)
            if bucket is not None:
                uploaded = bucket.at(_BUCKET_FOLDER, identifier)
                with uploaded.at(_CHECKPOINT).writing(self._folder) as files:
                    copy_whole(folder / _CHECKPOINT, files)
                uploaded.write(_MANIFEST, content)
            write_atomically(folder / _MANIFEST, content)
        except BaseException as error:
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, OSError):
                raise copy_failure(error) from error
            raise
        return manifest

    def fetch(self, identifier: str) -> None:
        """Download a savepoint that this machine lacks from the bucket that has it, if any does."""
        folder = self._folder / identifier
        if (folder / _MANIFEST).is_file():
            return
        for bucket in self._buckets():
            uploaded = bucket.at(_BUCKET_FOLDER, identifier)
            if (content := uploaded.read(_MANIFEST)) is not None:
                try:
                    with uploaded.at(_CHECKPOINT).reading(self._folder) as files:
                        shutil.rmtree(folder, ignore_errors=True)
                        copy_whole(files, folder / _CHECKPOINT)
                    write_atomically(folder / _MANIFEST, content.decode())
                except OSError as error:
                    raise copy_failure(error) from error
                return

    def manifest(self, identifier: str) -> Manifest:
        """Return the manifest of a savepoint. Raises UserError 3D024 without one, XX001 if it is damaged, 0A000 if it is of a later
        release."""
        self.fetch(identifier)
        try:
            content = json.loads((self._folder / identifier / _MANIFEST).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UserError(
                SqlState.SAVEPOINT_NOT_FOUND,
                f"the folder of savepoints has no complete savepoint {identifier}",
                hint="It was moved or deleted, or the server that wrote it ended before it was complete.",
            ) from None
        except ValueError:
            raise _damaged(identifier, _MANIFEST) from None
        written = content.pop("format", None)
        if written not in (_PLAIN_FORMAT, FORMAT):
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"the savepoint {identifier} has the format {written}, but this release reads formats up to {FORMAT}",
                hint="Use the release of Headrace that wrote it.",
            )
        files = {name: (size, digest) for name, (size, digest) in content.pop("files").items()}
        return Manifest(files=files, **content)

    def restore(self, identifier: str, checkpoint: CheckpointStore, continuation: Continuation) -> Manifest:
        """Let a new query continue from a savepoint, part by part. Raises as `manifest` does, and UserError XX001 with
        the name of a changed file."""
        manifest, copy = self.manifest(identifier), self._folder / identifier / _CHECKPOINT
        try:
            present = digests(copy)
            for name in sorted(manifest.files.keys() | present.keys()):
                if manifest.files.get(name) != present.get(name):
                    raise _damaged(identifier, name)
            place_parts(copy, checkpoint, continuation)
        except OSError as error:
            raise copy_failure(error) from error
        return manifest

    def copy_of(self, identifier: str) -> Path:
        """Return the folder of the copied checkpoint."""
        return self._folder / identifier / _CHECKPOINT

    def clean_up(self) -> None:
        """Delete what a server that was killed has left half written. A folder that somebody is copying there is younger."""
        for folder in self._folder.glob("*"):
            if not (folder / _MANIFEST).is_file() and folder.stat().st_mtime < time.time() - _HALF_WRITTEN_S:
                shutil.rmtree(folder, ignore_errors=True)

    def remove(self, identifier: str) -> None:
        """Delete the files of a savepoint."""
        shutil.rmtree(self._folder / identifier, ignore_errors=True)
        for bucket in self._buckets():
            bucket.at(_BUCKET_FOLDER, identifier).remove()


def _damaged(identifier: str, name: str) -> UserError:
    return UserError(
        SqlState.DATA_CORRUPTED,
        f"the file {name} of the savepoint {identifier} was changed or is missing",
        hint="Restore the folder of the savepoint from a backup, or use another savepoint.",
    )
