"""LIST: of what, with nothing selected, and WHERE."""

from __future__ import annotations

import pytest

from harness.session import Session
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.sql import parse

ALL = [("orders", "lab"), ("Best", "shop"), ("orders", "shop")]


async def test_with_nothing_selected_a_list_is_of_all_databases(session: Session) -> None:
    assert await session.rows("LIST RELATIONS", "Name", "Database") == ALL
    assert await session.rows("LIST STREAMS", "Name", "Database") == [ALL[0], ALL[2]]
    assert await session.rows("LIST CHANGELOGS") == []
    schemas = await session.rows("LIST SCHEMAS", "Name", "Database")
    assert schemas == [("public", "lab"), ("tests", "lab"), ("public", "shop")]
    entities = await session.run("LIST ENTITIES")
    assert [column.name for column in entities.columns] == ["Name", "IsLeaf"]
    assert entities.rows == ()
    assert "USE STORE" in (entities.message or "")


async def test_with_a_database_selected_a_list_is_of_that(session: Session) -> None:
    await session.run("USE DATABASE lab")
    assert await session.rows("LIST RELATIONS", "Name", "Database") == [("orders", "lab")]
    assert await session.rows("LIST SCHEMAS", "Name", "IsDefault") == [("public", "true"), ("tests", "false")]
    assert await session.rows("LIST RELATIONS IN SCHEMA shop.public", "Name") == [("Best",), ("orders",)]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("name = 'orders'", [ALL[0], ALL[2]]),
        ("NAME = 'ORDERS' AND database_name = 'shop'", [ALL[2]]),
        ("database_name = 'lab' AND schema_name = 'tests'", [ALL[0]]),
        ("type = 'materialized_view'", [ALL[1]]),
        ("Type <> 'stream'", [ALL[1]]),
        ("type != 'stream' AND name LIKE 'b%'", [ALL[1]]),
        ("name NOT LIKE '%o_ders'", [ALL[1]]),
        ("name LIKE '%r%d_r%%'", [ALL[0], ALL[2]]),
        ("name LIKE '%'", ALL),
        ("name LIKE 'orders'", [ALL[0], ALL[2]]),
        ("name LIKE 'order'", []),
        ("name LIKE '%order'", []),
        ("name LIKE '%ordersorders%'", []),
        ("name = 'o%'", []),
        ("name LIKE 'o.*'", []),
        ("name = 'Best' OR database_name IN ('LAB', 'x')", [ALL[0], ALL[1]]),
        ("name > 'best' AND NOT (schema = 'tests')", [ALL[2]]),
        ("length(name) BETWEEN 1 AND 4", [ALL[1]]),
        ("upper(name) LIKE 'O%' AND type IS NOT NULL", [ALL[0], ALL[2]]),
        ("\"created_at\" = TIMESTAMP '2026-01-01 00:00:00'", ALL),
        ("CreatedAt < CAST('2027-01-01' AS TIMESTAMP) AND updatedat > TIMESTAMP '2026-01-01 00:00:00'", []),
    ],
)
async def test_where_keeps_the_rows_that_fulfil_all_conditions(
    session: Session, condition: str, expected: list[tuple[str, str]]
) -> None:
    assert await session.rows(f"LIST RELATIONS WHERE {condition}", "Name", "Database") == expected


async def test_a_pattern_of_many_wildcards_is_no_work(session: Session) -> None:
    name = "a" * 255
    await session.run(f"CREATE DATABASE {name}")
    assert await session.rows(f"LIST DATABASES WHERE name LIKE '{'%a' * 100}%b'") == []
    assert await session.rows(f"LIST DATABASES WHERE name LIKE '{'%a' * 100}'", "Name") == [(name,)]


async def test_a_condition_on_the_database_looks_beyond_the_selected_one(session: Session) -> None:
    await session.run("USE DATABASE shop")
    assert await session.rows("LIST STREAMS WHERE name = 'orders'", "Database") == [("shop",)]
    assert await session.rows("LIST STREAMS WHERE database_name = 'lab'", "Database") == [("lab",)]
    everywhere = "LIST SCHEMAS WHERE database LIKE '%' AND is_default = TRUE"
    assert await session.rows(everywhere, "Name", "Database") == [("public", "shop")]


async def test_where_filters_every_list(session: Session) -> None:
    await session.run("USE STORE k")
    assert await session.rows("LIST STORES WHERE type = 'KAFKA'", "Name") == [("k",), ("unused",)]
    assert await session.rows("LIST STORES WHERE is_default = TRUE", "Name") == [("k",)]
    assert await session.rows("LIST DATABASES WHERE name = 'shop'", "Name") == [("shop",)]
    assert await session.rows("LIST COMPUTE_POOLS WHERE timeout = 0", "Name") == [("default_pool",)]
    # NULL is neither like nor unlike anything.
    assert await session.rows("LIST STORES WHERE message <> 'x'") == []
    assert await session.rows("LIST SECRETS WHERE name = 'x'") == []


async def test_a_column_that_the_list_has_not_is_named_with_those_that_it_has(session: Session) -> None:
    with pytest.raises(UserError) as refused:
        await session.run("LIST DATABASES WHERE size = 1")
    assert refused.value.state is SqlState.UNDEFINED_COLUMN
    assert refused.value.message == "this list has no column size"
    assert refused.value.hint == "The columns of the list are Name, IsDefault, Owner, CreatedAt."
    assert refused.value.span is not None
    assert refused.value.span.start == 21


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("LIST STORES WHERE", "expected an expression, found the end of the statement"),
        ("LIST STORES LIKE x", "expected a pattern in single quotes, found 'x'"),
        ("LIST STORES LIMIT '1'", "expected how many rows, a whole number, found a string"),
        ("LIST STORES LIMIT 1.5", "expected how many rows, a whole number, found '1.5'"),
        ("LIST STORES LIMIT 1 WHERE name = 'a'", "expected the end of the statement, found 'WHERE'"),
        ("LIST STORES LIKE 'a' x", "expected WHERE, LIMIT or the end of the statement, found 'x'"),
        (
            "LIST STORES WHERE name = 'a' GROUP BY name",
            "expected AND, OR, LIMIT or the end of the statement, found 'GROUP BY'",
        ),
        (
            "LIST STORES WHERE name IN (SELECT name FROM deltastream.sys.stores)",
            "a subquery in the condition of a list is not supported",
        ),
    ],
)
def test_what_where_does_not_take_is_refused_where_it_stands(text: str, message: str) -> None:
    with pytest.raises(UserError) as refused:
        parse(text)
    assert refused.value.message == message
    assert refused.value.span is not None


@pytest.mark.parametrize(
    ("condition", "state"),
    [
        ("name", SqlState.DATATYPE_MISMATCH),
        ("created_at LIKE '2026%'", SqlState.DATATYPE_MISMATCH),
        ("name = x", SqlState.UNDEFINED_COLUMN),
        ("stores.name = 'k'", SqlState.UNDEFINED_COLUMN),
        ("count(*) > 1", SqlState.GROUPING_ERROR),
        ("nothing(name) = 1", SqlState.FUNCTION_NOT_FOUND),
        ("1 = 1 / length('')", SqlState.DIVISION_BY_ZERO),
    ],
)
async def test_what_where_means_is_checked_as_in_a_select(
    session: Session, condition: str, state: SqlState
) -> None:
    with pytest.raises(UserError) as refused:
        await session.run(f"LIST STORES WHERE {condition}")
    assert refused.value.state is state


async def test_a_pattern_of_names_and_a_number_of_rows_do_without_a_column(session: Session) -> None:
    assert await session.rows("LIST RELATIONS LIKE 'ORD%' LIMIT 1", "Name", "Database") == [ALL[0]]
    assert await session.rows("LIST RELATIONS LIKE 'b%' WHERE type = 'stream'") == []
    assert await session.rows("LIST RELATIONS LIKE '%' WHERE database_name = 'shop' LIMIT 5", "Name") == [
        ("Best",),
        ("orders",),
    ]
    assert await session.rows("LIST DATABASES LIMIT 0") == []
    assert len(await session.rows("LIST DATABASES LIMIT 99999999999999999999")) == 2
    # Of what has no names: what comes first.
    assert await session.rows("LIST ENTITIES LIKE 'x'") == []
    assert await session.rows("LIST ORGANIZATIONS LIKE 'head%'", "Name") == [("headrace",)]
    assert await session.rows("LIST GRANTS LIKE 'k' LIMIT 1", "Privilege") == [("OWNERSHIP",)]


async def test_what_is_said_of_one_object_is_filtered_as_a_list(session: Session) -> None:
    assert await session.rows("DESCRIBE FUNCTION_SOURCE u LIKE 'c%'", "Property") == [
        ("classes",),
        ("created_at",),
    ]
    described = "DESCRIBE SCHEMA_REGISTRY r WHERE property = 'confluent.password'"
    assert await session.rows(described) == [("confluent.password", "****")]
    assert await session.rows(
        "DESCRIBE RELATION COLUMNS shop.public.orders WHERE type = 'BIGINT' LIMIT 1"
    ) == [("n", "BIGINT", "true", "false")]
    await session.run("USE ROLE public")
    with pytest.raises(UserError) as refused:
        await session.run("DESCRIBE STORE k LIMIT 1")
    assert refused.value.state is SqlState.STORE_NOT_FOUND


async def test_where_requires_what_the_list_requires(session: Session) -> None:
    with pytest.raises(UserError) as refused:
        await session.run("LIST ENTITIES IN STORE nothing WHERE name = 'x'")
    assert refused.value.state is SqlState.STORE_NOT_FOUND
    await session.run("USE ROLE public")
    with pytest.raises(UserError) as refused:
        await session.run("LIST INVITATIONS WHERE name = 'x'")
    assert refused.value.state is SqlState.INSUFFICIENT_PRIVILEGE


async def test_describe_and_create_name_a_relation_as_lists_do(session: Session) -> None:
    await session.run("USE DATABASE shop")
    facts = dict(await session.rows('DESCRIBE RELATION "Best"'))
    assert (facts["Name"], facts["Database"], facts["Schema"]) == ("Best", "shop", "public")
    assert facts["Type"] == "materialized_view"
    created = await session.rows("CREATE MATERIALIZED VIEW v AS SELECT n FROM orders", "Type", "Name")
    assert created[0] == ("materialized_view", "v")
    assert await session.rows("LIST RELATIONS WHERE name = 'v'", "Type") == [("materialized_view",)]
    assert await session.rows('DROP MATERIALIZED VIEW "Best"', "Type") == [("materialized_view",)]


async def test_a_list_of_one_kind_that_is_empty_points_at_the_list_of_all(session: Session) -> None:
    await session.run("USE DATABASE shop")
    assert (await session.run("SHOW TABLES")).message == "LIST RELATIONS lists relations of every kind."
    assert (await session.run("LIST STREAMS")).message is None
    assert (await session.run("LIST RELATIONS")).message is None
