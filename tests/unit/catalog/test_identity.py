"""A data directory and its catalog store each other's id; a mismatch is an error that changes nothing."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from headrace.catalog.catalog import Catalog
from headrace.catalog.identity import bind
from headrace.core.errors import UserError
from headrace.core.settings import Settings
from headrace.engine.checkpoints import ASIDE, Checkpoints
from headrace.engine.views.opening import open_views


def start(directory: Path, catalog: Path | None = None, *, adopt: bool = False) -> None:
    """Start as a server does, with the catalog of `catalog` in the place of the directory's own."""
    opened = Catalog.open(catalog or directory)
    try:
        bind(opened, directory, adopt=adopt)
    finally:
        opened.close()


def test_a_start_with_another_catalog_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    ours, others = tmp_path / "ours", tmp_path / "others"
    start(ours)
    start(others)
    before = {path.name: path.read_bytes() for path in ours.iterdir() if path.is_file()}
    for _ in range(2):
        with pytest.raises(UserError, match="belongs to another catalog") as refusal:
            start(ours, others)
        assert "HEADRACE_CATALOG_URL" in (refusal.value.hint or "")
    assert {path.name: path.read_bytes() for path in ours.iterdir() if path.is_file()} == before
    start(ours)
    start(others)


def test_a_catalog_accepts_a_new_directory_only_with_adopt(tmp_path: Path) -> None:
    catalog, lost, new = tmp_path / "catalog", tmp_path / "lost", tmp_path / "new"
    for directory in (lost, new):
        directory.mkdir()
    start(lost, catalog)
    start(lost, catalog)
    with pytest.raises(UserError, match="belongs to another data directory") as refusal:
        start(new, catalog)
    assert "HEADRACE_ADOPT_DATA_DIR" in (refusal.value.hint or "")
    start(new, catalog, adopt=True)
    start(new, catalog)
    with pytest.raises(UserError, match="belongs to another data directory"):
        start(lost, catalog, adopt=True)


def test_a_directory_of_an_earlier_version_is_adopted_once(tmp_path: Path) -> None:
    Catalog.open(tmp_path).close()
    (tmp_path / "checkpoints" / "q").mkdir(parents=True)
    (tmp_path / "views.duckdb").touch()
    start(tmp_path)
    assert (tmp_path / "identity.json").is_file()
    start(tmp_path)


@pytest.mark.parametrize("left", ["catalog.key", "views.duckdb", "checkpoints/q", "identity.json"])
def test_a_new_catalog_beside_what_another_has_left_is_refused(tmp_path: Path, left: str) -> None:
    path = tmp_path / left
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(bytes(32))
    for _ in range(2):
        with pytest.raises(
            UserError, match=f"the catalog is new, but .* contains {left.partition('/')[0]} of another"
        ):
            Catalog.open(tmp_path)
    assert path.read_bytes() == bytes(32)


@pytest.mark.parametrize(
    "damage",
    [b"no database at all" * 300, b"SQLite format 3\0" + bytes(5000), None],
    ids=["no database", "cut off", "damaged in the middle"],
)
def test_a_damaged_catalog_is_a_sentence(tmp_path: Path, damage: bytes | None) -> None:
    Catalog.open(tmp_path).close()
    file = tmp_path / "catalog.db"
    content = bytearray(file.read_bytes())
    content[200 : len(content) // 2] = os.urandom(len(content) // 2 - 200)
    file.write_bytes(damage or bytes(content))
    with pytest.raises(UserError, match=r"cannot open the catalog in .*catalog\.db") as refusal:
        Catalog.open(tmp_path)
    assert "backup" in (refusal.value.hint or "")


def test_a_catalog_that_is_a_folder_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").mkdir()
    with pytest.raises(UserError, match="unable to open database file"):
        Catalog.open(tmp_path)


def test_damaged_rows_of_views_are_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "views.duckdb").write_bytes(b"no database" * 1000)
    with pytest.raises(UserError, match=r"cannot open the rows of materialized views in .*views\.duckdb"):
        open_views(Settings(data_dir=tmp_path), owner="o")


def test_checkpoints_that_the_catalog_does_not_know_are_set_aside_for_some_days(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    for name in ("known", "unknown", "interactive-x"):
        (folder / name).mkdir(parents=True)
    checkpoints = Checkpoints(folder)
    before = int(time.time())
    checkpoints.retain({"known"}, days=7)
    assert [path.name for path in folder.iterdir()] == ["known"]
    [aside] = (tmp_path / ASIDE).iterdir()
    since, _, name = aside.name.partition("-")
    assert (name, before <= int(since) <= time.time()) == ("unknown", True)
    checkpoints.retain({"known"}, days=7)
    assert aside.exists()
    aside.rename(aside.with_name(f"{int(since) - 8 * 86_400}-{name}"))
    checkpoints.retain({"known"}, days=7)
    assert not any((tmp_path / ASIDE).iterdir())
