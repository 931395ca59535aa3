"""`x IN (SELECT …)` and `EXISTS (SELECT …)`: semi and anti joins as conditions of WHERE, and else columns of a left join."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Never

from sqlglot import exp

from headrace.analyzer.coercion import as_type, same_type
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
from headrace.core.types import BOOLEAN, INTEGER, NULL
from headrace.sql.ast import span_of

Pair = tuple[Expression, Expression]
"""What must be equal: an expression of the rows, and one of the subquery."""


@dataclass(frozen=True)
class Membership:
    """A condition on a subquery: the query, its negation, the values that IN looks for (none: EXISTS), and the identity of its node."""

    query: exp.Expr
    negated: bool
    operands: tuple[exp.Expr, ...]
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
        member = membership(bare.this.unnest() if negated else bare, negated)
        if member is not None:
            memberships.append(replace(member, span=span_of(bare)))
        elif any(True for _ in answerable(bare)):
            mixed.append(node)
        else:
            plain.append(node)
    return plain, memberships, mixed


def membership(node: exp.Expr, negated: bool) -> Membership | None:
    """Return the condition on a subquery that a node is, None if it is none."""
    query = node.this if isinstance(node, exp.Exists) else node.args.get("query")
    if query is None or not isinstance(node, exp.Exists | exp.In):
        return None
    operands: tuple[exp.Expr, ...] = ()
    if isinstance(node, exp.In):
        operands = tuple(node.this.expressions) if isinstance(node.this, exp.Tuple) else (node.this,)
    return Membership(query.this, negated, operands, span_of(node), id(node))


def answerable(condition: exp.Expr, negated: bool = False) -> Iterator[Membership]:
    """Yield the IN and EXISTS of a condition that AND, OR and NOT combine."""
    bare = condition.unnest()
    if isinstance(bare, exp.And | exp.Or):
        yield from answerable(bare.this, negated)
        yield from answerable(bare.expression, negated)
    elif isinstance(bare, exp.Not):
        yield from answerable(bare.this, negated=True)
    elif (member := membership(bare, negated)) is not None:
        yield member


def unknown_is_false(node: exp.Expr) -> Iterator[int]:
    """Yield the identities of each IN of a query that may count as false where it is unknown: in WHERE, HAVING, and WHEN of CASE."""
    for clause in node.find_all(exp.Where, exp.Having, exp.If):
        if isinstance(clause.parent, exp.Case) and clause.parent.this is not None:
            continue
        yield from (member.node for member in answerable(clause.this) if not member.negated)


@dataclass(frozen=True)
class Asked:
    """The bound query of a `Membership`: its sources, the values that IN compares (none: EXISTS), and the correlated conditions."""

    rows: LogicalNode
    values: Sequence[Expression]
    outside: Sequence[Expression]


def joined(
    left: LogicalNode, member: Membership, operands: Sequence[Expression], inner: Asked, name: str
) -> LogicalNode:
    """Return the rows of `left` for which the condition is true; `name` is the alias of the subquery's rows.

    Raises UserError 42804 for types that cannot be compared, 0A000 for a subquery without a source and for NOT IN of many columns that
    may be NULL.
    """
    right, compared, others, rest = _right(inner, operands, name, member.span)
    kind = JoinKind.ANTI if member.negated else JoinKind.SEMI
    views = [is_snapshot(side) for side in (left, right)]
    if all(views):
        equal = _equal_or_unknown if member.negated else equality
        conditions = [*(equal(*pair) for pair in compared), *(equality(*pair) for pair in others), *rest]
        return SnapshotJoin(left, right, conjunction(conditions) if conditions else None, kind)
    if any(views):
        refuse_without_source(right, member.span)
    condition = conjunction(rest) if rest else None
    result = left
    for rows, keys in _matches(member, right, compared, others):
        result = _keyed(result, rows, keys, kind, condition)
    return result


def refuse_without_source(rows: LogicalNode, span: Span | None) -> Never:
    """Raise 0A000 for a subquery of a continuous query whose rows do not come from streams and changelogs."""
    refuse_tables(rows)
    raise UserError(
        SqlState.FEATURE_NOT_SUPPORTED,
        "a continuous query does not support a subquery without a source",
        hint="Write x IN (value, …).",
        span=span,
    )


_ANSWER = "answer"
_ONE = "one"
_MATCHES_MAX = 9
"""Joins of a NOT IN: two columns that may be NULL on both sides."""


def answered(
    member: Membership, operands: Sequence[Expression], inner: Asked, name: str
) -> tuple[Callable[[LogicalNode], LogicalNode], Expression]:
    """Return how to join rows with the answers, and the answer as an expression. Arguments as of `joined`.

    An IN that is unknown is NULL if it is `negated`, and counts as false otherwise, which is the same in WHERE and requires one join.
    """
    right, compared, others, rest = _right(inner, operands, name, member.span)
    if rest:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "IN and EXISTS as values and under OR compare columns of both queries by equality only",
            hint="In WHERE, combine it with the other conditions by AND. For a value, write a UNION ALL of the rows with it and of those "
            "without it in WHERE.",
            span=rest[0].span or member.span,
        )
    matches = [
        (rows, keys, name if number == 1 else f"{name}_{number}")
        for number, (rows, keys) in enumerate(_matches(member, right, compared, others), 1)
    ]

    def beside(left: LogicalNode) -> LogicalNode:
        for rows, keys, alias in matches:
            left = _beside_answer(left, rows, keys, alias, right.span)
        return left

    answers = [
        ColumnReference(source=alias, column=_ANSWER, type=BOOLEAN, nullable=True, span=member.span)
        for *_, alias in matches
    ]
    result: Expression
    result, *unknown = (call(OPERATORS_BY_NAME["IS TRUE"], [answer], span=member.span) for answer in answers)
    if unknown:
        null = as_type(Literal(type=NULL, text=None), BOOLEAN)
        any_unknown = _disjunction(unknown, member.span)
        unknown_as_null = call(OPERATORS_BY_NAME["AND"], [any_unknown, null], span=member.span)
        result = _disjunction([result, unknown_as_null], member.span)
    return beside, result


def _beside_answer(
    left: LogicalNode, right: LogicalNode, keys: Sequence[Pair], alias: str, span: Span | None
) -> LogicalNode:
    """Return the rows of `left` beside a column that is true if `right` has a row with equal keys, and else NULL."""
    compared = [theirs for _, theirs in keys if isinstance(theirs, ColumnReference)]
    shown = tuple(Item(column.column, column) for column in dict.fromkeys(compared)) or (Item(_ONE, ONE),)
    names = tuple(item.name for item in shown)
    whole = isinstance(right, Subquery) and right.schema.names == names
    rows = (
        replace(right, alias="rows")
        if isinstance(right, Subquery) and whole
        else Subquery(Project(right, shown), "rows", span)
    )
    values = [
        ColumnReference(source="rows", column=column.name, type=column.type, nullable=column.nullable)
        for column in rows.input.schema.columns
    ]
    yes = Literal(type=BOOLEAN, text="true", nullable=False)
    items = [Item(value.column, value) for value in values]
    answers = Subquery(Aggregate(rows, tuple(values), (*items, Item(_ANSWER, yes))), alias, span)

    def grouped(theirs: Expression) -> Expression:
        return replace(theirs, source=alias) if isinstance(theirs, ColumnReference) else theirs

    pairs = [(ours, grouped(theirs)) for ours, theirs in keys]
    if not compared:
        pairs.append((ONE, ColumnReference(source=alias, column=_ONE, type=INTEGER, nullable=False)))
    if is_snapshot(left) and is_snapshot(right):
        return SnapshotJoin(left, answers, conjunction([equality(*pair) for pair in pairs]), JoinKind.LEFT)
    return _keyed(left, answers, pairs, JoinKind.LEFT, None)


def _keyed(
    left: LogicalNode, right: LogicalNode, keys: Sequence[Pair], kind: JoinKind, condition: Expression | None
) -> RegularJoin:
    return RegularJoin(
        left, right, tuple(ours for ours, _ in keys), tuple(theirs for _, theirs in keys), kind, condition
    )


def _matches(
    member: Membership, right: Subquery, compared: Sequence[Pair], others: Sequence[Pair]
) -> list[tuple[LogicalNode, list[Pair]]]:
    """Return the rows of the subquery and the keys of each join that finds a match: a row whose values are all equal.

    For NOT IN, a row whose values are equal or NULL on a side is a match too: if there is one, NOT IN is not true. Each choice of
    columns that are equal, NULL in the subquery, and NULL in the outer row is a join of its own, so that it has keys.
    """
    if not member.negated or not compared:
        return [(right, [*compared, *others])]
    ways = [
        ["equal", *(["their null"] if theirs.nullable else []), *(["our null"] if ours.nullable else [])]
        for ours, theirs in compared
    ]
    count = prod(map(len, ways))
    if count > _MATCHES_MAX and not is_snapshot(right):
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"NOT IN of columns that may be NULL requires {count} joins here, expected at most {_MATCHES_MAX}",
            hint="Compare columns that are NOT NULL, or write NOT EXISTS (SELECT 1 FROM … AS b WHERE b.x = a.x AND b.y = a.y).",
            span=member.span,
        )
    always = Literal(type=BOOLEAN, text="true", nullable=False)
    result: list[tuple[LogicalNode, list[Pair]]] = []
    for choice in product(*ways):
        chosen = list(zip(choice, compared, strict=True))
        equal = [pair for way, pair in chosen if way == "equal"]
        nulls = [_is_null(theirs) for way, (_, theirs) in chosen if way == "their null"]
        ours_null = [(_is_null(ours), always) for way, (ours, _) in chosen if way == "our null"]
        rows = Filter(right, conjunction(nulls)) if nulls else right
        result.append((rows, [*equal, *others, *ours_null]))
    return result


def _is_null(value: Expression) -> Expression:
    return call(OPERATORS_BY_NAME["IS NULL"], [value], span=value.span)


class Columns:
    """Columns of a subquery with internal names under its alias, in the order in which they are first requested.

    `own` are the aliases of the subquery's sources, and `prefix` begins the names.
    """

    def __init__(self, alias: str, own: set[str], prefix: str = "") -> None:
        self._alias = alias
        self._own = own
        self._prefix = prefix
        self._items: dict[Expression, Item] = {}

    @property
    def items(self) -> tuple[Item, ...]:
        """The columns; none if none was requested."""
        return tuple(self._items.values())

    def of(self, expression: Expression) -> ColumnReference:
        """Return the column that is an expression of the subquery's sources."""
        name = f"{self._prefix}column_{len(self._items) + 1}"
        item = self._items.setdefault(expression, Item(name, expression))
        return ColumnReference(
            source=self._alias,
            column=item.name,
            type=expression.type,
            nullable=expression.nullable,
            span=expression.span,
        )

    def moved(self, expression: Expression) -> Expression:
        """Return an expression of both queries as one of the outer query and of these columns."""

        def change(part: Expression) -> Expression:
            own = isinstance(part, ColumnReference) and part.source in self._own
            return self.of(part) if own else part

        return transform(expression, change)


def _right(
    inner_query: Asked, operands: Sequence[Expression], name: str, span: Span | None
) -> tuple[Subquery, list[Pair], list[Pair], list[Expression]]:
    """Return the subquery's rows with the compared columns, the pairs that IN compares, the pairs of correlated equalities, and the
    remaining condition."""
    inner = {source.alias for source in inner_query.rows.sources}
    columns = Columns(name, inner)

    def pair(ours: Expression, theirs: Expression) -> Pair:
        one, other = same_type(ours, theirs, span=ours.span)
        return one, columns.of(other)

    compared = [pair(*values) for values in zip(operands, inner_query.values, strict=True)]
    equalities = [(condition, sides(condition, inner)) for condition in inner_query.outside]
    others = [pair(*equal) for _, equal in equalities if equal is not None]
    rest = [columns.moved(condition) for condition, equal in equalities if equal is None]
    shown = columns.items or (Item(_ONE, ONE),)
    return Subquery(Project(inner_query.rows, shown), name, span), compared, others, rest


def sides(condition: Expression, inner: set[str]) -> tuple[Expression, Expression] | None:
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
    unknown = [_is_null(side) for side in (left, right) if side.nullable]
    return _disjunction([equality(left, right), *unknown], left.span)


def _disjunction(parts: Sequence[Expression], span: Span | None) -> Expression:
    result, *others = parts
    for part in others:
        result = call(OPERATORS_BY_NAME["OR"], [result, part], span=span)
    return result
