"""GROUPING SETS, ROLLUP and CUBE: several groups of the same rows, with NULL for the columns that a set leaves out.

A snapshot query has them as they are written. A continuous query repeats each row for each set, and also groups by what a set leaves
out, so that a NULL of a row differs from one of a set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, product
from math import prod

from sqlglot import exp

from headrace.analyzer.expressions import (
    Call,
    Case,
    ColumnReference,
    Expression,
    Literal,
    with_operands,
)
from headrace.analyzer.functions import CATALOGUE, OPERATORS_BY_NAME
from headrace.analyzer.functions.signature import function
from headrace.analyzer.invocation import call
from headrace.analyzer.logical import LogicalNode, Unnest
from headrace.core.errors import Span, UserError
from headrace.core.internal_columns import PREFIX
from headrace.core.schema import Column
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT, INTEGER, DataType
from headrace.sql.ast import GroupingSets, span_of

SETS_MAX = 64
"""Sets of a GROUP BY: each row is repeated for each of them."""


def _bits(arguments: Sequence[str]) -> str:
    return (
        "("
        + " + ".join(f"{2**place} * grouping({one})" for place, one in enumerate(reversed(arguments)))
        + ")"
    )


GROUPING = function(
    "GROUPING",
    "any, ...",
    BIGINT,
    "1 where the set of a row leaves the group out, else 0; of several, these as the bits of a number.",
    spark=_bits,
    duckdb=_bits,
    never_null=True,
)


@dataclass(frozen=True)
class Sets:
    """The expressions that are grouped by, and the sets, as positions of these."""

    keys: tuple[Expression, ...]
    sets: tuple[tuple[int, ...], ...]

    def without(self, place: int) -> list[bool]:
        """Return for each set whether it leaves the key out."""
        return [place not in members for members in self.sets]

    @property
    def varied(self) -> list[int]:
        """The places of the keys that some set leaves out."""
        return [place for place in range(len(self.keys)) if any(self.without(place))]


def grouping_sets(elements: Sequence[exp.Expr], bind: Callable[[exp.Expr], Expression]) -> Sets | None:
    """Return the sets of a GROUP BY, None for one of plain expressions; raises UserError 53000 for too many."""
    if not any(isinstance(element, GroupingSets) for element in elements):
        return None
    keys: dict[Expression, int] = {}
    bound: dict[int, int] = {}

    def place(node: exp.Expr) -> int:
        if id(node) not in bound:
            key = bind(node)
            bound[id(node)] = keys.setdefault(key, len(keys))
        return bound[id(node)]

    parts = [_expanded(element) for element in elements]
    first = next(element for element in elements if isinstance(element, GroupingSets))
    _check_count(prod(map(len, parts)), first)
    sets = [
        tuple(dict.fromkeys(place(node) for members in chosen for node in members))
        for chosen in product(*parts)
    ]
    return Sets(tuple(keys), tuple(sets))


def _expanded(element: exp.Expr) -> list[list[exp.Expr]]:
    """Return the sets that an element of GROUP BY stands for."""
    if not isinstance(element, GroupingSets):
        return [list(element.expressions) if isinstance(element, exp.Tuple) else [element]]
    items = [_expanded(item) for item in element.expressions]
    if element.args["kind"] == "GROUPING SETS":
        return [members for item in items for members in item]
    columns = [item[0] for item in items]
    if element.args["kind"] == "ROLLUP":
        return [[*chain(*columns[:count])] for count in range(len(columns), -1, -1)]
    _check_count(2 ** len(columns), element)
    chosen = [some for count in range(len(columns), -1, -1) for some in combinations(columns, count)]
    return [[*chain(*some)] for some in chosen]


def _check_count(count: int, element: exp.Expr) -> None:
    if count > SETS_MAX:
        raise UserError(
            SqlState.CONFIGURATION_LIMIT_EXCEEDED,
            f"expected {SETS_MAX} grouping sets at most, found {count if count < 1_000_000 else 'more'}",
            hint="List the sets that are needed: GROUP BY GROUPING SETS ((a, b), (a), ()).",
            span=span_of(element),
        )


@dataclass(frozen=True)
class Grouped:
    """Rows to be grouped, the groups, and what makes of an expression of the SELECT one over the groups."""

    rows: LogicalNode
    group_by: tuple[Expression, ...]
    changed: Callable[[Expression], Expression]


def of_snapshot(sets: Sets, rows: LogicalNode) -> Grouped:
    """Return the groups of a snapshot query, whose left out columns may be NULL."""
    keys = [
        replace(key, nullable=True) if place in sets.varied else key for place, key in enumerate(sets.keys)
    ]
    nullable = dict(zip(sets.keys, keys, strict=True))

    def bits(grouping: Call) -> Expression:
        return with_operands(grouping, lambda key: nullable[key])

    return Grouped(rows, tuple(keys), _replacing(nullable, bits))


def of_stream(sets: Sets, rows: LogicalNode) -> Grouped:
    """Return the groups of a continuous query: of each row once for each set."""
    alias, name = f"{PREFIX}sets", "place"
    numbers = [_number(place, INTEGER) for place in range(len(sets.sets))]
    array = call(CATALOGUE["ARRAY"], numbers, span=None)
    place = ColumnReference(source=alias, column=name, type=INTEGER, nullable=False)
    repeated = Unnest(rows, array, alias, (Column(name, INTEGER, nullable=False),))

    def is_one_of(chosen: Sequence[int]) -> Expression:
        return call(OPERATORS_BY_NAME["IN"], [place, *(numbers[one] for one in chosen)], span=None)

    def kept(key: int) -> Expression:
        value = sets.keys[key]
        members = [one for one, out in enumerate(sets.without(key)) if not out]
        return Case(
            branches=((is_one_of(members), value),),
            otherwise=None,
            type=value.type,
            nullable=True,
            span=value.span,
        )

    def left_out(key: int) -> Expression:
        """Return 1 where a set leaves the key out, else 0."""
        out = is_one_of([one for one, leaves in enumerate(sets.without(key)) if leaves])
        return Case(
            branches=((out, _number(1, BIGINT)),), otherwise=_number(0, BIGINT), type=BIGINT, nullable=False
        )

    keys = [kept(key) if key in sets.varied else sets.keys[key] for key in range(len(sets.keys))]
    marks = {key: left_out(key) for key in sets.varied}
    # Two equal sets return their groups twice.
    repeats: list[Expression] = [place] if len(set(map(frozenset, sets.sets))) < len(sets.sets) else []

    def bits(grouping: Call) -> Expression:
        number, *others = (marks.get(sets.keys.index(key), _number(0, BIGINT)) for key in grouping.arguments)
        for bit in others:
            doubled = call(OPERATORS_BY_NAME["*"], [number, _number(2, BIGINT)], span=grouping.span)
            number = call(OPERATORS_BY_NAME["+"], [doubled, bit], span=grouping.span)
        return number

    changed = _replacing(dict(zip(sets.keys, keys, strict=True)), bits)
    return Grouped(repeated, (*keys, *marks.values(), *repeats), changed)


def _number(value: int, kind: DataType) -> Literal:
    return Literal(type=kind, text=str(value), nullable=False)


def _replacing(
    keys: dict[Expression, Expression], bits: Callable[[Call], Expression]
) -> Callable[[Expression], Expression]:
    """Return a function that replaces the keys of an expression, outside of its aggregates, and its calls of GROUPING."""

    def changed(expression: Expression) -> Expression:
        if isinstance(expression, Call) and expression.function is GROUPING:
            if any(argument not in keys for argument in expression.arguments):
                raise refused_grouping(expression.span)
            return bits(expression)
        if isinstance(expression, Call) and expression.function.aggregate:
            return expression
        return keys[expression] if expression in keys else with_operands(expression, changed)

    return changed


def refused_grouping(span: Span | None) -> UserError:
    """Return the error for GROUPING of what is not grouped by."""
    return UserError(
        SqlState.GROUPING_ERROR,
        "GROUPING requires groups of GROUPING SETS, ROLLUP or CUBE",
        hint="Write GROUPING(column) of a column in GROUP BY ROLLUP(column, …).",
        span=span,
    )
