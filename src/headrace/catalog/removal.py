"""What goes with an object that is dropped, and what keeps it from being dropped. RESTRICT and CASCADE are this module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.catalog.kinds import described, spec_of
from headrace.catalog.objects import Query
from headrace.catalog.state import CatalogState
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState

NAMED_MAX = 3


@dataclass(frozen=True)
class Removal:
    """`objects` go, the last of them the one that was named, each after all that depend on it; `queries` must be terminated before."""

    objects: tuple[Any, ...]
    queries: tuple[Query, ...]

    def refuse(self, *, cascade: bool) -> None:
        """Raises UserError 2BP01, which names what keeps the object: without `cascade` all that depends on it but for what is attached
        to it, with it the queries that have not ended."""
        *others, target = self.objects
        blocking = [] if cascade else [described(found) for found in others if not spec_of(found).attached]
        blocking += [f"the running query {query.id}" for query in self.queries]
        if not blocking:
            return
        named = ", ".join(blocking[:NAMED_MAX])
        more = f" and {len(blocking) - NAMED_MAX} more" if len(blocking) > NAMED_MAX else ""
        first = f"TERMINATE QUERY {self.queries[0].id};" if self.queries else "Drop them"
        raise UserError(
            SqlState.DEPENDENT_OBJECTS_EXIST,
            f"{described(target)} is referenced by {named}{more}",
            hint=f"{first} first; DROP … CASCADE ends queries and drops what depends on it.",
        )


def removal(state: CatalogState, target: Any) -> Removal:
    """What goes with `target`: what is in it, what cannot be without it, and so on."""
    found: dict[str, Any] = {}

    def visit(value: Any) -> None:
        if value.id in found:
            return
        for other in (*state.children(value), *state.dependents(value)):
            visit(other)
        found[value.id] = value

    visit(target)
    return Removal(tuple(found.values()), tuple(state.queries_using(found.values())))
