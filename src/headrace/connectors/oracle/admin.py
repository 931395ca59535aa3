"""The control-plane half of the Oracle store type.

An entity is a table (or a view): `schema.table` of the service of the store's 'uris', or `service.schema.table`. A name in lower case is
Oracle's in upper case, as it is without quotes there.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
from collections.abc import Mapping
from typing import Any

from headrace.connectors.base import PrintedRecord, RowSink, StoreDescriptor, TableSource
from headrace.connectors.oracle import tables, types
from headrace.connectors.oracle.client import Oracle
from headrace.connectors.oracle.options import NEW_TABLE, PROPERTIES, read_path, read_store, wrong_path
from headrace.connectors.table_admin import TableAdmin
from headrace.connectors.table_printing import printed_row
from headrace.core.names import EntityPath
from headrace.core.schema import Schema


def test(store: Mapping[str, str]) -> None:
    """Sign in and run a statement; an error names the step that failed: name, network, TLS, service, user."""
    with Oracle(store) as oracle:
        oracle.rows("SELECT 1 FROM DUAL")


def _list_entities(store: Mapping[str, str], within: EntityPath) -> list[tuple[str, bool]]:
    """List schemas of the service in the store's 'uris', or the tables of a schema."""
    if len(within) > 1:
        raise wrong_path(within, "schema")
    with Oracle(store) as oracle:
        if within:
            return [(name, True) for name in tables.tables(oracle, within[0])]
        return [(name, False) for name in tables.schemas(oracle)]


def _sample(oracle: Oracle, path: EntityPath, limit: int) -> list[PrintedRecord]:
    table = tables.find(oracle, path)
    rows = oracle.rows(sample_sql(table, limit))
    names = list(tables.readable(table))
    records = (dict(zip(names, map(_json_value, row), strict=True)) for row in rows)
    return [
        printed_row(number, json.dumps(record, ensure_ascii=False), table.key)
        for number, record in enumerate(records, 1)
    ]


def sample_sql(table: tables.Table, limit: int) -> str:
    """Return the first rows of a table, by its key, with the columns that Headrace can read."""
    columns = ", ".join(
        types.read_sql(tables.column_name(column), types.of_oracle(column.type), column.type)
        for column in tables.readable(table).values()
    )
    key = ", ".join(tables.column_name(table.columns[name]) for name in table.key)
    order = f" ORDER BY {key}" if key else ""
    return f"SELECT {columns} FROM {table.name}{order} FETCH FIRST {limit} ROWS ONLY"  # noqa: S608


def _json_value(value: Any) -> Any:
    match value:
        case decimal.Decimal():
            number = int(value) if value == int(value) else float(value)
            return number if value == decimal.Decimal(str(number)) else format(value, "f")
        case datetime.datetime():
            return value.isoformat(" ")
        case bytes():
            return base64.b64encode(value).decode()
    return value


def _check_rows(
    store: Mapping[str, str], path: EntityPath, schema: Schema, _options: Mapping[str, str], upsert: bool
) -> None:
    with tables.session(store, path) as oracle:
        tables.check(tables.find(oracle, path), path, schema, upsert=upsert)


def _check_table(store: Mapping[str, str], path: EntityPath, schema: Schema) -> None:
    with tables.session(store, path) as oracle:
        tables.check_readable(tables.find(oracle, path), path, schema)


_entities = TableAdmin(tables, tables.session, NEW_TABLE, _list_entities, _sample)

ORACLE = StoreDescriptor(
    type="oracle",
    label="Oracle",
    properties=PROPERTIES,
    read=read_store,
    test=test,
    path=read_path,
    table_source=TableSource(check=_check_table),
    row_sink=RowSink(create=_entities.create_rows, check=_check_rows, upserts=True, exactly_once=True),
    entities=_entities,
    printer=_entities,
    tested_unasked=True,
    no_streams="changes of Oracle's tables are not read: reading LogMiner could not be tested against a server",
)
