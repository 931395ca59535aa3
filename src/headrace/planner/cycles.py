"""Queries that would read what they write, by themselves or through others: their rows would go round for ever."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headrace.catalog.objects import Relation
from headrace.core.errors import Span, UserError
from headrace.core.sqlstate import SqlState

ALLOW_CYCLE = "allow.cycle"


@dataclass(frozen=True)
class Flow:
    """A query as the relations that it reads and the one that it writes; `query` is its name or id, None for a new one."""

    sources: tuple[Relation, ...]
    sink: Relation
    query: str | None = None


def refuse_cycle(new: Flow, others: Iterable[Flow], span: Span | None) -> None:
    """Raises UserError 42P16, at `span`, when what `new` writes comes back to it, directly or through `others`.

    Relations are one where they are over the same entity of the same store.
    """
    way = _way_back(new, list(others))
    if way is None:
        return
    queries = [flow.query for _, flow in way[1:] if flow.query is not None]
    through = f", through {_listed(queries)}" if queries else ""
    stop = f"TERMINATE QUERY {queries[0]}; or write" if queries else "Write"
    raise UserError(
        SqlState.INVALID_RELATION_DEFINITION,
        f"the query would read what it writes{through}: {_drawn(way)}",
        hint=f"{stop} into another relation. '{ALLOW_CYCLE}' = TRUE in WITH (…) of the sink allows it, where rows are sure to end.",
        span=span,
    )


_Hop = tuple[Relation, Flow]


def _way_back(new: Flow, others: Sequence[Flow]) -> list[_Hop] | None:
    """The shortest round, as (what is read, by which query) from `new` on; None when there is none."""
    reached = {_place(new.sink)}
    ways: list[list[_Hop]] = [[]]
    ends = [new.sink]
    for way, end in zip(ways, ends, strict=False):  # both grow
        for source in new.sources:
            if _place(source) == _place(end):
                return [(source, new), *way]
        for flow in others:
            read = [item for item in flow.sources if _place(item) == _place(end)]
            if read and _place(flow.sink) not in reached:
                reached.add(_place(flow.sink))
                ways.append([*way, (read[0], flow)])
                ends.append(flow.sink)
    return None


def _place(relation: Relation) -> tuple[str, ...]:
    if relation.store is None:
        return relation.name.path
    return relation.store, relation.entity or ""


def _drawn(way: Sequence[_Hop]) -> str:
    """`a → b → a`; where a relation has another name over the same entity, `b, which is c,` between."""
    text = str(way[0][0].name)
    for (_, flow), (following, _) in zip(way, [*way[1:], way[0]], strict=True):
        text += f" → {flow.sink.name}"
        if following.name != flow.sink.name:
            text += f" (the same entity as {following.name})"
    return text


def _listed(queries: Sequence[str]) -> str:
    return f"quer{'y' if len(queries) == 1 else 'ies'} {' and '.join(queries)}"
