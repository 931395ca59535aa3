"""DROP of a relation, over the real catalog and an engine whose drivers are not started."""

from __future__ import annotations

import asyncio
import datetime
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.patience import PATIENCE_S
from headrace.catalog.catalog import Catalog
from headrace.catalog.objects import (
    DesiredState,
    Principal,
    Query,
    QueryKind,
    QueryState,
    Relation,
    RelationKind,
    Store,
)
from headrace.core.context import SessionContext
from headrace.core.errors import HeadraceError, UserError
from headrace.core.names import RelationName
from headrace.core.resultset import ResultSet
from headrace.core.schema import Column as SchemaColumn
from headrace.core.schema import Schema
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT
from headrace.engine.engine import Engine
from headrace.planner.physical import Column, ReadEntity, SparkPlan, WriteEntity
from headrace.planner.view_reads import ViewRead
from headrace.session import StatementService
from headrace.statements.base import Services

ADMINISTRATOR = Principal("admin", ("sysadmin",), "sysadmin")
CONTEXT = SessionContext("", database="shop", schema="public")
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
TOTALS, OTHERS = RelationName("shop", "public", "totals"), RelationName("shop", "public", "others")


class Shop:
    """Two materialized views, and one terminated query that writes each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.catalog = Catalog.open(folder)
        self.catalog.create_database("shop", "sysadmin")
        settings = Settings(data_dir=folder)
        self.engine = Engine(self.catalog, settings)
        self.service = StatementService(Services(self.catalog, self.engine, settings))
        self.views, self.writers = {}, {}
        for name in (TOTALS, OTHERS):
            self.views[name], self.writers[name] = str(uuid.uuid4()), str(uuid.uuid4())
            self.add(name)

    def add(self, name: RelationName) -> None:
        self.engine.views.create(self.views[name], [Column(name="n", type="BIGINT")], [])
        relation = Relation(
            name=name,
            kind=RelationKind.MATERIALIZED_VIEW,
            schema=Schema((SchemaColumn("n", BIGINT),)),
            owner="sysadmin",
            created_at=NOW,
            updated_at=NOW,
            id=self.views[name],
        )
        self.catalog.create_relation(relation)
        query = Query(
            id=self.writers[name],
            name=None,
            version=1,
            kind=QueryKind.INSERT_INTO,
            sql="",
            plan="{}",
            sink=name,
            sources=(),
            compute_pool=self.catalog.default_compute_pool,
            owner="sysadmin",
            created_at=NOW,
            updated_at=NOW,
        )
        self.catalog.create_query(query)
        self.catalog.set_desired_state(query.id, DesiredState.TERMINATED)
        self.catalog.record_query_state(query.id, QueryState.TERMINATED)
        self.checkpoint(name).mkdir(parents=True)

    def rows(self, name: RelationName) -> list[tuple[object, ...]]:
        view = self.views[name]
        return self.engine.views.query(f'SELECT * FROM "{view}"', reads=[ViewRead(view)])[1]

    def checkpoint(self, name: RelationName) -> Path:
        return self.folder / "checkpoints" / self.writers[name]

    async def execute(self, text: str) -> ResultSet:
        executed = await self.service.execute(text, principal=ADMINISTRATOR, context=CONTEXT)
        assert isinstance(executed.outcome, ResultSet)
        return executed.outcome


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    shop = Shop(tmp_path)
    yield shop
    await shop.engine.stop()
    shop.catalog.close()


async def test_drop_removes_the_rows_and_the_checkpoints_of_the_queries_that_wrote_it(shop: Shop) -> None:
    await shop.execute("DROP RELATION totals")
    assert not shop.checkpoint(TOTALS).exists()
    with pytest.raises(HeadraceError):
        shop.rows(TOTALS)
    assert shop.checkpoint(OTHERS).exists()
    assert shop.rows(OTHERS) == []


async def test_the_store_of_what_a_running_query_leaves_out_stays(shop: Shop) -> None:
    """No relation is over that store: only the plan of the query names it."""
    for store in ("read", "letters"):
        shop.catalog.create_store(Store(store, "kafka", "sysadmin", NOW, NOW, {"uris": "127.0.0.1:1"}))
    writer = shop.catalog.query(shop.writers[OTHERS])
    assert writer is not None
    plan = SparkPlan(
        steps=[
            ReadEntity(id="s1", store="read", connector="kafka", entity=("in",)),
            WriteEntity(id="s2", input="s1", store="letters", connector="kafka", entity=("bad",)),
        ],
        outputs=["s2"],
    )
    query = replace(writer, id=str(uuid.uuid4()), desired_state=DesiredState.RUNNING, plan=plan.to_json())
    query = replace(query, actual_state=QueryState.RUNNING)
    shop.catalog.create_query(query)
    for store in ("letters", "read"):
        with pytest.raises(UserError, match=f"referenced by the running query {query.id}") as refusal:
            await shop.execute(f"DROP STORE {store}")
        assert refusal.value.state is SqlState.DEPENDENT_OBJECTS_EXIST
    with pytest.raises(UserError, match=f"'bad' is referenced by the running query {query.id}") as refusal:
        await shop.execute("DROP ENTITY bad IN STORE letters")
    assert refusal.value.state is SqlState.DEPENDENT_OBJECTS_EXIST
    dropping = asyncio.create_task(shop.execute("DROP STORE letters CASCADE"))
    async with asyncio.timeout(PATIENCE_S):
        while shop.catalog.snapshot().queries[query.id].should_run:
            await asyncio.sleep(0.01)
    assert shop.catalog.store("letters"), "the query has not ended yet"
    shop.catalog.record_query_state(query.id, QueryState.TERMINATED)
    assert "with 1 query" in str((await dropping).rows)
    assert shop.catalog.store("letters") is None
    assert shop.catalog.relation(OTHERS), "what it wrote elsewhere stays"


async def test_a_refused_drop_leaves_everything(shop: Shop) -> None:
    shop.catalog.request_restart(shop.writers[TOTALS])
    with pytest.raises(UserError) as refusal:
        await shop.execute("DROP RELATION totals")
    assert refusal.value.state is SqlState.DEPENDENT_OBJECTS_EXIST
    assert shop.checkpoint(TOTALS).exists()
    assert shop.rows(TOTALS) == []


async def test_cascade_drops_what_is_in_a_database_with_its_rows_and_checkpoints(shop: Shop) -> None:
    with pytest.raises(UserError) as refusal:
        await shop.execute("DROP DATABASE shop")
    named = "the relation shop.public.others, the relation shop.public.totals"
    assert refusal.value.text().startswith(f"the database shop is referenced by {named}")
    assert refusal.value.span is not None
    (row,) = (await shop.execute("DROP DATABASE shop CASCADE")).rows
    assert row[3] == "database shop was dropped with 3 objects"
    assert (shop.catalog.databases(), shop.catalog.relations()) == ([], [])
    for name in (TOTALS, OTHERS):
        assert not shop.checkpoint(name).exists()
        with pytest.raises(HeadraceError):
            shop.rows(name)


async def test_cascade_needs_the_ownership_of_all_that_it_drops(shop: Shop) -> None:
    shop.catalog.create_database("theirs", "public")
    name, view = RelationName("theirs", "public", "v"), shop.catalog.relation(TOTALS)
    assert view is not None
    shop.catalog.create_relation(replace(view, id=str(uuid.uuid4()), name=name))
    with pytest.raises(UserError, match=r"cannot drop the database theirs with CASCADE: 1 dependent object"):
        await shop.execute("USE ROLE public; DROP DATABASE theirs CASCADE")
    assert shop.catalog.relation(name) is not None


async def test_drop_waits_for_a_query_that_is_being_terminated(shop: Shop) -> None:
    query = shop.writers[TOTALS]
    shop.catalog.request_restart(query)
    shop.catalog.set_desired_state(query, DesiredState.TERMINATED)
    dropping = asyncio.create_task(shop.execute("DROP RELATION totals"))
    await asyncio.sleep(0.2)
    assert not dropping.done()
    shop.catalog.record_query_state(query, QueryState.TERMINATED)
    (row,) = (await dropping).rows
    assert row[3] == "materialized view shop.public.totals was dropped"
