"""A data directory of a landed release: its catalog is migrated, and its queries start and are planned as they were."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from harness.patience import PATIENCE_S
from harness.session import Session
from headrace.catalog.catalog import Catalog
from headrace.catalog.objects import QueryState
from headrace.core.errors import UserError
from headrace.core.settings import Settings
from headrace.engine.engine import Engine
from headrace.session import StatementService
from headrace.sql import parse
from headrace.sql.statements.query import InsertInto
from headrace.sql.statements.relation import CreateRelationAs
from headrace.statements.base import Services
from tests.releases import LANDED, restore
from tests.unit.engine.conftest import FAKE_DRIVER

KINDS = {
    "by_minute",
    "stateless",
    "group_by",
    "session_window",
    "interval_join",
    "temporal_join",
    "changelog_join",
    "lookup_join",
    "top_n",
    "over_aggregate",
    "match_recognize",
    "materialized_view",
    "table_sink",
    "insert_into",
    "both",
}
NEED_ANSWERS = {"lookup_join", "table_sink", "both"}
"""Planning the first two asks PostgreSQL for its tables; an application cannot be replaced."""


@pytest.fixture(params=LANDED)
async def session(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Session]:
    """A session over the migrated catalog, and an engine whose driver is the fake one."""
    restore(request.param, tmp_path)
    catalog = Catalog.open(tmp_path)
    settings = Settings(data_dir=tmp_path, reconcile_interval_ms=50)
    command = (sys.executable, str(FAKE_DRIVER), "--journal", str(tmp_path / "journal"))
    engine = Engine(catalog, settings, driver_command=command)
    session = Session(catalog, engine, StatementService(Services(catalog, engine, settings)))
    await session.run("USE DATABASE shop")
    yield session
    await engine.stop()
    catalog.close()


async def test_every_query_is_started_with_the_properties_of_its_stores(
    session: Session, tmp_path: Path
) -> None:
    await session.engine.start()
    async with asyncio.timeout(PATIENCE_S):
        while {query.actual_state for query in session.catalog.queries()} != {QueryState.RUNNING}:
            await asyncio.sleep(0.02)
    assert {query.name for query in session.catalog.queries()} == KINDS
    sent = [json.loads(line) for line in (tmp_path / "journal").read_text().splitlines()]
    stores = {name: values for line in sent for name, values in line.get("stores", {}).items()}
    assert stores.keys() == {"kafka", "pg"}
    assert stores["pg"]["postgres.password"].startswith("pa'ss")
    assert all("pa'ss" not in query.plan for query in session.catalog.queries())


async def test_every_statement_is_planned_so_that_it_continues_from_the_stored_state(
    session: Session,
) -> None:
    for query in session.catalog.queries():
        if query.name in NEED_ANSWERS:
            continue
        (statement,) = parse(query.sql)
        assert isinstance(statement, CreateRelationAs | InsertInto)
        lines = await session.rows(f"EXPLAIN ALTER QUERY {query.id} AS {statement.select.sql()}")
        texts = [line or "" for (line,) in lines]
        assert texts[0] == "Replacement: compatible", (query.name, texts)
        assert [text for text in texts if "changed" in text or "added" in text] == [], query.name


@pytest.mark.parametrize("version", LANDED)
def test_an_earlier_program_refuses_a_catalog_of_a_later_release_and_changes_nothing(
    version: str, tmp_path: Path
) -> None:
    restore(version, tmp_path)
    database = sqlite3.connect(tmp_path / "catalog.db", isolation_level=None)
    database.execute("UPDATE alembic_version SET version_num = '9999'")
    before = list(database.iterdump())
    with pytest.raises(UserError, match="the catalog is of a later release: it has revision 9999") as caught:
        Catalog.open(tmp_path)
    assert "backup" in (caught.value.hint or "")
    assert list(database.iterdump()) == before
    database.close()
