"""Folders of savepoints: complete or not there, and refused when they were changed."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from harness.checkpoint import write_checkpoint
from headrace.connectors.checkpoint_store import LocalFolder
from headrace.core.errors import ExternalError, UserError
from headrace.core.sqlstate import SqlState
from headrace.engine.checkpoint_copy import Border, Continuation, copy_checkpoint
from headrace.engine.savepoints import Savepoints
from tests.unit.engine.test_checkpoint_copy import PLAN, files

WHOLE = Continuation({(): ()})
"""The folders of a savepoint of a query that is no application."""
FACTS = {"query_id": "q", "sql": "INSERT INTO r SELECT a FROM s"}


@pytest.fixture
def savepoints(tmp_path: Path) -> Savepoints:
    write_checkpoint(tmp_path / "q", batches=4)
    savepoints = Savepoints(tmp_path / "savepoints")

    def copy(target: Path) -> Border:
        copy_checkpoint(tmp_path / "q", target, 3, PLAN)
        return Border(3, is_interrupted=False)

    savepoints.take("s", FACTS, copy)
    return savepoints


def test_a_savepoint_describes_itself(savepoints: Savepoints, tmp_path: Path) -> None:
    manifest = savepoints.manifest("s")

    assert (manifest.batch, manifest.is_interrupted, manifest.facts) == (
        3,
        False,
        {**FACTS, "is_final": False},
    )
    assert manifest.files.keys() == files(tmp_path / "savepoints/s/checkpoint")
    assert manifest.size == sum(
        path.stat().st_size for path in (tmp_path / "savepoints/s/checkpoint").rglob("*") if path.is_file()
    )


def test_another_query_continues_from_it(savepoints: Savepoints, tmp_path: Path) -> None:
    savepoints.restore("s", LocalFolder(tmp_path / "next"), WHOLE)
    savepoints.remove("s")

    assert (tmp_path / "next/commits/3").is_file()
    assert (tmp_path / "next/state/0/0/SSTs/000008-a.sst").is_file()


@pytest.mark.parametrize("name", ["state/0/0/4.changelog", "offsets/3", "state/0/0/2.zip"])
def test_a_changed_file_is_refused(savepoints: Savepoints, tmp_path: Path, name: str) -> None:
    file = tmp_path / "savepoints/s/checkpoint" / name
    content = file.read_bytes()
    for changed in (content[:-1], content[:-1] + b"!", None):
        file.unlink()
        if changed is not None:
            file.write_bytes(changed)
        with pytest.raises(
            UserError, match=f"the file {name} of the savepoint s was changed or is missing"
        ) as caught:
            savepoints.restore("s", LocalFolder(tmp_path / "next"), WHOLE)
        assert caught.value.state is SqlState.DATA_CORRUPTED
        assert not (tmp_path / "next").exists()
        file.write_bytes(content)


def test_earlier_releases_read_a_savepoint_without_parts_and_rows(
    savepoints: Savepoints, tmp_path: Path
) -> None:
    def copy(target: Path) -> Border:
        copy_checkpoint(tmp_path / "q", target / "parts" / "sink_a", 3, PLAN)
        return Border(3, is_interrupted=False, is_final=True)

    savepoints.take("parts", FACTS, copy)

    formats = {
        name: json.loads((tmp_path / "savepoints" / name / "manifest.json").read_text())["format"]
        for name in ("s", "parts")
    }
    assert formats == {"s": 1, "parts": 2}
    assert savepoints.manifest("parts").facts["is_final"]


def test_a_half_written_savepoint_is_none(savepoints: Savepoints, tmp_path: Path) -> None:
    (tmp_path / "savepoints/s/manifest.json").unlink()

    with pytest.raises(UserError, match="no complete savepoint s") as caught:
        savepoints.restore("s", LocalFolder(tmp_path / "next"), WHOLE)

    assert caught.value.state is SqlState.SAVEPOINT_NOT_FOUND


def test_a_start_deletes_what_was_left_half_written(savepoints: Savepoints, tmp_path: Path) -> None:
    for name, age_s in (("copying", 0), ("left", 7200)):
        (tmp_path / "savepoints" / name / "checkpoint").mkdir(parents=True)
        time = (tmp_path / "savepoints" / name).stat().st_mtime - age_s
        os.utime(tmp_path / "savepoints" / name, (time, time))

    savepoints.clean_up()

    assert {path.name for path in (tmp_path / "savepoints").iterdir()} == {"s", "copying"}


def test_a_savepoint_of_a_later_release_is_refused(savepoints: Savepoints, tmp_path: Path) -> None:
    manifest = tmp_path / "savepoints/s/manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 3}))

    with pytest.raises(UserError, match="has the format 3, but this release reads formats up to 2"):
        savepoints.restore("s", LocalFolder(tmp_path / "next"), WHOLE)


def test_a_manifest_that_is_cut_off_is_refused(savepoints: Savepoints, tmp_path: Path) -> None:
    manifest = tmp_path / "savepoints/s/manifest.json"
    manifest.write_text(manifest.read_text()[:100])

    with pytest.raises(UserError, match=r"the file manifest\.json of the savepoint s was changed"):
        savepoints.manifest("s")


def test_nothing_is_left_when_the_disk_is_full(savepoints: Savepoints, tmp_path: Path) -> None:
    def copy(target: Path) -> Border:
        target.mkdir()
        (target / "offsets").write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(ExternalError, match="could not be written: No space left on device"):
        savepoints.take("t", FACTS, copy)

    assert not (tmp_path / "savepoints/t").exists()
