"""Databases, schemas and tables: list, describe, create, drop, print."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from harness.snowflake import SnowflakeServer
from headrace.connectors.base import PrintStart
from headrace.connectors.snowflake import tables
from headrace.connectors.snowflake.admin import SNOWFLAKE
from headrace.connectors.snowflake.options import PROPERTIES
from headrace.connectors.snowflake.spark import identify
from headrace.core.errors import UserError
from headrace.core.names import path_text
from headrace.core.properties import PropertyReader, Scope, of_scope, stored
from headrace.core.sqlstate import SqlState

TABLES = SNOWFLAKE.entities


def entity(given: dict[str, str]) -> PropertyReader:
    return PropertyReader(stored(given), of_scope(PROPERTIES, Scope.ENTITY), what="an entity")


async def test_a_table_is_made_listed_described_printed_and_dropped(
    snowflake: SnowflakeServer, store: dict[str, str], schema: tuple[str, str]
) -> None:
    database, till = (name.lower() for name in schema)
    path = (database, till, "Orders; --")
    given = {"snowflake.columns": 'id BIGINT, "Na me" VARCHAR', "snowflake.primary.key": "id"}
    TABLES.create_entity(store, path, entity(given))
    snowflake.execute(f"INSERT INTO {tables.named(path)} VALUES (2, 'b'), (1, NULL)")

    assert (database, False) in TABLES.list_entities(store, ())
    assert (till, False) in TABLES.list_entities(store, (database,))
    assert TABLES.list_entities(store, (database, till)) == [("Orders; --", True)]
    described = TABLES.describe_entity(store, path)
    assert [(column.name, str(column.type), column.nullable) for column in described.columns] == [
        ("id", "BIGINT", False),
        ("Na me", "VARCHAR", True),
    ]
    assert described.key == ("id",)
    async with aclosing(await TABLES.print_entity(store, path, start=PrintStart("latest"))) as rows:
        assert [(row.key, row.value) async for row in rows] == [
            ("1", '{"ID":1,"Na me":null}'),
            ("2", '{"ID":2,"Na me":"b"}'),
        ]
    identity = identify(store)
    first = identity(path)
    assert identity(path) == first
    TABLES.drop_entity(store, path)
    assert TABLES.list_entities(store, (database, till)) == []
    with pytest.raises(UserError) as gone:
        TABLES.describe_entity(store, path)
    assert gone.value.state is SqlState.ENTITY_NOT_FOUND
    assert identity(path) == {}
    # A query that has written into the first one must know it from the second.
    TABLES.create_entity(store, path, entity(given))
    assert identity(path).keys() == first.keys() == {path_text(path)}
    assert identity(path) != first
