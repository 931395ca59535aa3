"""The control-plane half of Iceberg's store types. An entity is a table, below the names of its namespace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headrace.connectors.base import (
    EntityDescription,
    Optimizer,
    RowSink,
    RowSource,
    StoreDescriptor,
    TableSource,
)
from headrace.connectors.iceberg import metadata, options
from headrace.connectors.iceberg.glue import GlueCatalog
from headrace.connectors.iceberg.metadata import Table, new_table
from headrace.connectors.iceberg.rest import RestCatalog
from headrace.core.errors import UserError
from headrace.core.names import EntityPath, path_text
from headrace.core.properties import PropertyReader, Specs
from headrace.core.schema import Column, Schema
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT
from headrace.runtime.jars import ICEBERG

_PROPERTIES = {
    # Merge on read: a changed row is a delete mark for the old file and a row in a new file; copy on write would rewrite the file (ADR 22).
    "write.merge.mode": "merge-on-read",
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.metadata.delete-after-commit.enabled": "true",
}
_OF_TABLES: Specs = (options.NEW_TABLE.primary_key, options.PARTITION_BY, options.TARGET_FILE)
_TARGET = "write.target-file-size-bytes"


def catalog_of(store: Mapping[str, str]) -> RestCatalog | GlueCatalog:
    """Return the catalog of a store's checked properties."""
    return GlueCatalog(store) if options.WAREHOUSE.name in store else RestCatalog(store)


def test(store: Mapping[str, str]) -> None:
    """Request the catalog's settings and its namespaces; an error names the step that failed."""
    with catalog_of(store) as catalog:
        catalog.namespaces(())


class IcebergTables:
    """Namespaces and tables. `connectors.base` describes the contract of each method."""

    def list_entities(self, store: Mapping[str, str], within: EntityPath) -> list[tuple[str, bool]]:
        with catalog_of(store) as catalog:
            entries = [(name, False) for name in catalog.namespaces(within)]
            return entries + [(name, True) for name in catalog.tables(within)] if within else entries

    def describe_entity(self, store: Mapping[str, str], path: EntityPath) -> EntityDescription:
        with catalog_of(store) as catalog:
            if len(path) == 1:
                catalog.tables(path)  # which fails without the namespace
                return EntityDescription(path, configs={"kind": "namespace"})
            return _described(path, catalog.load(*options.table_of(path)))

    def create_entity(
        self, store: Mapping[str, str], path: EntityPath, reader: PropertyReader
    ) -> EntityDescription:
        if not reader.is_set(options.NEW_TABLE.columns) and not any(
            reader.is_set(spec) for spec in _OF_TABLES
        ):
            # Without properties of a table, the path is a namespace.
            with catalog_of(store) as catalog:
                catalog.create_namespace(path)
            return EntityDescription(path, configs={"kind": "namespace"})
        schema = Schema(*options.NEW_TABLE.read(reader))
        create_table(store, path, schema, reader)
        return self.describe_entity(store, path)

    def drop_entity(self, store: Mapping[str, str], path: EntityPath) -> None:
        with catalog_of(store) as catalog:
            if len(path) == 1:
                catalog.drop_namespace(path)
            else:
                catalog.drop(*options.table_of(path))


def create_table(store: Mapping[str, str], path: EntityPath, schema: Schema, reader: PropertyReader) -> None:
    """Create a table with these columns and the key as its identifier fields."""
    namespace, table = options.table_of(path)
    partition_by, target = reader.take(options.PARTITION_BY), reader.take(options.TARGET_FILE)
    properties = {**_PROPERTIES, **({_TARGET: str(target)} if target else {})}
    new = new_table(schema, partition_by, properties)
    with catalog_of(store) as catalog:
        catalog.create(namespace, table, new)


def uuid(store: Mapping[str, str], path: EntityPath) -> dict[str, str]:
    """Return a table's UUID by its name; nothing for a table that is missing or has none."""
    try:
        with catalog_of(store) as catalog:
            table_uuid = catalog.load(*options.table_of(path)).uuid
    except UserError as error:
        if error.state is not SqlState.ENTITY_NOT_FOUND:
            raise
        return {}
    return {} if table_uuid is None else {path_text(path): table_uuid}


def check_table(
    store: Mapping[str, str],
    path: EntityPath,
    schema: Schema,
    _options: Mapping[str, str],
    upsert: bool,
) -> None:
    """Raises UserError 42703 or 42P16 for a table that rows of this schema do not fit; see `metadata`."""
    with catalog_of(store) as catalog:
        metadata.check_written(catalog.load(*options.table_of(path)), path, schema, upsert=upsert)


def check_read(store: Mapping[str, str], path: EntityPath, schema: Schema) -> None:
    """Raises UserError 42703 or 42P16 for a table that cannot be read as this schema; see `metadata`."""
    with catalog_of(store) as catalog:
        metadata.check_read(catalog.load(*options.table_of(path)), path, schema)


def _described(path: EntityPath, table: Table) -> EntityDescription:
    configs = {
        "kind": "table",
        "location": table.location,
        "partition.by": table.partition_by,
        "snapshot.id": "" if table.snapshot is None else str(table.snapshot),
    }
    return EntityDescription(
        path,
        configs={name: text for name, text in configs.items() if text},
        columns=table.columns,
        key=table.key,
    )


OPTIMIZER = Optimizer(
    columns=(
        Column("DataFilesBefore", BIGINT, False),
        Column("DataFilesAfter", BIGINT, False),
        Column("DeleteFilesBefore", BIGINT, False),
        Column("DeleteFilesAfter", BIGINT, False),
        Column("SnapshotsRemoved", BIGINT, False),
        Column("SnapshotsKeptForQueries", BIGINT, False),
    ),
    options=options.optimize_options,
)
ICEBERG_REST = StoreDescriptor(
    type="iceberg_rest",
    label="Iceberg REST",
    properties=options.REST,
    read=options.read_rest,
    test=test,
    path=options.path_of,
    row_sink=RowSink(
        create=create_table,
        check=check_table,
        options=options.sink_options,
        upserts=True,
        exactly_once=True,
    ),
    row_source=RowSource(
        metadata=options.METADATA,
        options=options.source_options,
        check=lambda store, path, schema, _options, _upsert: check_read(store, path, schema),
        formats=("parquet",),
        changes=False,
    ),
    table_source=TableSource(options=options.table_options, check=check_read),
    entities=IcebergTables(),
    optimizer=OPTIMIZER,
    jars=ICEBERG,
    on_clusters="java",
    tested_unasked=True,
)
ICEBERG_GLUE = replace(
    ICEBERG_REST,
    type="iceberg_glue",
    label="Iceberg Glue",
    properties=options.GLUE,
    read=options.read_glue,
)
