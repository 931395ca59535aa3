"""Errors of a checked text: all of them, each at its position, and nothing is run."""

from __future__ import annotations

import pytest

from harness.session import Session
from headrace.catalog.access import Privilege
from headrace.catalog.objects import Principal
from headrace.core.context import SessionContext
from headrace.core.errors import Diagnostic
from headrace.session.service import DIAGNOSTICS_MAX

# Nothing listens at any of these addresses: who asks a store or a registry says so by an error.
STORE = "CREATE STORE far WITH ('type' = KAFKA, 'uris' = '127.0.0.1:1', 'kafka.sasl.hash_function' = NONE)"
STREAM = "CREATE STREAM visits (page VARCHAR, n BIGINT) WITH ('topic' = 'visits', 'value.format' = 'JSON')"


async def checked(session: Session, text: str, principal: Principal | None = None) -> list[Diagnostic]:
    context = SessionContext("", database="shop", schema="public", store="k")
    result = await session.service.check(
        text, principal=principal or session.principal, context=context, files={}
    )
    return list(result.diagnostics)


def places(text: str, diagnostics: list[Diagnostic]) -> list[tuple[str, str]]:
    return [
        (item.sqlstate, text[item.span.start : item.span.end])
        for item in diagnostics
        if item.span is not None
    ]


async def test_statements_have_a_kind_and_the_place_of_their_query(session: Session) -> None:
    texts = (
        "/* AS SELECT */ CREATE STREAM s WITH ('topic' = 'AS') AS\nWITH t AS (SELECT n FROM orders) SELECT n FROM t PARTITION BY n;",
        "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT n FROM orders; SELEC 1;",
        "INSERT INTO s SELECT '😀' AS n; LIST STORES; BEGIN APPLICATION a INSERT INTO s SELECT 1; END APPLICATION",
    )
    text = " ".join(texts)
    result = await session.service.check(
        text, principal=session.principal, context=SessionContext(""), files={}
    )
    queries = [each.query and text[each.query.start : each.query.end] for each in result.statements]
    assert [each.kind for each in result.statements] == [
        *("CreateRelationAs", "ReplaceRelation", "InsertInto", "ListStores", "Application")
    ]
    assert queries == [
        "WITH t AS (SELECT n FROM orders) SELECT n FROM t PARTITION BY n",
        "SELECT n FROM orders",
        "SELECT '😀' AS n",
        None,
        None,
    ]
    first = result.statements[0].span
    assert text[first.start : first.end].startswith("CREATE STREAM s")


async def test_each_error_is_at_its_statement(session: Session) -> None:
    text = "SELECT n FORM orders;\nLIST RELATIONS;\nSELECT wrong FROM orders;\nSELECT 'open FROM orders"
    diagnostics = await checked(session, text)
    assert places(text, diagnostics) == [("42601", "FORM"), ("42703", "wrong"), ("42601", "'")]
    assert [(item.span.line, item.span.column) for item in diagnostics if item.span] == [
        (1, 10),
        (3, 8),
        (4, 8),
    ]
    assert (diagnostics[0].expected, diagnostics[0].received) == ("a clause such as FROM", "'FORM'")


async def test_what_a_statement_defines_is_there_for_the_next(session: Session) -> None:
    text = ";\n".join(
        [
            "CREATE DATABASE web",
            "USE DATABASE web",
            "CREATE SCHEMA raw",
            "USE SCHEMA raw",
            STORE,
            "USE STORE far",
            STREAM,
            "CREATE STREAM pages AS SELECT page FROM visits",
            "CREATE CHANGELOG counts AS SELECT page, COUNT(*) AS n FROM pages GROUP BY page",
            "CREATE MATERIALIZED VIEW top AS SELECT page, n FROM counts WITH ('starting.position' = 'earliest')",
            "CREATE CHANGELOG tops AS SELECT page, n FROM top",
            "INSERT INTO pages SELECT page FROM web.raw.visits",
            "SELECT n FROM top WHERE page = 'a'",
            "EXPLAIN SELECT page FROM pages",
            "DROP RELATION top CASCADE",
            "SELECT n FROM top",
        ]
    )
    diagnostics = await checked(session, text)
    assert [(item.sqlstate, item.severity) for item in diagnostics] == [("3D020", "error")]
    assert diagnostics[0].span is not None
    assert diagnostics[0].span.line == 16


async def test_nothing_is_created_and_no_store_is_contacted(session: Session) -> None:
    before = session.catalog.snapshot()
    registry = "CREATE SCHEMA_REGISTRY s WITH ('type' = CONFLUENT, 'uris' = 'http://127.0.0.1:1')"
    secret = "CREATE SECRET pin WITH ('type' = generic_string, 'secret_string' = 'open sesame')"
    text = f"{STORE}; {registry}; {secret}; {STREAM}; DROP DATABASE lab CASCADE; DROP STREAM orders"
    assert await checked(session, text) == []
    assert session.catalog.snapshot() is before
    assert session.catalog.queries() == []


async def test_functions_and_pools_are_followed(session: Session) -> None:
    before = session.catalog.snapshot()
    fine = [
        "CREATE FUNCTION_SOURCE fs WITH ('file' = '@not/sent.jar')",
        "CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE JAVA WITH ('source.name' = fs, 'class.name' = 'a.B')",
        "DROP FUNCTION f(INT)",
        "DROP FUNCTION_SOURCE fs",
        "CREATE COMPUTE_POOL p WITH ('compute_pool.size' = small)",
        "STOP COMPUTE_POOL p",
        "UPDATE COMPUTE_POOL p WITH ('compute_pool.timeout_min' = 5)",
        "START COMPUTE_POOL p",
        "USE COMPUTE_POOL p",
        "DROP COMPUTE_POOL p",
    ]
    assert await checked(session, "; ".join(fine)) == []
    wrong = {
        "CREATE FUNCTION g() RETURNS INT LANGUAGE JAVA WITH ('source.name' = u, 'class.name' = 'no.Such')": "3D017",
        "CREATE FUNCTION g() RETURNS INT LANGUAGE JAVA WITH ('source.name' = w, 'class.name' = 'a.B')": "3D018",
        "DROP FUNCTION f(INT)": "3D017",
        "CREATE COMPUTE_POOL p WITH ('compute_pool.size' = huge)": "3D008",
        "START COMPUTE_POOL p": "3D023",
    }
    for text, state in wrong.items():
        assert [item.sqlstate for item in await checked(session, text)] == [state]
    assert session.catalog.snapshot() is before


@pytest.mark.parametrize(
    "unknown",
    [
        "CREATE STREAM visits (page VARCHAR",
        "CREATE STREAM visits (page NOTHING) WITH ('value.format' = 'JSON')",
        # The columns of the list are in a registry.
        "CREATE STREAM visits WITH ('topic' = 'visits', 'value.format' = 'AVRO')",
        "CREATE DESCRIPTOR_SOURCE d WITH ('file' = 'd.desc')",
    ],
)
async def test_after_an_unknown_result_no_object_is_reported_missing(session: Session, unknown: str) -> None:
    diagnostics = await checked(session, f"{unknown}; SELECT page FROM visits; SELECT wrong FROM orders")
    assert [item.sqlstate for item in diagnostics if item.sqlstate == "3D020"] == []
    assert diagnostics[-1].sqlstate == "42703"


async def test_what_exists_already_is_a_warning(session: Session) -> None:
    text = f"CREATE DATABASE shop; {STREAM}; {STREAM}"
    diagnostics = await checked(session, text)
    assert [(item.sqlstate, item.severity) for item in diagnostics] == [
        ("42P04", "warning"),
        ("42P017", "warning"),
    ]


async def test_the_answer_reveals_no_more_than_running_the_statement(session: Session) -> None:
    session.catalog.create_role("reader", "orgadmin")
    session.grant("reader", Privilege.USAGE, "shop")
    session.grant("reader", Privilege.USAGE, "shop", "public")
    somebody = Principal("somebody", ("reader",), "reader")
    for relation in ("orders", "nothing"):
        text = f"SELECT n FROM {relation}"
        (diagnostic,) = await checked(session, text, somebody)
        with pytest.raises(Exception, match="does not exist or is not authorized") as refused:
            await session.service.execute(
                text, principal=somebody, context=SessionContext("", database="shop", schema="public")
            )
        assert diagnostic.message == str(refused.value)
    (diagnostic,) = await checked(session, "CREATE DATABASE other", somebody)
    assert diagnostic.sqlstate == "42501"


async def test_a_text_of_any_length_has_an_end(session: Session) -> None:
    assert len(await checked(session, "nonsense;" * 20_000)) == DIAGNOSTICS_MAX
    assert await checked(session, "") == []
    assert await checked(session, "-- nothing") == []
