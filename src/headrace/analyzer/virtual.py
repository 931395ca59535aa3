"""Virtual relations of an application: names that are replaced by their queries before binding. See docs/adr/0037."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from headrace.analyzer.binder import SOURCES_MAX
from headrace.analyzer.views import is_named_query
from headrace.core.context import SessionContext
from headrace.core.errors import Span, UserError
from headrace.core.names import VIRTUAL_DATABASE, RelationName
from headrace.core.sqlstate import SqlState
from headrace.core.suggestions import suggestion
from headrace.sql.ast import ChangelogFunction, MatchRecognize, TimeWindow, properties_of, span_of

Virtual = Mapping[RelationName, exp.Query]
"""The queries of virtual relations, in which no names are left that depend on a session, nor virtual ones."""


def virtual_name(table: exp.Table) -> RelationName | None:
    """Return the name of a virtual relation in FROM, None for any other."""
    parts = [part.name for part in table.parts]
    if len(parts) != 3 or parts[0] != VIRTUAL_DATABASE:
        return None
    return RelationName(parts[0], parts[1], parts[2])


def inlined(query: exp.Query, known: Virtual) -> exp.Query:
    """Return the query with the names of virtual relations replaced by their queries.

    Raises UserError 3D020 for one that is not `known`, 3D008 for source properties of one, 53000 for too many sources.
    """
    copy = query.copy()
    for table in list(copy.find_all(exp.Table)):
        name = virtual_name(table)
        if name is not None:
            _put(table, _definition(name, known, span_of(table)).copy(), name)
    sources = sum(1 for _ in copy.find_all(exp.Table))
    if sources > SOURCES_MAX:
        raise UserError(
            SqlState.CONFIGURATION_LIMIT_EXCEEDED,
            f"the query reads {sources} relations including those of its virtual relations, expected at most "
            f"{SOURCES_MAX}",
            hint="A virtual relation is read once for each reference. CREATE STREAM … AS stores it.",
            span=span_of(query),
        )
    return copy


def qualified(query: exp.Query, session: SessionContext) -> exp.Query:
    """Return the query with the full names of its relations, as the session means them."""
    copy = query.copy()
    for table in copy.find_all(exp.Table):
        if not is_named_query(table) and len(table.parts) < 3:
            schema = table.parts[-2].name if len(table.parts) == 2 else session.schema or "public"
            table.set("db", exp.to_identifier(schema))
            table.set("catalog", exp.to_identifier(session.database))
    return copy


def _definition(name: RelationName, known: Virtual, span: Span | None) -> exp.Query:
    if name not in known:
        names = [str(other) for other in known]
        raise UserError(
            SqlState.RELATION_NOT_FOUND,
            f"the virtual relation {name} was not created earlier in this application",
            hint=suggestion(
                str(name), names, otherwise="Create it with CREATE VIRTUAL STREAM … AS SELECT …;"
            ),
            span=span,
        )
    return known[name]


def _put(table: exp.Table, query: exp.Query, name: RelationName) -> None:
    source = (
        table.parent if isinstance(table.parent, TimeWindow | ChangelogFunction | MatchRecognize) else table
    )
    given = properties_of(table) or properties_of(source)
    if given:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"{name} is a query, and accepts no source properties",
            hint="Put WITH (…) after the relation inside.",
            span=given.span(next(iter(given))),
        )
    alias = source.args.get("alias") or exp.TableAlias(this=exp.to_identifier(name.name))
    subquery = exp.Subquery(this=query)
    if source is table:
        subquery.set("alias", alias)
    else:
        source.set("alias", alias)
    table.replace(subquery)
