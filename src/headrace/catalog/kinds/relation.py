"""Relations: over an entity of a store, or materialized views."""

from __future__ import annotations

from dataclasses import replace

from headrace.catalog.access import Privilege
from headrace.catalog.kinds.function import FUNCTION
from headrace.catalog.kinds.namespace import SCHEMA
from headrace.catalog.kinds.schema_registry import SCHEMA_REGISTRY
from headrace.catalog.kinds.spec import Definition, KindSpec, Path, Stored
from headrace.catalog.kinds.store import STORE
from headrace.catalog.objects import EntityFormat, Relation, RelationKind, ViewDefinition
from headrace.core.names import RelationName
from headrace.core.schema import Column, Schema
from headrace.core.sqlstate import SqlState
from headrace.core.types import parse_type
from headrace.formats.known import format_of, registry_of, with_registry

_LOG_STORE = ".log.store"
"""How the properties end that name the store of a dead-letter topic."""


def _write(relation: Relation) -> Definition:
    layout, view = relation.format, relation.definition
    return {
        "kind": relation.kind.value,
        "columns": [
            {"name": column.name, "type": str(column.type), "nullable": column.nullable}
            for column in relation.schema.columns
        ],
        "primary_key": list(relation.schema.primary_key),
        "store": relation.store,
        "entity": relation.entity,
        "format": {
            "value": layout.value.model_dump(),
            "key": layout.key.model_dump() if layout.key else None,
            "key_type": str(layout.key_type) if layout.key_type else None,
            "key_columns": list(layout.key_columns),
            "timestamp": layout.timestamp,
            "upsert": layout.upsert,
        },
        "properties": dict(relation.properties),
        "description": relation.description,
        "state": relation.state,
        "view": {
            "sql": view.sql,
            "database": view.database,
            "schema": view.schema,
            "reads": [name.path for name in view.reads],
            "functions": view.functions,
        }
        if view
        else None,
    }


def _read(stored: Stored) -> Relation:
    definition = stored.definition
    columns = tuple(
        Column(column["name"], parse_type(column["type"]), column["nullable"])
        for column in definition["columns"]
    )
    view = definition["view"]
    return Relation(
        name=RelationName(*stored.path),
        kind=RelationKind(definition["kind"]),
        schema=Schema(columns, tuple(definition["primary_key"])),
        owner=stored.owner,
        created_at=stored.created_at,
        updated_at=stored.updated_at,
        store=definition["store"],
        entity=tuple(definition["entity"]) if definition["entity"] else None,
        format=_format(definition["format"]),
        properties=definition["properties"],
        description=definition["description"],
        id=stored.id,
        state=definition["state"],
        definition=ViewDefinition(
            view["sql"],
            view["database"],
            view["schema"],
            tuple(RelationName(*path) for path in view["reads"]),
            tuple(view["functions"]),
        )
        if view
        else None,
    )


def _format(definition: Definition) -> EntityFormat:
    return EntityFormat(
        value=format_of(definition["value"]),
        key=format_of(definition["key"]) if definition["key"] else None,
        key_type=parse_type(definition["key_type"]) if definition["key_type"] else None,
        key_columns=tuple(definition["key_columns"]),
        timestamp=definition["timestamp"],
        upsert=definition["upsert"],
    )


def _second(first: Definition) -> Definition:
    """Upgrade a definition of version 1: columns become places instead of names, and only views keep a definition."""
    columns = [
        {"name": name, "type": type_text, "nullable": nullable}
        for name, type_text, nullable in first["columns"]
    ]
    return {**first, "columns": columns, "view": first.get("view")}


def _third(second: Definition) -> Definition:
    """Upgrade a definition of version 2, when there were only materialized views, whose queries record what they use."""
    view = second["view"]
    return {**second, "view": {**view, "reads": [], "functions": []} if view else None}


def _uses(relation: Relation) -> list[tuple[str, Path]]:
    layouts = (relation.format.value, relation.format.key)
    registries = dict.fromkeys(name for name in map(registry_of, layouts) if name)
    stores = [(STORE.kind, (relation.store,))] if relation.store is not None else []
    view = relation.definition
    reads = [("relation", name.path) for name in view.reads] if view is not None else []
    functions = [(FUNCTION.kind, (signature,)) for signature in view.functions] if view is not None else []
    return [*stores, *((SCHEMA_REGISTRY.kind, (name,)) for name in registries), *reads, *functions]


def _renamed(relation: Relation, kind: str, old: str, new: str) -> Relation:
    if kind == SCHEMA_REGISTRY.kind:
        layout = relation.format
        value, key = with_registry(layout.value, old, new), layout.key and with_registry(layout.key, old, new)
        return replace(relation, format=replace(layout, value=value, key=key))
    if kind != STORE.kind:
        return relation
    properties = {
        name: new if name.endswith(_LOG_STORE) and text == old else text
        for name, text in relation.properties.items()
    }
    return replace(relation, store=new if relation.store == old else relation.store, properties=properties)


RELATION = KindSpec(
    kind="relation",
    value=Relation,
    path=lambda relation: relation.name.path,
    write=_write,
    read=_read,
    duplicate=SqlState.DUPLICATE_RELATION,
    missing=SqlState.RELATION_NOT_FOUND,
    privileges=(Privilege.SELECT, Privilege.INSERT),
    parent=SCHEMA.kind,
    uses=_uses,
    renamed=_renamed,
    upgrades=(_second, _third),
)
