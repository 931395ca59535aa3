"""Create, describe, list, show and drop tables; names that contain SQL."""

from __future__ import annotations

import asyncio

import pytest

from harness.databricks import CATALOG, Workspace
from headrace.connectors.base import PrintStart
from headrace.connectors.databricks.admin import DATABRICKS
from headrace.connectors.databricks.options import PROPERTIES
from headrace.connectors.databricks.spark import identify
from headrace.core.errors import UserError
from headrace.core.names import path_text
from headrace.core.properties import PropertyReader, Scope, of_scope, stored
from headrace.core.schema import Column, Schema
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT, INTEGER, VARCHAR

pytestmark = [pytest.mark.spark]

NAMES = ("id", "`; DROP TABLE x --", "it''s \\' \"q\"", "a b,;{}()=", "ünïcode")


def made(scope: Scope = Scope.ENTITY, **given: str) -> PropertyReader:
    texts = {name.replace("__", "."): text for name, text in given.items()}
    return PropertyReader(stored(texts), of_scope(PROPERTIES, scope), what="an entity")


def test_a_table_from_its_making_to_its_end(
    databricks: Workspace, store: dict[str, str], schema: str
) -> None:
    entities, printer = DATABRICKS.entities, DATABRICKS.printer
    assert entities is not None
    assert printer is not None
    path = (CATALOG, schema, "orders")
    columns = (
        "id BIGINT, n TINYINT, price DECIMAL(12, 2), at TIMESTAMP_LTZ(3), t TIMESTAMP, tags ARRAY<VARCHAR>, "
        "extra STRUCT<n INT, m MAP<VARCHAR, DATE>>, raw BYTES, ok BOOLEAN, f DOUBLE"
    )
    folder = f"s3://{databricks.bucket.bucket}/{schema}/orders"
    reader = made(
        databricks__columns=columns, databricks__primary__key="id", table__data__file__location=folder + "/"
    )
    entity = entities.create_entity(store, path, reader)
    assert entity == entities.describe_entity(store, path)
    assert [f"{column.name} {column.type}" for column in entity.columns] == [
        "id BIGINT",
        "n TINYINT",
        "price DECIMAL(12, 2)",
        "at TIMESTAMP_LTZ",
        "t TIMESTAMP",
        "tags ARRAY<VARCHAR>",
        "extra STRUCT<n INTEGER, m MAP<VARCHAR, DATE>>",
        "raw BYTES",
        "ok BOOLEAN",
        "f DOUBLE",
    ]
    assert entity.key == ("id",)
    assert entity.configs == {"kind": "external", "format": "delta", "location": folder}
    with pytest.raises(UserError) as caught:
        entities.create_entity(store, path, made(databricks__columns="id INT"))
    assert caught.value.state == SqlState.DUPLICATE_ENTITY

    assert (CATALOG, False) in entities.list_entities(store, ())
    assert (schema, False) in entities.list_entities(store, (CATALOG,))
    assert entities.list_entities(store, (CATALOG, schema)) == [("orders", True)]
    databricks.execute(f"INSERT INTO {CATALOG}.{schema}.orders (id, price) VALUES (2, 1.5), (1, NULL)")

    async def shown() -> list[tuple[object, str]]:
        records = await printer.print_entity(store, path, start=PrintStart("latest"))
        return [(record.key, str(record.value)) async for record in records]

    first, second = asyncio.run(shown())
    assert first[0] == "1"
    assert first[1].startswith('{"id":1,"n":null,"price":null,')
    assert second[1].startswith('{"id":2,"n":null,"price":1.50,')

    identity = identify(store)
    known = identity(path)
    assert identity(path) == known
    entities.drop_entity(store, path)
    assert identity(path) == {}
    for gone in (entities.describe_entity, entities.drop_entity):
        with pytest.raises(UserError) as caught:
            gone(store, path)
        assert caught.value.state == SqlState.ENTITY_NOT_FOUND
    # A query that has written into the first one must know it from the second.
    entities.create_entity(store, path, made(databricks__columns="id BIGINT"))
    assert identity(path).keys() == known.keys() == {path_text(path)}
    assert identity(path) != known
    entities.drop_entity(store, path)
    for nowhere in ((CATALOG, "nowhere"), ("nowhere", "nowhere")):
        with pytest.raises(UserError) as caught:
            entities.list_entities(store, nowhere)
        assert caught.value.state == SqlState.ENTITY_NOT_FOUND


def test_names_are_names(store: dict[str, str], schema: str) -> None:
    sink, entities = DATABRICKS.row_sink, DATABRICKS.entities
    assert sink is not None
    assert entities is not None
    columns = Schema(tuple(Column(name, BIGINT) for name in NAMES), NAMES[:2])
    path = (CATALOG, schema, "names")
    sink.create(store, path, columns, made(Scope.SINK))
    entity = entities.describe_entity(store, path)
    assert tuple(column.name for column in entity.columns) == NAMES
    assert entity.key == NAMES[:2]
    assert entity.configs["kind"] == "managed"
    # What Unity Catalog would not take as a name is told as one, and nothing else happens.
    for name in ("names`; DROP TABLE x", "a'b", '"', "a b", "\\"):
        with pytest.raises(UserError) as caught:
            sink.create(store, (CATALOG, schema, name), columns, made(Scope.SINK))
        assert caught.value.state == SqlState.INVALID_PARAMETER
        with pytest.raises(UserError) as caught:
            entities.describe_entity(store, (CATALOG, f"{schema}{name}", name))
        assert caught.value.state in (SqlState.ENTITY_NOT_FOUND, SqlState.INVALID_PARAMETER)
    assert entities.list_entities(store, (CATALOG, schema)) == [("names", True)]


def test_a_table_that_does_not_fit_is_reported(
    databricks: Workspace, store: dict[str, str], schema: str
) -> None:
    sink = DATABRICKS.row_sink
    assert sink is not None
    databricks.execute(f"CREATE TABLE {CATALOG}.{schema}.t (id INT, name STRING) USING DELTA")
    databricks.execute(f"CREATE VIEW {CATALOG}.{schema}.v AS SELECT 1 AS id")
    own = f"s3://{databricks.bucket.bucket}/elsewhere/"
    cases = [
        ("t", [Column("id", BIGINT)], {}, SqlState.INVALID_RELATION_DEFINITION, "id is INTEGER, which does not accept BIGINT"),
        ("t", [Column("no", BIGINT)], {}, SqlState.UNDEFINED_COLUMN, "has no column no"),
        ("v", [Column("id", INTEGER)], {}, SqlState.INVALID_RELATION_DEFINITION, "it is not a Delta table"),
        ("x", [Column("id", INTEGER)], {}, SqlState.ENTITY_NOT_FOUND, "no such table"),
        ("t", [Column("name", VARCHAR)], {"table.data.file.location": own}, SqlState.INVALID_RELATION_DEFINITION, "it lies at s3://"),
        ("t", [Column("name", VARCHAR)], {"table.data.file.location": "s3://other/t"}, SqlState.INVALID_PARAMETER, "not in the store's"),
    ]  # fmt: skip
    for table, columns, options, state, message in cases:
        with pytest.raises(UserError, match=message) as caught:
            sink.check(store, (CATALOG, schema, table), Schema(tuple(columns)), options, False)
        assert caught.value.state == state, message
    with pytest.raises(UserError, match="s3://other/x is not in the store's bucket lake"):
        sink.create(
            store,
            (CATALOG, schema, "x"),
            Schema((Column("id", INTEGER),)),
            made(Scope.SINK, table__data__file__location="s3://other/x"),
        )
    with pytest.raises(UserError, match="differ in case only: id"):
        sink.create(
            store,
            (CATALOG, schema, "x"),
            Schema((Column("id", INTEGER), Column("ID", INTEGER))),
            made(Scope.SINK),
        )
