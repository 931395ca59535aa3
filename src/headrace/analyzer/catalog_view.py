"""Interface of the catalog for binding, and the resolution of relation names."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Protocol

from headrace.analyzer.functions.implementation import Implementation
from headrace.analyzer.logical import QueryProperties
from headrace.catalog.objects import Relation, StoreFacts, UserFunction
from headrace.connectors.base import StoreDescriptor
from headrace.core.context import SessionContext
from headrace.core.errors import Span, UserError
from headrace.core.idioms import Remedy
from headrace.core.names import VIRTUAL_DATABASE, Identifier, RelationName, printed
from headrace.core.sqlstate import SqlState
from headrace.core.suggestions import name_suggestion


class RelationLookup(Protocol):
    """The part of `catalog.state.CatalogState` that binding uses; reads only, from memory."""

    def relation(self, name: RelationName, /) -> Relation | None:
        """Return the relation of that full name, or None. May raise UserError for a relation that the role may not read."""
        ...

    def relations(self, database: str | None = None, schema: str | None = None) -> Sequence[Relation]:
        """Return all relations, or those of a database or schema: for suggestions."""
        ...

    def store(self, name: str, /) -> StoreFacts | None:
        """Return the store of that name, or None."""
        ...

    def named_store(self, name: str, /) -> StoreFacts | None:
        """Return the store that a user names, or None if it does not exist or the user may not know of it."""
        ...

    def functions(self, name: str, /) -> Sequence[tuple[UserFunction, str]]:
        """Return the users' functions of that name, each with the SHA-256 of its code: those that the role may know of."""
        ...


@dataclass(frozen=True)
class BindingContext:
    """Context of names: the catalog, the session's database and schema, and the abilities of store types.

    `inside_views` is where the names in a view's own query are looked for, which its owner was allowed to read.
    `continuous` are the properties of the continuous query that is bound, in which a materialized view stands for its own query;
    None: a snapshot query, whose views are tables.
    """

    catalog: RelationLookup
    session: SessionContext
    connectors: Callable[[str], StoreDescriptor] | None = None
    continuous: QueryProperties | None = None
    inside_views: RelationLookup | None = None

    def overloads(self, name: str) -> tuple[Implementation, ...]:
        """Return the users' functions of that name."""
        return tuple(Implementation(function, digest) for function, digest in self.catalog.functions(name))


def resolve_relation(
    parts: Sequence[Identifier],
    *,
    catalog: RelationLookup,
    database: str | None,
    schema: str | None,
    span: Span | None,
) -> Relation:
    """Return the relation that a dotted name of one to three parts means in a session's database and schema.

    Raises UserError 42601 (too many parts), 3D002 (no database selected) or 3D020 (no such relation; suggests the nearest).
    """
    if len(parts) > 3:
        raise UserError(
            SqlState.SYNTAX_ERROR,
            "expected database.schema.relation, found more parts",
            hint='Put a name that contains dots in double quotes: "a.b".',
            span=span,
        )
    names = [part.name for part in parts]
    chosen_database = names[-3] if len(names) == 3 else database
    if chosen_database is None:
        raise UserError(
            SqlState.DATABASE_NOT_FOUND,
            "no database is selected",
            hint="Run USE DATABASE name, or write database.schema.relation.",
            span=span,
        )
    chosen_schema = names[-2] if len(names) >= 2 else (schema or "public")
    full = RelationName(chosen_database, chosen_schema, names[-1])
    try:
        relation = catalog.relation(full)
    except UserError as error:
        error.span = span
        raise
    if relation is None and chosen_database == VIRTUAL_DATABASE:
        raise UserError(
            SqlState.RELATION_NOT_FOUND,
            f"the virtual relation {full} exists only inside its application",
            hint="CREATE STREAM … AS or CREATE CHANGELOG … AS stores rows for other queries.",
            span=span,
        )
    if relation is None:
        raise UserError(
            SqlState.RELATION_NOT_FOUND,
            f"the relation {full} does not exist or is not authorized",
            hint=_nearest(full, names, catalog) or "LIST RELATIONS shows the existing relations.",
            span=span,
        )
    return relation


def is_database(first: str, name: str, databases: Container[str]) -> Remedy | None:
    """Return the hint for `database.relation`, whose first part was read as a schema."""
    if first not in databases:
        return None
    whole = f"{printed(first)}.public.{printed(name)}"
    return Remedy(f"{printed(first)} is a database: write {whole}.", (whole,))


def _nearest(missing: RelationName, written: Sequence[str], catalog: RelationLookup) -> Remedy | str | None:
    """Return the hint with the nearest of what relations have in the first part of the name that no relation has.

    A replacement stands in the place of the name as `written`, so it has the same number of parts.
    """
    before, after = (
        [f"{printed(part)}." for part in written[:-1]],
        [f".{printed(part)}" for part in written[1:]],
    )
    known = list(catalog.relations())
    databases = dict.fromkeys(item.name.database for item in known)
    if missing.database not in databases:
        return (
            name_suggestion(missing.database, databases, after="".join(after)) if len(written) == 3 else None
        )
    schemas = dict.fromkeys(item.name.schema for item in known if item.name.database == missing.database)
    if missing.schema not in schemas:
        return is_database(missing.schema, missing.name, databases) or (
            name_suggestion(missing.schema, schemas, before="".join(before[:-1]), after=after[-1])
            if len(written) >= 2
            else None
        )
    return name_suggestion(
        missing.name,
        [item.name.name for item in known if item.name.path[:2] == missing.path[:2]],
        before="".join(before),
    )
