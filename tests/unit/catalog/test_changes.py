"""The change feed: what differs between two states, for a role."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.patience import PATIENCE_S
from headrace.catalog.access import Grant, Privilege
from headrace.catalog.catalog import Catalog
from headrace.catalog.changes import CHANGE_KINDS, Action, Change, changes
from headrace.catalog.kinds.namespace import DATABASE
from headrace.core.signals import Signal, listening


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    opened = Catalog.open(tmp_path)
    yield opened
    opened.close()


def _changes(catalog: Catalog, since: object, role: str = "sysadmin", *kinds: str) -> list[Change]:
    return list(changes(since, catalog.snapshot(), role, kinds or CHANGE_KINDS))  # type: ignore[arg-type]


def test_many_commits_are_one_difference(catalog: Catalog) -> None:
    before = catalog.snapshot()
    assert _changes(catalog, before) == []
    for name in ("a", "b"):
        catalog.create_database(name, "sysadmin")
    database = catalog.database("a")
    assert database is not None
    catalog.drop(database, cascade=True)
    assert _changes(catalog, before, "sysadmin", "databases") == [Change("databases", Action.CREATED, ("b",))]
    assert _changes(catalog, before, "sysadmin", "schemas") == [
        Change("schemas", Action.CREATED, ("b", "public"))
    ]
    assert _changes(catalog, before, "sysadmin", "stores") == []


def test_an_object_appears_with_a_privilege(catalog: Catalog) -> None:
    catalog.create_database("a", "sysadmin")
    before = catalog.snapshot()
    database = before.get(DATABASE, ("a",))
    assert database is not None
    catalog.grant([Grant(database.id, Privilege.USAGE, "public", "sysadmin")])
    assert _changes(catalog, before, "public") == [
        Change("databases", Action.CREATED, ("a",)),
        Change("grants", Action.CHANGED),
    ]
    assert _changes(catalog, before, "sysadmin") == [Change("grants", Action.CHANGED)]
    after = catalog.snapshot()
    assert list(changes(after, before, "public", ("databases",))) == [
        Change("databases", Action.DROPPED, ("a",))
    ]


def test_a_role_hears_nothing_of_grants_on_what_it_does_not_see(catalog: Catalog) -> None:
    catalog.create_database("a", "sysadmin")
    catalog.create_role("r", "sysadmin")
    before = catalog.snapshot()
    database = before.get(DATABASE, ("a",))
    assert database is not None
    catalog.grant([Grant(database.id, Privilege.USAGE, "r", "sysadmin")])
    assert _changes(catalog, before, "public") == []


async def test_a_commit_wakes_and_a_read_does_not(catalog: Catalog) -> None:
    with listening(catalog.committed, Signal()) as woken:
        await asyncio.to_thread(catalog.queries)
        await asyncio.sleep(0)
        assert not woken.is_set()
        await asyncio.to_thread(catalog.create_database, "a", "sysadmin")
        await asyncio.wait_for(woken.wait(), PATIENCE_S)
    woken.clear()
    catalog.create_database("b", "sysadmin")
    await asyncio.sleep(0.01)
    assert not woken.is_set()
