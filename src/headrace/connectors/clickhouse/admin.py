"""The control-plane half of the ClickHouse store type.

An entity is a table (or a view): `table` of the database of the store's 'uris', or `database.table`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from functools import partial

from headrace.connectors.base import (
    EntityDescription,
    PrintedRecord,
    PrintStart,
    RowSink,
    StoreDescriptor,
    TableSource,
)
from headrace.connectors.clickhouse import tables
from headrace.connectors.clickhouse.client import ClickHouse, identifier
from headrace.connectors.clickhouse.options import NEW_TABLE, PROPERTIES, read_path, read_store
from headrace.connectors.table_printing import printed, printed_row
from headrace.core.errors import UserError
from headrace.core.names import EntityPath
from headrace.core.properties import PropertyReader
from headrace.core.schema import Schema
from headrace.core.sqlstate import SqlState


def test(store: Mapping[str, str]) -> None:
    """Asks something in the store's database; the error names the step that failed: name, network, TLS, user, database."""
    with ClickHouse(store) as clickhouse:
        clickhouse.ping()
        clickhouse.execute("SELECT 1")


class ClickHouseTables:
    """Tables. See `connectors.base` for what each method promises."""

    def list_entities(self, store: Mapping[str, str], within: EntityPath) -> list[tuple[str, bool]]:
        """List databases, or the tables of one."""
        with ClickHouse(store) as clickhouse:
            if not within:
                return [(name, False) for name in tables.databases(clickhouse)]
            if len(within) > 1:
                raise UserError(
                    SqlState.INVALID_PARAMETER,
                    f"expected a database, found {'.'.join(within)}",
                    hint="LIST ENTITIES shows databases, LIST ENTITIES IN database its tables.",
                )
            return [(name, True) for name in tables.tables(clickhouse, within[0])]

    def describe_entity(self, store: Mapping[str, str], path: EntityPath) -> EntityDescription:
        with ClickHouse(store) as clickhouse:
            return tables.describe(clickhouse, path)

    def create_entity(
        self, store: Mapping[str, str], path: EntityPath, options: PropertyReader
    ) -> EntityDescription:
        columns, key = NEW_TABLE.read(options)
        with ClickHouse(store) as clickhouse:
            tables.create(clickhouse, path, columns, key)
            return tables.describe(clickhouse, path)

    def drop_entity(self, store: Mapping[str, str], path: EntityPath) -> None:
        with ClickHouse(store) as clickhouse:
            tables.drop(clickhouse, path)

    async def print_entity(
        self, store: Mapping[str, str], path: EntityPath, *, start: PrintStart
    ) -> AsyncGenerator[PrintedRecord]:
        """Yield the rows that count."""
        return await printed(partial(_sample, store, path), start)


def _sample(store: Mapping[str, str], path: EntityPath, limit: int) -> list[PrintedRecord]:
    with ClickHouse(store) as clickhouse:
        table = tables.find(clickhouse, path)
        names = ", ".join(map(identifier, table.columns))
        order = f" ORDER BY {', '.join(map(identifier, table.key))}" if table.key else ""
        rows = clickhouse.lines(f"SELECT {names} FROM {table.name}{table.final}{order} LIMIT {limit}")  # noqa: S608
    # What has no versions has a key by which it is sorted, and no more.
    key = table.key if table.version else ()
    return [printed_row(number, row, key) for number, row in enumerate(rows, 1)]


def _create_rows(
    store: Mapping[str, str], path: EntityPath, schema: Schema, _options: PropertyReader
) -> None:
    with ClickHouse(store) as clickhouse:
        tables.create(clickhouse, path, schema.columns, schema.primary_key)


def _check_rows(
    store: Mapping[str, str], path: EntityPath, schema: Schema, _options: Mapping[str, str], upsert: bool
) -> None:
    with ClickHouse(store) as clickhouse:
        tables.check(tables.find(clickhouse, path), path, schema, upsert=upsert)


def _check_table(store: Mapping[str, str], path: EntityPath, schema: Schema) -> None:
    with ClickHouse(store) as clickhouse:
        table = tables.find(clickhouse, path)
    tables.check_readable(table, path, schema)
    if schema.primary_key:
        tables.check_key(table, path, schema)


_entities = ClickHouseTables()

CLICKHOUSE = StoreDescriptor(
    type="clickhouse",
    label="ClickHouse",
    properties=PROPERTIES,
    read=read_store,
    test=test,
    path=read_path,
    table_source=TableSource(check=_check_table),
    row_sink=RowSink(create=_create_rows, check=_check_rows, upserts=True, exactly_once=True),
    entities=_entities,
    printer=_entities,
)
