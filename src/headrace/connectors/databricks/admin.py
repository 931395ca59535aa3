"""The control-plane half of the Databricks store type. An entity is a table: `catalog.schema.table`."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.connectors.base import EntityDescription, PrintedRecord, RowSink, StoreDescriptor, TableSource
from headrace.connectors.databricks import options, tables
from headrace.connectors.databricks.staging import Staging
from headrace.connectors.databricks.warehouse import Warehouse
from headrace.connectors.table_admin import TableAdmin
from headrace.connectors.table_printing import printed_row
from headrace.core.names import EntityPath
from headrace.core.properties import PropertyReader
from headrace.core.schema import Schema
from headrace.formats.json import nested_sql
from headrace.formats.types import name_sql, text_sql


def test(store: Mapping[str, str]) -> None:
    """Runs a statement and lists the bucket; the error names the step that failed: DNS, network, TLS, authentication, warehouse, bucket."""
    with Warehouse(store) as warehouse:
        warehouse.execute("SELECT 1")
    Staging(store).test()


class DatabricksTables(TableAdmin[Warehouse]):
    """A table may have its own location in the bucket."""

    def create_entity(
        self, store: Mapping[str, str], path: EntityPath, options: PropertyReader
    ) -> EntityDescription:
        """Create a table with the columns, the key and the location in `options`."""
        columns, key = self.new_table.read(options)
        location = _location(store, options)
        with Warehouse(store) as warehouse:
            tables.create(warehouse, path, columns, key, location)
            return tables.describe(warehouse, path)

    def create_rows(
        self, store: Mapping[str, str], path: EntityPath, schema: Schema, options: PropertyReader
    ) -> None:
        """Create a table for rows of a schema, at the location in `options`."""
        location = _location(store, options)
        with Warehouse(store) as warehouse:
            tables.create(warehouse, path, schema.columns, schema.primary_key, location)


def _session(store: Mapping[str, str], _path: EntityPath) -> Warehouse:
    return Warehouse(store)


def _list_entities(store: Mapping[str, str], within: EntityPath) -> list[tuple[str, bool]]:
    """List catalogs; in one of them schemas; in one of those tables."""
    with Warehouse(store) as warehouse:
        return [(name, len(within) == 2) for name in tables.children(warehouse, within)]


def _sample(warehouse: Warehouse, path: EntityPath, limit: int) -> list[PrintedRecord]:
    table = tables.describe(warehouse, path)
    names = [column.name for column in table.columns]
    fields = ", ".join(f"{text_sql(name)}, {name_sql(name)}" for name in names)
    order = f" ORDER BY {', '.join(map(name_sql, table.key))}" if table.key else ""
    rows = warehouse.rows(
        f"SELECT {nested_sql(f'named_struct({fields})')} FROM {tables.table_sql(path)}{order} LIMIT {limit}"  # noqa: S608
    )
    return [printed_row(number, row, table.key) for number, (row,) in enumerate(rows, 1)]


def _location(store: Mapping[str, str], reader: PropertyReader) -> str | None:
    location = reader.take(options.LOCATION)
    return None if location is None else options.within_bucket(store, location)


def _check_rows(
    store: Mapping[str, str],
    path: EntityPath,
    schema: Schema,
    given_properties: Mapping[str, str],
    _upsert: bool,
) -> None:
    location = given_properties.get(options.LOCATION.name)
    if location is not None:
        options.within_bucket(store, location)
    with Warehouse(store) as warehouse:
        tables.check(tables.find(warehouse, path), path, schema, location)


def _check_table(store: Mapping[str, str], path: EntityPath, schema: Schema) -> None:
    with Warehouse(store) as warehouse:
        tables.check_readable(tables.find(warehouse, path), path, schema)


_entities = DatabricksTables(tables, _session, options.NEW_TABLE, _list_entities, _sample)

DATABRICKS = StoreDescriptor(
    type="databricks",
    label="Databricks",
    properties=options.PROPERTIES,
    read=options.read_store,
    test=test,
    path=options.read_path,
    table_source=TableSource(check=_check_table),
    row_sink=RowSink(
        create=_entities.create_rows,
        check=_check_rows,
        options=options.sink_options,
        upserts=True,
        exactly_once=True,
    ),
    entities=_entities,
    printer=_entities,
    on_clusters="python",
    tested_unasked=False,  # a test wakes the warehouse
)
