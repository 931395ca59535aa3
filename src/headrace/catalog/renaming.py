"""Another name for an object: the objects that are in it, use it or are queries over it follow.

Ids stay, and with them what is sealed, what depends on what, and what runs.
"""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import update

from headrace.catalog import queries, tables
from headrace.catalog.kinds import KINDS, spec_of
from headrace.catalog.kinds.compute_pool import COMPUTE_POOL
from headrace.catalog.kinds.schema_registry import SCHEMA_REGISTRY
from headrace.catalog.kinds.spec import Path
from headrace.catalog.kinds.store import STORE
from headrace.catalog.objects import Query
from headrace.catalog.repository import existing
from headrace.catalog.state import CatalogState
from headrace.catalog.storage import Storage
from headrace.catalog.times import present
from headrace.core.errors import UserError
from headrace.core.names import RelationName


def rename(storage: Storage, target: object, name: str) -> Any:
    """The object with its new name. Raises UserError: its kind's SQLSTATE when it is gone, or when the name is taken.

    The catalog is read again whole: the names of all that is in the object change with it.
    """
    spec = spec_of(target)
    old = spec.path(target)
    new = (*old[:-1], name)
    with storage.transaction():
        state = storage.state
        found: Any = existing(state, spec, old)
        if state.get(spec, new) is not None:
            message = f"{spec.described(new)} already exists"
            raise UserError(spec.duplicate, message, hint="Choose another name.")
        same = tables.objects.c.id == found.id
        storage.execute(update(tables.objects).where(same).values(name=name, updated_at=present()))
        _rename_in_objects(storage, state, spec.kind, old[-1], name)
        for query in queries.read(storage):
            _rename_in_query(storage, state, query, spec.kind, old, new)
        storage.read()
        return storage.state.get(spec, new)


def _rename_in_objects(storage: Storage, state: CatalogState, kind: str, old: str, new: str) -> None:
    for spec in KINDS:
        for value in state.all(spec):
            changed = spec.renamed(value, kind, old, new)
            if changed != value:
                same = tables.objects.c.id == value.id
                definition = json.dumps(spec.definition(changed))
                storage.execute(update(tables.objects).where(same).values(definition=definition))


def _rename_in_query(
    storage: Storage, state: CatalogState, query: Query, kind: str, old: Path, new: Path
) -> None:
    """The names of its relations, as far as they still are those that it was made with, of its pool, and what its plan names."""

    def followed(name: RelationName) -> RelationName:
        within = name.path[: len(old)] == old and query.was_made_with(state.relation(name))
        return RelationName(*new, *name.path[len(new) :]) if within else name

    values: dict[str, str] = {}
    if kind in (STORE.kind, SCHEMA_REGISTRY.kind):
        values["plan"] = _plan(query.plan, kind, old[-1], new[-1])
    elif kind == COMPUTE_POOL.kind and query.compute_pool == old[-1]:
        values["compute_pool"] = new[-1]
    elif kind in ("database", "schema", "relation"):
        values["sink"] = json.dumps(followed(query.sink).path)
        values["more_sinks"] = json.dumps([followed(sink).path for sink in query.more_sinks])
        values["sources"] = json.dumps([followed(source).path for source in query.sources])
    if values:
        storage.execute(update(tables.queries).where(tables.queries.c.id == query.id).values(values))


def _plan(text: str, kind: str, old: str, new: str) -> str:
    """A stored plan, of whatever version: its steps name stores, and formats in them registries."""
    plan, changed = json.loads(text), False
    for step in plan.get("steps", ()):
        named = [step] if kind == STORE.kind else [step.get("value"), step.get("key")]
        word = "store" if kind == STORE.kind else "registry"
        for layout in named:
            if isinstance(layout, dict) and layout.get(word) == old:
                layout[word], changed = new, True
    return json.dumps(plan, indent=1, ensure_ascii=False) if changed else text
