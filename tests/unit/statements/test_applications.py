"""BEGIN APPLICATION: atomicity, and visibility of earlier statements for later ones."""

from __future__ import annotations

import json

import pytest

from harness.session import Session
from headrace.catalog.access import Privilege
from headrace.catalog.objects import Principal, QueryKind
from headrace.core.errors import UserError
from headrace.core.names import RelationName
from headrace.core.sqlstate import SqlState
from headrace.planner.physical import SparkPlan

SEEN = RelationName("shop", "public", "seen")
BOTH = """BEGIN APPLICATION pv
  USE DATABASE shop;
  CREATE VIRTUAL STREAM virtual.public.big AS SELECT n AS amount FROM orders WITH ('starting.position' = 'earliest') WHERE n > 10;
  CREATE MATERIALIZED VIEW seen AS SELECT amount FROM virtual.public.big;
  INSERT INTO lab.tests.orders SELECT b.amount AS n FROM virtual.public.big AS b WHERE b.amount < 100;
  CREATE MATERIALIZED VIEW counted AS SELECT amount, COUNT(*) AS times FROM virtual.public.big GROUP BY amount;
END APPLICATION WITH ('state.ttl.millis' = 60000);"""


async def refused(session: Session, text: str) -> UserError:
    before = session.catalog.snapshot()
    with pytest.raises(UserError) as caught:
        await session.run(text)
    assert session.catalog.snapshot() is before, "nothing was written"
    return caught.value


def at(text: str, error: UserError) -> str:
    assert error.span is not None
    return text[error.span.start : error.span.end]


async def test_an_application_is_one_query_that_writes_all_its_sinks(session: Session) -> None:
    rows = await session.rows(BOTH, "Type", "Name", "Command")
    (query,) = session.catalog.queries()
    assert rows == [
        ("materialized_view", "seen", "CREATE"),
        ("materialized_view", "counted", "CREATE"),
        ("query", query.id, "APPLICATION"),
    ]
    assert (query.name, query.kind, query.sql + ";") == ("pv", QueryKind.APPLICATION, BOTH)
    assert [str(sink) for sink in query.sinks] == [
        "shop.public.seen",
        "lab.tests.orders",
        "shop.public.counted",
    ]
    assert [str(source) for source in query.sources] == ["shop.public.orders"]
    assert len(session.catalog.queries_of(SEEN)) == 1
    assert session.context.database is None, "USE ends with the application"


async def test_the_summary_says_of_each_query_what_it_says_alone(session: Session) -> None:
    *_, (bounded,) = await session.rows(BOTH, "Summary")
    assert "warning" not in str(bounded)
    unbounded = BOTH.replace("pv", "other").replace("seen", "s").replace("counted", "c")
    text = unbounded.replace(" WITH ('state.ttl.millis' = 60000)", "")
    *_, (summary,) = await session.rows(text, "Summary")
    assert "; c: warning: the state of GROUP BY" in str(summary)


async def test_sources_that_are_read_alike_row_by_row_are_read_once(session: Session) -> None:
    await session.run(BOTH)
    (query,) = session.catalog.queries()
    plan = SparkPlan.from_json(query.plan)
    assert [step.id for step in plan.steps if step.step == "read_entity"] == [
        "read_shared_orders",
        "read_counted_big_orders",
    ]
    assert [[step.id for step in part.sinks] for part in plan.parts()] == [
        ["sink_seen", "sink_orders"],
        ["sink_counted"],
    ]
    assert any(getattr(step, "state_ttl_ms", 0) == 60000 for step in plan.steps)


async def test_a_view_over_a_virtual_relation_keeps_its_whole_query(session: Session) -> None:
    await session.run(BOTH)
    view = session.catalog.relation(SEEN)
    assert view is not None
    assert view.definition is not None
    assert "virtual" not in view.definition.sql
    await session.run(
        "USE DATABASE shop; EXPLAIN CREATE MATERIALIZED VIEW more AS SELECT amount, times + 1 AS more FROM counted "
        "QUERY WITH ('state.ttl.millis' = 60000)"
    )


@pytest.mark.parametrize(
    ("marked", "state", "message"),
    [
        (
            "CREATE MATERIALIZED VIEW a AS SELECT n FROM orders; CREATE MATERIALIZED VIEW b AS SELECT ‸x‸ FROM orders",
            SqlState.UNDEFINED_COLUMN,
            "the column x does not exist",
        ),
        (
            "CREATE MATERIALIZED VIEW a AS SELECT n FROM orders; CREATE MATERIALIZED VIEW ‸a‸ AS SELECT n FROM orders",
            SqlState.DUPLICATE_RELATION,
            "the relation shop.public.a already exists",
        ),
        (
            "CREATE MATERIALIZED VIEW a AS SELECT n FROM orders; INSERT INTO ‸nowhere‸ SELECT n FROM orders",
            SqlState.RELATION_NOT_FOUND,
            "the relation shop.public.nowhere does not exist or is not authorized",
        ),
        (
            "CREATE MATERIALIZED VIEW a AS SELECT n FROM ‸virtual.public.later‸; "
            "CREATE VIRTUAL STREAM virtual.public.later AS SELECT n FROM orders",
            SqlState.RELATION_NOT_FOUND,
            "the virtual relation virtual.public.later was not created earlier in this application",
        ),
        (
            "CREATE VIRTUAL STREAM virtual.public.v AS ‸SELECT n, COUNT(*) AS c FROM orders GROUP BY n‸",
            SqlState.INVALID_RELATION_DEFINITION,
            "Invalid sink type detected for CREATE_VIRTUAL_STREAM_AS statement: Expected CHANGELOG but got STREAM.",
        ),
        (
            "CREATE VIRTUAL STREAM virtual.public.v AS SELECT n FROM orders; "
            "CREATE VIRTUAL STREAM ‸virtual.public.v‸ AS SELECT n FROM orders",
            SqlState.DUPLICATE_RELATION,
            "the virtual relation virtual.public.v was already created in this application",
        ),
        (
            "CREATE VIRTUAL STREAM virtual.public.v AS SELECT n FROM orders; "
            "CREATE MATERIALIZED VIEW a AS SELECT n FROM virtual.public.v WITH (‸'starting.position' = 'earliest'‸)",
            SqlState.INVALID_PARAMETER,
            "virtual.public.v is a query, and accepts no source properties",
        ),
        (
            "CREATE VIRTUAL STREAM virtual.public.v AS ‸SELECT n FROM orders PARTITION BY n‸",
            SqlState.FEATURE_NOT_SUPPORTED,
            "QUERY WITH and PARTITION BY require a query that writes: a virtual relation is part of the queries that read it",
        ),
        (
            "CREATE MATERIALIZED VIEW a AS SELECT n FROM orders QUERY WITH (‸'query.name' = 'x'‸)",
            SqlState.FEATURE_NOT_SUPPORTED,
            "the queries of an application run as one query, which is named after the application",
        ),
        (
            "INSERT INTO orders SELECT n FROM orders QUERY WITH (‸'execution.mode' = 'real_time'‸)",
            SqlState.FEATURE_NOT_SUPPORTED,
            "an application does not support real-time mode: its queries share their sources, batch by batch",
        ),
        (
            "INSERT INTO lab.tests.orders SELECT n FROM orders; INSERT INTO ‸orders‸ SELECT n FROM lab.tests.orders",
            SqlState.INVALID_RELATION_DEFINITION,
            "the query would read its own output: lab.tests.orders → shop.public.orders → lab.tests.orders",
        ),
        (
            "USE STORE ‸nowhere‸",
            SqlState.STORE_NOT_FOUND,
            "the store 'nowhere' does not exist or is not authorized",
        ),
    ],
)
async def test_one_wrong_statement_and_nothing_is_created(
    session: Session, marked: str, state: SqlState, message: str
) -> None:
    await session.run("USE DATABASE shop")
    before, inside, after = f"BEGIN APPLICATION x\n USE STORE k;\n{marked};\nEND APPLICATION".split("‸")
    text = before + inside + after
    error = await refused(session, text)
    assert (error.state, error.message) == (state, message)
    assert at(text, error) == inside


@pytest.mark.parametrize("kind", ["VIRTUAL STREAM virtual.public.v", "MATERIALIZED VIEW shop.public.v"])
async def test_a_query_of_tables_ends_and_is_no_part_of_an_application(session: Session, kind: str) -> None:
    text = (
        "CREATE STORE db WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://localhost/db', 'postgres.username' = 'u', "
        "'postgres.password' = 'p'); CREATE TABLE shop.public.prices (item VARCHAR) WITH ('store' = 'db'); "
        f"BEGIN APPLICATION x CREATE {kind} AS SELECT item FROM shop.public.prices; END APPLICATION"
    )
    checked = await session.service.check(
        text, principal=session.principal, context=session.context, files={}
    )
    [problem] = checked.diagnostics
    assert problem.message.startswith("a query that reads only tables is not supported in an application")
    assert problem.span is not None
    assert text[problem.span.start : problem.span.end] == "SELECT item FROM shop.public.prices"


async def test_the_name_of_an_application_is_that_of_one_running_query(session: Session) -> None:
    await session.run(BOTH)
    text = "BEGIN APPLICATION pv CREATE MATERIALIZED VIEW shop.public.x AS SELECT n FROM shop.public.orders; END APPLICATION"
    error = await refused(session, text)
    assert error.message.startswith("a query named 'pv' already exists")
    assert at(text, error) == "pv"


async def test_each_statement_takes_the_privileges_that_it_takes_alone(session: Session) -> None:
    session.catalog.create_role("reader", "sysadmin")
    session.principal = Principal("admin", ("reader",), "reader")
    session.grant("reader", Privilege.USAGE, "shop")
    session.grant("reader", Privilege.USAGE, "shop", "public")
    session.grant("reader", Privilege.SELECT, "shop", "public", "orders")
    text = (
        "BEGIN APPLICATION x CREATE VIRTUAL STREAM virtual.public.v AS SELECT n FROM shop.public.orders; "
        "CREATE MATERIALIZED VIEW shop.public.a AS SELECT n FROM virtual.public.v; END APPLICATION"
    )
    error = await refused(session, text)
    assert (error.state, "CREATE_QUERY" in error.message) == (SqlState.INSUFFICIENT_PRIVILEGE, True)
    session.grant("reader", Privilege.CREATE_QUERY)
    error = await refused(session, text)
    assert (error.state, "CREATE_RELATION" in error.message) == (SqlState.INSUFFICIENT_PRIVILEGE, True)
    session.grant("reader", Privilege.CREATE_RELATION, "shop", "public")
    await session.run(text)
    (query,) = session.catalog.queries()
    assert "select" in {need.privilege.lower() for need in query.needs}


async def test_what_exists_already_is_left_out(session: Session) -> None:
    text = (
        "BEGIN APPLICATION x CREATE MATERIALIZED VIEW IF NOT EXISTS shop.public.a AS SELECT n FROM shop.public.orders; "
        "END APPLICATION"
    )
    await session.run(text)
    assert await session.rows(text, "Summary") == [("all of it exists already",)]
    assert len(session.catalog.queries()) == 1


async def test_a_view_of_the_application_is_followed_as_any(session: Session) -> None:
    await session.run(
        "BEGIN APPLICATION x USE DATABASE shop; "
        "CREATE MATERIALIZED VIEW a AS SELECT n FROM orders WITH ('starting.position' = 'earliest'); "
        "CREATE MATERIALIZED VIEW b AS SELECT n + 1 AS m FROM a; END APPLICATION"
    )
    (query,) = session.catalog.queries()
    assert [str(source) for source in query.sources] == ["shop.public.orders", "shop.public.a"]


async def test_a_virtual_relation_is_unknown_outside(session: Session) -> None:
    error = await refused(
        session, "CREATE VIRTUAL STREAM virtual.public.v AS SELECT n FROM shop.public.orders"
    )
    assert error.message == "a virtual stream can exist only inside an application"
    error = await refused(session, "SELECT * FROM virtual.public.v")
    assert error.message == "the virtual relation virtual.public.v exists only inside its application"


async def test_describe_lists_every_relation_and_marks_the_virtual_ones(session: Session) -> None:
    ((kind, plan),) = await session.rows(f"DESCRIBE {BOTH}", "Type", "Info")
    assert session.catalog.queries() == []
    description = json.loads(plan or "")
    assert kind == "APPLICATION"
    assert [(item["name"], item["type"], item["is_virtual"]) for item in description["ddls"]] == [
        ("big", "STREAM", True),
        ("seen", "MATERIALIZED_VIEW", False),
        ("counted", "MATERIALIZED_VIEW", False),
    ]
    assert [text.split(" ")[:4] for text in description["statements"]] == [
        ["CREATE", "VIRTUAL", "STREAM", "virtual.public.big"],
        ["CREATE", "MATERIALIZED", "VIEW", "seen"],
        ["INSERT", "INTO", "lab.tests.orders", "SELECT"],
        ["CREATE", "MATERIALIZED", "VIEW", "counted"],
    ]
    assert [item["name"] for item in description["sources"]] == ["orders"]
    assert [(item["db_name"], item["name"]) for item in description["sinks"]] == [
        ("shop", "seen"),
        ("lab", "orders"),
        ("shop", "counted"),
    ]


async def test_explain_says_what_is_shared(session: Session) -> None:
    text = "\n".join(row[0] or "" for row in await session.rows(f"EXPLAIN {BOTH}"))
    assert text.startswith(
        "Application pv: 3 queries, run as 2 Spark queries\n"
        "Read once: shop.public.orders, for what is written into shop.public.seen, lab.tests.orders\n"
        "Virtual: stream virtual.public.big, which is part of each query that reads it\n"
    )
    assert session.catalog.queries() == []


@pytest.mark.parametrize(
    "text",
    [
        "ALTER QUERY pv AS SELECT n FROM shop.public.orders",
        "EXPLAIN ALTER QUERY pv AS SELECT n FROM shop.public.orders",
        "CREATE OR REPLACE MATERIALIZED VIEW shop.public.seen AS SELECT n AS amount FROM shop.public.orders",
    ],
)
async def test_the_query_of_an_application_is_not_replaced_and_the_error_names_the_way(
    session: Session, text: str
) -> None:
    await session.run(BOTH)
    error = await refused(session, text)
    assert error.state is SqlState.FEATURE_NOT_SUPPORTED
    assert error.span is not None
    assert "WITH SAVEPOINT" in str(error.hint)
    assert "resume.from.savepoint" in str(error.hint)
