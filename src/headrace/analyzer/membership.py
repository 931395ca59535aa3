"""`x IN (SELECT …)`, `EXISTS (SELECT …)` and their negations, as conditions of WHERE: semi and anti joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from headrace.analyzer.coercion import same_type
from headrace.analyzer.expressions import (
    Call,
    ColumnReference,
    Expression,
    references,
    transform,
)
from headrace.analyzer.functions import OPERATORS_BY_NAME
from headrace.analyzer.invocation import call, conjunction, equality
from headrace.analyzer.logical import (
    Item,
    JoinKind,
    LogicalNode,
    Project,
    RegularJoin,
    SnapshotJoin,
    Subquery,
)
from headrace.analyzer.over import ONE
from headrace.analyzer.sources import is_snapshot, refuse_tables
from headrace.core.errors import Span, UserError
from headrace.core.sqlstate import SqlState
from headrace.sql.ast import span_of


@dataclass(frozen=True)
class Membership:
    """A condition on a subquery: the query, its negation, and the value that IN looks for (None: EXISTS)."""

    query: exp.Expr
    negated: bool
    operand: exp.Expr | None
    span: Span | None


def split(condition: exp.Expr) -> tuple[list[exp.Expr], list[Membership]]:
    """Return the operands of the outermost ANDs: ordinary conditions, and conditions with a subquery."""
    plain: list[exp.Expr] = []
    memberships: list[Membership] = []
    left = [condition]
    while left:
        node = left.pop()
        bare = node.unnest()
        if isinstance(bare, exp.And):
            left.extend((bare.expression, bare.this))
            continue
        negated = isinstance(bare, exp.Not)
        inner = bare.this.unnest() if negated else bare
        query = inner.this if isinstance(inner, exp.Exists) else inner.args.get("query")
        if query is None or not isinstance(inner, exp.Exists | exp.In):
            plain.append(node)
        else:
            operand = inner.this if isinstance(inner, exp.In) else None
            memberships.append(Membership(query.this, negated, operand, span_of(bare)))
    return plain, memberships


@dataclass(frozen=True)
class Asked:
    """The bound query of a `Membership`: its sources, the operands of IN, and the correlated conditions."""

    rows: LogicalNode
    value: Expression | None
    outside: Sequence[Expression]


def joined(
    left: LogicalNode, member: Membership, operand: Expression | None, inner: Asked, name: str
) -> LogicalNode:
    """Return the rows of `left` for which the condition is true; `name` is the alias of the subquery's rows.

    Raises UserError 42804 for types that cannot be compared, 0A000 for a NOT IN over values that may be NULL.
    """
    right, keys, rest = _right(inner, operand, name, member.span)
    kind = JoinKind.ANTI if member.negated else JoinKind.SEMI
    unknown = member.negated and operand is not None and any(side.nullable for side in keys[0])
    views = [is_snapshot(side) for side in (left, right)]
    if all(views):
        conditions: list[Expression] = [equality(*pair) for pair in keys]
        if unknown:
            conditions[0] = _equal_or_unknown(*keys[0])
        conditions.extend(rest)
        return SnapshotJoin(left, right, conjunction(conditions) if conditions else None, kind)
    if any(views):
        refuse_tables(right)
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "a continuous query does not support a subquery without a source",
            hint="Write x IN (value, …).",
            span=member.span,
        )
    if unknown:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "NOT IN requires that neither side can be NULL: a NULL in the subquery would exclude every row",
            hint="Write NOT EXISTS (SELECT 1 FROM … AS b WHERE b.y = a.x).",
            span=member.span,
        )
    left_keys, right_keys = tuple(ours for ours, _ in keys), tuple(theirs for _, theirs in keys)
    return RegularJoin(left, right, left_keys, right_keys, kind, conjunction(rest) if rest else None)


def _right(
    inner_query: Asked, operand: Expression | None, name: str, span: Span | None
) -> tuple[Subquery, list[tuple[Expression, Expression]], list[Expression]]:
    """Return the subquery's rows with the compared columns, the pairs of columns that must be equal, and the remaining condition."""
    items: dict[Expression, Item] = {}
    inner = {source.alias for source in inner_query.rows.sources}

    def column(expression: Expression) -> Expression:
        item = items.setdefault(expression, Item(f"column_{len(items) + 1}", expression))
        return ColumnReference(
            source=name,
            column=item.name,
            type=expression.type,
            nullable=expression.nullable,
            span=expression.span,
        )

    def moved(expression: Expression) -> Expression:
        own = isinstance(expression, ColumnReference) and expression.source in inner
        return column(expression) if own else expression

    pairs = [(operand, inner_query.value)] if operand is not None and inner_query.value is not None else []
    sides = [(condition, _sides(condition, inner)) for condition in inner_query.outside]
    keys = []
    for ours, theirs in [*pairs, *(pair for _, pair in sides if pair is not None)]:
        one, other = same_type(ours, theirs, span=ours.span)
        keys.append((one, column(other)))
    rest = [transform(condition, moved) for condition, pair in sides if pair is None]
    shown = tuple(items.values()) or (Item("one", ONE),)
    return Subquery(Project(inner_query.rows, shown), name, span), keys, rest


def _sides(condition: Expression, inner: set[str]) -> tuple[Expression, Expression] | None:
    """Return the outer and the inner operand of an equality between them."""
    if not isinstance(condition, Call) or condition.function.name != "=":
        return None
    for ours, theirs in (condition.arguments, condition.arguments[::-1]):
        outer_read = {reference.source for reference in references(ours)}
        inner_read = {reference.source for reference in references(theirs)}
        if outer_read and inner_read and not outer_read & inner and inner_read <= inner:
            return ours, theirs
    return None


def _equal_or_unknown(left: Expression, right: Expression) -> Expression:
    """Return that two values are equal or one is NULL: a row for which this holds makes NOT IN false."""
    result: Expression = equality(left, right)
    for side in (left, right):
        unknown = call(OPERATORS_BY_NAME["IS NULL"], [side], span=side.span)
        result = call(OPERATORS_BY_NAME["OR"], [result, unknown], span=side.span)
    return result
