"""Between rows of `tables` and values of `objects`."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping

from sqlalchemy import RowMapping

from headrace.catalog.objects import (
    ComputePool,
    DesiredState,
    EntityFormat,
    Query,
    QueryKind,
    QueryState,
    Relation,
    RelationKind,
    SchemaRegistry,
    Store,
    ViewDefinition,
)
from headrace.core.names import RelationName
from headrace.core.schema import Column, Schema
from headrace.core.types import parse_type
from headrace.formats.known import format_of

Row = RowMapping


def micros(moment: datetime.datetime) -> int:
    """Microseconds since the epoch."""
    return (moment - _EPOCH) // datetime.timedelta(microseconds=1)


def moment(value: int) -> datetime.datetime:
    """The inverse of `micros`."""
    return _EPOCH + datetime.timedelta(microseconds=value)


def present() -> int:
    """Now, as `micros`."""
    return micros(datetime.datetime.now(datetime.UTC))


def store(row: Row, properties: Mapping[str, str]) -> Store:
    """A store with its opened properties."""
    return Store(
        row["name"],
        row["type"],
        row["owner"],
        moment(row["created_at"]),
        moment(row["updated_at"]),
        properties,
        row["schema_registry"],
    )


def schema_registry(row: Row, properties: Mapping[str, str]) -> SchemaRegistry:
    """A schema registry with its opened properties."""
    return SchemaRegistry(
        row["name"],
        row["type"],
        row["owner"],
        moment(row["created_at"]),
        moment(row["updated_at"]),
        properties,
    )


def relation_row(relation: Relation) -> dict[str, object]:
    """What is stored of a relation."""
    layout = relation.format
    definition = {
        "columns": [[column.name, str(column.type), column.nullable] for column in relation.schema.columns],
        "primary_key": relation.schema.primary_key,
        "format": {
            **layout.__dict__,
            "value": layout.value.model_dump(),
            "key": layout.key.model_dump() if layout.key else None,
            "key_type": str(layout.key_type) if layout.key_type else None,
        },
        "properties": dict(relation.properties),
    }
    if relation.definition is not None:
        definition["view"] = relation.definition.__dict__
    return {
        "id": relation.id,
        "database": relation.name.database,
        "schema": relation.name.schema,
        "name": relation.name.name,
        "kind": relation.kind.value,
        "owner": relation.owner,
        "store": relation.store,
        "entity": json.dumps(relation.entity) if relation.entity else None,
        "definition": json.dumps(definition),
        "description": relation.description,
        "state": relation.state,
        "created_at": micros(relation.created_at),
        "updated_at": micros(relation.updated_at),
    }


def relation(row: Row) -> Relation:
    """The inverse of `relation_row`."""
    definition = json.loads(row["definition"])
    layout = definition["format"]
    key_type, key = layout.pop("key_type"), layout.pop("key")
    layout["key_columns"] = tuple(layout["key_columns"])
    columns = tuple(
        Column(name, parse_type(kind), nullable) for name, kind, nullable in definition["columns"]
    )
    return Relation(
        name=RelationName(row["database"], row["schema"], row["name"]),
        kind=RelationKind(row["kind"]),
        schema=Schema(columns, tuple(definition["primary_key"])),
        owner=row["owner"],
        created_at=moment(row["created_at"]),
        updated_at=moment(row["updated_at"]),
        store=row["store"],
        entity=tuple(json.loads(row["entity"])) if row["entity"] else None,
        format=EntityFormat(
            value=format_of(layout.pop("value")),
            key=format_of(key) if key else None,
            key_type=parse_type(key_type) if key_type else None,
            **layout,
        ),
        properties=definition["properties"],
        description=row["description"],
        id=row["id"],
        state=row["state"],
        definition=ViewDefinition(**definition["view"]) if "view" in definition else None,
    )


def query_row(query: Query) -> dict[str, object]:
    """What is stored of a query."""
    return {
        "id": query.id,
        "name": query.name,
        "version": query.version,
        "kind": query.kind.value,
        "sql": query.sql,
        "plan": query.plan,
        "sink": json.dumps(query.sink.path),
        "sources": json.dumps([source.path for source in query.sources]),
        "compute_pool": query.compute_pool,
        "owner": query.owner,
        "desired_state": query.desired_state.value,
        "actual_state": query.actual_state.value,
        "message": query.message,
        "sqlstate": query.sqlstate,
        "restarts": query.restarts,
        "generation": query.generation,
        "created_at": micros(query.created_at),
        "updated_at": micros(query.updated_at),
    }


def query(row: Row) -> Query:
    """The inverse of `query_row`."""
    return Query(
        id=row["id"],
        name=row["name"],
        version=row["version"],
        kind=QueryKind(row["kind"]),
        sql=row["sql"],
        plan=row["plan"],
        sink=RelationName(*json.loads(row["sink"])),
        sources=tuple(RelationName(*path) for path in json.loads(row["sources"])),
        compute_pool=row["compute_pool"],
        owner=row["owner"],
        created_at=moment(row["created_at"]),
        updated_at=moment(row["updated_at"]),
        desired_state=DesiredState(row["desired_state"]),
        actual_state=QueryState(row["actual_state"]),
        message=row["message"],
        sqlstate=row["sqlstate"],
        restarts=row["restarts"],
        generation=row["generation"],
    )


def compute_pool(row: Row) -> ComputePool:
    """A compute pool."""
    return ComputePool(
        row["name"],
        row["size"],
        row["owner"],
        moment(row["created_at"]),
        moment(row["updated_at"]),
        DesiredState(row["desired_state"]),
    )


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
