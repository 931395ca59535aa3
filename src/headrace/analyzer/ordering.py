"""ORDER BY, LIMIT and OFFSET, and columns by position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from headrace.analyzer.expressions import ColumnReference, Expression, SortKey
from headrace.analyzer.logical import (
    Aggregate,
    Item,
    Limit,
    LogicalNode,
    Project,
    Sort,
    Subquery,
    TopN,
    transform,
)
from headrace.analyzer.scope import Scope
from headrace.analyzer.sources import is_snapshot
from headrace.core.errors import Span, UserError
from headrace.core.schema import Schema
from headrace.core.sqlstate import SqlState
from headrace.sql.ast import span_of

_ROWS_MAX = 2**63 - 1


def ordered(
    node: exp.Expr, output: LogicalNode, fallback: Callable[[exp.Expr], Expression | None]
) -> LogicalNode:
    """Return ORDER BY, LIMIT and OFFSET over a query; `fallback` binds a key that does not name an output column.

    In a continuous query, ORDER BY with LIMIT is a Top-N over all rows.
    """
    order = node.args.get("order")
    if order is not None:
        keys = tuple(_sort_key(key, output.schema, fallback) for key in order.expressions)
        output = Sort(output, keys)
    if node.args.get("limit") is not None or node.args.get("offset") is not None:
        count, skipped = counted_rows(node)
        if isinstance(output, Sort) and count and not is_snapshot(output):
            return _first_rows(output.input, output.keys, count, skipped)
        output = Limit(output, count, skipped)
    return output


def counted_rows(node: exp.Expr) -> tuple[int | None, int]:
    """Return the numbers of LIMIT (None: without it) and OFFSET."""
    limit, offset = node.args.get("limit"), node.args.get("offset")
    return (
        _count(limit, "LIMIT") if limit is not None else None,
        _count(offset, "OFFSET") if offset is not None else 0,
    )


def sort_keys(
    node: exp.Expr, items: Sequence[Item], fallback: Callable[[exp.Expr], Expression | None]
) -> tuple[SortKey, ...]:
    """Return the keys of ORDER BY of a SELECT as expressions of its sources. Arguments as of `ordered`."""
    order = node.args.get("order")
    schema = Schema(tuple(item.column for item in items))
    keys = [_sort_key(key, schema, fallback) for key in order.expressions] if order is not None else []
    named = {item.name: item.expression for item in items}

    def of_sources(part: Expression) -> Expression:
        return named[part.column] if isinstance(part, ColumnReference) and not part.source else part

    return tuple(replace(key, expression=of_sources(key.expression)) for key in keys)


def in_order_of_arrival(root: LogicalNode, *, has_end: bool) -> LogicalNode:
    """Return a continuous query whose LIMITs without ORDER BY are Top-Ns over all rows: the first that come.

    One that `has_end`, an interactive SELECT, keeps the LIMIT at its end, which ends it.
    """

    def change(node: LogicalNode) -> LogicalNode:
        if (
            not isinstance(node, Limit)
            or isinstance(node.input, Sort)
            or is_snapshot(node.input)
            or not node.count
        ):
            return node
        return _first_rows(node.input, (), node.count, node.offset)

    if not has_end or not isinstance(root, Limit):
        return transform(root, change)
    below = transform(root.input, change)
    if not root.offset or not root.count:
        return replace(root, input=below)
    return Limit(_first_rows(below, (), root.count, root.offset), root.count)


def _first_rows(query: LogicalNode, keys: Sequence[SortKey], count: int, skipped: int) -> Project:
    """Return the rows of a query at the places `skipped` + 1 to `skipped` + `count` by `keys`, or without them as they come.

    A key that is no output column becomes one of a subquery.
    """
    shown = query.schema.names
    names = list(shown)
    columns: list[str] = []
    for key in keys:
        expression = key.expression
        if isinstance(expression, ColumnReference) and not expression.source:
            columns.append(expression.column)
            continue
        columns.append(next(name for n in range(len(names) + 1) if (name := f"key_{n + 1}") not in names))
        names.append(columns[-1])
        if isinstance(query, Project | Aggregate):
            query = replace(query, items=(*query.items, Item(columns[-1], expression)))
    rows = Subquery(query, "ordered")
    scope = Scope(rows.sources)

    def column(name: str, span: Span | None) -> Expression:
        return scope.column(name, alias=rows.alias, span=span)

    order = tuple(
        replace(key, expression=column(name, key.expression.span))
        for key, name in zip(keys, columns, strict=True)
    )
    top = TopN(
        rows, (), order, skipped + count, skipped=skipped, span=keys[0].expression.span if keys else None
    )
    return Project(top, tuple(Item(name, column(name, None)) for name in shown))


def position(node: exp.Expr, columns: int, clause: str) -> int:
    """Return the index of the column that a number in GROUP BY or ORDER BY means; raises UserError 42601."""
    text = str(node.this)
    if not text.isdigit() or not 1 <= int(text) <= columns:
        raise UserError(
            SqlState.SYNTAX_ERROR,
            f"{clause} position must be 1 to {columns}, found {text}",
            span=span_of(node),
        )
    return int(text) - 1


def output_column(schema: Schema, name: str, span: Span | None) -> ColumnReference:
    """Return an output column, as the keys of ORDER BY name it."""
    column = next(column for column in schema.columns if column.name == name)
    return ColumnReference(source="", column=name, type=column.type, nullable=column.nullable, span=span)


def _count(clause: exp.Expr, what: str) -> int:
    literal = clause.args.get("expression")
    if not isinstance(literal, exp.Literal) or literal.is_string or not str(literal.this).isdecimal():
        raise UserError(SqlState.SYNTAX_ERROR, f"{what} requires a whole number", span=span_of(clause))
    if int(str(literal.this)) > _ROWS_MAX:
        raise UserError(
            SqlState.CONFIGURATION_LIMIT_EXCEEDED, f"{what} must be at most {_ROWS_MAX}", span=span_of(clause)
        )
    return int(str(literal.this))


def _sort_key(
    ordered: exp.Expr, schema: Schema, fallback: Callable[[exp.Expr], Expression | None]
) -> SortKey:
    node = ordered.this
    span = span_of(node)
    expression: Expression | None = None
    if isinstance(node, exp.Literal) and not node.is_string:
        name = schema.names[position(node, len(schema.columns), "ORDER BY")]
        expression = output_column(schema, name, span)
    elif isinstance(node, exp.Column) and len(node.parts) == 1 and schema.column(node.name) is not None:
        expression = output_column(schema, node.name, span)
    else:
        expression = fallback(node)
    if expression is None:
        raise UserError(
            SqlState.UNDEFINED_COLUMN,
            "ORDER BY of a UNION or of SELECT DISTINCT requires output columns",
            hint="Select it AS a column too, and order by the name of that column.",
            span=span,
        )
    return SortKey(expression, bool(ordered.args.get("desc")), ordered.args.get("nulls_first"))
