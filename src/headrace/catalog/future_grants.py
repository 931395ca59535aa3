"""Grants on relations that are not there yet: each new relation of a schema or a database gets them when it is made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from sqlalchemy import delete, insert, select

from headrace.catalog import grants, tables
from headrace.catalog.access import Grant, Privilege
from headrace.catalog.kinds.namespace import DATABASE, SCHEMA
from headrace.catalog.objects import Relation
from headrace.catalog.policy import Grants
from headrace.catalog.storage import Storage

Key = tuple[str, Privilege, str]


def read(storage: Storage) -> Grants:
    """All of them, by the id of the schema or database, and privilege."""
    return _by_place(
        Grant(row["place"], Privilege(row["privilege"]), row["role"], row["grantor"], row["grantable"])
        for row in storage.rows(select(tables.future_grants))
    )


def give(storage: Storage, given: Iterable[Grant]) -> int:
    """How many are new, or new in their grant option; `object` is the id of a schema or a database."""
    with storage.transaction():
        before = _known(storage)
        known = [(grant, before.get(_key(grant))) for grant in given]
        new = [grant for grant, found in known if found is None or (grant.grantable and not found.grantable)]
        for grant in new:
            _delete(storage, _key(grant))
            values = {**vars(grant), "privilege": grant.privilege.value}
            values["place"] = values.pop("object")
            storage.execute(insert(tables.future_grants).values(values))
        _put(storage, {**before, **{_key(grant): grant for grant in new}})
        return len(new)


def take(storage: Storage, taken: Iterable[Key]) -> int:
    """How many went; what relations have by them stays."""
    with storage.transaction():
        known = _known(storage)
        gone = {key for key in taken if key in known}
        for key in gone:
            _delete(storage, key)
        if gone:
            _put(storage, {key: grant for key, grant in known.items() if key not in gone})
        return len(gone)


def apply(storage: Storage, relation: Relation) -> None:
    """What a new relation has from the first moment on: of its schema if there is any, else of its database."""
    state, name = storage.state, relation.name
    schema = state.get(SCHEMA, (name.database, name.schema))
    database = state.get(DATABASE, (name.database,))
    found = next(
        (
            state.future_grants[place.id]
            for place in (schema, database)
            if place and place.id in state.future_grants
        ),
        {},
    )
    for holders in found.values():
        for grant in holders.values():
            grants.give(storage, replace(grant, object=relation.id))


def forget(storage: Storage, *, places: Iterable[str] = (), role: str | None = None) -> None:
    """Without those of places, or to a role, that are gone."""
    gone = {*places}
    take(storage, [key for key in _known(storage) if key[0] in gone or key[2] == role])


def _known(storage: Storage) -> dict[Key, Grant]:
    return {_key(grant): grant for grant in grants.each(storage.state.future_grants)}


def _key(grant: Grant) -> Key:
    return grant.object, grant.privilege, grant.role


def _delete(storage: Storage, key: Key) -> None:
    place, privilege, role = key
    table = tables.future_grants
    same = (table.c.place == place) & (table.c.privilege == privilege.value) & (table.c.role == role)
    storage.execute(delete(table).where(same))


def _put(storage: Storage, known: Mapping[Key, Grant]) -> None:
    storage.put(replace(storage.state, future_grants=_by_place(known.values())))


def _by_place(given: Iterable[Grant]) -> Grants:
    found: dict[str, dict[Privilege, dict[str, Grant]]] = defaultdict(lambda: defaultdict(dict))
    for grant in given:
        found[grant.object][grant.privilege][grant.role] = grant
    return {place: dict(of_place) for place, of_place in found.items()}
