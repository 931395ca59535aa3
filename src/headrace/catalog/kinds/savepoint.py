"""Savepoints of queries. Their files are in the folder of savepoints (`engine.savepoints`), under the object's id."""

from __future__ import annotations

from headrace.catalog.kinds.spec import Definition, KindSpec, Stored
from headrace.catalog.objects import Savepoint
from headrace.catalog.times import micros, moment
from headrace.core.names import RelationName
from headrace.core.sqlstate import SqlState

_FACTS = (
    "query_id",
    "query_name",
    "query_version",
    "sql",
    "plan",
    "batch",
    "size",
    "is_interrupted",
    "is_final",
)


def _write(savepoint: Savepoint) -> Definition:
    facts = {name: getattr(savepoint, name) for name in _FACTS}
    expires_at = micros(savepoint.expires_at) if savepoint.expires_at is not None else None
    sinks = [sink.path for sink in savepoint.sinks]
    return {**facts, "sinks": sinks, "uses": savepoint.uses, "expires_at": expires_at}


def _read(stored: Stored) -> Savepoint:
    definition = stored.definition
    sink, *more_sinks = (RelationName(*path) for path in definition["sinks"])
    return Savepoint(
        name=stored.name,
        owner=stored.owner,
        created_at=stored.created_at,
        updated_at=stored.updated_at,
        id=stored.id,
        expires_at=moment(definition["expires_at"]) if definition["expires_at"] is not None else None,
        sink=sink,
        more_sinks=tuple(more_sinks),
        uses=tuple((kind, tuple(path), object_id) for kind, path, object_id in definition["uses"]),
        **{name: definition[name] for name in _FACTS},
    )


def _with_sinks(definition: Definition) -> Definition:
    """Upgrade a definition of a release in which applications had no savepoints."""
    sink = definition.pop("sink")
    return {**definition, "sinks": [sink], "is_final": False}


SAVEPOINT = KindSpec(
    kind="savepoint",
    value=Savepoint,
    path=lambda savepoint: (savepoint.name,),
    write=_write,
    read=_read,
    upgrades=(_with_sinks,),
    duplicate=SqlState.DUPLICATE_SAVEPOINT,
    missing=SqlState.SAVEPOINT_NOT_FOUND,
)
"""What a savepoint's query used is no dependency of it: a savepoint of a relation that was dropped does no harm."""
