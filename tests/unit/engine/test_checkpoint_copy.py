"""Copies of checkpoints: what they contain, and what another query finds in its place."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from harness.checkpoint import write_checkpoint
from headrace.connectors.checkpoint_store import LocalFolder
from headrace.connectors.marks import is_begun
from headrace.core.errors import UserError
from headrace.engine.checkpoint_copy import (
    Border,
    border,
    copy_checkpoint,
    copy_failure,
    move_copy,
    place_checkpoint,
)
from headrace.planner.physical import ReadEntity, SparkPlan, WriteEntity

PLAN = SparkPlan(
    steps=[
        ReadEntity(id="s1", store="k", connector="kafka", entity=("orders",)),
        WriteEntity(id="s9", input="s1", store="k", connector="kafka", entity=("sales",)),
    ],
    outputs=["s9"],
)


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_a_copy_contains_one_batch_and_nothing_of_the_sink(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "q", batches=4, planned=1)

    copy_checkpoint(tmp_path / "q", tmp_path / "copy", 3, PLAN)

    assert files(tmp_path / "copy") == {
        "metadata",
        "watermark",
        "identities.json",
        *(f"{log}/{batch}" for log in ("offsets", "commits") for batch in range(4)),
        "state/0/0/2.zip",
        "state/0/0/SSTs/000008-a.sst",
        "state/0/0/3.changelog",
        "state/0/0/4.changelog",
        "state/0/_metadata/v2/0",
        "state/0/_stateSchema/default/0_29d7",
    }
    assert json.loads((tmp_path / "copy" / "identities.json").read_text()) == {"s1": {"orders": "a"}}


def test_state_is_shared_and_outlives_its_query(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "q", batches=4)
    copy_checkpoint(tmp_path / "q", tmp_path / "copy", 3, PLAN)
    shared = "state/0/0/SSTs/000008-a.sst"

    assert (tmp_path / "copy" / shared).samefile(tmp_path / "q" / shared)
    (tmp_path / "q" / shared).unlink()

    assert (tmp_path / "copy" / shared).read_text() == "000008-a.sst"


def test_another_query_has_another_id_and_finds_its_state(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "q", batches=4)
    copy_checkpoint(tmp_path / "q", tmp_path / "copy", 3, PLAN)

    place_checkpoint(tmp_path / "copy", LocalFolder(tmp_path / "next"), 3)

    assert json.loads((tmp_path / "next/metadata").read_text()) != json.loads(
        (tmp_path / "q/metadata").read_text()
    )
    described = json.loads((tmp_path / "next/state/0/_metadata/v2/0").read_text().splitlines()[1])
    (schema,) = described["stateSchemaFilePaths"]
    assert schema == f"file:{tmp_path}/next/state/0/_stateSchema/default/0_29d7"
    assert Path(schema.removeprefix("file:")).is_file()


def test_the_stored_rows_of_a_table_are_found_in_another_folder(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "q", batches=1)
    rows = "spool/rows/part-0.snappy.parquet"
    for name, text in (
        (rows, "rows"),
        ("sources/0/0", f'v1\n{{"path":"file://{tmp_path}/q/{rows}","batchId":0}}'),
    ):
        (tmp_path / "q" / name).parent.mkdir(parents=True)
        (tmp_path / "q" / name).write_text(text)

    move_copy(LocalFolder(tmp_path / "q"), LocalFolder(tmp_path / "moved"), tmp_path)

    log = (tmp_path / "moved/sources/0/0").read_text()
    assert log == f'v1\n{{"path":"file:{tmp_path}/moved/{rows}","batchId":0}}'
    assert (tmp_path / "moved" / rows).read_text() == "rows"


def test_a_query_that_continues_has_no_mark_before_its_first_batch(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "q", batches=4)
    copy_checkpoint(tmp_path / "q", tmp_path / "copy", 3, PLAN)
    place_checkpoint(tmp_path / "copy", LocalFolder(tmp_path / "next"), 3)

    assert is_begun(LocalFolder(tmp_path / "q"))
    assert not is_begun(LocalFolder(tmp_path / "next"))
    (tmp_path / "next/commits/4").write_text("v1\n{}")
    assert is_begun(LocalFolder(tmp_path / "next"))


def test_a_state_that_lacks_a_file_is_not_copied(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "q", batches=4)
    (tmp_path / "q/state/0/0/3.changelog").unlink()

    with pytest.raises(FileNotFoundError, match=r"3\.changelog") as caught:
        copy_checkpoint(tmp_path / "q", tmp_path / "copy", 3, PLAN)
    assert "has no file 3.changelog," in copy_failure(caught.value).message


def test_a_state_whose_partitions_change_meanwhile_is_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = tmp_path / "q"
    write_checkpoint(checkpoint, batches=4)
    # A driver ended before the new state was in the place of the old one.
    (checkpoint / "state.for.5").mkdir()
    with pytest.raises(UserError, match="is being divided into other partitions"):
        copy_checkpoint(checkpoint, tmp_path / "copy", 3, PLAN)
    with pytest.raises(UserError, match="is being divided into other partitions"):
        move_copy(LocalFolder(checkpoint), LocalFolder(tmp_path / "moved"), tmp_path)
    (checkpoint / "state.for.5").rmdir()

    link = os.link

    def linked(source: Path, target: Path) -> None:
        (checkpoint / "offsets/3").write_text("v1\n{}")
        link(source, target)

    monkeypatch.setattr(os, "link", linked)
    with pytest.raises(UserError, match="is being divided into other partitions"):
        copy_checkpoint(checkpoint, tmp_path / "second", 3, PLAN)


def test_state_without_a_snapshot_is_all_changes(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "q", batches=3, snapshot=9)

    copy_checkpoint(tmp_path / "q", tmp_path / "copy", 2, PLAN)

    assert {name for name in files(tmp_path / "copy") if name.startswith("state/0/0/")} == {
        f"state/0/0/{version}.changelog" for version in (1, 2, 3)
    }


def test_nothing_is_left_of_a_checkpoint_that_could_not_be_placed(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "q", batches=4)
    copy_checkpoint(tmp_path / "q", tmp_path / "copy", 3, PLAN)
    (tmp_path / "copy/offsets/0").unlink()
    (tmp_path / "copy/offsets/0").symlink_to(tmp_path / "nowhere")

    with pytest.raises(FileNotFoundError):
        place_checkpoint(tmp_path / "copy", LocalFolder(tmp_path / "next"), 3)

    assert not (tmp_path / "next").exists()


def test_the_border_is_the_last_finished_batch(tmp_path: Path) -> None:
    assert border(LocalFolder(tmp_path)) is None
    write_checkpoint(tmp_path / "q", batches=4)
    write_checkpoint(tmp_path / "stopped", batches=4, planned=1)

    assert border(LocalFolder(tmp_path / "q")) == Border(3, is_interrupted=False)
    assert border(LocalFolder(tmp_path / "stopped")) == Border(3, is_interrupted=True)
