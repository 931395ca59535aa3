"""Top-N: `SELECT … FROM (SELECT …, ROW_NUMBER() OVER (PARTITION BY … ORDER BY …) AS n FROM …) WHERE n <= 3` in continuous queries.

RANK() and DENSE_RANK() are possible instead of ROW_NUMBER().
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from itertools import count
from typing import get_args

from headrace.analyzer.expressions import (
    Call,
    Cast,
    ColumnReference,
    Expression,
    Literal,
    Over,
    SortKey,
    overs,
    references,
)
from headrace.analyzer.joins import PendingJoin
from headrace.analyzer.logical import (
    RANK_SOURCE,
    Aggregate,
    Item,
    JoinKind,
    LogicalNode,
    Project,
    RankFunction,
    Subquery,
    TopN,
    Unnest,
    expressions,
)
from headrace.analyzer.scope import Scope
from headrace.core.errors import InternalError, UserError
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT, INTEGRAL

PATTERN = (
    "Write SELECT … FROM (SELECT …, ROW_NUMBER() OVER (PARTITION BY … ORDER BY …) AS n FROM …) WHERE n <= 3."
)
_FLIPPED = {"<=": ">=", "<": ">", ">=": "<=", ">": "<", "=": "="}


def first_rows(sources: LogicalNode, where: list[Expression]) -> LogicalNode:
    """Return FROM of a continuous query; subqueries that number rows keep those that `where` asks for, which loses that condition.

    Raises UserError 42601 for a limit below one, 0A000 for a number without ORDER BY.
    """
    match sources:
        case Subquery():
            return _first_rows(sources, where)
        case Unnest():
            return replace(sources, input=first_rows(sources.input, where))
        case PendingJoin():
            # A side that may have no match is not filtered by WHERE.
            left, right = sources.left, sources.right
            if sources.kind not in (JoinKind.RIGHT, JoinKind.FULL):
                left = first_rows(left, where)
            if sources.kind not in (JoinKind.LEFT, JoinKind.FULL):
                right = first_rows(right, where)
            return replace(sources, left=left, right=right)
    return sources


def _first_rows(source: Subquery, where: list[Expression]) -> LogicalNode:
    number = _numbered(source.input)
    limits = [_limit(part, source.alias, number.name) for part in where] if number is not None else []
    known = [(part, limit) for part, limit in zip(where, limits, strict=False) if limit is not None]
    if number is None or not known:
        return source
    for part, (limit, alone) in known:
        if limit < 1:
            raise UserError(
                SqlState.SYNTAX_ERROR,
                f"{_function(number)}() starts at 1: no row has a number up to {limit}",
                hint=PATTERN,
                span=part.span,
            )
        if alone:
            where.remove(part)
    return replace(source, input=_top_n(source.input, number, min(limit for _, (limit, _) in known)))


def without_unread_ranks(block: LogicalNode) -> LogicalNode:
    """Return a bound SELECT whose subqueries contain the number of a row only if an expression reads it."""
    above = list(_read_by(block))

    def change(source: Subquery) -> LogicalNode:
        query = source.input
        if not isinstance(query, Project) or not isinstance(query.input, TopN) or query.input.rank is None:
            return source
        place = next(
            (item for item in query.items if _is(item.expression, RANK_SOURCE, query.input.rank)), None
        )
        if place is None or any(_is(read, source.alias, place.name) for read in above):
            return source
        items = tuple(item for item in query.items if item is not place)
        return replace(source, input=replace(query, input=replace(query.input, rank=None), items=items))

    return _in_block(block, change)


def _in_block(node: LogicalNode, change: Callable[[Subquery], LogicalNode]) -> LogicalNode:
    if isinstance(node, Subquery):
        return change(node)
    parts = {item.name: getattr(node, item.name) for item in fields(node)}  # type: ignore[arg-type]
    updates = {name: _in_block(part, change) for name, part in parts.items() if isinstance(part, LogicalNode)}
    return replace(node, **updates) if updates else node  # type: ignore[type-var]


def _read_by(node: LogicalNode) -> Iterator[Expression]:
    """Yield every column that a SELECT reads, its joins included."""
    if not isinstance(node, Subquery):
        for expression in expressions(node):
            yield from references(expression)
        for part in node.inputs:
            yield from _read_by(part)


def _numbered(query: LogicalNode) -> Item | None:
    """Return the one output column of a SELECT that is ROW_NUMBER(), RANK() or DENSE_RANK() OVER (…)."""
    if not isinstance(query, Project | Aggregate):
        return None
    numbered = [item for item in query.items if overs(item.expression)]
    return numbered[0] if len(numbered) == 1 and _function(numbered[0]) is not None else None


def _function(number: Item) -> RankFunction | None:
    """Return the function whose result with OVER is a column."""
    over = number.expression
    functions: tuple[RankFunction, ...] = get_args(RankFunction)
    return (
        next((name for name in functions if name == over.function.name), None)
        if isinstance(over, Over)
        else None
    )


def _limit(part: Expression, alias: str, name: str) -> tuple[int, bool] | None:
    """Return the upper bound that a condition sets on the rank, and whether that is all the condition does."""
    if not isinstance(part, Call):
        return None
    if part.function.name == "BETWEEN":
        number, low, high = part.arguments
        least, most = _whole(low), _whole(high)
        return (
            None if not _is(number, alias, name) or most is None else (most, least is not None and least <= 1)
        )
    if part.function.name not in _FLIPPED:
        return None
    first, second = part.arguments
    operator = part.function.name
    if not _is(first, alias, name):
        first, second, operator = second, first, _FLIPPED[operator]
    most = _whole(second)
    if not _is(first, alias, name) or most is None or operator in (">", ">="):
        return None
    return (most - 1 if operator == "<" else most), operator != "=" or most == 1


def _is(expression: Expression, alias: str, name: str) -> bool:
    return isinstance(expression, ColumnReference) and (expression.source, expression.column) == (alias, name)


def _whole(expression: Expression) -> int | None:
    if isinstance(expression, Cast):
        expression = expression.operand
    whole = isinstance(expression, Literal) and expression.text is not None and expression.type in INTEGRAL
    return int(expression.text or 0) if isinstance(expression, Literal) and whole else None


def _top_n(query: LogicalNode, number: Item, limit: int) -> LogicalNode:
    """Return the SELECT with a `TopN` instead of its ROW_NUMBER(), RANK() or DENSE_RANK()."""
    over, function = number.expression, _function(number)
    if not isinstance(over, Over) or not isinstance(query, Project | Aggregate) or function is None:
        raise InternalError(f"no number of rows in {type(query).__name__}")
    if not over.order_by:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"{function}() in a continuous query requires ORDER BY: it defines which rows are first",
            hint=PATTERN,
            span=over.span,
        )
    if isinstance(query, Aggregate):
        query, over = _over_groups(query, over)
    top = TopN(
        query.input,
        over.partition_by,
        over.order_by,
        limit,
        number.name,
        function=function,
        span=over.span,
    )
    place = ColumnReference(
        source=RANK_SOURCE, column=number.name, type=BIGINT, nullable=False, span=over.span
    )
    items = tuple(
        replace(item, expression=place) if item.name == number.name else item for item in query.items
    )
    return replace(query, input=top, items=items)


def _over_groups(groups: Aggregate, over: Over) -> tuple[Project, Over]:
    """Return a grouped SELECT in two: the groups, with what they are numbered by; and the columns of that."""
    original = groups.items
    keys = [*over.partition_by, *(key.expression for key in over.order_by)]
    items = [item for item in groups.items if item.expression != over]
    for key in keys:
        if all(item.expression != key for item in items):
            free = next(f"key_{n}" for n in count(1) if all(item.name != f"key_{n}" for item in groups.items))
            items.append(Item(free, key))
            groups = replace(groups, items=(*groups.items, items[-1]))
    inner = Subquery(replace(groups, items=tuple(items)), "groups")
    scope = Scope(inner.sources)

    def column(expression: Expression) -> Expression:
        name = next(item.name for item in items if item.expression == expression)
        return scope.column(name, alias="groups", span=expression.span)

    moved = replace(
        over,
        partition_by=tuple(map(column, over.partition_by)),
        order_by=tuple(
            SortKey(column(key.expression), key.descending, key.nulls_first) for key in over.order_by
        ),
    )
    rewritten = tuple(
        item if item.expression == over else replace(item, expression=column(item.expression))
        for item in original
    )
    return Project(inner, rewritten), moved
