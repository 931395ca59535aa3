"""The catalog's contents at one moment, in memory and without secrets, for binding, listing and the supervisor.

A state never changes: each committed write puts another in its place, so that a reader keeps one moment for as long as it likes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from headrace.catalog.access import FutureGrant
from headrace.catalog.kinds import BY_NAME, KINDS, spec_of
from headrace.catalog.kinds.function import FUNCTION, FUNCTION_SOURCE
from headrace.catalog.kinds.relation import RELATION
from headrace.catalog.kinds.role import ROLE
from headrace.catalog.kinds.spec import KindSpec, Path
from headrace.catalog.kinds.store import STORE
from headrace.catalog.objects import (
    Members,
    Organization,
    Query,
    QueryState,
    Relation,
    StoreFacts,
    UserFunction,
)
from headrace.catalog.policy import Grants, Policy, RoleGraph
from headrace.core.errors import UserError
from headrace.core.names import RelationName

T = TypeVar("T")
Objects = Mapping[Path, Any]
Place = tuple[str | None, Path]


@dataclass(frozen=True)
class CatalogState:
    """`objects` are the values of each kind by path, `uses` the ids of the objects that an object depends on, `sealed` the encrypted
    properties by the object's id. `within` counts the direct contents of an object, by its kind and path, and `used` its dependents, by its
    id: for most objects both are zero, which saves a scan. `queries` are the queries that are not terminated as they should be, `members`
    the users who may sign in. `policy` reads `graph` and `grants`; `future_grants` are grants on future objects.
    """

    organization: Organization
    objects: Mapping[str, Objects] = field(default_factory=lambda: {spec.kind: {} for spec in KINDS})
    uses: Mapping[str, frozenset[str]] = field(default_factory=dict)
    sealed: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    within: Mapping[Place, int] = field(default_factory=dict)
    used: Mapping[str, int] = field(default_factory=dict)
    queries: Mapping[str, Query] = field(default_factory=dict)
    members: Members = field(default_factory=Members, repr=False)
    graph: RoleGraph = field(default_factory=RoleGraph)
    grants: Grants = field(default_factory=dict)
    future_grants: tuple[FutureGrant, ...] = ()

    # --- reads

    @cached_property
    def policy(self) -> Policy:
        """The privileges at this moment."""
        return Policy(self.organization, self.objects, self.graph, self.grants)

    @cached_property
    def by_id(self) -> Mapping[str, Any]:
        """The objects of all kinds by their ids."""
        return {value.id: value for value in self._each()}

    def get(self, spec: KindSpec[T], path: Path) -> T | None:
        """Return the object of that kind and path, or None."""
        value: T | None = self.objects[spec.kind].get(path)
        return value

    def all(self, spec: KindSpec[T], within: Path = ()) -> list[T]:
        """Return the objects of a kind, optionally only in `within`, by path."""
        known, depth = self.objects[spec.kind], len(within)
        paths = (path for path in known if path[:depth] == within) if within else known
        return [known[path] for path in sorted(paths)]

    def relation(self, name: RelationName, /) -> Relation | None:
        """Return the relation of that full name, or None."""
        return self.get(RELATION, name.path)

    def relations(self, database: str | None = None, schema: str | None = None) -> Sequence[Relation]:
        """Return all relations, or those of a database or schema, sorted by name."""
        if database is not None:
            return self.all(RELATION, (database,) if schema is None else (database, schema))
        return [relation for relation in self.all(RELATION) if schema in (None, relation.name.schema)]

    def store(self, name: str, /) -> StoreFacts | None:
        """Return the store of that name, or None."""
        return self.get(STORE, (name,))

    def role_id(self, name: str) -> str:
        """Return the id of the role of that name; raises UserError 3D001."""
        return self.required(ROLE, (name,), "the user or API token")

    def named_store(self, name: str, /) -> StoreFacts | None:
        """Return the same as `store`: the state has no user."""
        return self.store(name)

    def functions(self, name: str, /) -> Sequence[tuple[UserFunction, str]]:
        """Return the users' functions of that name, each with the SHA-256 of its code."""
        named = (function for function in self.all(FUNCTION) if function.name == name)
        return [(function, self.digest_of(function)) for function in named]

    def digest_of(self, function: UserFunction) -> str:
        """Return the SHA-256 of a function's code: of its text, or of its JAR, with that of the JAR's libraries behind a plus sign."""
        if function.code is not None:
            return hashlib.sha256(function.code.encode()).hexdigest()
        source = self.get(FUNCTION_SOURCE, (function.source or "",))
        if source is None:
            return ""
        return source.digest if source.library is None else f"{source.digest}+{source.library}"

    def children(self, value: object) -> list[object]:
        """Return the objects directly in an object."""
        kind, path = spec_of(value).kind, spec_of(value).path(value)
        if (kind, path) not in self.within:
            return []
        inside = [spec for spec in KINDS if spec.parent == kind]
        return [child for spec in inside for child in self.all(spec, path)]

    def dependents(self, value: Any) -> list[Any]:
        """Return the objects that depend on this one, without its contents."""
        if value.id not in self.used:
            return []
        users = {identifier for identifier, used in self.uses.items() if value.id in used}
        return [dependent for dependent in self._each() if dependent.id in users] if users else []

    def queries_using(self, objects: Iterable[Any]) -> list[Query]:
        """Return the queries, oldest first, that use one of the objects and are not terminated."""
        ids = {value.id for value in objects}
        using = (query for query in self.queries.values() if query.uses & ids)
        running = (query for query in using if query.actual_state is not QueryState.TERMINATED)
        return sorted(running, key=lambda query: query.created_at)

    def parent_id(self, spec: KindSpec[Any], path: Path) -> str:
        """Return the id of the parent of an object of that kind and path; raises UserError with the parent's SQLSTATE when it does not
        exist."""
        if spec.parent is None:
            return self.organization.id
        return self.required(BY_NAME[spec.parent], path[:-1], spec.described(path))

    def used_ids(self, spec: KindSpec[T], value: T) -> frozenset[str]:
        """Return the ids of the objects that `value` uses; raises UserError with the SQLSTATE of a missing one."""
        what = spec.described(spec.path(value))
        return frozenset(self.required(BY_NAME[kind], path, what) for kind, path in spec.uses(value))

    def required(self, spec: KindSpec[Any], path: Path, what: str) -> str:
        """Return the id of an object that `what` uses or is in; raises UserError with the kind's SQLSTATE when it does not exist."""
        value = self.get(spec, path)
        if value is None:
            raise UserError(spec.missing, f"{what} requires {spec.described(path)}, which does not exist")
        identifier: str = value.id
        return identifier

    def _each(self) -> Iterator[Any]:
        return (value for spec in KINDS for value in self.objects[spec.kind].values())

    # --- the state after a write

    def having(self, value: Any, uses: frozenset[str], sealed: bytes | None) -> CatalogState:
        """Return the state with an object, new or in place of the one of its path."""
        spec = spec_of(value)
        known, path = self.objects[spec.kind], spec.path(value)
        place = (spec.parent, path[:-1])
        return replace(
            self,
            objects={**self.objects, spec.kind: {**known, path: value}},
            within=self.within if path in known else counted(self.within, [place], 1),
            used=counted(counted(self.used, uses, 1), self.uses.get(value.id, ()), -1),
            uses={**self.uses, value.id: uses} if uses or value.id in self.uses else self.uses,
            sealed=self.sealed if sealed is None else {**self.sealed, value.id: sealed},
        )

    def without(self, value: Any) -> CatalogState:
        """Return the state without an object; its queries no longer use it."""
        spec = spec_of(value)
        path = spec.path(value)
        return replace(
            self,
            within=counted(self.within, [(spec.parent, path[:-1])], -1),
            used=counted(self.used, self.uses.get(value.id, ()), -1),
            objects={**self.objects, spec.kind: _but(self.objects[spec.kind], path)},
            uses=_but(self.uses, value.id),
            sealed=_but(self.sealed, value.id),
            queries={
                key: replace(query, uses=query.uses - {value.id}) if value.id in query.uses else query
                for key, query in self.queries.items()
            },
        )


K = TypeVar("K")
V = TypeVar("V")


def counted(counts: Mapping[K, int], keys: Iterable[K], by: int) -> Mapping[K, int]:
    """Return the counts with so many more, or fewer, of each key; a key without a count is left out."""
    changed = dict(counts)
    for key in keys:
        changed[key] = changed.get(key, 0) + by
        if not changed[key]:
            del changed[key]
    return changed


def _but(mapping: Mapping[K, V], excluded: K) -> Mapping[K, V]:
    return (
        {key: value for key, value in mapping.items() if key != excluded} if excluded in mapping else mapping
    )
