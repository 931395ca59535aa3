"""Repository of one kind of objects."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic, TypeVar

from sqlalchemy import delete, insert, update

from headrace.catalog import future_grants, grants, tables
from headrace.catalog.kinds import spec_of
from headrace.catalog.kinds.spec import KindSpec, Path
from headrace.catalog.removal import Removal, removal
from headrace.catalog.state import CatalogState
from headrace.catalog.storage import Storage
from headrace.catalog.times import micros, moment, present
from headrace.core.errors import UserError

T = TypeVar("T")


class Repository(Generic[T]):
    """Objects of one kind: reads from memory, writes to the database and then to the state in memory."""

    def __init__(self, storage: Storage, spec: KindSpec[T]) -> None:
        self._storage = storage
        self._spec = spec

    def get(self, *path: str) -> T | None:
        """Return the object of that path, or None."""
        return self._storage.state.get(self._spec, path)

    def all(self, *within: str) -> list[T]:
        """Return all objects, or the objects in `within`, by path."""
        return self._storage.state.all(self._spec, within)

    def create(self, value: T, sealed: bytes | None = None) -> None:
        """Store a new object, with the future grants of its place.

        Raises UserError with the kind's SQLSTATE if the name is in use, or with that of a missing parent or dependency.
        """
        spec, path = self._spec, self._spec.path(value)
        with self._storage.transaction():
            state = self._storage.state
            if state.get(spec, path) is not None:
                message = f"{spec.described(path)} already exists"
                raise UserError(spec.duplicate, message, hint="Choose another name, or drop it first.")
            values = {"kind": spec.kind, "parent": state.parent_id(spec, path), "name": path[-1]}
            future_grants.apply(self._storage, spec.kind, path, self._write(state, value, sealed, values))

    def update(self, value: T, sealed: bytes | None = None) -> None:
        """Replace the object of that path, keeping its id. Raises the kind's SQLSTATE when there is none."""
        with self._storage.transaction():
            state = self._storage.state
            existing(state, self._spec, self._spec.path(value))
            self._write(state, value, sealed, None)

    def _write(
        self, state: CatalogState, value: T, sealed: bytes | None, created: dict[str, str] | None
    ) -> str:
        """Write an object's row and its uses, and return its id; `created` are the columns that never change, of a new object."""
        spec, uses = self._spec, state.used_ids(self._spec, value)
        known = {name: getattr(value, name) for name in ("id", "owner", "created_at")}
        identifier: str = known["id"]
        values: dict[str, object] = {
            "owner": known["owner"],
            "created_at": micros(known["created_at"]),
            "updated_at": micros(getattr(value, "updated_at", known["created_at"])),
            "definition": json.dumps(spec.definition(value)),
        }
        if sealed is not None:
            values["sealed"] = sealed
        same = tables.objects.c.id == known["id"]
        self._storage.execute(
            update(tables.objects).where(same).values(values)
            if created is None
            else insert(tables.objects).values(id=known["id"], **created, **values)
        )
        uses_of_it = tables.dependencies.c.object == known["id"]
        if uses != state.uses.get(known["id"], frozenset()):
            self._storage.execute(delete(tables.dependencies).where(uses_of_it))
            for used in sorted(uses):
                row = {"object": known["id"], "on": used}
                self._storage.execute(insert(tables.dependencies).values(row))
        self._storage.put(state.having(value, uses, sealed))
        return identifier


def existing(state: CatalogState, spec: KindSpec[T], path: Path) -> T:
    """Return the object of that path; raises UserError with the kind's SQLSTATE when there is none."""
    value = state.get(spec, path)
    if value is None:
        raise UserError(spec.missing, f"{spec.described(path)} does not exist")
    return value


def change_owner(storage: Storage, target: object, role: str) -> None:
    """Transfer an object to another role. Raises the SQLSTATE of its kind when it does not exist."""
    spec = spec_of(target)
    with storage.transaction():
        state = storage.state
        current: Any = existing(state, spec, spec.path(target))
        changed = {"owner": role} | (
            {"updated_at": moment(present())} if hasattr(current, "updated_at") else {}
        )
        value = replace(current, **changed)
        times = {"owner": role, "updated_at": present()}
        storage.execute(update(tables.objects).where(tables.objects.c.id == current.id).values(times))
        storage.put(state.having(value, state.uses.get(current.id, frozenset()), None))


def drop(storage: Storage, target: object, *, cascade: bool, known: Callable[[object], bool]) -> Removal:
    """Drop an object with its attached objects, or with all its dependents; return the dropped objects. Raises its kind's SQLSTATE,
    or 2BP01."""
    spec = spec_of(target)
    with storage.transaction():
        dropped = removal(storage.state, existing(storage.state, spec, spec.path(target)))
        dropped.refuse(cascade=cascade, known=known)
        for item in dropped.objects:
            storage.execute(delete(tables.objects).where(tables.objects.c.id == item.id))
            storage.put(storage.state.without(item))
        grants.forget_objects(storage, [item.id for item in dropped.objects])
        future_grants.forget(storage, places=[item.id for item in dropped.objects])
    return dropped
