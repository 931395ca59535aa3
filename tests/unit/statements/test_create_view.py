"""CREATE VIEW: what it is in other queries, whose privileges count, and what depends on what."""

from __future__ import annotations

import pytest

from harness.session import Session
from headrace.catalog.access import Grant, Privilege
from headrace.catalog.objects import Principal, QueryKind, QueryState
from headrace.core.context import SessionContext
from headrace.core.errors import UserError
from headrace.core.names import RelationName
from headrace.core.sqlstate import SqlState

SOURCE = "orders WITH ('starting.position' = 'earliest')"
ROOT = Principal("admin", ("orgadmin",), "orgadmin")
BEN = Principal("ben@x.org", ("reader",), "reader")


async def created(session: Session, *statements: str) -> None:
    await session.run("USE DATABASE shop; " + "; ".join(statements))


async def refused(session: Session, text: str) -> UserError:
    with pytest.raises(UserError) as caught:
        await session.run(text)
    assert caught.value.hint
    return caught.value


async def test_a_view_is_listed_described_and_read(session: Session) -> None:
    text = f"CREATE VIEW big AS SELECT n, n * 2 AS twice FROM {SOURCE} WHERE n > 10"
    await created(session, text, "CREATE VIEW bigger AS SELECT twice FROM big WHERE n > 100")
    assert await session.rows("LIST VIEWS", "Name", "Type") == [("big", "view"), ("bigger", "view")]
    assert dict(await session.rows("DESCRIBE VIEW big"))["Definition"] == text
    columns = await session.rows("DESCRIBE RELATION COLUMNS big", "Name", "Type")
    assert columns == [("n", "BIGINT"), ("twice", "BIGINT")]
    assert await session.rows("CREATE VIEW IF NOT EXISTS big AS SELECT 1 AS x", "Command", "Name") == [
        ("CREATE", "big")
    ]
    await session.run("CREATE MATERIALIZED VIEW m AS SELECT twice, COUNT(*) AS c FROM bigger GROUP BY twice")
    (query,) = session.catalog.queries()
    assert query.kind is QueryKind.CREATE_MATERIALIZED_VIEW_AS
    assert {name.name for name in query.sources} == {"bigger", "big", "orders"}
    used = [session.catalog.relation(RelationName("shop", "public", name)) for name in ("big", "orders")]
    assert {relation.id for relation in used if relation is not None} <= query.uses
    sources = {(edge.column, edge.source) for edge in query.lineage if edge.column == "twice"}
    assert ("twice", "n") in sources


async def test_what_depends_on_what(session: Session) -> None:
    await created(
        session, f"CREATE VIEW v AS SELECT n FROM {SOURCE}", "CREATE VIEW w AS SELECT n + 1 AS m FROM v"
    )
    for text, named in (("DROP STREAM orders", "relation shop.public.v"), ("DROP VIEW v", "shop.public.w")):
        error = await refused(session, text)
        assert error.state is SqlState.DEPENDENT_OBJECTS_EXIST
        assert named in error.message
    await session.run("CREATE MATERIALIZED VIEW m AS SELECT m FROM w")
    assert (await refused(session, "DROP VIEW w")).state is SqlState.DEPENDENT_OBJECTS_EXIST
    assert (await refused(session, "DROP MATERIALIZED VIEW w")).state is SqlState.RELATION_NOT_FOUND
    (query,) = session.catalog.queries()
    await session.run(f"TERMINATE QUERY '{query.id}'")
    session.catalog.record_query_state(query.id, QueryState.TERMINATED)
    await session.run("DROP VIEW v CASCADE")
    assert await session.rows("LIST VIEWS") == []
    assert session.catalog.relation(RelationName("shop", "public", "orders")) is not None


async def test_names_follow_a_rename(session: Session) -> None:
    await created(
        session, f"CREATE VIEW v AS SELECT orders.n FROM {SOURCE}", "CREATE VIEW w AS SELECT n FROM v"
    )
    await session.run("ALTER STREAM orders RENAME TO sales; ALTER VIEW v RENAME TO base")
    await session.run("ALTER DATABASE shop RENAME TO market; EXPLAIN SELECT n FROM w LIMIT 1")
    error = await refused(session, "DROP STREAM sales")
    assert "market.public.base" in error.message


async def test_a_reader_needs_the_view_and_its_owner_the_rest(session: Session) -> None:
    await created(session, f"CREATE VIEW v AS SELECT n FROM {SOURCE}")
    session.principal = ROOT
    await session.run(
        "USE ROLE orgadmin; CREATE ROLE reader; CREATE ROLE maker; GRANT USAGE ON COMPUTE_POOL default_pool TO ROLE reader"
    )
    for role in ("reader", "maker"):
        session.grant(role, Privilege.USAGE, "shop")
        session.grant(role, Privilege.USAGE, "shop", "public")
    reads = "EXPLAIN SELECT n FROM shop.public.v LIMIT 1"
    with pytest.raises(UserError) as hidden:
        await session.answer(reads, BEN)
    assert hidden.value.state is SqlState.RELATION_NOT_FOUND
    session.grant("reader", Privilege.SELECT, "shop", "public", "v")
    assert await session.answer(reads, BEN)
    with pytest.raises(UserError) as below:
        await session.answer("EXPLAIN SELECT n FROM shop.public.orders LIMIT 1", BEN)
    assert below.value.state is SqlState.RELATION_NOT_FOUND
    # The new owner lacks SELECT on what the view reads.
    await session.run("ALTER VIEW v OWNER TO maker")
    with pytest.raises(UserError) as lost:
        await session.answer(reads, BEN)
    assert lost.value.state is SqlState.INSUFFICIENT_PRIVILEGE
    assert "orders" not in lost.value.message
    orders = session.catalog.relation(RelationName("shop", "public", "orders"))
    assert orders is not None
    session.catalog.grant([Grant(orders.id, Privilege.SELECT, "maker", "sysadmin")])
    assert await session.answer(reads, BEN)


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("CREATE VIEW v AS SELECT n FROM orders QUERY WITH ('query.name' = 'q')", "0A000"),
        ("CREATE VIEW v AS SELECT n FROM orders PARTITION BY n", "0A000"),
        ("CREATE VIEW v AS SELECT name FROM deltastream.sys.stores", "0A000"),
        ("CREATE VIEW orders AS SELECT 1 AS n", "42P017"),
        ("CREATE VIEW v (a) AS SELECT n FROM orders", "42601"),
        ("CREATE VIEW v WITH ('topic' = 't') AS SELECT n FROM orders", "42601"),
        ("CREATE VIEW v AS SELECT nothing FROM orders", "42703"),
        ("CREATE VIEW v AS SELECT n FROM orders ORDER BY n", "0A000"),
        ("CREATE VIEW x AS SELECT n FROM x", "3D020"),
        ("CREATE OR REPLACE VIEW v AS SELECT n FROM orders", "0A000"),
        ("SELECT n FROM known WITH ('starting.position' = 'earliest') LIMIT 1", "3D008"),
        ("INSERT INTO known SELECT n FROM orders", "0A000"),
        ("INSERT INTO known VALUES (1)", "0A000"),
        ("DROP STREAM known", "3D020"),
    ],
)
async def test_what_no_view_can_be_is_refused(session: Session, text: str, state: str) -> None:
    await created(session, "CREATE VIEW known AS SELECT n FROM orders")
    error = await refused(session, text)
    assert (error.state.value, error.span is not None) == (state, True)


async def test_a_function_that_a_view_calls_keeps_its_name(session: Session) -> None:
    await created(session, "CREATE VIEW v AS SELECT again('x', n) AS text FROM orders")
    for text in ("ALTER FUNCTION again(VARCHAR, BIGINT) RENAME TO twice", "DROP FUNCTION again"):
        assert (await refused(session, text)).state is SqlState.DEPENDENT_OBJECTS_EXIST


async def test_a_check_creates_nothing(session: Session) -> None:
    context = SessionContext("", database="shop", schema="public")
    text = "CREATE VIEW v AS SELECT n FROM orders; SELECT n FROM v LIMIT 1; SELECT m FROM v"
    checked = await session.service.check(text, principal=session.principal, context=context, files={})
    assert [each.sqlstate for each in checked.diagnostics] == ["42703"]
    assert session.catalog.relation(RelationName("shop", "public", "v")) is None
