"""Completion by position: each test puts a `|` where the cursor is."""

from __future__ import annotations

import time

import pytest

from harness.session import Session
from headrace.catalog.objects import Principal
from headrace.core.context import SessionContext
from headrace.core.properties import Scope
from headrace.statements.accepted_properties import OF_SOURCES, SCOPES
from headrace.statements.completion import Completion


async def completed(session: Session, text: str) -> Completion:
    offset = text.index("|")
    return await session.service.complete(
        text[:offset] + text[offset + 1 :], offset, principal=session.principal, context=session.context
    )


async def labels(session: Session, text: str) -> list[str]:
    return [candidate.label for candidate in (await completed(session, text)).candidates]


@pytest.mark.parametrize(
    ("text", "present", "absent"),
    [
        ("|", {"SELECT", "CREATE STREAM", "LIST STORES"}, {"FROM"}),
        ("LIST STO|", {"STORES"}, {"STREAMS"}),
        ("LIST |", {"STORES", "QUERIES"}, {"SELECT"}),
        ("show re|", {"RELATIONS"}, {"STORES"}),
        ("SELECT 1; USE DATABASE |", {"shop", "lab"}, {"orders"}),
        ("USE SCHEMA lab.|", {"tests", "public"}, {"shop"}),
        ("DESCRIBE STORE |; SELECT 1", {"k", "unused"}, {"shop"}),
        ("CREATE STORE |", {"IF NOT EXISTS"}, {"k"}),
        ("DROP STREAM |", {"orders"}, {"Best"}),
        ("DROP MATERIALIZED VIEW |", {"Best"}, {"orders"}),
        ("DROP STORE k |", {"CASCADE", "RESTRICT"}, {"k"}),
        ("SELECT * FROM |", {"orders", "Best", "TUMBLE", "lab", "deltastream"}, {"n", "k"}),
        ("SELECT * FROM lab.|", {"tests"}, {"orders", "TUMBLE"}),
        ("SELECT * FROM lab.tests.|", {"orders"}, {"Best"}),
        ("SELECT * FROM deltastream.sys.que|", {"queries", "query_metrics"}, {"stores"}),
        ("SELECT * FROM orders |", {"WHERE", "GROUP BY", "JOIN", "WITH", "AS"}, {"n", "TABLESAMPLE", "EMIT"}),
        ("SELECT | FROM orders", {"n", "CASE", "COUNT", "DISTINCT"}, {"WHERE", "BETWEEN"}),
        ("SELECT o.| FROM orders o", {"n"}, {"COUNT", "CASE"}),
        ("SELECT b.| FROM orders o JOIN deltastream.sys.roles b ON TRUE", {"owner"}, {"n"}),
        ("SELECT * FROM orders WHERE n|", {"n", "NOT", "NULL"}, {"AND"}),
        ("SELECT * FROM orders WHERE n |", {"AND", "IN", "GROUP BY"}, {"FROM", "n"}),
        ("SELECT w| FROM TUMBLE(orders, SIZE 5 MINUTES)", {"window_start", "window_end"}, {"n"}),
        ("SELECT * FROM TUMBLE(orders, SIZE 5 |", {"MINUTES"}, {"DAY"}),
        ("WITH big AS (SELECT n AS amount FROM orders) SELECT | FROM big", {"amount"}, {"n"}),
        ("SELECT | FROM (SELECT n AS m FROM orders) x", {"m", "x"}, {"n"}),
        ("SELECT (SELECT MAX(|) FROM orders) FROM deltastream.sys.roles", {"n", "owner"}, set()),
        ("SELECT a FROM orders UNION ALL SELECT | FROM deltastream.sys.roles", {"owner"}, {"n"}),
        ("GRANT |", {"SELECT", "USAGE", "ROLE"}, {"ADMIN"}),
        ("GRANT SELECT ON RELATION orders TO ROLE |", {"sysadmin", "public"}, {"orders"}),
        ("CREATE STREAM x (a |", {"BIGINT", "TIMESTAMP_LTZ", "ARRAY"}, {"NOT"}),
        ("SELECT CAST(n AS VAR| FROM orders", {"VARCHAR", "VARBINARY"}, {"BIGINT"}),
        ("EXPLAIN |", {"SELECT", "CREATE STREAM", "VERBOSE"}, set()),
        ("SELECT 'a|", set(), {"n", "AND"}),
        ("-- SEL|", set(), {"SELECT"}),
        ("SELECT ¤ |", set(), {"FROM"}),
        ("FROBNICATE x |", set(), {"FROM"}),
    ],
)
async def test_candidates_follow_the_grammar_and_the_catalog(
    session: Session, text: str, present: set[str], absent: set[str]
) -> None:
    await session.run("USE DATABASE shop;")
    candidates = set(await labels(session, text))
    assert present <= candidates
    assert not absent & candidates


@pytest.mark.parametrize(
    ("text", "present", "absent"),
    [
        ("CREATE STORE s WITH ('|", {"type"}, {"value.format", "uris"}),
        ("CREATE STORE s WITH ('type' = |", {"KAFKA", "SNOWFLAKE"}, {"json"}),
        ("CREATE STORE s WITH ('type' = KAFKA, 'kafka.sasl|", {"kafka.sasl.username"}, {"uris", "type"}),
        ("CREATE STREAM x (a BIGINT) WITH ('value.format' = '|", {"json", "avro"}, {"KAFKA"}),
        ("CREATE STREAM x (a BIGINT) WITH ('store' = |", {"k", "unused"}, {"KAFKA"}),
        ("CREATE STREAM x (a BIGINT) WITH ('store' = 'k', '|", {"topic", "value.format"}, {"uris", "store"}),
        ("SELECT * FROM orders WITH ('start|", {"starting.position"}, {"topic"}),
        ("SELECT * FROM orders WITH ('starting.position' = '|", {"earliest", "latest"}, {"json"}),
        ("CREATE STREAM x AS SELECT * FROM orders QUERY WITH ('|", {"state.ttl.millis"}, {"topic"}),
        ("CREATE COMPUTE_POOL p WITH ('|", {"compute_pool.size"}, {"uris"}),
    ],
)
async def test_properties_and_their_values_follow_the_statement(
    session: Session, text: str, present: set[str], absent: set[str]
) -> None:
    await session.run("USE DATABASE shop;")
    candidates = set(await labels(session, text))
    assert present <= candidates
    assert not absent & candidates


@pytest.mark.parametrize(
    ("text", "opens"),
    [
        ("LIST |", True),
        ("SELECT 1; show |", True),
        ("DROP |", True),
        ("DROP STORE |", True),
        ("USE DATABASE |", True),
        ("SELECT * FROM |", True),
        ("GRANT SELECT ON |", True),
        ("|", False),
        ("LIST S|", False),
        ("LIST STORES |", False),
        ("CREATE STORE |", False),
        ("SELECT |", False),
        ("SELECT * FROM orders |", False),
        ("SELECT * FROM orders WHERE |", False),
        ("SELECT * FROM lab.|", False),
        ("CREATE STORE s WITH (|", False),
        ("FROBNICATE x |", False),
    ],
)
async def test_a_list_opens_where_the_statement_must_continue(
    session: Session, text: str, opens: bool
) -> None:
    await session.run("USE DATABASE shop;")
    completion = await completed(session, text)
    assert completion.opens is opens
    assert completion.candidates or not opens


async def test_list_is_followed_by_the_kinds_of_objects(session: Session) -> None:
    kinds = {candidate.label for candidate in (await completed(session, "LIST |")).candidates}
    assert {"STORES", "STREAMS", "QUERIES", "MATERIALIZED VIEWS", "DATABASES"} <= kinds


async def test_a_candidate_replaces_what_is_typed_of_it(session: Session) -> None:
    await session.run("USE DATABASE shop;")
    for text, expected in (
        ("SELECT * FROM ord|", "SELECT * FROM orders"),
        ("SELECT * FROM o|rd WHERE TRUE", "SELECT * FROM orders WHERE TRUE"),
        ('SELECT * FROM "Be|', 'SELECT * FROM "Best"'),
        ("SELECT * FROM be|", 'SELECT * FROM "Best"'),
        ("CREATE STORE s WITH ('ty|", "CREATE STORE s WITH ('type' = "),
        ("CREATE STORE s WITH ('ty|' = 'x')", "CREATE STORE s WITH ('type' = 'x')"),
        ("CREATE STORE s WITH ('type' = 'kaf|')", "CREATE STORE s WITH ('type' = 'KAFKA')"),
        ("SELECT 1; SELECT * FROM shop.pub|.x", "SELECT 1; SELECT * FROM shop.public.x"),
    ):
        completion = await completed(session, text)
        plain = text.replace("|", "")
        insert = completion.candidates[0].insert
        assert plain[: completion.start] + insert + plain[completion.end :] == expected


async def test_columns_and_functions_come_with_their_types_and_signatures(session: Session) -> None:
    await session.run("USE DATABASE shop;")
    completion = await completed(session, "SELECT | FROM orders")
    by_label = {candidate.label: candidate for candidate in completion.candidates}
    assert (by_label["n"].kind, by_label["n"].detail) == ("column", "BIGINT")
    assert by_label["SUBSTRING"].detail == "SUBSTRING(text, integer [, integer])"
    assert by_label["again"].kind == "function"
    assert by_label["SUBSTRING"].documentation


async def test_every_scope_of_a_property_has_a_statement(session: Session) -> None:
    del session
    covered = Scope(0)
    for scope in (*SCOPES.values(), OF_SOURCES, Scope.QUERY):
        covered |= scope
    assert all(scope & covered for scope in Scope)


async def test_a_long_statement_is_completed_within_50_ms(session: Session) -> None:
    await session.run("USE DATABASE shop;")
    columns = ", ".join(f"COUNT(n) + {number} AS c{number}" for number in range(40))
    text = f"CREATE MATERIALIZED VIEW v AS SELECT {columns}, | FROM TUMBLE(orders, SIZE 5 MINUTES) WHERE n > 5 GROUP BY n"
    await completed(session, text)
    seconds = []
    for _ in range(5):
        began = time.process_time()
        assert "n" in [candidate.label for candidate in (await completed(session, text)).candidates]
        seconds.append(time.process_time() - began)
    assert min(seconds) < 0.05


async def test_a_role_completes_what_it_sees_and_nothing_else(session: Session) -> None:
    stranger = Principal("ben@x.org", ("public",), "public")
    context = SessionContext("", database="shop", schema="public")
    for text in (
        "SELECT * FROM ",
        "SELECT  FROM orders",
        "DESCRIBE STORE ",
        "USE DATABASE ",
        "SELECT orders.",
    ):
        offset = 7 if "  " in text else len(text)
        completion = await session.service.complete(text, offset, principal=stranger, context=context)
        # The text itself names a source.
        names = {item.label for item in completion.candidates if item.kind != "source"}
        assert not {"orders", "n", "k", "shop", "lab", "again"} & names, text
