"""Bounds on the event times of two streams, found among the conditions of their join."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headrace.analyzer.event_times import is_event_time
from headrace.analyzer.expressions import Call, Cast, Expression, Literal, references
from headrace.analyzer.logical import LogicalNode
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.core.types import INTEGRAL, INTERVAL
from headrace.sql.limits import DURATION_MAX_MS, too_long_time

_FLIPPED = {"<=": ">=", "<": ">", ">=": "<=", ">": "<", "=": "="}


@dataclass(frozen=True)
class Bounds:
    """The right event time is between the left one plus `lower_ms` and plus `upper_ms`; `rest` are the other conditions."""

    lower_ms: int
    upper_ms: int
    rest: tuple[Expression, ...]


def bounds(conditions: Iterable[Expression], left: LogicalNode, right: LogicalNode) -> Bounds | None:
    """Return the bounds that the conditions set between the two event times; None unless both ends are bounded.

    Raises UserError 42601 where no pair of rows could satisfy them, 53000 for a span that is too long.
    """
    lowest: list[int] = []
    highest: list[int] = []
    rest: list[Expression] = []
    place = None
    for condition in conditions:
        limits = _limits(condition, left, right)
        if not limits:
            rest.append(condition)
            continue
        place = condition.span or place
        for operator, milliseconds in limits:
            if abs(milliseconds) > DURATION_MAX_MS:
                raise too_long_time(DURATION_MAX_MS, condition.span)
            if operator in (">=", ">", "="):
                lowest.append(milliseconds)
            if operator in ("<=", "<", "="):
                highest.append(milliseconds)
        if any(operator in "<>" for operator, _ in limits):
            rest.append(condition)  # the bound is met by no row that the condition itself refuses
    if not lowest or not highest:
        return None
    if max(lowest) > min(highest):
        raise UserError(
            SqlState.SYNTAX_ERROR,
            "no two event times satisfy these bounds: the lower bound is above the upper one",
            hint="Write right.time BETWEEN left.time - INTERVAL '5' MINUTE AND left.time + INTERVAL '1' HOUR.",
            span=place,
        )
    return Bounds(max(lowest), min(highest), tuple(rest))


def _limits(condition: Expression, left: LogicalNode, right: LogicalNode) -> list[tuple[str, int]]:
    """Return the comparisons of `right time - left time` as (operator, milliseconds) pairs; empty without such a comparison."""
    if not isinstance(condition, Call):
        return []
    name, arguments = condition.function.name, condition.arguments
    if name == "BETWEEN":
        pairs = [(">=", arguments[0], arguments[1]), ("<=", arguments[0], arguments[2])]
    elif name in _FLIPPED:
        pairs = [(name, arguments[0], arguments[1])]
    else:
        return []
    limits = [_limit(operator, first, second, left, right) for operator, first, second in pairs]
    known = [item for item in limits if item is not None]
    return known if len(known) == len(limits) else []


def _limit(
    operator: str, first: Expression, second: Expression, left: LogicalNode, right: LogicalNode
) -> tuple[str, int] | None:
    one, other = _moment(first, (left, right)), _moment(second, (left, right))
    if one is None or other is None or one[0] is other[0]:
        return None
    if one[0] is right:
        return operator, other[1] - one[1]
    return _FLIPPED[operator], one[1] - other[1]


def _moment(expression: Expression, sides: Sequence[LogicalNode]) -> tuple[LogicalNode, int] | None:
    """Return the side whose event time an expression reads, and the milliseconds that it adds."""
    if isinstance(expression, Call) and expression.function.name in ("+", "-"):
        first, second = expression.arguments
        sign = -1 if expression.function.name == "-" else 1
        if _milliseconds(first) is not None and sign == 1:
            first, second = second, first
        base, added = _moment(first, sides), _milliseconds(second)
        return None if base is None or added is None else (base[0], base[1] + sign * added)
    read = {reference.source for reference in references(expression)}
    for side in sides:
        if read and read <= {source.alias for source in side.sources}:
            return (side, 0) if is_event_time(expression, side) else None
    return None


def _milliseconds(expression: Expression) -> int | None:
    if isinstance(expression, Cast):
        expression = expression.operand
    if not isinstance(expression, Literal) or expression.text is None:
        return None
    return int(expression.text) if expression.type == INTERVAL or expression.type in INTEGRAL else None
