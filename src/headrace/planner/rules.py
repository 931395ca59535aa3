"""Rewrite rules of the logical plan: for constructs that Spark cannot run as written, and to save state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from headrace.analyzer.expressions import (
    Call,
    Cast,
    ColumnReference,
    Expression,
    conjuncts,
    references,
    unrepeatable,
)
from headrace.analyzer.expressions import transform as transform_expression
from headrace.analyzer.functions import CATALOGUE
from headrace.analyzer.functions.array_aggregates import ARRAY_AGGREGATES
from headrace.analyzer.invocation import conjunction
from headrace.analyzer.logical import (
    Aggregate,
    Filter,
    Item,
    LogicalNode,
    LookupJoin,
    Subquery,
    TemporalJoin,
    Union,
    transform,
)
from headrace.analyzer.plan import LogicalPlan
from headrace.core.internal_columns import PREFIX
from headrace.core.types import BIGINT, INTEGER, Array
from headrace.planner.window_extremes import window_extremes

Rule = Callable[[LogicalNode], LogicalNode]
_OF_SETS = ("COUNT", "SUM", "AVG")
"""Aggregates with DISTINCT that are functions of the set of their values."""


def distinct_as_sets(node: Aggregate) -> Aggregate:
    """Return aggregates with DISTINCT as functions of the set of their values: Spark refuses DISTINCT aggregates on streams."""
    items = tuple(
        replace(item, expression=transform_expression(item.expression, _of_set)) for item in node.items
    )
    having = transform_expression(node.having, _of_set) if node.having is not None else None
    return replace(node, items=items, having=having)


def _of_set(expression: Expression) -> Expression:
    if not (isinstance(expression, Call) and expression.distinct):
        return expression
    name = expression.function.name
    if name in ("MIN", "MAX"):
        return replace(expression, distinct=False)
    if name not in _OF_SETS:
        return expression
    (value,) = expression.arguments
    values = Call(
        function=CATALOGUE["COLLECT_SET"],
        arguments=(value,),
        type=Array(value.type),
        nullable=False,
        span=expression.span,
    )
    if name != "COUNT":
        return replace(expression, function=ARRAY_AGGREGATES[name], arguments=(values,), distinct=False)
    size = Call(
        function=CATALOGUE["CARDINALITY"],
        arguments=(values,),
        type=INTEGER,
        nullable=False,
        span=expression.span,
    )
    return Cast(operand=size, type=BIGINT, nullable=False, span=expression.span)


def distinct_union_as_groups(node: LogicalNode) -> LogicalNode:
    """Return UNION → the groups of UNION ALL by all columns."""
    if not (isinstance(node, Union) and node.distinct):
        return node
    rows = Subquery(replace(node, distinct=False), f"{PREFIX}union")
    items = tuple(
        Item(
            column.name,
            ColumnReference(
                source=rows.alias, column=column.name, type=column.type, nullable=column.nullable
            ),
        )
        for column in rows.schema.columns
    )
    return Aggregate(rows, tuple(item.expression for item in items), items)


def filter_before_join(node: LogicalNode) -> LogicalNode:
    """Return conditions on the stream alone move below the join, so that rows that would be dropped are not kept waiting, nor looked up."""
    if not (isinstance(node, Filter) and isinstance(node.input, TemporalJoin | LookupJoin)):
        return node
    join = node.input
    stream = {source.alias for source in join.left.sources}
    below: list[Expression] = []
    above: list[Expression] = []
    for part in conjuncts(node.condition):
        names = {reference.source for reference in references(part)}
        (below if names <= stream and unrepeatable(part) is None else above).append(part)
    if not below:
        return node
    left = filter_before_join(Filter(join.left, conjunction(below)))
    moved = replace(join, left=left)
    return Filter(moved, conjunction(above)) if above else moved


RULES: tuple[Rule, ...] = (distinct_union_as_groups, filter_before_join, window_extremes)


def rewritten(logical: LogicalPlan) -> LogicalPlan:
    """Return the plan after every rule was applied to every node, lowest first."""
    root = logical.root
    for rule in RULES:
        root = transform(root, rule)
    return replace(logical, root=root)
