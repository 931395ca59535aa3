"""Checkpoints of pools, and what a server that was killed has left in a bucket."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from headrace.connectors.checkpoint_store import CheckpointStore, LocalFolder
from headrace.core.errors import ExternalError
from headrace.core.sqlstate import SqlState
from headrace.engine.checkpoints import Checkpoints


@dataclass
class Bucket:
    """A place that is not a folder of this machine for the server, and may be away."""

    folder: LocalFolder
    is_away: bool = False

    def __getattr__(self, name: str) -> Any:
        if self.is_away:
            raise ExternalError(SqlState.REMOTE_UNAVAILABLE, "the bucket is away")
        return getattr(self.folder, name)

    @property
    def uri(self) -> str:
        return f"s3:/{self.folder.path}"

    def at(self, *names: str) -> Bucket:
        return replace(self, folder=self.folder.at(*names))


def checkpoints(folder: Path, bucket: Bucket, *, has_workers: bool = True) -> Checkpoints:
    return Checkpoints(
        folder, lambda: {"far": cast(CheckpointStore, bucket)}, lambda pool: pool == "far" and has_workers
    )


def test_interactive_queries_of_an_earlier_server_are_removed_from_a_bucket_after_the_start(
    tmp_path: Path,
) -> None:
    bucket = Bucket(LocalFolder(tmp_path / "bucket"), is_away=True)
    for name in ("interactive-old", "q-1"):
        bucket.folder.write(f"{name}/offsets/0", "v1")
    place = checkpoints(tmp_path / "own", bucket)
    place.retain((), days=7)  # asks no bucket
    assert not place.remove_remote_interactive()
    bucket.is_away = False
    # A query of this server has started meanwhile.
    place.temporary("new", "far").write("offsets/0", "v1")
    assert place.remove_remote_interactive()
    assert sorted(bucket.names("")) == ["interactive-new", "q-1"]
    place.remove_temporary("new", "far")
    assert bucket.names("") == ["q-1"]


def test_a_bucket_whose_pool_has_no_workers_has_no_interactive_queries(tmp_path: Path) -> None:
    bucket = Bucket(LocalFolder(tmp_path / "bucket"), is_away=True)
    place = checkpoints(tmp_path / "own", bucket, has_workers=False)
    assert place.temporary("q", "far") == LocalFolder(tmp_path / "own" / "interactive-q")
    assert place.remove_remote_interactive()


def test_the_places_of_all_pools_are_listed_without_a_folder_that_was_never_written(tmp_path: Path) -> None:
    bucket, own = Bucket(LocalFolder(tmp_path / "bucket")), tmp_path / "own"
    place = checkpoints(own, bucket)
    assert place.places() == [bucket.uri]
    own.mkdir()
    assert place.places() == sorted([str(own), bucket.uri])


def test_a_missing_folder_of_a_pool_with_queries_is_listed(tmp_path: Path) -> None:
    own, mount = tmp_path / "own", LocalFolder(tmp_path / "mount")
    place = Checkpoints(own, lambda: {"far": mount})
    assert place.places(["default_pool"]) == []
    assert place.places(["default_pool", "far"]) == [mount.uri]
    mount.path.mkdir()
    assert place.places() == [mount.uri]
