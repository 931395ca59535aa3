"""Cycles of queries: a query that reads its own output, directly or through other queries, would process its rows for ever."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from headrace.analyzer.properties import ALLOW_CYCLE
from headrace.catalog.objects import Relation
from headrace.core.errors import Span, UserError
from headrace.core.sqlstate import SqlState
from headrace.core.wording import plural


@dataclass(frozen=True)
class Output:
    """Output of a query: a relation, or an entity without one. Equal outputs have an equal `place`."""

    name: str
    place: tuple[str, ...]

    @staticmethod
    def of(relation: Relation) -> Output:
        """Return a relation as an output."""
        return Output(str(relation.name), _place(relation))


HIDDEN = ""
"""Stands for a name that the user may not see."""
_UNSEEN = "a query that you may not see"

Reads = Callable[[Relation, tuple[str, ...]], bool]
"""Tests whether a relation reads the entity at a place. A relation may be over several entities."""


def over(relation: Relation, place: tuple[str, ...]) -> bool:
    """True if a relation covers one entity, the one at the place."""
    return _place(relation) == place


@dataclass(frozen=True)
class Flow:
    """A query as the relations that it reads and all that it writes; `query` is its name or id, `HIDDEN` if the user may not know of it,
    None for a new query."""

    sources: tuple[Relation, ...]
    outputs: tuple[Output, ...]
    query: str | None = None


def refuse_cycle(
    new: Flow,
    others: Iterable[Flow],
    span: Span | None,
    *,
    reads: Reads = over,
    known: Callable[[Relation], bool] = lambda _: True,
) -> None:
    """Raise UserError 42P16, at `span`, if `new` reads its own output, directly or through `others`; the text names only `known` relations.

    Two relations over the same entity of the same store count as one.
    """
    way = _way_back(new, list(others), reads)
    if way is None:
        return
    queries = [flow.query for _, flow, _ in way[1:] if flow.query is not None]
    named = [query for query in queries if query != HIDDEN]
    through = f", through {_listed(queries)}" if queries else ""
    stop = f"TERMINATE QUERY {named[0]}; or write" if named else "Write"
    raise UserError(
        SqlState.INVALID_RELATION_DEFINITION,
        f"the query would read its own output{through}: {_drawn(way, known)}",
        hint=(
            f"{stop} into another relation. '{ALLOW_CYCLE.name}' = TRUE in WITH (…) of the sink allows it, "
            "if the rows are sure to end."
        ),
        span=span,
    )


_Hop = tuple[Relation, Flow, Output]


def _way_back(new: Flow, others: Sequence[Flow], reads: Reads) -> list[_Hop] | None:
    """Return the shortest cycle from `new` on as (relation read, query, relation written); None if there is no cycle."""
    reached = {output.place for output in new.outputs}
    ways: list[tuple[Output, list[_Hop], Output]] = [(output, [], output) for output in new.outputs]
    for first, way, end in ways:  # which grows
        for source in new.sources:
            if reads(source, end.place):
                return [(source, new, first), *way]
        for flow in others:
            read = [item for item in flow.sources if reads(item, end.place)]
            for output in flow.outputs:
                if read and output.place not in reached:
                    reached.add(output.place)
                    ways.append((first, [*way, (read[0], flow, output)], output))
    return None


def _place(relation: Relation) -> tuple[str, ...]:
    if relation.store is None:
        return relation.name.path
    return relation.store, *(relation.entity or ())


def _drawn(way: Sequence[_Hop], known: Callable[[Relation], bool]) -> str:
    """Return `a → b → a`; where a relation has another name over the same entity, `b, which is c,` between."""
    text = str(way[0][0].name) if known(way[0][0]) else _UNSEEN
    for (_, _, output), (following, _, _) in zip(way, [*way[1:], way[0]], strict=True):
        text += f" → {output.name or _UNSEEN}"
        if str(following.name) != output.name and known(following):
            text += f" (the same entity as {following.name})"
    return text


def _listed(queries: Sequence[str]) -> str:
    return f"{plural('query', len(queries), 'queries')} {' and '.join(query or _UNSEEN for query in queries)}"
