"""The sources of FROM: relations, time windows over them, subqueries and UNNEST."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from headrace.analyzer.catalog_view import BindingContext, resolve_relation
from headrace.analyzer.expression_binder import ExpressionBinder
from headrace.analyzer.logical import (
    LogicalNode,
    Scan,
    SourceProperties,
    Subquery,
    TimeWindow,
    Unnest,
    WindowKind,
    walk,
)
from headrace.analyzer.properties import source_properties
from headrace.analyzer.scope import Scope
from headrace.catalog.objects import Relation, RelationKind, Store
from headrace.core.errors import Span, UserError
from headrace.core.names import Identifier
from headrace.core.schema import Column
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT, Array
from headrace.sql.ast import Properties, duration_text, length_span, properties_of, span_of
from headrace.sql.ast import TimeWindow as WindowNode

WINDOW_PANES_MAX = 1000
"""Windows that one row may be in: each is a copy of the row, and a column of Spark's plan."""


def is_snapshot(node: LogicalNode) -> bool:
    """True when nothing under `node` is unbounded: all relations are materialized views."""
    return all(
        scan.relation.kind is RelationKind.MATERIALIZED_VIEW for scan in walk(node) if isinstance(scan, Scan)
    )


def bind_source(
    node: exp.Expr,
    context: BindingContext,
    subquery: Callable[[exp.Expr], LogicalNode],
    *,
    left: LogicalNode | None = None,
) -> LogicalNode:
    """One source. `left` is what UNNEST expands; `subquery` binds a nested query.

    Raises UserError 3D020, 3D008 and 0A000 at the source.
    """
    if isinstance(node, WindowNode):
        return _window(node, context)
    if isinstance(node, exp.Table):
        alias = node.alias_or_name
        return _scan(node, alias, properties_of(node), context)
    if isinstance(node, exp.Subquery):
        if not node.alias:
            raise UserError(
                SqlState.SYNTAX_ERROR,
                "a subquery in FROM needs a name: (SELECT …) AS name",
                span=span_of(node),
            )
        return Subquery(subquery(node.this), node.alias, span_of(node))
    if isinstance(node, exp.Unnest) and left is not None:
        return _unnest(node, left)
    raise UserError(
        SqlState.FEATURE_NOT_SUPPORTED,
        f"{type(node).__name__.upper()} is not supported here in FROM",
        hint="Write FROM relation CROSS JOIN UNNEST(array) AS t(element)."
        if isinstance(node, exp.Unnest)
        else None,
        span=span_of(node),
    )


def _scan(node: exp.Table, alias: str, given: Properties, context: BindingContext) -> Scan:
    span = _table_span(node)
    parts = [Identifier(part.name, span_of(part)) for part in node.parts]
    relation = resolve_relation(
        parts,
        catalog=context.catalog,
        database=context.session.database,
        schema=context.session.schema,
        span=span,
    )
    store = context.catalog.store(relation.store) if relation.store is not None else None
    properties = _properties(relation, store, given, context, span)
    return Scan(relation, alias, properties, store.type.lower() if store is not None else "", span)


def _table_span(node: exp.Table) -> Span | None:
    spans = [span for span in map(span_of, node.parts) if span is not None]
    return Span(spans[0].start, spans[-1].end, spans[0].line, spans[0].column) if spans else None


def _properties(
    relation: Relation, store: Store | None, given: Properties, context: BindingContext, span: Span | None
) -> SourceProperties:
    if relation.kind is RelationKind.MATERIALIZED_VIEW:
        if given:
            raise UserError(
                SqlState.INVALID_PARAMETER,
                "a materialized view takes no source properties",
                span=given.span(next(iter(given))),
            )
        return SourceProperties()
    if relation.kind is RelationKind.TABLE:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"the TABLE {relation.name} cannot be read by a query yet",
            hint="Read a STREAM, a CHANGELOG or a MATERIALIZED VIEW.",
            span=span,
        )
    connector = (
        context.connectors(store.type) if store is not None and context.connectors is not None else None
    )
    if connector is not None and not connector.capabilities.streaming_source:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"stores of type {connector.type.upper()} cannot be read continuously (streaming_source)",
            span=span,
        )
    return source_properties(relation, given, connector)


def _window(node: WindowNode, context: BindingContext) -> TimeWindow:
    table = node.this
    span = _table_span(table)
    scan = _scan(table, node.alias or table.name, properties_of(node), context)
    if node.kind not in WindowKind.__members__:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"{node.kind} is not supported yet",
            hint="Use TUMBLE or HOP.",
            span=span,
        )
    size, advance = node.size_ms, node.advance_ms or node.size_ms
    if advance > size:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"expected an ADVANCE BY of at most the SIZE of {duration_text(size)}, found {duration_text(advance)}",
            hint="Rows between two windows would be in none of them: filter them with WHERE, and use TUMBLE.",
            span=length_span(node),
        )
    panes = -(-size // advance)
    if panes > WINDOW_PANES_MAX:
        raise UserError(
            SqlState.CONFIGURATION_LIMIT_EXCEEDED,
            f"every row would be in {panes} windows, expected {WINDOW_PANES_MAX} at most",
            hint=f"ADVANCE BY {duration_text(_least_advance(size))} or more, or a smaller SIZE.",
            span=length_span(node),
        )
    return TimeWindow(scan, WindowKind[node.kind], size, advance, span)


def _least_advance(size_ms: int) -> int:
    """In whole seconds where that is more than one."""
    least = -(-size_ms // WINDOW_PANES_MAX)
    return least if least <= 1000 else -(-least // 1000) * 1000


def _unnest(node: exp.Unnest, left: LogicalNode) -> Unnest:
    span = span_of(node)
    if len(node.expressions) != 1:
        raise UserError(SqlState.FEATURE_NOT_SUPPORTED, "UNNEST takes one array", span=span)
    array = ExpressionBinder(Scope(left.sources)).bind(node.expressions[0])
    if not isinstance(array.type, Array):
        raise UserError(
            SqlState.DATATYPE_MISMATCH, f"UNNEST takes an ARRAY, found {array.type}", span=array.span or span
        )
    alias = node.args.get("alias")
    names = [column.name for column in alias.columns] if alias is not None else []
    offset = node.args.get("offset")
    if isinstance(offset, exp.Identifier):
        names.append(offset.name)
    expected = 2 if offset is not None else 1
    if len(names) != expected:
        raise UserError(
            SqlState.SYNTAX_ERROR,
            f"UNNEST needs names for {expected} column{'s' if expected > 1 else ''}, found {len(names)}",
            hint="Write UNNEST(array) AS t(element), or UNNEST(array) WITH ORDINALITY AS t(element, position).",
            span=span,
        )
    ordinality = Column(names[1], BIGINT, nullable=False) if offset is not None else None
    name = alias.name if alias is not None else "unnest"
    return Unnest(left, array, name or "unnest", Column(names[0], array.type.element), ordinality)
