"""Materialized views in continuous queries: privileges and conditions; EXPLAIN needs no broker."""

from __future__ import annotations

import time
import uuid
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from harness.epochs import batch, epoch
from harness.session import NOW, Session
from headrace.catalog.access import Privilege
from headrace.catalog.objects import DesiredState, Query, QueryKind, Relation, RelationKind, ViewDefinition
from headrace.core.errors import UserError
from headrace.core.names import RelationName
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.engine.views.lost import create_lost
from headrace.engine.views.opening import open_views
from headrace.planner.view_reads import ViewRead

LIVE = "EXPLAIN SELECT o.n FROM own o JOIN v ON o.n = v.n"
VIEW = RelationName("shop", "public", "v")


def made(session: Session) -> Query:
    """The query of the view `v` of sysadmin over a stream that `public` may not read; the stream `own` it may."""
    catalog = session.catalog
    orders = catalog.relation(RelationName("shop", "public", "orders"))
    assert orders is not None
    own = RelationName("shop", "public", "own")
    catalog.create_relation(replace(orders, id=str(uuid.uuid4()), name=own, owner="public"))
    text = "CREATE MATERIALIZED VIEW v AS SELECT n FROM orders WITH ('starting.position' = 'earliest')"
    view = Relation(
        VIEW,
        RelationKind.MATERIALIZED_VIEW,
        orders.schema,
        "sysadmin",
        NOW,
        NOW,
        id=str(uuid.uuid4()),
        definition=ViewDefinition(text, "shop", None),
    )
    catalog.create_relation(view)
    query = Query(
        id=str(uuid.uuid4()),
        name=None,
        version=1,
        kind=QueryKind.CREATE_MATERIALIZED_VIEW_AS,
        sql=text,
        plan="{}",
        sink=VIEW,
        sources=(orders.name,),
        compute_pool=catalog.default_compute_pool,
        owner="sysadmin",
        created_at=NOW,
        updated_at=NOW,
    )
    catalog.create_query(query)
    return query


@pytest.fixture
def writer(session: Session) -> Query:
    """The query of the view `v`, which `public` may SELECT."""
    query = made(session)
    session.grant("public", Privilege.SELECT, *VIEW.path)
    return query


@pytest.mark.usefixtures("writer")
async def test_to_read_a_view_is_not_to_read_its_sources(session: Session) -> None:
    session.grant("public", Privilege.CREATE_QUERY)
    session.grant("public", Privilege.USAGE, "shop")
    session.grant("public", Privilege.USAGE, "shop", "public")
    session.grant("public", Privilege.INSERT, "shop", "public", "orders")
    await session.run("USE DATABASE shop")
    await session.run("USE ROLE public")
    lines = [row[0] or "" for row in await session.rows(LIVE)]
    assert any("View shop.public.v, inlined" in line for line in lines)
    with pytest.raises(UserError) as refusal:
        await session.run("EXPLAIN SELECT n FROM orders")
    assert refusal.value.state is SqlState.INSUFFICIENT_PRIVILEGE


@pytest.mark.usefixtures("writer")
async def test_a_view_is_named_and_its_sources_are_not(session: Session) -> None:
    await session.run("USE DATABASE shop")
    ((_, plan),) = await session.rows(LIVE.replace("EXPLAIN", "DESCRIBE"))
    assert plan is not None
    assert '"v"' in plan
    assert '"orders"' not in plan


async def test_the_privilege_on_the_view_is_needed(session: Session) -> None:
    view = made(session).sink
    session.grant("public", Privilege.USAGE, "shop")
    session.grant("public", Privilege.USAGE, "shop", "public")
    session.grant("public", Privilege.INSERT, *view.path)
    await session.run("USE DATABASE shop")
    await session.run("USE ROLE public")
    with pytest.raises(UserError, match=r"SELECT on the materialized view shop\.public\.v"):
        await session.run(LIVE)


async def test_a_frozen_view_is_not_followed(session: Session, writer: Query) -> None:
    await session.run("USE DATABASE shop")
    session.catalog.set_desired_state(writer.id, DesiredState.TERMINATED)
    with pytest.raises(UserError, match="was terminated") as refusal:
        await session.run(LIVE)
    assert refusal.value.hint == f"RESTART QUERY {writer.id}; first."


async def test_a_relation_is_stopped_and_started_by_its_queries(session: Session) -> None:
    await session.run("USE DATABASE shop; CREATE MATERIALIZED VIEW v AS SELECT n FROM orders")
    (query,) = session.catalog.queries()
    recorded = None
    states = "SELECT intended_state FROM deltastream.sys.queries"
    for verb, state in (("STOP", "stopped"), ("STOP", "stopped"), ("START", "running"), ("START", "running")):
        [(kind, _, command, summary, _)] = await session.rows(f"{verb} MATERIALIZED VIEW v")
        assert (kind, command) == ("materialized_view", verb)
        assert await session.rows(states) == [(state,)]
        recorded = recorded or summary
    assert query.id in (recorded or "")
    await session.run(f"STOP RELATION v; TERMINATE QUERY {query.id}")
    with pytest.raises(UserError, match="terminated") as refused:
        await session.run("START RELATION v")
    assert refused.value.state is SqlState.QUERY_NOT_FOUND
    assert refused.value.hint is not None
    assert query.id in refused.value.hint
    for text, error in (
        ("STOP STREAM orders", SqlState.QUERY_NOT_FOUND),
        ("START STREAM v", SqlState.RELATION_NOT_FOUND),
        ("START STREAM nothing", SqlState.RELATION_NOT_FOUND),
    ):
        with pytest.raises(UserError) as refused:
            await session.run(text)
        assert refused.value.state is error
    session.grant("public", Privilege.USAGE, "shop")
    session.grant("public", Privilege.USAGE, "shop", "public")
    session.grant("public", Privilege.SELECT, "shop", "public", "v")
    await session.run("USE ROLE public")
    with pytest.raises(UserError) as refused:
        await session.run("STOP RELATION v")
    assert refused.value.state is SqlState.QUERY_NOT_FOUND  # which the role may not know of


async def test_a_view_whose_rows_were_lost_has_a_table_in_an_adopted_directory(
    session: Session, tmp_path: Path
) -> None:
    await session.run("USE DATABASE shop")
    await session.run("CREATE MATERIALIZED VIEW v WITH ('retention.millis' = 1) AS SELECT n FROM orders")
    await session.run("CREATE MATERIALIZED VIEW w AS SELECT n, COUNT(*) AS c FROM orders GROUP BY n")
    ids = {relation.name.name: relation.id for relation in session.catalog.relations()}
    with closing(open_views(Settings(data_dir=tmp_path / "new"), owner="o")) as views:
        for _ in range(2):
            create_lost(session.catalog, views)
        assert views.apply(epoch(0, keys=(), view=ids["v"]), batch([{"n": 1}]))
        rows = {
            name: views.query(f'SELECT n FROM "{ids[name]}"', reads=[ViewRead(ids[name])])[1] for name in "vw"
        }
        assert rows == {"v": [(1,)], "w": []}
        time.sleep(0.01)
        assert views.purge() == 1


async def test_a_query_with_an_unreadable_plan_stands_in_the_way_of_no_other(session: Session) -> None:
    assert made(session).plan == "{}"
    await session.run("USE DATABASE shop; CREATE MATERIALIZED VIEW w AS SELECT n FROM orders")
    assert session.catalog.relation(RelationName("shop", "public", "w")) is not None


async def test_an_unreadable_plan_does_not_prevent_a_start_with_a_new_directory(
    session: Session, tmp_path: Path
) -> None:
    await session.run("USE DATABASE shop; CREATE MATERIALIZED VIEW w AS SELECT n FROM orders")
    assert made(session).plan == "{}"
    written = {relation.name.name: relation.id for relation in session.catalog.relations()}
    with closing(open_views(Settings(data_dir=tmp_path / "new"), owner="o")) as views:
        create_lost(session.catalog, views)
        assert views.apply(epoch(0, keys=(), view=written["w"]), batch([{"n": 1}]))
