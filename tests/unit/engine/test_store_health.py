"""Tests of the stores in use: which stores are tested, what is kept of a test, and who is notified."""

from __future__ import annotations

import datetime
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.session import Session, open_session
from headrace.catalog.objects import Store
from headrace.connectors.registry import STORE_TYPES, connector
from headrace.core.errors import ExternalError
from headrace.core.sqlstate import SqlState
from headrace.engine import store_health

SELECT = "SELECT status, status_message, last_tested_at IS NOT NULL, last_test_ms >= 0 FROM deltastream.sys.stores WHERE name = '{}'"
AWAY = ("errored", "nobody answers\nHint: wait", "true", "true")
READY = ("ready", None, "true", "true")
UNTESTED = ("ready", None, "false", None)


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    async with open_session(tmp_path) as session:
        yield session


class Types:
    """Store types whose tests fail on request; `tested` are the addresses that were tested."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tested: list[str] = []
        self.is_away = False
        self.changes: dict[str, Any] = {}
        monkeypatch.setattr(store_health, "connector", self.connector)

    def connector(self, name: str) -> Any:
        return replace(connector(name), test=self._test, **self.changes)

    def _test(self, store: Mapping[str, str]) -> None:
        self.tested.append(store["uris"])
        if self.is_away:
            raise ExternalError(SqlState.REMOTE_UNAVAILABLE, "nobody answers", hint="wait")


def _problem(session: Session) -> str | None:
    store = session.catalog.store("k")
    assert store is not None
    return session.engine.store_health.problem(store)


async def test_stores_in_use_are_tested_and_the_result_is_in_the_relation(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    types, health = Types(monkeypatch), session.engine.store_health
    signals = health.changed.count
    assert await session.rows(SELECT.format("k")) == [UNTESTED]
    await health.test_all()
    # The store `unused` has no relation.
    assert types.tested == ["127.0.0.1:9092"]
    assert health.changed.count == signals + 1
    assert await session.rows(SELECT.format("k")) == [READY]
    assert await session.rows(SELECT.format("unused")) == [UNTESTED]
    types.is_away = True
    await health.test_all()
    assert await session.rows(SELECT.format("k")) == [AWAY]
    assert _problem(session) == "nobody answers\nHint: wait"
    types.is_away = False
    await health.test_all()
    assert await session.rows(SELECT.format("k")) == [READY]
    assert _problem(session) is None


async def test_a_type_that_costs_money_is_not_tested_unasked(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    types = Types(monkeypatch)
    types.changes = {"tested_unasked": False}
    await session.engine.store_health.test_all()
    assert types.tested == []
    costly = {name for name in STORE_TYPES if not connector(name).tested_unasked}
    assert costly == {"snowflake", "databricks"}


async def test_an_address_that_the_operator_does_not_allow_is_not_contacted(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    types, store = Types(monkeypatch), session.catalog.store("k")
    assert store is not None
    session.catalog.update_store(replace(store, properties={"uris": "169.254.169.254:80"}))
    await session.engine.store_health.test_all()
    assert types.tested == []
    [(status, message, *_)] = await session.rows(SELECT.format("k"))
    assert status == "errored"
    assert "this server does not connect to" in (message or "")


async def test_a_changed_store_has_no_result_before_its_next_test(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    Types(monkeypatch).is_away = True
    await session.engine.store_health.test_all()
    store = session.catalog.store("k")
    assert store is not None
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=60)
    session.catalog.update_store(replace(store, updated_at=later))
    assert await session.rows(SELECT.format("k")) == [UNTESTED]
    assert _problem(session) is None


async def test_a_store_that_is_away_is_tested_sooner(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    types, health, store = Types(monkeypatch), session.engine.store_health, session.catalog.store("k")
    assert store is not None
    started = datetime.datetime.now(datetime.UTC)

    def due(after_s: float) -> bool:
        return health.is_due(store, started, started + datetime.timedelta(seconds=after_s))

    assert (due(299), due(300)) == (False, True)
    await health.test_all(lambda _store: False)
    assert types.tested == []
    await health.test_all()
    assert (due(60), due(1000)) == (False, True)
    types.is_away = True
    await health.test_all()
    assert due(30)


async def test_a_fault_of_one_connector_does_not_end_the_tests(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    types = Types(monkeypatch)

    def fail(_store: Mapping[str, str]) -> None:
        raise ZeroDivisionError

    types.connector = lambda name: replace(connector(name), test=fail)  # type: ignore[method-assign]
    monkeypatch.setattr(store_health, "connector", types.connector)
    await session.engine.store_health.test_all()


async def test_a_test_that_a_user_runs_counts_too(session: Session) -> None:
    session.catalog.create_store(
        Store(
            "g", "generator", "sysadmin", *[datetime.datetime.now(datetime.UTC)] * 2, {"generator.start": "0"}
        )
    )
    assert await session.rows("TEST STORE g") == [("g", "ready", None)]
    assert await session.rows(SELECT.format("g")) == [READY]
