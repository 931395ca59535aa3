"""The control-plane half of the Snowflake store type.

An entity is a table (or a view): `database.schema.table`. A name in lower case is Snowflake's in upper case, as it is without quotes there.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.connectors.base import PrintedRecord, RowSink, StoreDescriptor, TableSource
from headrace.connectors.snowflake import tables
from headrace.connectors.snowflake.client import Snowflake, quoted
from headrace.connectors.snowflake.options import NEW_TABLE, PROPERTIES, read_path, read_store, wrong_path
from headrace.connectors.table_admin import TableAdmin
from headrace.connectors.table_printing import printed_row
from headrace.core.names import EntityPath
from headrace.core.schema import Schema

_DEPTH = 2


def test(store: Mapping[str, str]) -> None:
    """Sign in and run a statement; an error names the step that failed: name, network, user, role, warehouse."""
    with Snowflake(store) as snowflake:
        snowflake.execute("SELECT 1")


def _session(store: Mapping[str, str], _path: EntityPath) -> Snowflake:
    return Snowflake(store)


def _list_entities(store: Mapping[str, str], within: EntityPath) -> list[tuple[str, bool]]:
    """List databases; in one of them schemas; in one of those tables."""
    if len(within) > _DEPTH:
        raise wrong_path(within, "database, or database.schema")
    with Snowflake(store) as snowflake:
        if not within:
            return [(name, False) for name in tables.databases(snowflake)]
        if len(within) == 1:
            return [(name, False) for name in tables.schemas(snowflake, within[0])]
        return [(name, True) for name in tables.tables(snowflake, within)]


def _sample(snowflake: Snowflake, path: EntityPath, limit: int) -> list[PrintedRecord]:
    table = tables.find(snowflake, path)
    key = [table.columns[name].name for name in table.key]
    order = f" ORDER BY {', '.join(map(quoted, key))}" if key else ""
    statement = (
        f"SELECT TO_JSON(OBJECT_CONSTRUCT_KEEP_NULL(*)) AS RECORD FROM {table.name}{order} LIMIT {limit}"  # noqa: S608
    )
    rows = [row["RECORD"] for row in snowflake.rows(statement)]
    return [printed_row(number, row, key) for number, row in enumerate(rows, 1)]


def _check_rows(
    store: Mapping[str, str], path: EntityPath, schema: Schema, _options: Mapping[str, str], upsert: bool
) -> None:
    with Snowflake(store) as snowflake:
        tables.check(tables.find(snowflake, path), path, schema, upsert=upsert)


def _check_table(store: Mapping[str, str], path: EntityPath, schema: Schema) -> None:
    with Snowflake(store) as snowflake:
        tables.check_readable(tables.find(snowflake, path), path, schema)


_entities = TableAdmin(tables, _session, NEW_TABLE, _list_entities, _sample)

SNOWFLAKE = StoreDescriptor(
    type="snowflake",
    label="Snowflake",
    properties=PROPERTIES,
    read=read_store,
    test=test,
    path=read_path,
    table_source=TableSource(check=_check_table),
    row_sink=RowSink(create=_entities.create_rows, check=_check_rows, upserts=True, exactly_once=True),
    entities=_entities,
    printer=_entities,
    on_clusters="python",
    tested_unasked=False,  # a test wakes the warehouse
)
