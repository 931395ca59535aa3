"""Renaming of an object, with its contents, its dependents and the queries over it.

Ids stay the same, and so do sealed values, dependencies and running queries.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sqlalchemy import select, update

from headrace.catalog import plan_names, queries, tables
from headrace.catalog.kinds import BY_NAME, KINDS, spec_of
from headrace.catalog.kinds.compute_pool import COMPUTE_POOL
from headrace.catalog.kinds.namespace import DATABASE, SCHEMA
from headrace.catalog.kinds.schema_registry import SCHEMA_REGISTRY
from headrace.catalog.kinds.spec import KindSpec, Path, Stored
from headrace.catalog.kinds.store import STORE
from headrace.catalog.objects import Query
from headrace.catalog.repository import existing
from headrace.catalog.state import CatalogState
from headrace.catalog.storage import Storage
from headrace.catalog.times import moment, present
from headrace.core.errors import UserError
from headrace.core.names import RelationName


def rename(storage: Storage, target: object, name: str) -> Any:
    """Rename an object and return it. Raises UserError with its kind's SQLSTATE if it does not exist, or if the name is in use."""
    spec = spec_of(target)
    old = spec.path(target)
    new = (*old[:-1], name)
    with storage.transaction():
        state = storage.state
        current: Any = existing(state, spec, old)
        if state.get(spec, new) is not None:
            message = f"{spec.described(new)} already exists"
            raise UserError(spec.duplicate, message, hint="Choose another name.")
        time = present()
        same = tables.objects.c.id == current.id
        storage.execute(update(tables.objects).where(same).values(name=name, updated_at=time))
        following = _queries(storage, state, spec.kind, current.id, old, new)
        storage.put(
            replace(
                state,
                objects=_objects(storage, state, spec, old, new, time),
                within=Counter(
                    {_moved(spec, *place, old, new): count for place, count in state.within.items()}
                ),
                queries={**state.queries, **following},
            )
        )
        return storage.state.get(spec, new)


def _moved(
    spec: KindSpec[Any], kind: str | None, path: Path, old: Path, new: Path
) -> tuple[str | None, Path]:
    """Return the new place of an object when another got a new path: itself, or an object that contains it."""
    inside = kind is not None and spec in _upwards(BY_NAME[kind]) and path[: len(old)] == old
    return kind, (*new, *path[len(new) :]) if inside else path


def _upwards(spec: KindSpec[Any]) -> Iterator[KindSpec[Any]]:
    yield spec
    if spec.parent is not None:
        yield from _upwards(BY_NAME[spec.parent])


def _objects(
    storage: Storage, state: CatalogState, spec: KindSpec[Any], old: Path, new: Path, time: int
) -> dict[str, dict[Path, Any]]:
    """Return all objects, with the new names that they have or refer to."""
    objects: dict[str, dict[Path, Any]] = {}
    for kind in KINDS:
        renamed = objects[kind.kind] = {}
        for before, value in state.objects[kind.kind].items():
            _, path = _moved(spec, kind.kind, before, old, new)
            changed = kind.renamed(value, spec.kind, old[-1], new[-1])
            definition = kind.definition(changed) if path != before or changed is not value else {}
            if changed is not value and changed != value:
                same = tables.objects.c.id == value.id
                storage.execute(update(tables.objects).where(same).values(definition=json.dumps(definition)))
            if definition:
                updated = (
                    moment(time)
                    if (kind.kind, before) == (spec.kind, old)
                    else getattr(value, "updated_at", value.created_at)
                )
                upgraded = kind.upgraded(json.loads(json.dumps(definition)))
                renamed[path] = kind.read(
                    Stored(value.id, path, value.owner, value.created_at, updated, upgraded)
                )
            else:
                renamed[path] = value
    return objects


def _queries(
    storage: Storage, state: CatalogState, kind: str, identifier: str, old: Path, new: Path
) -> dict[str, Query]:
    """Store the new name in all queries that use the object, and return those of the state.

    The state's queries are renamed apart from the stored ones: a draft has queries that are in no table, and changes of its own.
    """
    uses, where = tables.query_uses, None
    inside = kind in (DATABASE.kind, SCHEMA.kind)
    if not inside:
        using = select(uses.c.query_id).where(uses.c.object_id == identifier)
        where = tables.queries.c.id.in_(using)
    for query in queries.read(storage, where):
        changed = _renamed(state, query, kind, old, new)
        if changed != query:
            queries.write_names(storage, changed)
    return {
        query.id: _renamed(state, query, kind, old, new)
        for query in state.queries.values()
        if inside or identifier in query.uses
    }


def _renamed(state: CatalogState, query: Query, kind: str, old: Path, new: Path) -> Query:
    """Return a query with the new name in its pool, its plan and its relations; a relation that was replaced since is left out."""

    def followed(name: RelationName) -> RelationName:
        relation = state.relation(name)
        within = name.path[: len(old)] == old and relation is not None and relation.id in query.uses
        return RelationName(*new, *name.path[len(new) :]) if within else name

    if kind in (STORE.kind, SCHEMA_REGISTRY.kind):
        return replace(query, plan=plan_names.renamed(query.plan, kind, old[-1], new[-1]))
    if kind == COMPUTE_POOL.kind:
        return replace(query, compute_pool=new[-1])
    return replace(
        query,
        sink=followed(query.sink),
        more_sinks=tuple(map(followed, query.more_sinks)),
        sources=tuple(map(followed, query.sources)),
    )
