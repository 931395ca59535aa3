"""Subqueries as values of a SELECT: the joins that compute them, over its rows, or over its groups where they are read beside these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from headrace.analyzer.expressions import (
    Call,
    ColumnReference,
    Expression,
    Literal,
    conjuncts,
    references,
    with_operands,
)
from headrace.analyzer.grouping_sets import GROUPING
from headrace.analyzer.invocation import conjunction
from headrace.analyzer.logical import (
    Aggregate,
    Filter,
    Item,
    LogicalNode,
    Project,
    RegularJoin,
    SnapshotJoin,
    Subquery,
)
from headrace.analyzer.membership import Columns
from headrace.core.errors import InternalError
from headrace.core.internal_columns import PREFIX

SCALAR = f"{PREFIX}value_"
"""How the alias of a subquery begins that is a value."""
ASKED = f"{PREFIX}asked_"
"""How the alias of a subquery of IN and EXISTS begins."""
_GROUPS = f"{PREFIX}groups"


@dataclass(frozen=True)
class Value:
    """A subquery as a value: `join` puts its rows beside those of the SELECT, whose `expression` reads them.

    `operands` are the expressions that IN looks for.
    """

    join: Callable[[LogicalNode], LogicalNode]
    expression: Expression
    operands: Sequence[Expression] = ()


def reads_value(expression: Expression) -> bool:
    """True if an expression reads a subquery."""
    return any(read.source.startswith((SCALAR, ASKED)) for read in references(expression))


def divided(values: Sequence[Value], readers: Sequence[Expression]) -> tuple[list[Value], list[Value]]:
    """Return the values that expressions read, with those that these read in turn, and the others."""
    reads = {read.source for part in readers for read in references(part)}
    first: list[Value] = []
    others: list[Value] = []
    for value in reversed(values):
        if reads.isdisjoint(read.source for read in references(value.expression)):
            others.append(value)
        else:
            reads.update(read.source for part in value.operands for read in references(part))
            first.append(value)
    return first[::-1], others[::-1]


def over_groups(
    groups: Aggregate,
    values: Sequence[Value],
    order: Sequence[Expression],
    of_sets: Callable[[Expression], Expression],
) -> tuple[Project, Callable[[Expression], Expression]]:
    """Return groups whose SELECT list or HAVING reads `values`, as a SELECT over a subquery that has the groups.

    The second result makes of an expression of the text, such as those of `order`, one over the subquery. `of_sets` makes of it one
    over the rows of GROUPING SETS, as the SELECT list of `groups` is already.
    """
    columns = Columns(_GROUPS, set(), PREFIX)

    def changed(expression: Expression) -> Expression:
        if isinstance(expression, Literal):
            return expression
        if expression in groups.group_by:
            return columns.of(expression)
        if isinstance(expression, ColumnReference):
            return expression if reads_value(expression) else columns.of(expression)
        if isinstance(expression, Call) and (
            expression.function.aggregate or expression.function is GROUPING
        ):
            return columns.of(expression)
        return with_operands(expression, changed)

    def over(expression: Expression) -> Expression:
        return changed(of_sets(expression))

    def regrouped(node: LogicalNode) -> LogicalNode:
        """Return joins of the rows with values as joins of the groups. The groups come last, when their columns are known."""
        if node is groups.input:
            inner = replace(groups, items=columns.items, having=conjunction(own) if own else None)
            return Subquery(inner, _GROUPS)
        if not isinstance(node, RegularJoin | SnapshotJoin):
            raise InternalError(f"a value is joined by a {type(node).__name__}")
        condition = over(node.condition) if node.condition is not None else None
        if isinstance(node, RegularJoin):
            node = replace(node, left_keys=tuple(map(over, node.left_keys)))
        return replace(node, condition=condition, left=regrouped(node.left))

    for key in groups.group_by:
        columns.of(key)
    conditions = conjuncts(groups.having) if groups.having is not None else []
    own = [part for part in conditions if not reads_value(part)]
    later = [changed(part) for part in conditions if reads_value(part)]
    items = tuple(Item(item.name, changed(item.expression)) for item in groups.items)
    for key in order:
        over(key)
    rows = groups.input
    for value in values:
        rows = value.join(rows)
    rows = regrouped(rows)
    return Project(Filter(rows, conjunction(later)) if later else rows, items), over
