"""Number of queries that a compute pool runs at a time, and the queue of those that wait. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.catalog.objects import ComputePool, Query, QueryState
from headrace.core.settings import Settings
from headrace.core.wording import counted
from headrace.engine.protocol import PoolSlots
from headrace.engine.sizes import pool_resources

_WITHOUT_PLACE = (QueryState.QUEUED, QueryState.ERRORED, QueryState.TERMINATED)


@dataclass(frozen=True)
class Places:
    """Limit of a pool's queries, None without one. It is not known while a pool that takes all of a cluster has no executors."""

    slots: int | None
    grows: bool
    queries_max: int | None
    is_known: bool

    @property
    def text(self) -> str:
        """The slots in words."""
        return f"{'up to ' if self.grows else ''}{counted(self.slots or 0, 'slot')}"


def places(pool: ComputePool, settings: Settings, present: PoolSlots | None) -> Places:
    """Return the limit of a pool. One that follows the load counts with its most executors, since it grows to these."""
    target = pool_resources(pool, settings).target
    slots = target.slots if target.slots is not None or present is None else present.slots
    limit = settings.queries_per_slot_max * slots if slots is not None else 0
    is_known = slots is not None or not target.is_cluster or not settings.queries_per_slot_max
    return Places(slots, target.slots_min is not None, limit or None, is_known)


@dataclass(frozen=True)
class Queued:
    """Position of a query, from 1, in the queue of its pool. `running` are the queries that have a place."""

    pool: str
    position: int
    length: int
    running: int
    places: Places

    @property
    def is_admitted(self) -> bool:
        """True if the query may start now."""
        limit = self.places.queries_max
        return self.places.is_known and (limit is None or self.running + self.position <= limit)

    @property
    def text(self) -> str:
        """The position with its numbers."""
        position = f"the query is at position {self.position} of {self.length} in the queue of the compute pool {self.pool!r}"
        if self.places.queries_max is None:
            return position
        running = counted(self.running, "query", "queries")
        return (
            f"{position} with {self.places.text}, which runs {running} of at most {self.places.queries_max}"
        )


def queued(query: Query, queries: Iterable[Query], limit: Places) -> Queued:
    """Return the position of a query that waits among the unfinished `queries`: by the time since which it waits.

    A query that a user has ended keeps its place until it has stopped.
    """
    of_pool = [each for each in queries if each.compute_pool == query.compute_pool]
    waiting = [each for each in of_pool if each.should_run and each.actual_state is QueryState.QUEUED]
    ahead = sum((each.updated_at, each.id) < (query.updated_at, query.id) for each in waiting)
    running = sum(each.actual_state not in _WITHOUT_PLACE for each in of_pool)
    return Queued(query.compute_pool, ahead + 1, len(waiting), running, limit)
