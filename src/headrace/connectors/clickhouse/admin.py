"""The control-plane half of the ClickHouse store type.

An entity is a table (or a view): `table` of the database of the store's 'uris', or `database.table`.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.connectors.base import PrintedRecord, RowSink, StoreDescriptor, TableSource
from headrace.connectors.clickhouse import tables
from headrace.connectors.clickhouse.client import ClickHouse, identifier
from headrace.connectors.clickhouse.options import NEW_TABLE, PROPERTIES, read_path, read_store
from headrace.connectors.table_admin import TableAdmin
from headrace.connectors.table_printing import printed_row
from headrace.core.errors import UserError
from headrace.core.names import EntityPath
from headrace.core.schema import Schema
from headrace.core.sqlstate import SqlState


def test(store: Mapping[str, str]) -> None:
    """Run a statement in the store's database; an error names the step that failed: name, network, TLS, user, database."""
    with ClickHouse(store) as clickhouse:
        clickhouse.ping()
        clickhouse.execute("SELECT 1")


def _session(store: Mapping[str, str], _path: EntityPath) -> ClickHouse:
    return ClickHouse(store)


def _list_entities(store: Mapping[str, str], within: EntityPath) -> list[tuple[str, bool]]:
    """List databases, or the tables of a database."""
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


def _sample(clickhouse: ClickHouse, path: EntityPath, limit: int) -> list[PrintedRecord]:
    table = tables.find(clickhouse, path)
    names = ", ".join(map(identifier, table.columns))
    order = f" ORDER BY {', '.join(map(identifier, table.key))}" if table.key else ""
    rows = clickhouse.lines(f"SELECT {names} FROM {table.name}{table.final}{order} LIMIT {limit}")  # noqa: S608
    # In a table without versions, the key is only the sort order.
    key = table.key if table.version else ()
    return [printed_row(number, row, key) for number, row in enumerate(rows, 1)]


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


_entities = TableAdmin(tables, _session, NEW_TABLE, _list_entities, _sample)

CLICKHOUSE = StoreDescriptor(
    type="clickhouse",
    label="ClickHouse",
    properties=PROPERTIES,
    read=read_store,
    test=test,
    path=read_path,
    table_source=TableSource(check=_check_table),
    row_sink=RowSink(create=_entities.create_rows, check=_check_rows, upserts=True, exactly_once=True),
    entities=_entities,
    printer=_entities,
    on_clusters="python",
    tested_unasked=True,
)
