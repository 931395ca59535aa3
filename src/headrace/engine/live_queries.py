"""The interactive queries that run now: SELECT and PRINT whose rows a client reads."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from headrace.core.signals import Signal
from headrace.engine.results import ResultChannel


@dataclass(frozen=True)
class LiveQuery:
    """An interactive query. `statement` is the text without secrets, `id` that of the statement in the audit log."""

    id: str
    user: str
    role: str | None
    statement: str | None
    since: datetime.datetime
    channel: ResultChannel


class LiveQueries:
    """The interactive queries of one server, from their start until their readers leave. Read from any thread."""

    def __init__(self) -> None:
        self._queries: dict[str, LiveQuery] = {}
        self.changed = Signal()
        """The signal of each query that starts or ends."""

    def add(self, query: LiveQuery) -> None:
        """Add a query until its channel is closed."""
        self._queries[query.id] = query
        query.channel.on_close(lambda: self._remove(query.id))
        self.changed.notify()

    def _remove(self, identifier: str) -> None:
        self._queries.pop(identifier, None)
        self.changed.notify()

    def all(self) -> list[LiveQuery]:
        """Return the queries, oldest first."""
        return list(self._queries.values())
