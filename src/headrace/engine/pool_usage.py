"""Time of the tasks of queries: since the server started, and not yet in the history."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from headrace.engine.protocol import TaskTime

_NONE = TaskTime()


class PoolUsage:
    """Sums of what drivers report as `PoolTasks`. `is_known` is true of the ids of continuous queries; the tasks of readers' queries, and
    those that no query ran, count for their pool only."""

    def __init__(self, is_known: Callable[[str], bool]) -> None:
        self._is_known = is_known
        self._totals: dict[str, TaskTime] = {}
        self._unsaved: dict[str, dict[str, TaskTime]] = {}

    def add(self, pool: str, queries: Mapping[str, TaskTime]) -> None:
        """Add the time of tasks in a pool, by query."""
        of_pool = self._unsaved.setdefault(pool, {})
        for query_id, time in queries.items():
            name = query_id if self._is_known(query_id) else ""
            of_pool[name] = of_pool.get(name, _NONE) + time
            if name:
                self._totals[name] = self.total(name) + time

    def total(self, query_id: str) -> TaskTime:
        """Return the time of a query's tasks since the server started."""
        return self._totals.get(query_id, _NONE)

    def take(self) -> Mapping[str, Mapping[str, TaskTime]]:
        """Return the time since the last call, by pool and query; `""` for tasks of no continuous query."""
        taken, self._unsaved = self._unsaved, {}
        return taken

    def forget(self, query_ids: Collection[str]) -> None:
        """Forget queries that will never run again."""
        for query_id in query_ids:
            self._totals.pop(query_id, None)
