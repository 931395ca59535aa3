"""Resolution of query references: by id, by name, or by the relation that the query writes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from headrace.catalog.catalog import Catalog
from headrace.catalog.objects import DesiredState, Query
from headrace.core.errors import UserError
from headrace.core.names import QualifiedName, RelationName
from headrace.core.sqlstate import SqlState
from headrace.core.suggestions import suggestion

T = TypeVar("T")


class QueryScope(Protocol):
    """The part of an execution that decides which queries and relations a name can mean."""

    @property
    def catalog(self) -> Catalog:
        """The catalog."""

    def knows(self, target: object | None) -> bool:
        """Return True if the object exists and the active role has a privilege on it."""

    def visible(self, objects: Iterable[T]) -> list[T]:
        """Return the objects that the active role sees."""

    def relation_name(self, name: QualifiedName) -> RelationName:
        """Return the full name of a relation."""


def named_query(reference: QualifiedName, run: QueryScope) -> Query:
    """Return the query of that id or name, or the query that writes the relation of that name.

    Most queries have no name, and users identify them by their sinks. Raises UserError 3D019 if the active role sees no such query, or if
    several queries write the relation.
    """
    query = None
    if len(reference.parts) == 1:
        query = run.catalog.query(reference.last.name) or run.catalog.query_by_name(reference.last.name)
    if query is None or not run.knows(query):
        query = _writer(reference, run)
    if query is not None:
        return query
    visible = run.visible(run.catalog.queries())
    names = {name for query in visible for name in (query.name, query.sink.name) if name is not None}
    written = ".".join(part.name for part in reference.parts)
    raise UserError(
        SqlState.QUERY_NOT_FOUND,
        f"the query {written!r} does not exist or is not authorized",
        hint=suggestion(
            reference.last.name, sorted(names), otherwise="LIST QUERIES shows the existing queries."
        ),
        span=reference.span,
    )


def _writer(reference: QualifiedName, run: QueryScope) -> Query | None:
    """Return the query that writes a relation; of several, all terminated, the last one."""
    try:
        relation = run.catalog.relation(run.relation_name(reference))
    except UserError:
        # No database is selected, or there is none of that name: no relation, and so no query.
        return None
    if relation is None or not run.knows(relation):
        return None
    writers = run.visible(run.catalog.writers(relation))
    current = [query for query in writers if query.desired_state is not DesiredState.TERMINATED]
    if len(current) > 1:
        raise UserError(
            SqlState.QUERY_NOT_FOUND,
            f"{len(current)} queries write {relation.name}: {', '.join(query.id for query in current)}",
            hint="Write the id of one of them.",
            span=reference.span,
        )
    candidates = current or writers
    return candidates[-1] if candidates else None
