"""UNION, INTERSECT and EXCEPT: columns by position, at types that both sides convert to.

In a continuous query, INTERSECT and EXCEPT are groups of both sides' rows by all columns, so that equal NULLs meet and rows that are
taken back are followed.
"""

from __future__ import annotations

from sqlglot import exp

from headrace.analyzer.coercion import as_type
from headrace.analyzer.expressions import Case, Expression, Literal
from headrace.analyzer.functions import CATALOGUE, OPERATORS_BY_NAME
from headrace.analyzer.functions.composed import COPIES
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
    Unnest,
)
from headrace.analyzer.scope import Scope
from headrace.analyzer.sources import is_snapshot
from headrace.analyzer.typing import common
from headrace.core.errors import UserError
from headrace.core.internal_columns import PREFIX
from headrace.core.names import printed
from headrace.core.schema import Column
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
        return _of_groups(first, last, operator) if distinct else _repeated(first, last, operator)
    if isinstance(first, Union) and first.distinct == distinct:
        return Union((*first.branches, last), distinct=distinct)
    return Union((first, last), distinct=distinct)


def _of_groups(left: LogicalNode, right: LogicalNode, operator: SetOperator) -> LogicalNode:
    """Return the rows of `left` that `right` has, or lacks, each once: the groups of both by all columns."""
    rows, side, keys = _both(left, right)
    least, most = (_aggregate(name, side) for name in ("MIN", "MAX"))
    of_right = _number(1 if operator is SetOperator.INTERSECT else 0)
    having = conjunction([equality(least, _number(0)), equality(most, of_right)])
    return Aggregate(rows, keys, tuple(map(Item, left.schema.names, keys)), having)


def _repeated(left: LogicalNode, right: LogicalNode, operator: SetOperator) -> LogicalNode:
    """Return the rows of INTERSECT ALL and EXCEPT ALL: each group as often as both sides have it, or as often as `left` has it more.

    The number of copies is followed, so that a row that `right` loses appears once more.
    """
    rows, side, keys = _both(left, right)
    of_right = _aggregate("SUM", side)
    of_left = _operator("-", _aggregate("COUNT", side), of_right)
    copies: Expression = _operator("-", of_left, of_right)
    if operator is SetOperator.INTERSECT:
        fewer = _operator("<", of_left, of_right)
        copies = Case(branches=((fewer, of_left),), otherwise=of_right, type=of_right.type)
    names = left.schema.names
    count = f"{PREFIX}copies"
    items = (*map(Item, names, keys), Item(count, copies))
    groups = Subquery(Aggregate(rows, keys, items, _operator(">", copies, _number(0))), "groups")
    scope = Scope(groups.sources)
    array = call(COPIES, [scope.column(count, alias=groups.alias, span=None)], span=None)
    repeated = Unnest(groups, array, f"{PREFIX}copy", (Column(f"{PREFIX}copy", INTEGER),))
    return Project(
        repeated,
        tuple(Item(name, scope.column(name, alias=groups.alias, span=None)) for name in names),
    )


def _both(left: LogicalNode, right: LogicalNode) -> tuple[Subquery, Expression, tuple[Expression, ...]]:
    """Return the rows of both sides, the column that is 0 in those of `left` and 1 in those of `right`, and the other columns."""
    names = left.schema.names
    side = next(name for n in range(1, len(names) + 2) if (name := f"side_{n}") not in names)

    def marked(branch: LogicalNode, number: int) -> Project:
        scope = Scope(Subquery(branch, f"u{number}").sources)
        items = [
            Item(name, scope.column(column, alias=None, span=None))
            for name, column in zip(names, branch.schema.names, strict=True)
        ]
        return Project(Subquery(branch, f"u{number}"), (*items, Item(side, _number(number))))

    rows = Subquery(Union((marked(left, 0), marked(right, 1))), "both")
    scope = Scope(rows.sources)
    keys = tuple(scope.column(name, alias=rows.alias, span=None) for name in names)
    return rows, scope.column(side, alias=rows.alias, span=None), keys


def _aggregate(name: str, side: Expression) -> Expression:
    return call(CATALOGUE[name], [side], span=None)


def _operator(name: str, left: Expression, right: Expression) -> Expression:
    return call(OPERATORS_BY_NAME[name], [left, right], span=None)


def _number(number: int) -> Literal:
    return Literal(type=INTEGER, text=str(number), nullable=False)


def _types(word: str, left: LogicalNode, right: LogicalNode, place: exp.Expr) -> list[DataType]:
    ours, theirs = left.schema.columns, right.schema.columns
    if len(ours) != len(theirs):
        raise UserError(
            SqlState.DATATYPE_MISMATCH,
            f"both sides of {word} must have the same number of columns, found {len(ours)} and {len(theirs)}",
            hint="Select CAST(NULL AS type) for a missing column.",
            span=span_of(place),
        )
    kinds = []
    for one, other in zip(ours, theirs, strict=True):
        kind = common([one.type, other.type])
        if kind is None:
            raise UserError(
                SqlState.DATATYPE_MISMATCH,
                f"the column {printed(one.name)} of {word} is {one.type} on the left side and {other.type} on the right",
                hint="Use CAST(… AS type) on one side.",
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
