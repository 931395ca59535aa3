"""Rows of constants, VALUES and SELECTs without FROM, beside a stream or a changelog: an array that each row is joined with."""

from __future__ import annotations

from headrace.analyzer.coercion import as_type
from headrace.analyzer.expressions import ColumnReference, Expression, transform
from headrace.analyzer.functions import CATALOGUE
from headrace.analyzer.functions.composed import ROW
from headrace.analyzer.invocation import call
from headrace.analyzer.logical import LogicalNode, Project, SingleRow, Subquery, Union, Unnest

Rows = list[tuple[Expression, ...]]


def unnested(left: LogicalNode, right: LogicalNode) -> Unnest | None:
    """Return each row of `left` with each row of constants of the subquery `right`; None if `right` has other rows."""
    rows = _rows(right)
    if not isinstance(right, Subquery) or rows is None:
        return None
    columns = right.schema.columns
    cells = [
        [as_type(value, column.type) for value, column in zip(row, columns, strict=True)] for row in rows
    ]
    elements = [row[0] if len(row) == 1 else call(ROW, row, span=right.span) for row in cells]
    return Unnest(left, call(CATALOGUE["ARRAY"], elements, span=right.span), right.alias, columns)


def _rows(node: LogicalNode) -> Rows | None:
    """Return the values of a query that reads no relation, row by row; None if it is not just rows."""
    match node:
        case Project(input=SingleRow(), distinct=False):
            return [tuple(item.expression for item in node.items)]
        case Union(distinct=False):
            branches = [_rows(branch) for branch in node.branches]
            return (
                None
                if None in branches
                else [row for branch in branches if branch is not None for row in branch]
            )
        case Subquery():
            return _rows(node.input)
        case Project(input=Subquery() as below, distinct=False):
            rows = _rows(below)
            return None if rows is None else [_computed(node, below, row) for row in rows]
    return None


def _computed(node: Project, below: Subquery, row: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """Return the columns of a SELECT over rows of constants as expressions of constants."""
    values = dict(zip(below.schema.names, row, strict=True))

    def value(expression: Expression) -> Expression:
        named = isinstance(expression, ColumnReference) and expression.source == below.alias
        return values[expression.column] if named and isinstance(expression, ColumnReference) else expression

    return tuple(transform(item.expression, value) for item in node.items)
