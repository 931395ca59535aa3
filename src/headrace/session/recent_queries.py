"""Parsed, bound and compiled queries of recent texts, for clients that repeat a text."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.analyzer import LogicalPlan
from headrace.catalog.state import CatalogState
from headrace.core.context import SessionContext
from headrace.planner.snapshot import SnapshotQuery
from headrace.sql.statements.query import SelectStatement

TEXTS_MAX = 256
CONTEXTS_MAX = 8
TEXT_LENGTH_MAX = 4096
"""Texts, contexts of one text, and characters of a text; longer texts are not kept."""


@dataclass(frozen=True)
class RecentQuery:
    """A snapshot SELECT, as it was bound and compiled for one context. Contains no rows, and no privileges."""

    statement: SelectStatement
    context: SessionContext
    logical: LogicalPlan
    compiled: SnapshotQuery


class RecentQueries:
    """Queries by text and context, which contains the role. All are of one state of the catalog: the next commit removes them.

    A parsed statement is bound at most once, since binding may change its tree. Not safe for threads: call it in the event loop.
    """

    def __init__(self) -> None:
        self._state: CatalogState | None = None
        self._texts: OrderedDict[str, OrderedDict[SessionContext, RecentQuery]] = OrderedDict()

    def find(self, text: str, state: CatalogState) -> Mapping[SessionContext, RecentQuery]:
        """Return the queries of a text by context, as of `state`; none if the text was not kept."""
        if state is not self._state or text not in self._texts:
            return {}
        self._texts.move_to_end(text)
        return self._texts[text]

    def keep(self, text: str, query: RecentQuery, state: CatalogState) -> None:
        """Keep a query that was bound to `state`."""
        if len(text) > TEXT_LENGTH_MAX:
            return
        if state is not self._state:
            self._texts.clear()
            self._state = state
        queries = self._texts.setdefault(text, OrderedDict())
        queries[query.context] = query
        if len(queries) > CONTEXTS_MAX:
            queries.popitem(last=False)
        if len(self._texts) > TEXTS_MAX:
            self._texts.popitem(last=False)
