"""Grants on future objects: each new object of a kind receives the future grants of the place in which it is created."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from sqlalchemy import delete, insert, select

from headrace.catalog import grants, tables
from headrace.catalog.access import FutureGrant, Grant, Privilege
from headrace.catalog.kinds import BY_NAME
from headrace.catalog.kinds.spec import Path
from headrace.catalog.state import CatalogState
from headrace.catalog.storage import Storage

Key = tuple[str, str, Privilege, str]
"""Place, kind, privilege and role."""


def read(storage: Storage) -> tuple[FutureGrant, ...]:
    """Return all future grants."""
    return tuple(
        FutureGrant(**{**row, "privilege": Privilege(row["privilege"])})
        for row in storage.rows(select(tables.future_grants))
    )


def add(storage: Storage, given: Iterable[FutureGrant]) -> int:
    """Store future grants, and return how many are new or have a new grant option."""
    with storage.transaction():
        known = {_key(grant): grant for grant in storage.state.future_grants}
        new = {}
        for grant in given:
            existing = known.get(_key(grant))
            if existing is None or (grant.grantable and not existing.grantable):
                new[_key(grant)] = grant
        for key, grant in new.items():
            _delete(storage, key)
            values = {**vars(grant), "privilege": grant.privilege.value}
            storage.execute(insert(tables.future_grants).values(values))
        storage.put(replace(storage.state, future_grants=tuple({**known, **new}.values())))
        return len(new)


def remove(storage: Storage, keys: Iterable[Key]) -> int:
    """Remove future grants, and return how many were removed; grants made by them stay."""
    with storage.transaction():
        known, removed_keys = storage.state.future_grants, {*keys}
        revoked = [grant for grant in known if _key(grant) in removed_keys]
        for grant in revoked:
            _delete(storage, _key(grant))
        if revoked:
            left = tuple(grant for grant in known if grant not in revoked)
            storage.put(replace(storage.state, future_grants=left))
        return len(revoked)


def apply(storage: Storage, kind: str, path: Path, identifier: str) -> None:
    """Grant a new object the future grants of the innermost place around it that has any for its kind."""
    state = storage.state
    of_kind = [grant for grant in state.future_grants if grant.kind == kind]
    for place in _places(state, kind, path) if of_kind else ():
        matching = [grant for grant in of_kind if grant.place == place]
        for grant in matching:
            grants.add(
                storage, Grant(identifier, grant.privilege, grant.role, grant.grantor, grant.grantable)
            )
        if matching:
            return


def forget(storage: Storage, *, places: Iterable[str] = (), role: str | None = None) -> None:
    """Remove the future grants in dropped places, or to a dropped role."""
    dropped = {*places}
    known = storage.state.future_grants
    remove(storage, [_key(grant) for grant in known if grant.place in dropped or grant.role == role])


def _places(state: CatalogState, kind: str, path: Path) -> Iterator[str]:
    """Yield the ids of the containers of an object, innermost first. Queries are not in `BY_NAME`; their container is the organization."""
    parent = BY_NAME[kind].parent if kind in BY_NAME else None
    if parent is None:
        yield state.organization.id
        return
    container = state.get(BY_NAME[parent], path[:-1])
    if container is not None:
        yield container.id
    yield from _places(state, parent, path[:-1])


def _key(grant: FutureGrant) -> Key:
    return grant.place, grant.kind, grant.privilege, grant.role


def _delete(storage: Storage, key: Key) -> None:
    place, kind, privilege, role = key
    table = tables.future_grants
    same = (table.c.place == place) & (table.c.kind == kind)
    storage.execute(
        delete(table).where(same & (table.c.privilege == privilege.value) & (table.c.role == role))
    )
