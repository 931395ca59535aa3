"""Tables of a real server as entities."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest

from harness.postgresql import PostgresServer
from headrace.connectors.base import PrintStart
from headrace.connectors.postgresql import writing
from headrace.connectors.postgresql.admin import SAMPLE_ROWS, PostgresEntities
from headrace.connectors.postgresql.options import PROPERTIES
from headrace.connectors.postgresql.spark import identify
from headrace.connectors.postgresql.writing import Target
from headrace.core.errors import HeadraceError, UserError
from headrace.core.names import EntityPath, path_text
from headrace.core.properties import PropertyReader, Scope, of_scope, stored
from headrace.core.schema import Column, Schema
from headrace.core.sqlstate import SqlState
from headrace.core.types import INTEGER, VARCHAR, parse_type

Store = dict[str, str]
entities = PostgresEntities()


def table(**properties: str) -> PropertyReader:
    given = {f"postgresql.{name.replace('_', '.')}": value for name, value in properties.items()}
    return PropertyReader(stored(given), of_scope(PROPERTIES, Scope.ENTITY), what="property")


async def printed(
    store: Store, path: EntityPath, *, from_beginning: bool
) -> list[tuple[str | None, str | None]]:
    records = await entities.print_entity(
        store, path, start=PrintStart("earliest" if from_beginning else "latest")
    )
    return [(record.key, record.value) async for record in records]


def test_paths_go_from_databases_over_schemas_to_tables(
    postgresql: PostgresServer, store: Store, schema: str, seed: str
) -> None:
    postgresql.execute(
        f'CREATE TABLE "{schema}".a (x int)',
        f'CREATE VIEW "{schema}".b AS SELECT 1 AS y',
        f'CREATE TABLE "{schema}".parted (x int) PARTITION BY RANGE (x)',
        f'CREATE TABLE "{schema}".part PARTITION OF "{schema}".parted FOR VALUES FROM (0) TO (9)',
        f"CREATE DATABASE other_{seed}",
    )
    postgresql.execute("CREATE SCHEMA s", "CREATE TABLE s.there (x int)", database=f"other_{seed}")
    assert {("postgres", False), (f"other_{seed}", False)} <= set(entities.list_entities(store, ()))
    children = entities.list_entities(store, ("postgres",))
    assert (schema, False) in children
    assert not [name for name, _ in children if name.startswith("pg_") or name == "information_schema"]
    assert entities.list_entities(store, ("postgres", schema)) == [("a", True), ("b", True), ("parted", True)]
    assert entities.list_entities(store, (schema,)) == [("a", True), ("b", True), ("parted", True)]
    assert entities.list_entities(store, (f"other_{seed}", "s")) == [("there", True)]
    assert entities.describe_entity(store, (f"other_{seed}", "s", "there")).columns[0].name == "x"


def test_a_description_of_a_table_has_its_columns_key_and_replica_identity(
    postgresql: PostgresServer, store: Store, schema: str
) -> None:
    types = {
        "b": ("boolean", "BOOLEAN"),
        "i2": ("smallint", "SMALLINT"),
        "i4": ("integer", "INTEGER"),
        "i8": ("bigint", "BIGINT"),
        "f4": ("real", "FLOAT"),
        "f8": ("double precision", "DOUBLE"),
        "n": ("numeric(12,2)", "DECIMAL(12, 2)"),
        "n_of_any_size": ("numeric", "VARCHAR"),
        "n_too_wide": ("numeric(50,2)", "VARCHAR"),
        "n_of_thousands": ("numeric(5,-3)", "VARCHAR"),
        "v": ("varchar(20)", "VARCHAR(20)"),
        "c": ("char(3)", "VARCHAR(3)"),
        "t": ("text", "VARCHAR"),
        "d": ("date", "DATE"),
        "ts": ("timestamp", "TIMESTAMP"),
        "ts3": ("timestamp(3)", "TIMESTAMP(3)"),
        "tz": ("timestamptz", "TIMESTAMP_LTZ"),
        "clock": ("time", "VARCHAR"),
        "raw": ("bytea", "BYTES"),
        "js": ("jsonb", "VARCHAR"),
        "u": ("uuid", "VARCHAR"),
        "many": ("int[]", "ARRAY<INTEGER>"),
        "kind": (f'"{schema}".mood', "VARCHAR"),
        "euro": (f'"{schema}".euro', "DECIMAL(10, 2)"),
    }
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in types.items())
    postgresql.execute(
        f"""CREATE TYPE "{schema}".mood AS ENUM ('sad', 'glad')""",
        f'CREATE DOMAIN "{schema}".money AS numeric(10,2)',
        f'CREATE DOMAIN "{schema}".euro AS "{schema}".money NOT NULL',
        f'CREATE TABLE "{schema}".t ({columns}, gone int, PRIMARY KEY (v, i4))',
        f'ALTER TABLE "{schema}".t DROP COLUMN gone',
        f'ALTER TABLE "{schema}".t REPLICA IDENTITY FULL',
    )
    entity = entities.describe_entity(store, (schema, "t"))
    assert {column.name: str(column.type) for column in entity.columns} == {
        name: ours for name, (_, ours) in types.items()
    }
    assert [column.name for column in entity.columns if not column.nullable] == ["i4", "v", "euro"]
    assert entity.key == ("v", "i4")
    assert entity.configs == {"kind": "table", "replica.identity": "full"}


def test_a_table_that_takes_no_value_of_a_column_or_no_update_is_no_sink(
    postgresql: PostgresServer, store: Store, schema: str
) -> None:
    postgresql.execute(
        f'CREATE TABLE "{schema}".t (id int PRIMARY KEY, n int GENERATED ALWAYS AS (id * 2) STORED)',
        f'CREATE TABLE "{schema}".i (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n int)',
        f'CREATE TABLE "{schema}".d (id int PRIMARY KEY DEFERRABLE, n int)',
    )
    both = Schema((Column("id", INTEGER, nullable=False), Column("n", INTEGER)), ("id",))
    for name, upsert, message in (
        ("t", False, "computes the column n of"),
        ("t", True, "computes the column n of"),
        ("i", False, None),
        ("i", True, "computes the column id of"),
        ("d", False, None),
        ("d", True, "is DEFERRABLE"),
    ):
        with pytest.raises(UserError, match=message) if message else nullcontext():
            writing.check(store, (schema, name), both, upsert=upsert)
    writing.check(store, (schema, "t"), Schema(both.columns[:1], ("id",)), upsert=True)


def test_columns_that_would_change_values_are_no_sink(
    postgresql: PostgresServer, store: Store, schema: str
) -> None:
    postgresql.execute(
        f'CREATE TABLE "{schema}".t (clock time, clocks time[], n numeric(50,2), v varchar(3))'
    )
    kept = Schema((Column("n", parse_type("DECIMAL(10, 2)")), Column("v", VARCHAR)))
    writing.check(store, (schema, "t"), kept, upsert=False)
    changed = Schema(
        (Column("clock", parse_type("TIMESTAMP")), Column("clocks", parse_type("ARRAY<TIMESTAMP>")))
    )
    expected = r"clock is time without time zone, which does not accept TIMESTAMP.*; clocks is time without time zone\[\]"
    with pytest.raises(UserError, match=expected):
        writing.check(store, (schema, "t"), changed, upsert=False)


def test_a_primary_key_is_without_the_columns_that_its_index_includes(
    postgresql: PostgresServer, store: Store, schema: str
) -> None:
    postgresql.execute(f'CREATE TABLE "{schema}".t (id int, n int, PRIMARY KEY (id) INCLUDE (n))')
    assert entities.describe_entity(store, (schema, "t")).key == ("id",)


async def test_a_table_is_made_filled_printed_and_dropped(store: Store, schema: str) -> None:
    path = ("postgres", schema, "Orders")
    columns = 'id BIGINT, amount DECIMAL(12, 2), at TIMESTAMP(3), "Tags" ARRAY<VARCHAR>, more STRUCT<a INT>'
    made = entities.create_entity(store, path, table(columns=columns, primary_key="id"))
    assert [(column.name, str(column.type)) for column in made.columns] == [
        ("id", "BIGINT"),
        ("amount", "DECIMAL(12, 2)"),
        ("at", "TIMESTAMP(3)"),
        ("Tags", "ARRAY<VARCHAR>"),
        ("more", "VARCHAR"),
    ]
    assert made.key == ("id",)
    for value in (
        b'{"id": 2, "amount": 1.50, "Tags": ["a", "b"], "more": {"a": 1}}',
        b'{"id": 1, "at": "2026-01-02T03:04:05.678"}',
    ):
        entities.insert(store, path, key=None, value=value, options={})
    assert await printed(store, path, from_beginning=True) == [
        ("1", '{"id":1,"amount":null,"at":"2026-01-02T03:04:05.678","Tags":null,"more":null}'),
        ("2", '{"id":2,"amount":1.50,"at":null,"Tags":["a","b"],"more":{"a": 1}}'),
    ]
    identity = identify(store)
    first = identity(path)
    assert identity(path) == first
    entities.drop_entity(store, path)
    assert entities.list_entities(store, ("postgres", schema)) == []
    assert identity(path) == {}
    # A query that has written into the first one must know it from the second.
    entities.create_entity(store, path, table(columns="id INT"))
    assert identity(path).keys() == first.keys() == {path_text(path)}
    assert identity(path) != first


def test_a_mark_that_is_lost_is_not_made_again(postgresql: PostgresServer, store: Store, schema: str) -> None:
    postgresql.execute(f'CREATE TABLE "{schema}".t (id int)')
    target = Target(store, ("postgres", schema, "t"), ("id",), query="q")
    writing.prepare(target)
    writing.write(target, 0, [b"1\n"])
    postgresql.execute(f'DROP TABLE "{schema}".{writing.MARKS}')
    writing.prepare(replace(target, is_begun=True))
    with pytest.raises(UserError, match=r"cannot determine whether batch 0 was written: .* is missing"):
        writing.write(target, 0, [b"1\n"])
    assert postgresql.execute(f'SELECT id FROM "{schema}".t') == [(1,)]


async def test_a_print_is_a_sample_unless_it_is_asked_for_all(
    postgresql: PostgresServer, store: Store, schema: str
) -> None:
    postgresql.execute(
        f'CREATE TABLE "{schema}".t (a int, b text, PRIMARY KEY (b, a))',
        f"""INSERT INTO "{schema}".t SELECT n, 'k' FROM generate_series(1, 1234) AS n""",
        f'CREATE TABLE "{schema}".keyless AS SELECT 7 AS n',
    )
    rows = await printed(store, (schema, "t"), from_beginning=True)
    assert len(rows) == 1234
    assert rows[-1] == ('{"b" : "k", "a" : 1234}', '{"a":1234,"b":"k"}')
    assert await printed(store, (schema, "t"), from_beginning=False) == rows[:SAMPLE_ROWS]
    assert await printed(store, (schema, "keyless"), from_beginning=False) == [(None, '{"n":7}')]


def test_what_is_refused_is_said(postgresql: PostgresServer, store: Store, schema: str) -> None:
    postgresql.execute(
        f'CREATE TABLE "{schema}".t (x int CHECK (x > 0))',
        f'CREATE VIEW "{schema}".v AS SELECT x FROM "{schema}".t',
    )
    path = (schema, "t")

    def insert(text: str, at: EntityPath = path) -> None:
        entities.insert(store, at, key=None, value=text.encode(), options={})

    for call, state, words in (
        (lambda: entities.describe_entity(store, (schema, "nope")), "3D007", "does not exist"),
        (lambda: entities.drop_entity(store, (schema, "nope")), "3D007", "no such table"),
        (lambda: entities.list_entities(store, ("nope",)), "3D007", "no database and no schema nope"),
        (lambda: entities.list_entities(store, ("nope", "s")), "3D007", "no such database"),
        (lambda: entities.list_entities(store, ("postgres", "s")), "3D007", "no schema s"),
        (lambda: entities.list_entities(store, ("a", "b", "c")), "3D008", "database.schema"),
        (
            lambda: entities.create_entity(store, ("nope", "t"), table(columns="x INT")),
            "3D007",
            "no such schema",
        ),
        (lambda: entities.create_entity(store, path, table(columns="x INT")), "42710", "already"),
        (lambda: entities.create_entity(store, path, table()), "3D021", "postgresql.columns"),
        (lambda: entities.create_entity(store, path, table(columns="x INTT")), "3D008", "names with types"),
        (
            lambda: entities.create_entity(store, path, table(columns="x INT", primary_key="y")),
            "3D008",
            "names of columns",
        ),
        (lambda: entities.drop_entity(store, path), "2BP01", "others of its objects"),
        (lambda: entities.describe_entity(store, ("nope",)), "3D007", "no such database"),
        (lambda: entities.drop_entity(store, ("t",)), "3D008", "schema.table"),
        (lambda: insert('{"x": "a"}'), "22000", "refused a value"),
        (lambda: insert('{"x": 0}'), "22000", "constraint"),
        (lambda: insert('{"y": 0}'), "42703", "no such column"),
        (lambda: insert("[1]"), "22P02", "JSON object"),
    ):
        with pytest.raises(HeadraceError, match=words) as caught:
            call()
        assert caught.value.state.value == state


def test_a_right_that_is_missing_is_named(
    postgresql: PostgresServer, store: Store, schema: str, seed: str
) -> None:
    postgresql.execute(
        f"CREATE ROLE reader_{seed} LOGIN PASSWORD 'x'", f'CREATE TABLE "{schema}".t (x int PRIMARY KEY)'
    )
    reader = {**store, "postgres.username": f"reader_{seed}", "postgres.password": "x"}
    with pytest.raises(HeadraceError, match="permission denied for schema") as caught:
        entities.insert(reader, (schema, "t"), key=None, value=b'{"x": 1}', options={})
    assert "Grant the right to the user" in str(caught.value.hint)
    assert (schema, False) not in entities.list_entities(reader, ("postgres",))


def test_rows_are_inserted_together_or_not_at_all(
    postgresql: PostgresServer, store: Store, schema: str
) -> None:
    path = (schema, "rows")
    postgresql.execute(f'CREATE TABLE "{schema}".rows (id int PRIMARY KEY, at timestamptz, n int DEFAULT 7)')
    entities.insert_rows(
        store, path, ("id", "at"), ['{"id": 1, "at": "2026-01-02 03:04:05.678"}', '{"id": 2}']
    )
    with pytest.raises(UserError) as refused:
        entities.insert_rows(store, path, ("id",), ['{"id": 3}', '{"id": 1}'])
    assert refused.value.state is SqlState.DATA_EXCEPTION
    rows = postgresql.execute(
        f"SELECT id, at = '2026-01-02 03:04:05.678+00', n FROM \"{schema}\".rows ORDER BY id"
    )
    assert rows == [(1, True, 7), (2, None, 7)]
