"""The control-plane half of the PostgreSQL store type.

An entity is a table (or a view): `schema.table` of the database of the store's 'uris', or `database.schema.table`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager

from headrace.connectors.base import (
    EntityDescription,
    PrintedRecord,
    PrintStart,
    RowSink,
    RowSource,
    StoreDescriptor,
    TableSource,
)
from headrace.connectors.postgresql import tables, writing
from headrace.connectors.postgresql.connection import Connection, connect, connect_async
from headrace.connectors.postgresql.failures import classified
from headrace.connectors.postgresql.options import (
    NEW_TABLE,
    PROPERTIES,
    SLOT,
    read_path,
    read_store,
    slot_place,
    source_options,
)
from headrace.connectors.postgresql.relations import read_tables
from headrace.connectors.postgresql.rows import METADATA
from headrace.connectors.table_printing import SAMPLE_ROWS, refuse_time
from headrace.core.errors import UserError
from headrace.core.names import EntityPath, printed
from headrace.core.properties import PropertyReader
from headrace.core.schema import Schema
from headrace.core.sqlstate import SqlState


def test(store: Mapping[str, str]) -> None:
    """Connect and run a statement; an error names the step that failed: name, network, TLS, user, database."""
    with _connected(store, ()) as connection:
        connection.execute("SELECT 1")


class PostgresEntities:
    """Tables. `connectors.base` describes the contract of each method."""

    def list_entities(self, store: Mapping[str, str], within: EntityPath) -> list[tuple[str, bool]]:
        """List databases; in one of them schemas; in one of those, or in a schema of the store's own database, tables."""
        if len(within) > 2:
            raise _wrong(within, "database, or database.schema")
        with _connected(store, ()) as connection:
            databases = tables.databases(connection)
            if not within:
                return [(name, False) for name in databases]
            if len(within) == 1 and within[0] not in databases:
                return _tables(connection, within[0])
        with _connected(store, within[:1]) as connection:
            if len(within) == 1:
                return [(name, False) for name in tables.schemas(connection)]
            return _tables(connection, within[1])

    def describe_entity(self, store: Mapping[str, str], path: EntityPath) -> EntityDescription:
        if len(path) == 1:  # what a list of tables is in
            with _connected(store, path):
                return EntityDescription(path, configs={"kind": "database"})
        with _of_table(store, path) as connection:
            return tables.describe(connection, path)

    def create_entity(
        self, store: Mapping[str, str], path: EntityPath, options: PropertyReader
    ) -> EntityDescription:
        columns, key = NEW_TABLE.read(options)
        with _of_table(store, path) as connection:
            tables.create(connection, path, columns, key)
            return tables.describe(connection, path)

    def drop_entity(self, store: Mapping[str, str], path: EntityPath) -> None:
        with _of_table(store, path) as connection:
            tables.drop(connection, path)

    def insert(
        self,
        store: Mapping[str, str],
        path: EntityPath,
        *,
        key: bytes | None,
        value: bytes,
        options: Mapping[str, str],  # noqa: ARG002
    ) -> None:
        """Insert one row, by the names of its columns; others get their defaults."""
        row = json.loads(value)
        if not isinstance(row, dict) or not row or key is not None:
            raise UserError(
                SqlState.INVALID_RECORD,
                "expected a JSON object with the values of columns, and no separate key",
                hint="""Write VALUE('{"column": "value"}').""",
            )
        with _of_table(store, path) as connection:
            tables.insert(connection, path, list(row), value.decode())

    def insert_rows(
        self, store: Mapping[str, str], path: EntityPath, columns: Sequence[str], rows: Sequence[str]
    ) -> None:
        """Insert rows in one transaction."""
        with _of_table(store, path) as connection, connection.transaction():
            for row in rows:
                tables.insert(connection, path, columns, row)

    async def print_entity(
        self, store: Mapping[str, str], path: EntityPath, *, start: PrintStart
    ) -> AsyncGenerator[PrintedRecord]:
        """Yield the present rows: all of them from the beginning, otherwise a sample of the first ones."""
        refuse_time(start, "table")
        description = await asyncio.to_thread(self.describe_entity, store, path)
        return _sampled(store, description, None if start.at == "earliest" else SAMPLE_ROWS)


def _tables(connection: Connection, schema: str) -> list[tuple[str, bool]]:
    if schema not in tables.schemas(connection):
        raise UserError(
            SqlState.ENTITY_NOT_FOUND,
            f"there is no database and no schema {printed(schema)} in the store",
            hint="LIST ENTITIES shows the databases, LIST ENTITIES IN database its schemas.",
        )
    return [(name, True) for name in tables.tables(connection, schema)]


async def _sampled(
    store: Mapping[str, str], description: EntityDescription, limit: int | None
) -> AsyncGenerator[PrintedRecord]:
    path, number = description.path, 0
    with classified(store):
        async with (
            await connect_async(store, *path[:-2]) as connection,
            aclosing(tables.printed_rows(connection, path, description.key, limit)) as rows,
        ):
            async for key, row in rows:
                number += 1
                yield PrintedRecord(key, row, f"row {number}")


@contextmanager
def _of_table(store: Mapping[str, str], path: EntityPath) -> Iterator[Connection]:
    if len(path) not in (2, 3):
        raise _wrong(path, "schema.table, or database.schema.table")
    with _connected(store, path[:-2]) as connection:
        yield connection


@contextmanager
def _connected(store: Mapping[str, str], database: EntityPath) -> Iterator[Connection]:
    with classified(store), connect(store, *database) as connection:
        yield connection


def _wrong(path: EntityPath, expected: str) -> UserError:
    return UserError(
        SqlState.INVALID_PARAMETER,
        f"expected {expected}, found {'.'.join(path) or 'nothing'}",
        hint="LIST ENTITIES shows databases, LIST ENTITIES IN database its schemas, IN database.schema the tables.",
    )


def _check_relation(
    store: Mapping[str, str], path: EntityPath, schema: Schema, options: Mapping[str, str], upsert: bool
) -> None:
    read_tables(store, path, schema, options, upsert=upsert)


def _create_table(
    store: Mapping[str, str],
    path: EntityPath,
    schema: Schema,
    options: PropertyReader,  # noqa: ARG001 - nothing more is said of a table
) -> None:
    writing.create(store, path, schema)


def _check_table(
    store: Mapping[str, str],
    path: EntityPath,
    schema: Schema,
    options: Mapping[str, str],  # noqa: ARG001 - there are none
    upsert: bool,
) -> None:
    writing.check(store, path, schema, upsert=upsert)


_entities = PostgresEntities()
POSTGRESQL = StoreDescriptor(
    type="postgresql",
    label="PostgreSQL",
    client_label="Postgres",
    properties=PROPERTIES,
    read=read_store,
    test=test,
    path=read_path,
    row_source=RowSource(
        metadata=METADATA,
        options=source_options,
        upserts=True,
        needs=(SLOT,),
        check=_check_relation,
        exclusive=slot_place,
    ),
    row_sink=RowSink(create=_create_table, check=_check_table, upserts=True, exactly_once=True),
    table_source=TableSource(check=writing.check_readable, by_key=True),
    entities=_entities,
    inserter=_entities,
    row_inserter=_entities,
    printer=_entities,
    on_clusters="python",
    tested_unasked=True,
)
