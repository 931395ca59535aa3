"""Databases, and the schemas in them."""

from __future__ import annotations

from headrace.catalog.access import Privilege
from headrace.catalog.kinds.spec import KindSpec
from headrace.catalog.objects import Database, SchemaObject
from headrace.core.sqlstate import SqlState

DATABASE = KindSpec(
    kind="database",
    value=Database,
    path=lambda database: (database.name,),
    write=lambda _: {},
    read=lambda stored: Database(stored.name, stored.owner, stored.created_at, id=stored.id),
    duplicate=SqlState.DUPLICATE_DATABASE,
    missing=SqlState.DATABASE_NOT_FOUND,
    privileges=(Privilege.USAGE, Privilege.CREATE_SCHEMA),
)

SCHEMA = KindSpec(
    kind="schema",
    value=SchemaObject,
    path=lambda schema: (schema.database, schema.name),
    write=lambda schema: {"managed": schema.managed},
    read=lambda stored: SchemaObject(
        stored.path[0],
        stored.name,
        stored.owner,
        stored.created_at,
        stored.definition["managed"],
        id=stored.id,
    ),
    upgrades=(lambda definition: {**definition, "managed": False},),
    duplicate=SqlState.DUPLICATE_SCHEMA,
    missing=SqlState.SCHEMA_NOT_FOUND,
    privileges=(Privilege.USAGE, Privilege.CREATE_RELATION),
    parent=DATABASE.kind,
    # A database always has a schema: an empty schema is dropped with its database.
    attached=True,
)
