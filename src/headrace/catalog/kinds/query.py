"""Continuous queries. `catalog.queries` stores them."""

from __future__ import annotations

from headrace.catalog.kinds.spec import ObjectKind
from headrace.catalog.objects import Query
from headrace.core.sqlstate import SqlState

QUERY = ObjectKind(
    kind="query",
    value=Query,
    # Most queries have no name, and a query that ended keeps its name when another one gets it.
    path=lambda query: (query.id,),
    duplicate=SqlState.INVALID_PARAMETER,
    missing=SqlState.QUERY_NOT_FOUND,
    printed=str,
)
