"""Files found by a query, over the death of its process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from harness.kinesis import ACCESS_KEY, SECRET_KEY
from harness.s3 import S3Client
from headrace.connectors.checkpoint_bucket import Login, S3Folder
from headrace.connectors.checkpoint_store import CheckpointStore, LocalFolder
from headrace.connectors.s3 import discovery
from headrace.connectors.s3.client import File
from headrace.connectors.s3.discovery import FileLog, open_log
from headrace.core.errors import UserError


def file(name: str) -> File:
    return File(name, 1, '"x"', 0)


Open = Callable[[], FileLog]


@pytest.fixture(params=("folder", "bucket"))
def store(request: pytest.FixtureRequest, seed: str, tmp_path: Path) -> CheckpointStore:
    if request.param == "folder":
        return LocalFolder(tmp_path / "rows" / "source")
    return in_bucket(request.getfixturevalue("s3"), seed)


def in_bucket(s3: S3Client, seed: str) -> CheckpointStore:
    login = Login(s3.server.uri, "us-east-1", ACCESS_KEY, SECRET_KEY)
    return S3Folder(login, s3.bucket, f"checkpoints_{seed}/q/rows/source")


@pytest.fixture
def opened(store: CheckpointStore) -> Iterator[Open]:
    """A log, each time as a process of its own has it: what one does not flush, the next does not see."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(open_log(store)))


def test_an_offset_has_the_same_files_after_a_kill(opened: Open) -> None:
    log = opened()
    log.begin()
    assert log.append([file("a"), file("b")]) == 3
    assert log.append([file("c")]) == 4
    again = opened()
    assert [(number, item.key) for number, item in again.between(1, 4)] == [(1, "a"), (2, "b"), (3, "c")]
    assert file("b") in again
    assert file("d") not in again
    assert again.append([file("d")]) == 5


def test_what_spark_never_heard_of_is_found_again(opened: Open) -> None:
    log = opened()
    log.begin()
    log.append([file("a"), file("b")])
    again = opened()
    again.rewind(2)
    assert file("a") in again
    assert file("b") not in again
    assert again.append([file("c")]) == 3
    assert [item.key for _, item in opened().between(0, 3)] == ["a", "c"]


def test_a_line_that_was_being_written_counts_for_nothing(opened: Open, store: CheckpointStore) -> None:
    log = opened()
    log.begin()
    log.append([file("a")])
    # In a bucket, of a log that was in a folder before.
    store.write("files", b'"begun"\n["a", 1, "x", 0]\n["b", 1')
    store.delete("files-1")
    again = opened()
    assert file("b") not in again
    assert again.append([file("c")]) == 3
    assert [item.key for _, item in opened().between(0, 3)] == ["a", "c"]


def test_a_log_moves_from_a_bucket_to_a_folder_and_back(s3: S3Client, seed: str, tmp_path: Path) -> None:
    bucket, folder = in_bucket(s3, seed), LocalFolder(tmp_path)
    with closing(open_log(bucket)) as log:
        log.begin()
        log.append([file("a"), file("b")])
        log.append([file("c")])
    for origin, target in ((bucket, folder), (folder, bucket)):
        for name in origin.names(""):
            target.write(name, origin.read(name) or b"")
        origin.remove()
        with closing(open_log(target)) as log:
            assert [item.key for _, item in log.between(0, 4)] == ["a", "b", "c"]
            log.rewind(3)
            assert log.append([file("c")]) == 4
    assert sorted(bucket.names("")) == ["files", "files-3"]


def test_many_batches_are_few_files_in_a_bucket_over_the_death_of_their_process(
    s3: S3Client, seed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "_PIECES_MAX", 4)
    bucket = in_bucket(s3, seed)
    with closing(open_log(bucket)) as log:
        log.begin()
        for number in range(10):
            log.append([file(f"f{number}")])
            log.rewind(number + 2)
        assert len(bucket.names("")) <= 4
    # The process that joined files was killed before it deleted the others, and Spark lacks the last batches.
    bucket.write("files-2", bucket.read("files") or b"")
    with closing(open_log(bucket)) as log:
        assert [item.key for _, item in log.between(0, 11)] == [f"f{number}" for number in range(10)]
        log.rewind(3)
        assert log.append([file("new")]) == 4
    with closing(open_log(bucket)) as log:
        assert [item.key for _, item in log.between(0, 4)] == ["f0", "f1", "new"]
        assert file("f2") not in log
    bucket.delete("files")
    with pytest.raises(UserError, match="lacks the lines 0 to 2"):
        open_log(bucket)


def test_without_a_place_it_lives_as_long_as_its_process() -> None:
    log = open_log(None)
    log.begin()
    assert [item.key for _, item in log.between(0, log.append([file("a")]))] == ["a"]
    log.close()
