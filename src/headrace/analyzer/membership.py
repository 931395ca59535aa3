"""`x IN (SELECT …)`, `EXISTS (SELECT …)` and their negations, as conditions of WHERE: semi and anti joins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from headrace.analyzer.coercion import same_type
from headrace.analyzer.expressions import (
    Call,
    ColumnReference,
    Expression,
    Literal,
    references,
    transform,
)
from headrace.analyzer.functions import OPERATORS_BY_NAME
from headrace.analyzer.invocation import call, conjunction, equality
from headrace.analyzer.logical import (
    Aggregate,
    Filter,
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
from headrace.core.types import BOOLEAN, INTEGER
from headrace.sql.ast import span_of

Pair = tuple[Expression, Expression]
"""What must be equal: an expression of the rows, and one of the subquery."""


@dataclass(frozen=True)
class Membership:
    """A condition on a subquery: the query, its negation, the value that IN looks for (None: EXISTS), and the identity of its node."""

    query: exp.Expr
    negated: bool
    operand: exp.Expr | None
    span: Span | None
    node: int = 0


def split(condition: exp.Expr) -> tuple[list[exp.Expr], list[Membership], list[exp.Expr]]:
    """Return the operands of the outermost ANDs: ordinary conditions, conditions on a subquery, and those that combine these by OR."""
    plain: list[exp.Expr] = []
    memberships: list[Membership] = []
    mixed: list[exp.Expr] = []
    left = [condition]
    while left:
        node = left.pop()
        bare = node.unnest()
        if isinstance(bare, exp.And):
            left.extend((bare.expression, bare.this))
            continue
        negated = isinstance(bare, exp.Not)
        member = _membership(bare.this.unnest() if negated else bare, negated)
        if member is not None:
            memberships.append(replace(member, span=span_of(bare)))
        elif any(True for _ in answerable(bare)):
            mixed.append(node)
        else:
            plain.append(node)
    return plain, memberships, mixed


def _membership(node: exp.Expr, negated: bool) -> Membership | None:
    query = node.this if isinstance(node, exp.Exists) else node.args.get("query")
    if query is None or not isinstance(node, exp.Exists | exp.In):
        return None
    operand = node.this if isinstance(node, exp.In) else None
    return Membership(query.this, negated, operand, span_of(node), id(node))


def answerable(condition: exp.Expr, negated: bool = False) -> Iterator[Membership]:
    """Yield the IN and EXISTS of a condition that AND, OR and NOT combine."""
    bare = condition.unnest()
    if isinstance(bare, exp.And | exp.Or):
        yield from answerable(bare.this, negated)
        yield from answerable(bare.expression, negated)
    elif isinstance(bare, exp.Not):
        yield from answerable(bare.this, negated=True)
    elif (member := _membership(bare, negated)) is not None:
        yield member


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

    Raises UserError 42804 for types that cannot be compared, 0A000 for a subquery without a source.
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
    condition = conjunction(rest) if rest else None
    result = _keyed(left, right, keys, kind, condition)
    return _without_unknown(result, right, keys, condition) if unknown else result


_ANSWER = "answer"


def answered(
    left: LogicalNode, member: Membership, operand: Expression | None, inner: Asked, name: str
) -> tuple[LogicalNode, Expression]:
    """Return the rows of `left` beside an answer, and the condition that the answer is yes. Arguments as of `joined`.

    An IN that is unknown counts as false, which is the same in WHERE unless it is negated.
    """
    right, keys, rest = _right(inner, operand, name, member.span)
    if rest:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "IN and EXISTS under OR compare columns of both queries by equality only",
            hint="Combine it with the other conditions by AND.",
            span=rest[0].span or member.span,
        )
    if member.negated and operand is not None and any(side.nullable for side in keys[0]):
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "NOT IN under OR requires that neither side can be NULL",
            hint="Write NOT EXISTS (SELECT 1 FROM … AS b WHERE b.y = a.x).",
            span=member.span,
        )
    columns = right.input.schema.columns
    rows = replace(right, alias="rows")
    values = [
        ColumnReference(source="rows", column=column.name, type=column.type, nullable=column.nullable)
        for column in columns
    ]
    yes = Literal(type=BOOLEAN, text="true", nullable=False)
    items = [Item(column.name, value) for column, value in zip(columns, values, strict=True)]
    answers = Subquery(Aggregate(rows, tuple(values), (*items, Item(_ANSWER, yes))), name, right.span)
    pairs = keys or [
        (ONE, ColumnReference(source=name, column=columns[0].name, type=INTEGER, nullable=False))
    ]
    result: LogicalNode
    if is_snapshot(left) and is_snapshot(right):
        result = SnapshotJoin(left, answers, conjunction([equality(*pair) for pair in pairs]), JoinKind.LEFT)
    else:
        result = _keyed(left, answers, pairs, JoinKind.LEFT, None)
    answer = ColumnReference(source=name, column=_ANSWER, type=BOOLEAN, nullable=True, span=member.span)
    return result, call(OPERATORS_BY_NAME["IS TRUE"], [answer], span=member.span)


def _keyed(
    left: LogicalNode, right: LogicalNode, keys: Sequence[Pair], kind: JoinKind, condition: Expression | None
) -> RegularJoin:
    return RegularJoin(
        left, right, tuple(ours for ours, _ in keys), tuple(theirs for _, theirs in keys), kind, condition
    )


def _without_unknown(
    rows: LogicalNode, right: LogicalNode, keys: Sequence[Pair], condition: Expression | None
) -> LogicalNode:
    """Return the rows for which NOT IN is true, of those without an equal value.

    It is unknown of all rows if a value is NULL, and of a row whose own value is NULL if there is any value. Each is a join of its
    own, so that the others have keys.
    """
    (ours, theirs), others = keys[0], keys[1:]
    if theirs.nullable:
        unknown = Filter(right, call(OPERATORS_BY_NAME["IS NULL"], [theirs], span=theirs.span))
        rows = _keyed(rows, unknown, others, JoinKind.ANTI, condition)
    if ours.nullable:
        always = Literal(type=BOOLEAN, text="true", nullable=False)
        is_null = call(OPERATORS_BY_NAME["IS NULL"], [ours], span=ours.span)
        rows = _keyed(rows, right, [*others, (is_null, always)], JoinKind.ANTI, condition)
    return rows


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
