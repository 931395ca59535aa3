"""A table that is kept whole for lookups, in a bucket: what workers see of it, and how often they ask."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from harness.kinesis import ACCESS_KEY, SECRET_KEY
from harness.s3 import S3Client
from headrace.connectors.checkpoint_bucket import Login, S3Folder
from headrace.connectors.checkpoint_store import facts_of
from headrace.core.errors import ExternalError
from headrace.engine.driver import lookups
from headrace.engine.driver.lookups import FetchedTable

ROWS = pa.table({"k": pa.array([1, 2], pa.int32()), "name": ["a", "b"]})
KEYS = pa.table({"k": pa.array([2, 3], pa.int64())})


@pytest.fixture
def folder(s3: S3Client) -> S3Folder:
    login = Login(s3.server.uri, "us-east-1", ACCESS_KEY, SECRET_KEY)
    return S3Folder(login, s3.bucket, f"q-{uuid.uuid4().hex[:8]}/tables/t")


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The time of a worker, in seconds, which only a test changes."""
    now = [0.0]
    monkeypatch.setattr(lookups.time, "monotonic", lambda: now[0])
    yield now
    lookups._fetched.clear()


def names(table: FetchedTable) -> Any:
    return table(KEYS).column("name").to_pylist()


def test_a_worker_sees_a_replaced_table_within_a_second_and_then_its_failure(
    folder: S3Folder, s3: S3Client, clock: list[float]
) -> None:
    table = FetchedTable(facts_of(folder))
    assert SECRET_KEY not in repr(table)
    in_worker = pickle.loads(pickle.dumps(table))  # noqa: S301 - as Spark sends it
    table.replace(ROWS)
    assert names(in_worker) == ["b"]
    table.replace(pa.table({"k": pa.array([3, 2], pa.int32()), "name": ["c", "d"]}))
    assert names(in_worker) == ["b"]
    clock[0] += 1
    assert names(in_worker) == ["c", "d"]
    # The table of an earlier driver whose version is not known yet is used, and read once more.
    table.replace(ROWS)
    folder.delete("version")
    clock[0] += 1
    assert names(in_worker) == ["b"]
    table.refuse("the table is gone")
    assert names(in_worker) == ["b"]
    clock[0] += 1
    with pytest.raises(RuntimeError, match="the table is gone"):
        names(in_worker)
    assert {key.removeprefix(f"{folder.prefix}/") for key in s3.keys(folder.prefix)} == {"table", "failure"}


def test_a_table_is_downloaded_once_for_each_version(
    folder: S3Folder, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, reads = FetchedTable(facts_of(folder)), []
    read = S3Folder.read

    def counted(self: S3Folder, name: str) -> bytes | None:
        reads.append(name)
        return read(self, name)

    monkeypatch.setattr(S3Folder, "read", counted)
    table.replace(ROWS)
    for _ in range(3):
        names(table)
        names(table)
        clock[0] += 1
    assert reads == ["failure", "version", "table", *(2 * ["failure", "version"])]


def test_a_lookup_fails_if_the_bucket_is_away_or_the_table_was_deleted(folder: S3Folder) -> None:
    table = FetchedTable(facts_of(folder))
    with pytest.raises(RuntimeError, match=r"s3://.*/tables/t/table"):
        names(table)
    table.replace(ROWS)
    away = Login("http://127.0.0.1:1", "us-east-1", ACCESS_KEY, SECRET_KEY)
    with pytest.raises(ExternalError, match="does not answer as S3"):
        names(FetchedTable(facts_of(S3Folder(away, folder.bucket, folder.prefix))))
