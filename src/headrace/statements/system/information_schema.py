"""`information_schema` of each database, with the names of the SQL standard. The database is part of the relation's name."""

from __future__ import annotations

from headrace.catalog.objects import RelationKind
from headrace.core.names import INFORMATION_SCHEMA
from headrace.core.schema import Column
from headrace.core.types import INTEGER, VARCHAR
from headrace.statements.base import Execution
from headrace.statements.system.relation import Rows, always, system_relation


@system_relation(
    "schemata",
    always("catalog_name"),
    always("schema_name"),
    always("schema_owner"),
    key=("catalog_name", "schema_name"),
    doc="The schemas of the database.",
    schema=INFORMATION_SCHEMA,
)
def schemata(run: Execution) -> Rows:
    return [
        (item.database, item.name, item.owner)
        for item in run.visible(run.catalog.schemas(run.database_of(None)))
    ]


@system_relation(
    "tables",
    always("table_catalog"),
    always("table_schema"),
    always("table_name"),
    always("table_type"),
    key=("table_catalog", "table_schema", "table_name"),
    doc="The relations of the database. `table_type` is `STREAM`, `CHANGELOG`, `TABLE`, `MATERIALIZED VIEW` or `VIEW`.",
    schema=INFORMATION_SCHEMA,
)
def tables(run: Execution) -> Rows:
    return [
        (*item.name.path, item.kind.name.replace("_", " "))
        for item in run.visible(run.catalog.relations(run.database_of(None)))
    ]


@system_relation(
    "views",
    always("table_catalog"),
    always("table_schema"),
    always("table_name"),
    Column("view_definition", VARCHAR),
    key=("table_catalog", "table_schema", "table_name"),
    doc="The views of the database, materialized or not; `view_definition` is the statement that created the view.",
    schema=INFORMATION_SCHEMA,
)
def views(run: Execution) -> Rows:
    return [
        (*item.name.path, item.definition.sql if item.definition else None)
        for item in run.visible(run.catalog.relations(run.database_of(None)))
        if item.kind in (RelationKind.MATERIALIZED_VIEW, RelationKind.VIEW)
    ]


@system_relation(
    "columns",
    always("table_catalog"),
    always("table_schema"),
    always("table_name"),
    always("column_name"),
    always("ordinal_position", INTEGER),
    always("is_nullable"),
    always("data_type"),
    key=("table_catalog", "table_schema", "table_name", "ordinal_position"),
    doc="The columns of the relations of the database. `is_nullable` is `YES` or `NO`.",
    schema=INFORMATION_SCHEMA,
)
def columns(run: Execution) -> Rows:
    return [
        (*item.name.path, column.name, position, "YES" if column.nullable else "NO", str(column.type))
        for item in run.visible(run.catalog.relations(run.database_of(None)))
        for position, column in enumerate(item.schema.columns, 1)
    ]
