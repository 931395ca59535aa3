"""Files that appear together or not at all, even if a process dies in between."""

from __future__ import annotations

from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from harness.kinesis import ACCESS_KEY, SECRET_KEY
from harness.s3 import S3Client
from headrace.connectors.checkpoint_bucket import Login, S3Folder
from headrace.connectors.checkpoint_store import CheckpointStore, LocalFolder
from headrace.connectors.s3 import commits
from headrace.connectors.s3.commits import Commits, Upload


def uploads(s3: S3Client, seed: str, *names: str) -> list[Upload]:
    return [commits.upload(s3.boto, s3.bucket, f"{seed}/{name}", name.encode()) for name in names]


def open_uploads(s3: S3Client, seed: str) -> list[str]:
    listing = s3.boto.list_multipart_uploads(Bucket=s3.bucket, Prefix=f"{seed}/")
    return [item["Key"].removeprefix(f"{seed}/") for item in listing.get("Uploads", ())]


@pytest.fixture(params=("folder", "bucket"))
def lists(request: pytest.FixtureRequest, s3: S3Client, seed: str, tmp_path: Path) -> CheckpointStore:
    login = Login(s3.server.uri, "us-east-1", ACCESS_KEY, SECRET_KEY)
    in_bucket = S3Folder(login, s3.bucket, f"checkpoints_{seed}/q/files")
    return in_bucket if request.param == "bucket" else LocalFolder(tmp_path / "files")


def test_files_are_seen_when_they_are_committed(s3: S3Client, seed: str, lists: CheckpointStore) -> None:
    kept = Commits(s3.boto, s3.bucket, lists)
    made = uploads(s3, seed, "part-q-1-0", "part-q-1-1")
    assert s3.keys(f"{seed}/") == []
    kept.commit(1, made)
    assert kept.contains(1)
    assert s3.keys(f"{seed}/") == [f"{seed}/part-q-1-0", f"{seed}/part-q-1-1"]
    kept.commit(2, [])
    assert lists.names("") == ["2.json"]
    assert Commits(s3.boto, s3.bucket, lists).contains(2)


def test_what_was_committed_is_completed_after_a_kill(
    s3: S3Client, seed: str, lists: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(_name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(commits, "fail_point", killed)
    made = uploads(s3, seed, "part-q-1-0", "part-q-1-1")
    with pytest.raises(KeyboardInterrupt):
        Commits(s3.boto, s3.bucket, lists).commit(1, made)
    assert len(s3.keys(f"{seed}/")) == 1
    again = Commits(s3.boto, s3.bucket, lists)
    again.recover(f"{seed}/", "-q-")
    assert again.contains(1)
    assert s3.keys(f"{seed}/") == [f"{seed}/part-q-1-0", f"{seed}/part-q-1-1"]
    again.recover(f"{seed}/", "-q-")  # killed while it recovered


def test_what_was_not_committed_is_aborted_and_what_is_another_querys_is_let_be(
    s3: S3Client, seed: str, lists: CheckpointStore
) -> None:
    uploads(s3, seed, "part-q-1-0", "country=at/part-q-1-1", "part-other-1-0", "-q-/data")
    kept = Commits(s3.boto, s3.bucket, lists)
    kept.recover(f"{seed}/", "-q-")
    assert not kept.contains(1)
    assert s3.keys(f"{seed}/") == []
    assert sorted(open_uploads(s3, seed)) == ["-q-/data", "part-other-1-0"]


def test_an_aborted_upload_is_reported(s3: S3Client, seed: str, lists: CheckpointStore) -> None:
    (made,) = uploads(s3, seed, "part-q-1-0")
    commits.abort(s3.boto, s3.bucket, made.key, made.id)
    commits.abort(s3.boto, s3.bucket, made.key, made.id)
    with pytest.raises(ClientError):  # AWS says NoSuchUpload, moto fails over it
        Commits(s3.boto, s3.bucket, lists).commit(1, [made])
