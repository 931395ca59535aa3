"""Damaged checkpoints: the file in the error. tests/driver/test_state.py checks the same for files that Spark wrote."""

from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path

import pytest

from headrace.connectors.checkpoint_store import LocalFolder
from headrace.engine.driver.checkpoint_damage import IDENTITIES, damage, damaged_file, remove_unfinished

_BLOCK = struct.Struct("<8sBIII")
CHANGELOG = _BLOCK.pack(b"LZ4Block", 0x15, 4, 4, 7) + b"abcd" + _BLOCK.pack(b"LZ4Block", 0x15, 0, 0, 0)
SST = "000008-1.sst"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Three batches, with a snapshot of the state."""
    for folder in ("offsets", "commits", "state/0/0/SSTs"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "metadata").write_text('{"id":"1"}')
    (tmp_path / IDENTITIES).write_text('{"a0":{"t":"tqVxvqNNTJOwZmtBQHoB1A"}}')
    for batch in range(3):
        (tmp_path / f"offsets/{batch}").write_text('v1\n{"batchWatermarkMs":0}\n-\n{"t":{"0":1}}')
        (tmp_path / f"commits/{batch}").write_text('v1\n{"nextBatchWatermarkMs":0}')
        (tmp_path / f"state/0/0/{batch + 1}.changelog").write_bytes(CHANGELOG)
    (tmp_path / f"state/0/0/SSTs/{SST}").write_bytes(b"rows")
    files = {"sstFiles": [{"localFileName": "000008.sst", "dfsSstFileName": SST, "sizeBytes": 4}]}
    with zipfile.ZipFile(tmp_path / "state/0/0/2.zip", "w") as archive:
        archive.writestr("metadata", f"v1\n{json.dumps(files)}")
    return tmp_path


def test_only_unfinished_files_of_the_logs_are_removed(checkpoint: Path) -> None:
    kept = sorted(path for path in checkpoint.rglob("*") if path.is_file())
    for name in ("offsets/.3.68b0fc30.tmp", "commits/.2.68b0fc30.tmp"):
        (checkpoint / name).touch()
    remove_unfinished(LocalFolder(checkpoint))
    assert sorted(path for path in checkpoint.rglob("*") if path.is_file()) == kept
    remove_unfinished(LocalFolder(checkpoint / "missing"))


def test_a_whole_checkpoint_and_none_at_all_have_no_damaged_file(checkpoint: Path) -> None:
    (checkpoint / "offsets" / ".2.crc").touch()
    (checkpoint / "state/0/0/.3.changelog.tmp").touch()
    assert damaged_file(checkpoint) is None
    assert damaged_file(checkpoint / "of a query that never ran") is None


@pytest.mark.parametrize("length", [0, 2, 12])
@pytest.mark.parametrize(
    "name",
    [
        "metadata",
        IDENTITIES,
        "offsets/2",
        "commits/2",
        "commits/1",
        "state/0/0/3.changelog",
        "state/0/0/2.zip",
    ],
)
def test_a_file_that_is_cut_off_is_named(checkpoint: Path, name: str, length: int) -> None:
    path = checkpoint / name
    path.write_bytes(path.read_bytes()[: min(length, path.stat().st_size - 1)])
    assert damaged_file(checkpoint) == path


def test_a_changelog_without_its_last_block_is_named(checkpoint: Path) -> None:
    path = checkpoint / "state/0/0/3.changelog"
    path.write_bytes(CHANGELOG[: -_BLOCK.size])
    assert damaged_file(checkpoint) == path


@pytest.mark.parametrize("content", [b"ro", None])
def test_a_file_of_rocksdb_that_is_cut_off_or_gone_is_named(checkpoint: Path, content: bytes | None) -> None:
    path = checkpoint / "state/0/0/SSTs" / SST
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    assert damaged_file(checkpoint) == path


def test_what_spark_does_not_read_any_more_is_not_looked_at(checkpoint: Path) -> None:
    (checkpoint / "commits" / "0").write_text("")
    assert damaged_file(checkpoint) is None


def test_a_file_that_spark_misses_is_named(checkpoint: Path) -> None:
    path = checkpoint / "state/0/0/3.changelog"
    trace = (
        f"[CANNOT_LOAD_STATE_STORE.CANNOT_READ_STREAMING_STATE_FILE] Error reading file:{path} of the state"
    )
    assert damage(checkpoint, trace) is None
    path.unlink()
    error = damage(checkpoint, trace)
    assert error is not None
    assert error.message.startswith("the file state/0/0/3.changelog of the query's checkpoint is damaged")


def test_state_that_spark_could_not_load_for_another_reason_is_no_damage(checkpoint: Path) -> None:
    assert damage(checkpoint, "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred") is None
