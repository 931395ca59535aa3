"""The control-plane half of the ClickHouse store type.

An entity is a table (or a view): `table` of the database of the store's 'uris', or `database.table`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping

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
from headrace.connectors.clickhouse.options import PROPERTIES, read_path, read_store, read_table
from headrace.core.errors import UserError
from headrace.core.names import EntityPath
from headrace.core.properties import PropertyReader
from headrace.core.schema import Schema
from headrace.core.sqlstate import SqlState

SAMPLE_ROWS = 100
PRINTED_ROWS_MAX = 100_000


def test(store: Mapping[str, str]) -> None:
    """Asks something in the store's database; the error names the step that failed: name, network, TLS, user, database."""
    with ClickHouse(store) as clickhouse:
        clickhouse.ping()
        clickhouse.execute("SELECT 1")


class ClickHouseTables:
    """Tables. See `connectors.base` for what each method promises."""

    def list_entities(self, store: Mapping[str, str], within: EntityPath) -> list[tuple[str, bool]]:
        """Databases, and in one of them tables."""
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
        columns, key = read_table(options)
        with ClickHouse(store) as clickhouse:
            tables.create(clickhouse, path, columns, key)
            return tables.describe(clickhouse, path)

    def drop_entity(self, store: Mapping[str, str], path: EntityPath) -> None:
        with ClickHouse(store) as clickhouse:
            tables.drop(clickhouse, path)

    async def print_entity(
        self, store: Mapping[str, str], path: EntityPath, *, start: PrintStart
    ) -> AsyncGenerator[PrintedRecord]:
        """The rows that count, from the beginning at most `PRINTED_ROWS_MAX`, and else a sample of the first `SAMPLE_ROWS`."""
        if isinstance(start.at, int):
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                "the rows of a table have no time to be printed from",
                hint="Use 'starting.position' = 'earliest' for all of them.",
            )
        limit = PRINTED_ROWS_MAX if start.at == "earliest" else SAMPLE_ROWS
        return _printed(await asyncio.to_thread(_sample, store, path, limit))


def _sample(store: Mapping[str, str], path: EntityPath, limit: int) -> list[PrintedRecord]:
    with ClickHouse(store) as clickhouse:
        table = tables.find(clickhouse, path)
        names = ", ".join(map(identifier, table.columns))
        order = f" ORDER BY {', '.join(map(identifier, table.key))}" if table.key else ""
        rows = clickhouse.lines(f"SELECT {names} FROM {table.name}{table.final}{order} LIMIT {limit}")  # noqa: S608
    return [
        PrintedRecord(_key(json.loads(row), table), row, f"row {number}")
        for number, row in enumerate(rows, 1)
    ]


def _key(row: Mapping[str, object], table: tables.Table) -> str | None:
    """One column as its text, several as a JSON object, none as NULL."""
    if not table.version or not table.key:
        return None
    if len(table.key) == 1:
        value = row[table.key[0]]
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return json.dumps({name: row[name] for name in table.key}, ensure_ascii=False)


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


async def _printed(records: list[PrintedRecord]) -> AsyncGenerator[PrintedRecord]:
    for record in records:
        yield record


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
