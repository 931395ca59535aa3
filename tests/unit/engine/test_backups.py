"""Backups over real catalogs, checkpoints and views; `tests/faults/test_backup.py` takes them of queries that run."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pyarrow
import pytest

from harness.checkpoint import write_checkpoint
from harness.session import Session, open_session
from headrace.catalog import queries
from headrace.catalog.catalog import Catalog
from headrace.catalog.objects import Query
from headrace.connectors.checkpoint_store import LocalFolder
from headrace.connectors.marks import WRITER, writer_of
from headrace.core.errors import UserError
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.engine.backups import MANIFEST, Backup
from headrace.engine.engine import Engine
from headrace.engine.protocol import ApplyView
from headrace.engine.restoring import restore
from headrace.planner.view_reads import ViewRead
from headrace.server.restore import main

VIEW = (
    "CREATE MATERIALIZED VIEW shop.public.v AS SELECT n FROM shop.public.orders QUERY WITH ('query.name' = v)"
)


def rows(*values: int) -> bytes:
    table = pyarrow.table({"n": pyarrow.array(values, pyarrow.int64())})
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def apply(session: Session, query: Query, epoch: int, *values: int) -> bool:
    message = ApplyView(sequence=1, query_id=query.id, view=view_of(session), epoch=epoch, key_columns=[])
    return session.engine.views.apply(message, rows(*values))


def view_of(session: Session) -> str:
    return next(each.id for each in session.catalog.relations() if each.definition is not None)


def shown(session: Session) -> list[tuple[object, ...]]:
    view = view_of(session)
    _, shown = session.engine.views.query(f'SELECT n FROM "{view}" ORDER BY n', reads=[ViewRead(view)])
    return shown


def query_of(session: Session) -> Query:
    query = session.catalog.query_by_name("v")
    assert query is not None
    return query


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    async with open_session(tmp_path / "data") as session:
        await session.run(VIEW)
        query = query_of(session)
        write_checkpoint(tmp_path / "data" / "checkpoints" / query.id, batches=3)
        apply(session, query, 2, 1, 2)
        yield session


async def taken(session: Session) -> Backup:
    return await session.engine.take_backup()


async def test_what_a_backup_contains_is_restored(session: Session, tmp_path: Path) -> None:
    backup = await taken(session)
    assert (backup.queries, backup.views, backup.savepoints, backup.without_position) == (1, 1, 0, ())
    assert backup.folder.parent == tmp_path / "data" / "backups"
    assert backup.folder.stat().st_mode & 0o777 == 0o700
    apply(session, query_of(session), 3, 3)

    restore(backup.folder, tmp_path / "new")
    catalog = Catalog.open(tmp_path / "new")
    engine = Engine(catalog, Settings(data_dir=tmp_path / "new"))
    restored = Session(catalog, engine, session.service)
    try:
        query = query_of(restored)
        assert query == query_of(session)
        assert shown(restored) == [(1,), (2,)]
        assert not apply(restored, query, 2, 9)
        assert apply(restored, query, 3, 3)
    finally:
        await engine.stop()
        catalog.close()
    original, copy = (folder / "checkpoints" / query.id for folder in (tmp_path / "data", tmp_path / "new"))
    for name in ("commits/2", "offsets/2"):
        assert (copy / name).read_bytes() == (original / name).read_bytes()


async def test_a_query_without_a_batch_has_no_position(session: Session) -> None:
    await session.run(
        "INSERT INTO lab.tests.orders SELECT n FROM shop.public.orders QUERY WITH ('query.name' = w)"
    )
    query = session.catalog.query_by_name("w")
    assert query is not None
    assert (await taken(session)).without_position == (query.id,)


async def test_a_query_whose_plan_cannot_be_read_is_copied_with_its_view(session: Session) -> None:
    query = query_of(session)
    with session.catalog.transaction():
        queries.change(session.catalog._storage, query.id, plan='{"version": 99}')
    backup = await taken(session)
    assert (backup.queries, backup.views) == (1, 1)
    assert (backup.folder / "checkpoints" / query.id / "commits" / "2").is_file()


async def test_a_view_that_is_ahead_of_its_query_is_not_copied(session: Session, tmp_path: Path) -> None:
    apply(session, query_of(session), 7, 3)
    with pytest.raises(UserError) as caught:
        await taken(session)
    assert caught.value.state is SqlState.CANCELLED
    assert list((tmp_path / "data" / "backups").iterdir()) == []


def truncate(backup: Path) -> None:
    (backup / "catalog.db").write_bytes(b"")


def remove(backup: Path) -> None:
    (backup / "identity.json").unlink()


def add(backup: Path) -> None:
    (backup / "checkpoints" / "more").touch()


def be_later(backup: Path) -> None:
    manifest = json.loads((backup / MANIFEST).read_text())
    (backup / MANIFEST).write_text(json.dumps({**manifest, "version": "99.0.0"}))


def be_incomplete(backup: Path) -> None:
    (backup / MANIFEST).unlink()


@pytest.mark.parametrize(
    ("change", "state", "message"),
    [
        (truncate, SqlState.DATA_CORRUPTED, "the file catalog.db of the backup was changed"),
        (remove, SqlState.DATA_CORRUPTED, "the file identity.json of the backup"),
        (add, SqlState.DATA_CORRUPTED, "the file checkpoints/more of the backup"),
        (be_later, SqlState.FEATURE_NOT_SUPPORTED, "was written by Headrace 99.0.0"),
        (be_incomplete, SqlState.INVALID_PARAMETER, "is not a complete backup"),
    ],
)
async def test_a_backup_that_is_damaged_is_not_restored(
    session: Session, tmp_path: Path, change: Callable[[Path], None], state: SqlState, message: str
) -> None:
    (tmp_path / "data" / "identity.json").write_text("{}")
    backup = await taken(session)
    change(backup.folder)
    with pytest.raises(UserError) as caught:
        restore(backup.folder, tmp_path / "new")
    assert caught.value.state is state
    assert message in caught.value.message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


async def test_a_directory_with_files_is_not_restored_into(session: Session, tmp_path: Path) -> None:
    backup = await taken(session)
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "notes").touch()
    with pytest.raises(UserError, match="is not empty"):
        restore(backup.folder, tmp_path / "new")


def test_a_restored_query_is_another_writer(tmp_path: Path) -> None:
    assert writer_of("q", LocalFolder(tmp_path)) == "q"
    (tmp_path / WRITER).write_text("restored-1")
    assert writer_of("q", LocalFolder(tmp_path)) == "q-restored-1"


async def test_a_catalog_in_another_database_is_refused(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session.catalog._storage._engine.dialect, "name", "postgresql")
    with pytest.raises(UserError) as caught:
        await taken(session)
    assert caught.value.state is SqlState.FEATURE_NOT_SUPPORTED
    assert "pg_dump" in (caught.value.hint or "")


async def test_the_command_restores_once(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    backup = await taken(session)
    monkeypatch.setattr("sys.argv", ["restore", str(backup.folder), str(tmp_path / "new")])
    assert main() == 0
    assert main() == 1
    done, refused = capsys.readouterr().err.splitlines()[-3:-1]
    assert (
        done == f"headrace: restored {tmp_path / 'new'}; headrace up --data-dir {tmp_path / 'new'} starts it"
    )
    assert "is not empty" in refused
