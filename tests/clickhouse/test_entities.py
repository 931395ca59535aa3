"""Databases and tables of a real ClickHouse: list, describe, create, drop, print."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from harness.clickhouse import ClickHouseServer
from headrace.connectors.base import PrintedRecord, PrintStart
from headrace.connectors.clickhouse.admin import CLICKHOUSE
from headrace.connectors.clickhouse.client import identifier
from headrace.connectors.clickhouse.options import PROPERTIES
from headrace.connectors.clickhouse.spark import identify
from headrace.core.errors import UserError
from headrace.core.names import EntityPath, path_text
from headrace.core.properties import PropertyReader, Scope, of_scope, stored
from headrace.core.schema import Column
from headrace.core.sqlstate import SqlState
from headrace.core.types import parse_type

TABLES = CLICKHOUSE.entities
Store = dict[str, str]
ODD = "or`ders'; DROP TABLE x; -- \\ \""
"""A name of a table and of a column, which tries to be more than a name."""


def options(**given: str) -> PropertyReader:
    named = {f"clickhouse.{name.replace('_', '.')}": text for name, text in given.items()}
    return PropertyReader(stored(named), of_scope(PROPERTIES, Scope.ENTITY), what="an entity")


async def printed(store: Store, path: EntityPath) -> list[PrintedRecord]:
    async with aclosing(await TABLES.print_entity(store, path, start=PrintStart("latest"))) as rows:
        return [row async for row in rows]


async def test_a_table_is_made_listed_described_printed_and_dropped_by_any_name(
    clickhouse: ClickHouseServer, store: Store, database: str
) -> None:
    path = (database, ODD)
    TABLES.create_entity(store, path, options(columns="id BIGINT, name VARCHAR", primary_key="id"))
    clickhouse.execute(
        f"INSERT INTO {identifier(database)}.{identifier(ODD)} VALUES (2, 'b', 1, 0), (1, 'a', 1, 0), (2, 'c', 2, 0), (3, 'd', 1, 1)"
    )

    assert TABLES.list_entities(store, (database,)) == [(ODD, True)]
    assert (database, False) in TABLES.list_entities(store, ())
    entity = TABLES.describe_entity(store, path)
    assert [(column.name, str(column.type), column.nullable) for column in entity.columns] == [
        ("id", "BIGINT", False),
        ("name", "VARCHAR", True),
    ]
    assert entity.key == ("id",)
    assert entity.configs["engine"] == "ReplacingMergeTree"
    assert [(row.key, row.value) for row in await printed(store, path)] == [
        ("1", '{"id":1,"name":"a"}'),
        ("2", '{"id":2,"name":"c"}'),
    ]
    identity = identify(store)
    first = identity(path)
    assert identity(path) == first
    TABLES.drop_entity(store, path)
    assert TABLES.list_entities(store, (database,)) == []
    assert identity(path) == {}
    # A query that has written into the first one must know it from the second.
    TABLES.create_entity(store, path, options(columns="id BIGINT, name VARCHAR", primary_key="id"))
    assert identity(path).keys() == first.keys() == {path_text(path)}
    assert identity(path) != first


def test_columns_have_the_types_that_were_asked_for(store: Store, database: str) -> None:
    text = (
        "i BIGINT, d DECIMAL(12, 2), v VARCHAR, t TIMESTAMP(3), tz TIMESTAMP_LTZ, day DATE, b BOOLEAN, f FLOAT, n TINYINT, "
        'a ARRAY<INTEGER>, m MAP<VARCHAR, DOUBLE>, s STRUCT<"x y" SMALLINT, "it\'s" ARRAY<VARCHAR>>'
    )
    path = (database, "t")
    TABLES.create_entity(store, path, options(columns=text))

    entity = TABLES.describe_entity(store, path)

    assert [str(column.type) for column in entity.columns] == [
        str(kind)
        for _, kind in parse_type(f"STRUCT<{text}>").fields  # type: ignore[attr-defined]
    ]
    assert entity.key == ()


def test_a_table_of_another_tool_is_described(
    clickhouse: ClickHouseServer, store: Store, database: str
) -> None:
    clickhouse.execute(
        f"CREATE TABLE {identifier(database)}.t (`u` UUID, e Enum8('a, (b)' = 1), lc LowCardinality(Nullable(String)), "
        "big UInt64, wide Decimal(60, 2), at DateTime('Europe/Berlin'), n Nested(a Int8, `b c` String), "
        "tup Tuple(Int8, String), m MATERIALIZED big + 1) "
        "ENGINE = ReplacingMergeTree(big) ORDER BY (u, lc) SETTINGS allow_nullable_key = 1"
    )

    entity = TABLES.describe_entity(store, (database, "t"))

    assert {column.name: str(column.type) for column in entity.columns} == {
        "u": "VARCHAR",
        "e": "VARCHAR",
        "lc": "VARCHAR",
        "big": "DECIMAL(20, 0)",
        "wide": "VARCHAR",
        "at": "TIMESTAMP_LTZ(0)",
        "n.a": "ARRAY<TINYINT>",
        "n.b c": "ARRAY<VARCHAR>",
        "tup": "VARCHAR",
        "m": "DECIMAL(20, 0)",
    }
    assert entity.key == ("u", "lc")
    assert Column("lc", parse_type("VARCHAR"), nullable=True) in entity.columns


@pytest.mark.parametrize(
    ("act", "state"),
    [
        (lambda store, path: TABLES.describe_entity(store, path), SqlState.ENTITY_NOT_FOUND),
        (lambda store, path: TABLES.drop_entity(store, path), SqlState.ENTITY_NOT_FOUND),
        (lambda store, path: TABLES.list_entities(store, (path[0] + "x",)), SqlState.ENTITY_NOT_FOUND),
        (
            lambda store, path: TABLES.create_entity(
                store, (path[0] + "x", "t"), options(columns="id BIGINT")
            ),
            SqlState.ENTITY_NOT_FOUND,
        ),
        (
            lambda store, path: TABLES.create_entity(
                store, path, options(columns="id ARRAY<INTEGER>", primary_key="id")
            ),
            SqlState.INVALID_RELATION_DEFINITION,
        ),
        (lambda store, path: TABLES.describe_entity(store, (*path, "x")), SqlState.INVALID_PARAMETER),
    ],
)
def test_what_is_not_there_or_cannot_be_is_told(
    act: object, state: SqlState, store: Store, database: str
) -> None:
    with pytest.raises(UserError) as raised:
        act(store, (database, "t"))  # type: ignore[operator]
    assert raised.value.state is state
    assert raised.value.hint
    assert "SELECT" not in raised.value.message


def test_a_table_is_not_made_twice(store: Store, database: str) -> None:
    TABLES.create_entity(store, (database, "t"), options(columns="id BIGINT"))

    with pytest.raises(UserError) as raised:
        TABLES.create_entity(store, (database, "t"), options(columns="id BIGINT"))

    assert raised.value.state is SqlState.DUPLICATE_ENTITY
