"""UNION, INTERSECT and EXCEPT: columns by position, at types that both sides convert to."""

from __future__ import annotations

from sqlglot import exp

from headrace.analyzer.coercion import as_type
from headrace.analyzer.logical import Item, LogicalNode, Project, SetOperation, SetOperator, Subquery, Union
from headrace.analyzer.scope import Scope
from headrace.analyzer.typing import common
from headrace.core.errors import UserError
from headrace.core.names import printed
from headrace.core.sqlstate import SqlState
from headrace.core.types import DataType
from headrace.sql.ast import span_of


def set_operation(node: exp.SetOperation, left: LogicalNode, right: LogicalNode) -> LogicalNode:
    """Return both branches as one node; raises UserError 42804 for columns that do not match."""
    word = type(node).__name__.upper()
    kinds = _types(word, left, right, node.expression)
    first, last = _as_types(left, left, kinds, "u0"), _as_types(right, left, kinds, "u1")
    distinct = bool(node.args.get("distinct"))
    if not isinstance(node, exp.Union):
        return SetOperation(first, last, SetOperator[word], distinct, span_of(node.expression))
    if isinstance(first, Union) and first.distinct == distinct:
        return Union((*first.branches, last), distinct=distinct)
    return Union((first, last), distinct=distinct)


def _types(word: str, left: LogicalNode, right: LogicalNode, place: exp.Expr) -> list[DataType]:
    ours, theirs = left.schema.columns, right.schema.columns
    if len(ours) != len(theirs):
        raise UserError(
            SqlState.DATATYPE_MISMATCH,
            f"{word} joins {len(ours)} columns with {len(theirs)}",
            hint="Select the same number of columns on both sides; use CAST(NULL AS type) for a missing one.",
            span=span_of(place),
        )
    kinds = []
    for one, other in zip(ours, theirs, strict=True):
        kind = common([one.type, other.type])
        if kind is None:
            raise UserError(
                SqlState.DATATYPE_MISMATCH,
                f"the column {printed(one.name)} of {word} is {one.type} first and {other.type} then",
                hint="Use CAST(… AS type).",
                span=span_of(place),
            )
        kinds.append(kind)
    return kinds


def _as_types(branch: LogicalNode, names: LogicalNode, kinds: list[DataType], alias: str) -> LogicalNode:
    """Return `branch` with the types `kinds` and the names of the first branch; itself where it has them."""
    scope = Scope(Subquery(branch, alias).sources)
    columns = branch.schema.columns
    items = tuple(
        Item(name, as_type(scope.column(column.name, alias=alias, span=None), kind))
        for name, column, kind in zip(names.schema.names, columns, kinds, strict=True)
    )
    same = all(
        item.name == column.name and item.expression.type == column.type
        for item, column in zip(items, columns, strict=True)
    )
    return branch if same else Project(Subquery(branch, alias), items)
