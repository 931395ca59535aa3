"""Objects that a drop removes, and objects that prevent it: RESTRICT and CASCADE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.catalog.kinds import described, spec_of
from headrace.catalog.objects import Query, Role
from headrace.catalog.policy import named, owner_of
from headrace.catalog.state import CatalogState
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.core.wording import counted

NAMED_MAX = 3


@dataclass(frozen=True)
class Removal:
    """`objects` go, the last of them the one that was named, each after all that depend on it; `queries` must be terminated before."""

    objects: tuple[Any, ...]
    queries: tuple[Query, ...]

    def refuse(self, *, cascade: bool, known: Callable[[object], bool]) -> None:
        """Raise UserError 2BP01 with the objects that prevent the drop: without `cascade` all dependents that are not attached, with
        `cascade` the queries that have not ended. Objects that are not `known` are only counted."""
        *others, target = self.objects
        in_the_way = [] if cascade else [dependent for dependent in others if not spec_of(dependent).attached]
        visible = [described(dependent) for dependent in in_the_way if known(dependent)]
        visible += [
            f"the running query {query.id} ({query.name or query.sink})"
            for query in self.queries
            if known(query)
        ]
        hidden = len(in_the_way) + len(self.queries) - len(visible)
        blocking = [*visible, *([f"{hidden} that you may not see"] if hidden else [])]
        if not blocking:
            return
        named = ", ".join(blocking[:NAMED_MAX])
        more = f" and {len(blocking) - NAMED_MAX} more" if len(blocking) > NAMED_MAX else ""
        running = [query for query in self.queries if known(query)]
        ends = " ".join(f"TERMINATE QUERY {query.id};" for query in running[:NAMED_MAX])
        first = f"Run {ends}" if running else "Drop them"
        raise UserError(
            SqlState.DEPENDENT_OBJECTS_EXIST,
            f"{described(target)} is referenced by {named}{more}",
            hint=f"{first} first; DROP … CASCADE ends dependent queries and drops dependent objects.",
        )


def removal(state: CatalogState, target: Any) -> Removal:
    """Return what a drop of `target` removes: its contents, the objects that depend on it, and so on."""
    visited: dict[str, Any] = {}

    def visit(value: Any) -> None:
        if value.id in visited:
            return
        for other in (*state.children(value), *state.dependents(value)):
            visit(other)
        visited[value.id] = value

    visit(target)
    return Removal(tuple(visited.values()), tuple(state.queries_using(visited.values())))


def refuse_owner(state: CatalogState, role: Role, known: Callable[[object], bool]) -> None:
    """Raise UserError 2BP01 with the `known` objects that a role owns: without an owner, no role could use them."""
    owned = [
        value for value in (*state.by_id.values(), *state.queries.values()) if owner_of(value) == role.name
    ]
    owned = [value for value in owned if value.id != role.id]
    if not owned:
        return
    visible = [named(value) for value in owned if known(value)]
    hidden = len(owned) - len(visible)
    visible += [f"{counted(hidden, 'object')} that you may not see"] if hidden else []
    more = f" and {len(visible) - NAMED_MAX} more" if len(visible) > NAMED_MAX else ""
    raise UserError(
        SqlState.DEPENDENT_OBJECTS_EXIST,
        f"the role {role.name} owns {', '.join(visible[:NAMED_MAX])}{more}",
        hint="Drop them, or GRANT OWNERSHIP ON … TO ROLE another one, first.",
    )
