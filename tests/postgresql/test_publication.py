"""Refusal of publications that leave rows out, or that would disturb the tables' writers."""

from __future__ import annotations

import pytest

from harness.patience import until
from harness.postgresql import PostgresServer
from headrace.connectors.postgresql import reader
from headrace.connectors.postgresql.changes import Table
from headrace.connectors.postgresql.reader import TableReader
from headrace.connectors.postgresql.relations import read_tables
from headrace.core.errors import UserError
from headrace.core.schema import Column, Schema
from headrace.core.types import INTEGER, VARCHAR

Store = dict[str, str]
COLUMNS = "(id int PRIMARY KEY, n int)"

PUBLISHED = {
    "FOR TABLE {t} WITH (publish = 'insert')": "does not publish update, delete, truncate",
    "FOR TABLE {t} WITH (publish = 'insert, update, delete')": "does not publish truncate",
    "FOR TABLE {t} WHERE (id > 3)": r"leaves rows of .* out: its row filter is \(id > 3\)",
    "FOR TABLE {t} (id)": "does not publish the column n of",
    "FOR TABLE {root} WITH (publish_via_partition_root)": "does not publish the table .* under its own name",
}
"""Publications that were there, and why they are refused."""


def test_a_publication_that_leaves_something_out_is_refused(
    postgresql: PostgresServer, store: Store, schema: str, slot: str
) -> None:
    root = f'"{schema}".root'
    postgresql.execute(
        f"CREATE TABLE {root} {COLUMNS} PARTITION BY RANGE (id)",
        f'CREATE TABLE "{schema}".t PARTITION OF {root} DEFAULT',
    )
    table = Table(schema, "t", ("id", "n"), ("id",))
    for published, message in PUBLISHED.items():
        text = published.format(t=f'"{schema}".t', root=root)
        postgresql.execute(f"CREATE PUBLICATION {slot} {text}")
        with pytest.raises(UserError, match=message) as caught:
            reader.begin(store, None, slot, [table])
        assert caught.value.state.value == "3D008"
        postgresql.execute(f"DROP PUBLICATION {slot}")
    postgresql.execute(f"CREATE PUBLICATION {slot} FOR TABLE {root}")
    assert reader.begin(store, None, slot, [table])


def test_a_column_that_was_dropped_is_not_taken_for_one_that_is_not_published(
    postgresql: PostgresServer, store: Store, schema: str, slot: str
) -> None:
    postgresql.execute(
        f'CREATE TABLE "{schema}".t {COLUMNS}',
        f'CREATE PUBLICATION {slot} FOR TABLE "{schema}".t',
        f'ALTER TABLE "{schema}".t DROP COLUMN n',
    )
    with pytest.raises(UserError, match="has no column n any more") as caught:
        reader.begin(store, None, slot, [Table(schema, "t", ("id", "n"), ("id",))])
    assert caught.value.state.value == "42703"


def test_an_unlogged_table_is_refused(postgresql: PostgresServer, store: Store, schema: str) -> None:
    postgresql.execute(f'CREATE UNLOGGED TABLE "{schema}".t {COLUMNS}')
    with pytest.raises(UserError, match="is UNLOGGED"):
        read_tables(store, (schema, "t"), Schema((Column("id", INTEGER),), ("id",)), {}, upsert=True)


TABLES = {
    "(id int PRIMARY KEY DEFERRABLE, n int)": "is DEFERRABLE.* refuses every UPDATE and DELETE",
    "(n int, id int GENERATED ALWAYS AS (n * 2) STORED PRIMARY KEY)": r"primary key of .* contains the generated column id",
    "(id int PRIMARY KEY, n int, v int GENERATED ALWAYS AS (n * 2) VIRTUAL)": "contains the generated column v, which is not published",
}
"""Columns of tables that take no UPDATE or DELETE once they are published, or whose changes lack the key; and why they are refused."""


def test_a_table_whose_writers_would_be_disturbed_is_not_published(
    postgresql: PostgresServer, store: Store, schema: str, slot: str
) -> None:
    t = f'"{schema}".t'
    table = Table(schema, "t", ("id", "n"), ("id",))
    for columns, message in TABLES.items():
        if "VIRTUAL" in columns and postgresql.version < 18:
            continue
        postgresql.execute(f"CREATE TABLE {t} {columns}")
        if "VIRTUAL" in columns:
            postgresql.execute(f"ALTER TABLE {t} REPLICA IDENTITY FULL")
        if "STORED" in columns and postgresql.version >= 18:
            reader.begin(store, None, slot, [table])  # which publishes it
        else:
            with pytest.raises(UserError, match=message):
                reader.begin(store, None, slot, [table])
            assert not postgresql.execute(f"SELECT FROM pg_publication WHERE pubname = '{slot}'")
        values = "(n) VALUES (1)" if "STORED" in columns else "(id, n) VALUES (1, 1)"
        postgresql.execute(
            f"INSERT INTO {t} {values}", f"UPDATE {t} SET n = 2", f"DELETE FROM {t}", f"DROP TABLE {t}"
        )


def test_generated_columns_are_read_where_the_server_publishes_them(
    postgresql: PostgresServer, store: Store, schema: str, slot: str
) -> None:
    """Also of a table whose replica identity is FULL, which takes UPDATEs then; without them a row is what its changes have of it."""
    postgresql.execute(
        f'CREATE TABLE "{schema}".t (id int PRIMARY KEY, n int, total int GENERATED ALWAYS AS (n * 2) STORED)',
        f'ALTER TABLE "{schema}".t REPLICA IDENTITY FULL',
        f'INSERT INTO "{schema}".t VALUES (1, 1)',
    )
    relation = Schema((Column("id", INTEGER), Column("total", INTEGER)), ("id",))
    if postgresql.version < 18:
        with pytest.raises(UserError, match=r"total of .* is generated") as caught:
            read_tables(store, (schema, "t"), relation, {}, upsert=True)
        assert caught.value.state.value == "0A000"
    else:
        assert read_tables(store, (schema, "t"), relation, {}, upsert=True)
    rows = Schema((Column("after", VARCHAR),))
    (table,) = read_tables(store, (schema, "t"), rows, {}, upsert=False)
    changes = []
    with TableReader(store, None, slot, [table], reader.begin(store, None, slot, [table])) as reading:
        changes += reading.read(at_most=10, wait_s=0)
        postgresql.execute(f'UPDATE "{schema}".t SET n = 2')
        until(lambda: changes.extend(reading.read(at_most=9, wait_s=0.1)) or len(changes) > 1, "a change")
    assert {change.table.columns for change in changes} == {
        ("id", "n", "total") if postgresql.version >= 18 else ("id", "n")
    }


def test_a_table_that_others_inherit_from_is_refused_and_they_are_read(
    postgresql: PostgresServer, store: Store, schema: str, slot: str
) -> None:
    postgresql.execute(
        f'CREATE TABLE "{schema}".parent {COLUMNS}',
        f'CREATE TABLE "{schema}".child (PRIMARY KEY (id)) INHERITS ("{schema}".parent)',
    )
    relation = Schema((Column("id", INTEGER),), ("id",))
    with pytest.raises(UserError, match=r'tables inherit from .*parent \("Shop .*"\.child\)'):
        read_tables(store, (schema, "parent"), relation, {}, upsert=True)
    (table,) = read_tables(store, (schema, "child"), relation, {}, upsert=True)
    assert reader.begin(store, None, slot, [table])
