"""The state of a checkpoint in a bucket is divided anew: whichever request is a driver's last, the next driver completes the change."""

from __future__ import annotations

import re
import shutil
import uuid
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.checkpoint import write_checkpoint
from harness.kinesis import ACCESS_KEY, SECRET_KEY
from harness.s3 import S3Client
from headrace.connectors import checkpoint_bucket
from headrace.connectors.checkpoint_bucket import Login, S3Folder
from headrace.connectors.checkpoint_store import LocalFolder
from headrace.core.errors import UserError
from headrace.engine.checkpoint_copy import copy_at_rest, state_partitions
from headrace.engine.driver import state_partitions as driver
from tests.unit.engine.test_checkpoint_copy import PLAN

BATCH = 1
CHANGES = ("put_object", "copy_object", "delete_object", "delete_objects")


class LostDriver(BaseException):
    """The end of a driver."""


class Requests:
    """A client of S3 that ends the driver instead of the request with a number, of those that change something."""

    def __init__(self, client: Any, last: int) -> None:
        self._client = client
        self._left = last

    def __getattr__(self, name: str) -> Any:
        if name not in CHANGES:
            return getattr(self._client, name)

        def request(**arguments: Any) -> Any:
            self._left -= 1
            if self._left < 0:
                raise LostDriver
            return getattr(self._client, name)(**arguments)

        return request


class Jvm:
    """The part of the JVM: it puts a new state into the place of the old one, in a folder of this machine."""

    def __init__(self) -> None:
        self.conf = SimpleNamespace(set=lambda _name, _value: None)
        self._jsparkSession = None

    def change(self, _session: None, folder: str, batch: int, partitions: int) -> None:
        for log in (Path(folder) / "offsets").iterdir():
            log.write_text(re.sub(r'"\d+"', f'"{partitions}"', log.read_text()))
        shutil.rmtree(Path(folder) / "state")
        for partition in range(partitions):
            (Path(folder) / f"state/0/{partition}").mkdir(parents=True)
            with zipfile.ZipFile(Path(folder) / f"state/0/{partition}/{batch + 1}.zip", "w") as snapshot:
                snapshot.writestr("metadata", f'v1\n{{"sstFiles": [], "partitions": {partitions}}}')
            (Path(folder) / f"state/0/{partition}/.{batch + 1}.zip.crc").write_text("a checksum of Hadoop")

    def __getattr__(self, _name: str) -> Any:
        return self


@pytest.fixture
def checkpoint(s3: S3Client, tmp_path: Path) -> S3Folder:
    """A query with one partition of state, in a bucket."""
    folder = S3Folder(Login(s3.server.uri, "us-east-1", ACCESS_KEY, SECRET_KEY), s3.bucket, uuid.uuid4().hex)
    with folder.writing(tmp_path) as written:
        write_checkpoint(written / "q", batches=BATCH + 1)
        for content in list((written / "q").iterdir()):
            content.rename(written / content.name)
    return folder


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(driver, "jvm", lambda session: session)
    # One after another, so that each run of a test has the same requests.
    monkeypatch.setattr(checkpoint_bucket, "_TRANSFERS", 1)
    return Jvm()


def state_is_for(checkpoint: Path, partitions: int) -> bool:
    """Return True if each file of a state was written for so many partitions, and none is missing."""
    snapshots = sorted((checkpoint / "state/0").glob("*/*.zip"))
    contents = [zipfile.ZipFile(path).read("metadata").decode() for path in snapshots]
    return [path.parent.name for path in snapshots] == list(map(str, range(partitions))) and all(
        f'"partitions": {partitions}' in content for content in contents
    )


def test_a_driver_that_ends_at_any_request_leaves_the_change_to_the_next_one(
    checkpoint: S3Folder, session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, refusals = checkpoint_bucket._client, 0
    driver.divide_state(session, checkpoint, 2)
    present = 2
    for last in range(100):
        partitions = 2 if present == 3 else 3
        requests = Requests(client(checkpoint.login), last)
        monkeypatch.setattr(checkpoint_bucket, "_client", lambda _login, requests=requests: requests)
        try:
            driver.divide_state(session, checkpoint, partitions)
        except LostDriver:
            pass
        else:
            break
        finally:
            monkeypatch.setattr(checkpoint_bucket, "_client", client)
        # A savepoint has the old state or the new one, or it is refused.
        copy = tmp_path / f"copy-{last}"
        try:
            copy_at_rest(checkpoint, copy, PLAN)
        except UserError as error:
            if "is being divided" not in error.message:
                raise
            refusals += 1
        else:
            assert state_is_for(copy, state_partitions(LocalFolder(copy), BATCH))
        driver.divide_state(session, checkpoint, partitions)
        assert state_partitions(checkpoint, BATCH) == partitions
        with checkpoint.reading(tmp_path) as folder:
            assert state_is_for(folder, partitions)
        present = partitions
    assert 10 < last < 99
    assert refusals > 2
    assert sorted(checkpoint.names("")) == [
        *("clickhouse", "commits", "identities.json", "metadata", "offsets", "state", "watermark")
    ]


def test_a_number_that_the_state_has_changes_nothing(checkpoint: S3Folder, session: Any) -> None:
    before = checkpoint.names("state/0")
    driver.divide_state(session, checkpoint, 1)
    assert checkpoint.names("state/0") == before
    assert checkpoint.read("state/0/0/SSTs/000008-a.sst") == b"000008-a.sst"
