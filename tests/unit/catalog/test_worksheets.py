"""Worksheets: saved, read by their user only, closed and deleted, and encrypted."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from headrace.catalog import worksheets
from headrace.catalog.catalog import Catalog
from headrace.catalog.objects import Principal
from headrace.catalog.worksheets import Saved, WorksheetContent
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from tests.unit.catalog.conftest import Place

SECRET = "CREATE STORE s WITH ('kafka.sasl.password' = 'hunter2');"
CONTENT = WorksheetContent("Stores", SECRET, "sysadmin", "d", "public", None, "pool")


@pytest.fixture
def admin(catalog: Catalog) -> Principal:
    principal = catalog.authenticate(catalog.ensure_administrator("t") or "t")
    assert principal is not None
    return principal


def save(
    catalog: Catalog, principal: Principal, content: WorksheetContent = CONTENT, *, is_open: bool = True
) -> str:
    identifier = str(uuid.uuid4())
    saved = catalog.worksheets.save(principal, identifier, content, is_open=is_open, seen=0)
    assert saved == Saved(1, has_replaced=False)
    return identifier


def names(catalog: Catalog, principal: Principal) -> list[str]:
    return [sheet.content.name for sheet in catalog.worksheets.of(principal)]


def test_a_worksheet_is_read_as_it_was_saved_after_a_restart_and_with_a_new_key(
    catalog: Catalog, place: Place, admin: Principal
) -> None:
    identifier = save(catalog, admin)
    catalog.rotate_key()
    catalog.close()
    again = place.open()
    (sheet,) = again.worksheets.of(admin)
    assert (sheet.id, sheet.content, sheet.is_open, sheet.version) == (identifier, CONTENT, True, 1)
    again.close()


def test_the_text_is_encrypted(catalog: Catalog, place: Place, admin: Principal) -> None:
    save(catalog, admin)
    catalog.close()
    assert all(b"hunter2" not in path.read_bytes() for path in place.folder.iterdir())


def test_the_last_writer_wins_and_learns_of_the_version_that_it_replaced(
    catalog: Catalog, admin: Principal
) -> None:
    identifier, store = save(catalog, admin), catalog.worksheets
    other = replace(CONTENT, text="SELECT 2")
    assert store.save(admin, identifier, other, is_open=True, seen=1) == Saved(2, has_replaced=False)
    assert store.save(admin, identifier, CONTENT, is_open=False, seen=1) == Saved(3, has_replaced=True)
    (sheet,) = store.of(admin)
    assert (sheet.content, sheet.is_open, sheet.version) == (CONTENT, False, 3)
    assert sheet.created_at <= sheet.updated_at


def test_a_worksheet_belongs_to_its_user_and_to_the_role_of_a_token(
    catalog: Catalog, admin: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, identifier = catalog.worksheets, save(catalog, admin)
    owner = store._owner(admin)
    role = catalog.snapshot().role_id("public")
    for other in ((str(uuid.uuid4()), None), (owner[0], role)):
        monkeypatch.setattr(store, "_owner", lambda _principal, other=other: other)
        assert store.of(admin) == []
        assert store.save(admin, identifier, CONTENT, is_open=True, seen=0) is None
        assert not store.delete(admin, identifier)
    save(catalog, admin, replace(CONTENT, name="of a token"))
    assert names(catalog, admin) == ["of a token"]
    monkeypatch.setattr(store, "_owner", lambda _principal: owner)
    assert names(catalog, admin) == ["Stores"]
    assert store.delete(admin, identifier)
    assert names(catalog, admin) == []


def test_the_oldest_closed_worksheet_makes_room_and_open_ones_are_kept(
    catalog: Catalog, admin: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worksheets, "WORKSHEETS_MAX", 3)
    for name, is_open in (("a", False), ("b", True), ("c", False)):
        save(catalog, admin, replace(CONTENT, name=name), is_open=is_open)
    for name in ("d", "e"):
        save(catalog, admin, replace(CONTENT, name=name))
    assert names(catalog, admin) == ["b", "d", "e"]
    with pytest.raises(UserError, match="3 worksheets are open") as refused:
        catalog.worksheets.save(admin, str(uuid.uuid4()), CONTENT, is_open=True, seen=0)
    assert refused.value.state is SqlState.CONFIGURATION_LIMIT_EXCEEDED
    assert names(catalog, admin) == ["b", "d", "e"]
