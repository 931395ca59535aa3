"""Typed scalar and aggregate expressions: the binder's result for a sqlglot tree, and the input of the SQL printers.

Few classes are enough because operators, predicates and functions are all `Call`s of a row of the function catalogue.
A column names its source by alias; how that looks in Spark SQL or DuckDB SQL is the printer's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headrace.core.errors import Span
from headrace.core.types import BOOLEAN, NULL, DataType

if TYPE_CHECKING:
    from headrace.analyzer.functions.signature import Function


@dataclass(frozen=True, kw_only=True)
class Expression:
    """Base: every expression has a type, may be NULL, and stands somewhere in the statement."""

    type: DataType
    nullable: bool = True
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class ColumnReference(Expression):
    """The column `column` of the source that is called `source` in FROM."""

    source: str
    column: str


@dataclass(frozen=True, kw_only=True)
class Literal(Expression):
    """A constant. `text` is its canonical text; None is NULL. An INTERVAL's text is its milliseconds."""

    text: str | None


@dataclass(frozen=True, kw_only=True)
class Call(Expression):
    """A function, operator or aggregate of the catalogue over arguments."""

    function: Function
    arguments: tuple[Expression, ...]
    distinct: bool = False


@dataclass(frozen=True, kw_only=True)
class Cast(Expression):
    """`operand` as `type`; with `safe` a value that cannot be converted becomes NULL."""

    operand: Expression
    safe: bool = False


@dataclass(frozen=True, kw_only=True)
class Case(Expression):
    """The result of the first branch whose condition is true."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None = None


@dataclass(frozen=True, kw_only=True)
class FieldAccess(Expression):
    """The field `name` of a STRUCT."""

    operand: Expression
    name: str


@dataclass(frozen=True)
class SortKey:
    """A key of ORDER BY."""

    expression: Expression
    descending: bool = False
    nulls_first: bool | None = None


@dataclass(frozen=True)
class Frame:
    """Frame of a window function: `ROWS | RANGE BETWEEN start AND end`.

    A bound is (`PRECEDING` or `FOLLOWING`, how far: None is UNBOUNDED), or None for CURRENT ROW.
    """

    unit: str
    start: tuple[str, Literal | None] | None
    end: tuple[str, Literal | None] | None


@dataclass(frozen=True, kw_only=True)
class Over(Expression):
    """A window function, or an aggregate, over the rows of a row's partition; a row of the catalogue's window functions."""

    function: Function
    arguments: tuple[Expression, ...]
    partition_by: tuple[Expression, ...] = ()
    order_by: tuple[SortKey, ...] = ()
    frame: Frame | None = None


@dataclass(frozen=True, kw_only=True)
class Star(Expression):
    """The `*` of COUNT(*)."""


STAR = Star(type=NULL, nullable=False)
TRUE = Literal(type=BOOLEAN, nullable=False, text="true")


def children(expression: Expression) -> Iterator[Expression]:
    """Yield the direct operands, left to right."""
    match expression:
        case Call():
            yield from expression.arguments
        case Over():
            yield from expression.arguments
            yield from expression.partition_by
            yield from (key.expression for key in expression.order_by)
        case Cast() | FieldAccess():
            yield expression.operand
        case Case():
            for condition, value in expression.branches:
                yield condition
                yield value
            if expression.otherwise is not None:
                yield expression.otherwise


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield `expression` and everything under it, outermost first."""
    yield expression
    for child in children(expression):
        yield from walk(child)


def unrepeatable(expression: Expression) -> Call | None:
    """Return the first call that is not repeatable, such as NOW(); None if equal inputs always return equal results."""
    return next(unrepeatable_calls(expression), None)


def unrepeatable_calls(expression: Expression) -> Iterator[Call]:
    """Yield the calls that give another value each time, outermost first."""
    for part in walk(expression):
        if isinstance(part, Call) and not part.function.deterministic:
            yield part


def transform(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """Return a copy with `change` applied to every node, innermost first."""

    return change(with_operands(expression, lambda child: transform(child, change)))


def with_operands(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """Return a copy with `change` applied to the direct operands, and to nothing below them."""
    match expression:
        case Call():
            return replace(expression, arguments=tuple(map(change, expression.arguments)))
        case Over():
            return replace(
                expression,
                arguments=tuple(map(change, expression.arguments)),
                partition_by=tuple(map(change, expression.partition_by)),
                order_by=tuple(
                    replace(key, expression=change(key.expression)) for key in expression.order_by
                ),
            )
        case Cast() | FieldAccess():
            return replace(expression, operand=change(expression.operand))
        case Case():
            branches = tuple((change(condition), change(value)) for condition, value in expression.branches)
            otherwise = change(expression.otherwise) if expression.otherwise is not None else None
            return replace(expression, branches=branches, otherwise=otherwise)
    return expression


def aggregates(expression: Expression) -> list[Call]:
    """Return the aggregate calls in `expression`, outermost first, without those inside another aggregate."""
    if isinstance(expression, Call) and expression.function.aggregate:
        return [expression]
    return [call for child in children(expression) for call in aggregates(child)]


def overs(expression: Expression) -> list[Over]:
    """Return the window functions in `expression`."""
    return [node for node in walk(expression) if isinstance(node, Over)]


def over_rows(expression: Expression) -> list[Call | Over]:
    """Return the aggregates and window functions of an expression."""
    return [*aggregates(expression), *overs(expression)]


def references(expression: Expression) -> list[ColumnReference]:
    """Return every column that is read."""
    return [node for node in walk(expression) if isinstance(node, ColumnReference)]


def conjuncts(expression: Expression) -> list[Expression]:
    """Return the operands of the outermost ANDs."""
    if isinstance(expression, Call) and expression.function.name == "AND":
        return [part for argument in expression.arguments for part in conjuncts(argument)]
    return [expression]
