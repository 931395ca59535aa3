"""Differences between two states of the catalog, as a role may see them: the change feed of interfaces that push.

A state never changes and each commit replaces it (`Storage.committed`), so a listener compares the state that it has seen with the current
one. Many commits in between are one difference, and nothing is queued for a listener.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from headrace.catalog.kinds import KINDS
from headrace.catalog.kinds.query import QUERY
from headrace.catalog.state import CatalogState

GRANTS = "grants"
LIVE_QUERIES = "live_queries"
CHANGE_KINDS = (*sorted((*(spec.plural for spec in KINDS), QUERY.plural)), GRANTS, LIVE_QUERIES)
"""The kinds of changes, named as the system relations whose rows change. Live queries are no objects: an engine reports their changes."""


class Action(Enum):
    """Effect on an object, as a role sees it: it may also appear or disappear with a privilege."""

    CREATED = "created"
    CHANGED = "changed"
    DROPPED = "dropped"


@dataclass(frozen=True)
class Change:
    """A change of an object, known by the path of its kind; () for privileges, whose changes are reported together."""

    kind: str
    action: Action
    path: tuple[str, ...] = ()


def changes(before: CatalogState, after: CatalogState, role: str, kinds: Collection[str]) -> Iterator[Change]:
    """Yield what changed for a role. Objects that the role may not know of, before and after, are left out."""
    for spec in KINDS:
        if spec.plural in kinds:
            known, current = before.objects[spec.kind], after.objects[spec.kind]
            yield from _differences(spec.plural, (before, known), (after, current), role)
    if QUERY.plural in kinds:
        yield from _query_changes(before, after, role)
    if GRANTS in kinds and _has_other_grants(before, after, role):
        yield Change(GRANTS, Action.CHANGED)


def _differences(
    kind: str,
    before: tuple[CatalogState, Mapping[Any, Any]],
    after: tuple[CatalogState, Mapping[Any, Any]],
    role: str,
) -> Iterator[Change]:
    (earlier, known), (later, current) = before, after
    # Privileges decide which objects a role sees: then all are compared, otherwise those that are other values.
    same_privileges = earlier.grants is later.grants and earlier.graph is later.graph
    if same_privileges and known is current:
        return
    for path in known.keys() | current.keys():
        one, other = known.get(path), current.get(path)
        if one is other and same_privileges:
            continue
        seen = one is not None and earlier.policy.visible(role, one)
        sees = other is not None and later.policy.visible(role, other)
        path = path if isinstance(path, tuple) else (path,)
        if seen and sees:
            if one != other:
                yield Change(kind, Action.CHANGED, path)
        elif seen or sees:
            yield Change(kind, Action.CREATED if sees else Action.DROPPED, path)


def _query_changes(before: CatalogState, after: CatalogState, role: str) -> Iterator[Change]:
    """Yield the changes of queries. The state forgets a query that has ended, but the catalog's database keeps it."""
    for change in _differences(QUERY.plural, (before, before.queries), (after, after.queries), role):
        has_ended = change.action is Action.DROPPED and change.path[0] not in after.queries
        yield Change(change.kind, Action.CHANGED, change.path) if has_ended else change


def _has_other_grants(before: CatalogState, after: CatalogState, role: str) -> bool:
    """True if roles are granted differently, or privileges on an object that the role sees."""
    if before.graph is not after.graph and before.graph != after.graph:
        return True
    if before.grants is after.grants:
        return False
    for identifier in before.grants.keys() | after.grants.keys():
        if before.grants.get(identifier) != after.grants.get(identifier):
            for state in (before, after):
                target = state.by_id.get(identifier) or state.queries.get(identifier)
                if identifier == state.organization.id or (
                    target is not None and state.policy.visible(role, target)
                ):
                    return True
    return False
