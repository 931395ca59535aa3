"""UNION, INTERSECT and EXCEPT: columns by position, at types that both sides convert to.

In a continuous query, INTERSECT and EXCEPT are groups of both sides' rows by all columns, so that equal NULLs meet and rows that are
taken back are followed.
"""

from __future__ import annotations

from sqlglot import exp

from headrace.analyzer.coercion import as_type
from headrace.analyzer.expressions import Literal
from headrace.analyzer.functions import CATALOGUE
from headrace.analyzer.invocation import call, conjunction, equality
from headrace.analyzer.logical import (
    Aggregate,
    Item,
    LogicalNode,
    Project,
    SetOperation,
    SetOperator,
    Subquery,
    Union,
)
from headrace.analyzer.scope import Scope
from headrace.analyzer.sources import is_snapshot
from headrace.analyzer.typing import common
from headrace.core.errors import UserError
from headrace.core.names import printed
from headrace.core.sqlstate import SqlState
from headrace.core.types import INTEGER, DataType
from headrace.sql.ast import span_of


def set_operation(node: exp.SetOperation, left: LogicalNode, right: LogicalNode) -> LogicalNode:
    """Return both branches as one node; raises UserError 42804 for columns that do not match."""
    word = type(node).__name__.upper()
    kinds = _types(word, left, right, node.expression)
    first, last = _as_types(left, left, kinds, "u0"), _as_types(right, left, kinds, "u1")
    distinct = bool(node.args.get("distinct"))
    if not isinstance(node, exp.Union):
        operator, span = SetOperator[word], span_of(node.expression)
        if is_snapshot(first) or is_snapshot(last):
            return SetOperation(first, last, operator, distinct, span)
        if not distinct:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"{word} ALL is supported between materialized views only",
                hint=f"Write {word}, which returns each row once.",
                span=span,
            )
        return _of_groups(first, last, operator)
    if isinstance(first, Union) and first.distinct == distinct:
        return Union((*first.branches, last), distinct=distinct)
    return Union((first, last), distinct=distinct)


def _of_groups(left: LogicalNode, right: LogicalNode, operator: SetOperator) -> LogicalNode:
    """Return the rows of `left` that `right` has, or lacks, each once: the groups of both by all columns."""
    names = left.schema.names
    side = next(name for n in range(1, len(names) + 2) if (name := f"side_{n}") not in names)

    def marked(branch: LogicalNode, number: int) -> Project:
        scope = Scope(Subquery(branch, f"u{number}").sources)
        items = [
            Item(name, scope.column(column, alias=None, span=None))
            for name, column in zip(names, branch.schema.names, strict=True)
        ]
        mark = Literal(type=INTEGER, text=str(number), nullable=False)
        return Project(Subquery(branch, f"u{number}"), (*items, Item(side, mark)))

    rows = Subquery(Union((marked(left, 0), marked(right, 1))), "both")
    scope = Scope(rows.sources)
    keys = tuple(scope.column(name, alias=rows.alias, span=None) for name in names)
    least, most = (
        call(CATALOGUE[name], [scope.column(side, alias=rows.alias, span=None)], span=None)
        for name in ("MIN", "MAX")
    )
    zero, one = (Literal(type=INTEGER, text=text, nullable=False) for text in "01")
    of_right = one if operator is SetOperator.INTERSECT else zero
    having = conjunction([equality(least, zero), equality(most, of_right)])
    return Aggregate(rows, keys, tuple(map(Item, names, keys)), having)


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
