"""INSERT INTO: assignment of the output columns to the columns of the sink."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.analyzer.coercion import as_type
from headrace.analyzer.expressions import ColumnReference, Literal
from headrace.analyzer.logical import Aggregate, Item, Limit, LogicalNode, Project, Sort, Subquery
from headrace.analyzer.plan import LogicalPlan
from headrace.analyzer.typing import assignable
from headrace.catalog.objects import Relation
from headrace.core.errors import Span, UserError
from headrace.core.internal_columns import PREFIX
from headrace.core.names import Identifier, printed
from headrace.core.schema import Column, Schema
from headrace.core.sqlstate import SqlState
from headrace.core.suggestions import name_suggestion
from headrace.core.wording import counted, plural

_ROWS = f"{PREFIX}rows"
"""Alias of the rows of a query without a select list of its own, such as UNION ALL."""


def output_items(root: LogicalNode) -> tuple[Item, ...]:
    """Return the output columns of a plan with the expressions that compute them."""
    while isinstance(root, Sort | Limit):
        root = root.input
    if isinstance(root, Project | Aggregate):
        return root.items
    (source,) = Subquery(root, _ROWS).sources
    return tuple(
        Item(
            column.name,
            ColumnReference(source=_ROWS, column=column.name, type=column.type, nullable=column.nullable),
        )
        for column in source.schema.columns
    )


def matched(logical: LogicalPlan, target: Schema) -> LogicalPlan:
    """Return the plan with exactly the columns of `target`, cast to its types.

    Columns match by name when every output name is a column of `target`, else by position; nullable columns that are not given
    become NULL. Raises UserError 42804 (count, type, a missing NOT NULL column).
    """
    items = output_items(logical.root)
    names = {item.name for item in items}
    if names <= set(target.names):
        chosen = {item.name: item for item in items}
    elif len(items) == len(target.columns):
        chosen = {column.name: item for column, item in zip(target.columns, items, strict=True)}
    else:
        strange = sorted(names - set(target.names))
        raise UserError(
            SqlState.DATATYPE_MISMATCH,
            f"the query returns {counted(len(items), 'column')}, the sink has {len(target.columns)}; the sink has no "
            f"{plural('column', len(strange))} {', '.join(map(printed, strange))}",
            hint=f"Select {', '.join(map(printed, target.names))}.",
            span=logical.span,
        )
    result = tuple(_assigned(column, chosen.get(column.name), logical.span) for column in target.columns)
    root = logical.root
    if isinstance(root, Project | Aggregate):
        return replace(logical, root=replace(root, items=result))
    return replace(logical, root=Project(Subquery(root, _ROWS), result))


def check_listed(columns: Sequence[Identifier], relation: Relation) -> None:
    """Raise UserError if an INSERT lists a column that the relation does not have (42703), or a column twice (42601)."""
    names = relation.schema.names
    for number, column in enumerate(columns):
        if column.name not in names:
            raise UserError(
                SqlState.UNDEFINED_COLUMN,
                f"{relation.name} has no column {printed(column.name)}",
                hint=name_suggestion(
                    column.name, names, otherwise=f"It has {', '.join(map(printed, names))}."
                ),
                span=column.span,
            )
        if any(column.name == other.name for other in columns[:number]):
            raise UserError(
                SqlState.SYNTAX_ERROR,
                f"the column {printed(column.name)} is listed twice",
                hint="List each column once.",
                span=column.span,
            )


def unmatched(logical: LogicalPlan) -> LogicalPlan:
    """Return a plan without the subquery that `matched` has added, if it changes no column."""
    match logical.root:
        case Project(input=Subquery(input=rows, alias=alias), items=items) if alias == _ROWS:
            return replace(logical, root=rows) if items == output_items(rows) else logical
    return logical


def left_out(logical: LogicalPlan, target: Schema) -> tuple[str, ...]:
    """Return the columns of `target` that `matched` makes NULL."""
    names = {item.name for item in output_items(logical.root)}
    return tuple(name for name in target.names if name not in names) if names <= set(target.names) else ()


def _assigned(column: Column, item: Item | None, span: Span | None) -> Item:
    if item is None:
        if not column.nullable:
            raise UserError(
                SqlState.DATATYPE_MISMATCH,
                f"the column {printed(column.name)} of the sink is NOT NULL, but the query does not return it",
                hint=f"Add … AS {printed(column.name)} to the SELECT list.",
                span=span,
            )
        return Item(column.name, Literal(type=column.type, text=None))
    if not assignable(item.expression.type, column.type):
        raise UserError(
            SqlState.DATATYPE_MISMATCH,
            f"the column {printed(column.name)} of the sink is {column.type}, but the query returns "
            f"{item.expression.type}",
            hint=f"Use CAST(… AS {column.type}).",
            span=item.expression.span or span,
        )
    return Item(column.name, as_type(item.expression, column.type))
