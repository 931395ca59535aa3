"""ORDER BY, LIMIT and OFFSET, and columns by position."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from headrace.analyzer.expressions import ColumnReference, Expression, SortKey
from headrace.analyzer.logical import Limit, LogicalNode, Sort
from headrace.core.errors import Span, UserError
from headrace.core.schema import Schema
from headrace.core.sqlstate import SqlState
from headrace.sql.ast import span_of

_ROWS_MAX = 2**63 - 1


def ordered(
    node: exp.Expr, output: LogicalNode, fallback: Callable[[exp.Expr], Expression | None]
) -> LogicalNode:
    """Return ORDER BY, LIMIT and OFFSET over a query; `fallback` binds a key that does not name an output column."""
    order = node.args.get("order")
    if order is not None:
        keys = tuple(_sort_key(key, output.schema, fallback) for key in order.expressions)
        output = Sort(output, keys)
    limit, offset = node.args.get("limit"), node.args.get("offset")
    if limit is not None or offset is not None:
        count = _count(limit, "LIMIT") if limit is not None else None
        output = Limit(output, count, _count(offset, "OFFSET") if offset is not None else 0)
    return output


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
