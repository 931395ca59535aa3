"""Views in a query: a view stands for its own query; a materialized view does so in a continuous query. See docs/adr/0016 and 0075.

What a continuous query reads of a view is what the view's query would give it as a subquery in FROM, so that every change of the view
is followed by the rules of any query. Where that could differ from the view's rows, the view is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from headrace.analyzer.catalog_view import BindingContext
from headrace.analyzer.logical import LogicalNode, Scan, Subquery, transform
from headrace.analyzer.properties import RETENTION
from headrace.analyzer.source_properties import query_properties
from headrace.analyzer.sources import named_relation
from headrace.catalog.objects import Relation, RelationKind, ViewDefinition
from headrace.core.errors import InternalError, Span, UserError
from headrace.core.names import RelationName
from headrace.core.properties import value_of
from headrace.core.sqlstate import SqlState
from headrace.sql import parse
from headrace.sql.ast import Properties, TimeWindow
from headrace.sql.statements.relation import CreateRelationAs, CreateView

Bind = Callable[[exp.Expr, BindingContext], LogicalNode]


def names_streams(query: exp.Expr, context: BindingContext) -> bool:
    """True if a query names a stream or a changelog, also in the query of a view that it names; raises UserError as `named_relation`
    does."""
    tables = (table for table in query.find_all(exp.Table) if not is_named_query(table))
    return any(_is_stream(named_relation(table, context)[0], context) for table in tables)


def has_end(query: exp.Expr, context: BindingContext) -> bool:
    """True if a query names no relations but tables of stores, also in the queries of views that it names: constants and tables come to an
    end. Raises as `names_streams`."""
    tables = (table for table in query.find_all(exp.Table) if not is_named_query(table))
    return all(_is_table(named_relation(table, context)[0], context) for table in tables)


def _is_table(relation: Relation, context: BindingContext) -> bool:
    if relation.kind is not RelationKind.VIEW:
        return relation.kind is RelationKind.TABLE
    return has_end(_parsed(relation).select.expression, _inside(relation, context))


def _is_stream(relation: Relation, context: BindingContext) -> bool:
    if relation.kind is not RelationKind.VIEW:
        return not relation.kind.is_snapshot
    return names_streams(_parsed(relation).select.expression, _inside(relation, context))


def _parsed(view: Relation) -> CreateRelationAs | CreateView:
    """Return the statement that created a view."""
    (statement,) = parse(view.definition.sql) if view.definition is not None else (None,)
    if not isinstance(statement, CreateRelationAs | CreateView):
        raise InternalError(f"the view {view.name} is defined by a {type(statement).__name__}")
    return statement


def _inside(view: Relation, context: BindingContext) -> BindingContext:
    """Return the context of the names in a view's query, all of which its owner may use."""
    definition = view.definition
    if definition is None:
        raise InternalError(f"the view {view.name} has no definition")
    session = replace(context.session, database=definition.database, schema=definition.schema)
    return replace(context, session=session, catalog=context.inside_views or context.catalog)


def is_named_query(table: exp.Table) -> bool:
    """True for the name of a WITH query that is in scope at this place: an earlier one of the same clause, or one of an outer query."""
    below: exp.Expr = table
    while len(table.parts) == 1 and (above := below.parent) is not None:
        if isinstance(above, exp.With):
            known = above.expressions[: below.index]
        else:
            clause = above.args.get("with_")
            known = clause.expressions if clause is not None and clause is not below else []
        if any(named.alias == table.name for named in known):
            return True
        below = above
    return False


def renamed(view: ViewDefinition, old: Sequence[str], new: Sequence[str]) -> ViewDefinition:
    """Return a view's definition after the object of the path `old`, a database, a schema or a relation, was renamed to `new`."""
    (statement,) = parse(view.sql)
    if not isinstance(statement, CreateRelationAs | CreateView):
        raise InternalError(f"a view is defined by a {type(statement).__name__}")
    query = statement.select.expression
    tables = [table for table in query.find_all(exp.Table) if not is_named_query(table)]
    named = [table for table in tables if _full(table.parts, view)[: len(old)] == tuple(old)]
    for column in query.find_all(exp.Column):
        qualifiers = column.parts[:-1]
        if len(qualifiers) > 1 and (path := _full(qualifiers, view))[: len(old)] == tuple(old):
            # As its source is called from now on, see below.
            set_qualifiers(column, [path[-1]] if len(old) == len(path) else [*new, *path[len(old) :]])
    for table in named:
        path = _full(table.parts, view)
        table.set("this", exp.to_identifier([*new, *path[len(old) :]][-1]))
        set_qualifiers(table, [*new, *path[len(old) :]][:-1])
        source = table.parent if isinstance(table.parent, TimeWindow) else table
        if len(old) == len(path) and not source.args.get("alias"):
            source.set("alias", exp.TableAlias(this=exp.to_identifier(path[-1])))
    text = statement.sql() if named else view.sql
    database, schema = view.database, view.schema
    if (database,) == tuple(old):
        database = new[0]
    elif (database, schema) == tuple(old):
        schema = new[1]
    reads = (
        RelationName(*new, *name.path[len(new) :]) if name.path[: len(old)] == tuple(old) else name
        for name in view.reads
    )
    return ViewDefinition(text, database, schema, tuple(reads), view.functions)


def _full(parts: Sequence[exp.Expr], view: ViewDefinition) -> tuple[str, ...]:
    """Return the full name that a view's query means by a name in FROM."""
    session = (view.database or "", view.schema or "public")
    return (*session[: 3 - len(parts)], *(part.name for part in parts))


def set_qualifiers(node: exp.Table | exp.Column, qualifiers: Sequence[str]) -> None:
    """Set the qualifiers of a name, outermost first."""
    words = ("db", "catalog") if isinstance(node, exp.Table) else ("table", "db", "catalog")
    given = [*reversed(qualifiers), None, None, None]
    for word, name in zip(words, given, strict=False):
        node.set(word, name and exp.to_identifier(name))


def inlined(view: Relation, alias: str, span: Span | None, context: BindingContext, bind: Bind) -> Subquery:
    """Return the view's query under `alias`; `span` is where the view is named, and where all that is wrong inside it is shown.

    Raises UserError 0A000 for a materialized view whose changes cannot be followed.
    """
    if view.definition is None:
        why = "was created by an earlier release, which did not store how its names were resolved"
        raise _refused(view, why, "Drop the view and create it again.", span)
    statement = _parsed(view)
    if isinstance(statement, CreateRelationAs):
        _refuse_other_lives(view, statement, context, span)
    query = statement.select.expression
    _show_at(query, span)
    try:
        node = bind(query, _inside(view, context))
    except UserError as error:
        message = f"in the query of the {view.kind.value.replace('_', ' ')} {view.name}: {error.message}"
        raise UserError(error.state, message, hint=error.hint, span=span) from None
    if isinstance(statement, CreateView):
        return Subquery(node, alias, span, view)
    if node.schema.columns != view.schema.columns:
        why = "was created by an earlier release, in which its query returned other columns"
        raise _refused(view, why, "Drop the view and create it again.", span)
    for source in _sources(node):
        _check_source(source, view, span)
    return Subquery(transform(node, _skipping), alias, span, view)


def retention_of(view: Relation) -> int | None:
    """Return the time in milliseconds for which a materialized view keeps a row that is not written again; None: for ever."""
    # Of views of early releases the statement is not known.
    statement = _parsed(view) if view.definition is not None else None
    if not isinstance(statement, CreateRelationAs):
        return None
    return value_of(statement.properties.entries, RETENTION)


def _refuse_other_lives(
    view: Relation, statement: CreateRelationAs, context: BindingContext, span: Span | None
) -> None:
    """Refuse a view whose `state.ttl` differs from the query's: both must forget a key at the same time."""
    if value_of(statement.properties.entries, RETENTION) is not None:
        raise _refused(
            view,
            "deletes rows by the clock ('retention.millis'), and reports no change for it",
            "Read the streams or changelogs that the view reads.",
            span,
        )
    ttl_ms = query_properties(statement.select.query_properties.entries).state_ttl_ms
    if ttl_ms and context.continuous is not None and context.continuous.state_ttl_ms != ttl_ms:
        raise _refused(
            view,
            f"keeps its state for {ttl_ms} ms, this query does not",
            f"Add QUERY WITH ('state.ttl.millis' = {ttl_ms}).",
            span,
        )


def _show_at(query: exp.Expr, span: Span | None) -> None:
    """Let all of a parsed query stand at one place of another text."""
    if span is None:
        return
    place = {"start": span.start, "end": span.end - 1, "line": span.line, "col": span.column}
    for part in query.walk():
        meta = part.meta
        if "start" in meta:
            meta.update(place)
        for key, value in meta.items():
            if isinstance(value, Span):
                meta[key] = span
            elif isinstance(value, Properties):
                meta[key] = Properties(tuple(replace(entry, span=span) for entry in value.entries))


def _sources(node: LogicalNode) -> Iterator[Scan | Subquery]:
    """Yield the relations and views that a query names, but not the sources of materialized views."""
    view = node.view if isinstance(node, Subquery) else None
    if isinstance(node, Scan) or (isinstance(node, Subquery) and view is not None):
        yield node
        if view is None or view.kind is not RelationKind.VIEW:
            return
    for child in node.inputs:
        yield from _sources(child)


def _check_source(source: Scan | Subquery, view: Relation, span: Span | None) -> None:
    relation = source.relation if isinstance(source, Scan) else source.view
    if relation is not None and relation.created_at > view.created_at:
        raise _refused(
            view,
            f"reads another {relation.name}: the relation of that name was dropped and created again",
            "Drop the view and create it again.",
            span,
        )
    if relation is not None and relation.kind is RelationKind.TABLE:
        raise _refused(
            view,
            f"reads the table {relation.name}, which may have changed since",
            "Read the relations that the view reads.",
            span,
        )
    if isinstance(source, Scan) and source.properties.starting_position == "latest":
        raise _refused(
            view,
            f"starts at the latest position of {source.relation.name}, which only its own query knows",
            "Create the view with FROM … WITH ('starting.position' = 'earliest').",
            span,
        )


def _skipping(node: LogicalNode) -> LogicalNode:
    """Return the node with bad records skipped: the view's own query keeps them once."""
    if isinstance(node, Scan) and node.properties.dead_letters is not None:
        on_error, on_function_error = (
            "ignore" if handling == "dead_letter" else handling
            for handling in (node.properties.on_error, node.properties.on_function_error)
        )
        properties = replace(
            node.properties, dead_letters=None, on_error=on_error, on_function_error=on_function_error
        )
        return replace(node, properties=properties)
    return node


def _refused(view: Relation, why: str, hint: str, span: Span | None) -> UserError:
    return UserError(
        SqlState.FEATURE_NOT_SUPPORTED,
        f"a continuous query cannot follow the materialized view {view.name}: it {why}",
        hint=hint,
        span=span,
    )
