"""Applications."""

from __future__ import annotations

from collections.abc import Collection

from headrace.catalog.objects import Query, QueryKind
from headrace.sql import parse
from headrace.sql.statements.application import Application
from headrace.statements.base import Execution
from headrace.statements.desired_state.comparison import LEAVE, Described, Verdict, compares
from headrace.statements.desired_state.steps import Action


def _find(statement: Application, run: Execution, _desired: Collection[str]) -> Described:
    name = statement.name.name
    queries = [item for item in run.catalog.unfinished_queries() if item.name == name and item.should_run]
    return Described(queries[0] if queries else None, "application", name)


def _sinks(query: Query, run: Execution) -> list[str]:
    """Return the relations that an application writes."""
    if query.kind is not QueryKind.APPLICATION:
        return []
    relations = (run.catalog.relation(name) for name in query.sinks)
    return [relation.id for relation in relations if relation is not None]


@compares(Application, find=_find, covers=_sinks)
def compare(statement: Application, query: Query, _run: Execution) -> Verdict:
    """Refuse another text: the query of an application cannot be replaced."""
    if parse(query.sql) == [statement]:
        return LEAVE
    reason = (
        "the query of an application cannot be replaced: TERMINATE QUERY … WITH SAVEPOINT s ends it, and the changed application continues "
        "from there with END APPLICATION WITH ('resume.from.savepoint' = s)"
    )
    return Verdict(Action.CONFLICT, (reason,))
