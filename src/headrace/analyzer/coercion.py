"""Implicit conversions: literals beside dates, and branches that must share one type."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import replace

from headrace.analyzer.expressions import Cast, Expression, Literal
from headrace.analyzer.typing import common
from headrace.core.errors import Span, UserError
from headrace.core.sqlstate import SqlState
from headrace.core.types import DATE, DOUBLE, INTEGRAL, NULL, DataType, Timestamp, has_map, is_numeric

_FRACTION = re.compile(r"\.(\d{1,9})")


def as_type(expression: Expression, kind: DataType) -> Expression:
    """Return `expression` as `kind`: itself if it is that already, else a CAST; a NULL takes the type, and a number that of wider ones."""
    if expression.type == kind:
        return expression
    if isinstance(expression, Literal) and (expression.text is None or _reads_as(expression.type, kind)):
        return replace(expression, type=kind)
    return Cast(operand=expression, type=kind, nullable=expression.nullable, span=expression.span)


def _reads_as(number: DataType, kind: DataType) -> bool:
    """True when the literal of a number is one of `kind` too, without a CAST."""
    if number in INTEGRAL and kind in INTEGRAL:
        return INTEGRAL.index(number) < INTEGRAL.index(kind)
    return is_numeric(number) and kind == DOUBLE


def unify(values: Sequence[Expression], what: str, span: Span | None) -> tuple[list[Expression], DataType]:
    """Return all values as their common type. Raises UserError 42804 naming `what`, at the first value that does not fit."""
    kind = common([value.type for value in values])
    if kind is None:
        culprit = next(
            value
            for count, value in enumerate(values, 1)
            if common([item.type for item in values[:count]]) is None
        )
        kinds = list(dict.fromkeys(str(value.type) for value in values if value.type != NULL))
        raise UserError(
            SqlState.DATATYPE_MISMATCH,
            f"{what} must have one type, found {', '.join(kinds)}",
            hint="Use CAST(… AS type).",
            span=culprit.span or span,
        )
    return [as_type(value, kind) for value in values], kind


def same_type(left: Expression, right: Expression, *, span: Span | None) -> tuple[Expression, Expression]:
    """Return both operands of an equality as one type, so that equal keys are equal bytes; raises UserError 42804."""
    kind = common([left.type, right.type])
    if kind is None or has_map(kind):
        raise UserError(
            SqlState.DATATYPE_MISMATCH,
            f"keys must be of comparable types, found {left.type} and {right.type}",
            hint="Use CAST(… AS type) on one side.",
            span=span,
        )
    return as_type(left, kind), as_type(right, kind)


def literal_as(literal: Literal, kind: DataType, *, span: Span | None) -> Literal:
    """Return a text literal as a DATE or TIMESTAMP literal; raises UserError 42804 if it does not read as one."""
    text = (literal.text or "").strip()
    try:
        if kind == DATE:
            return replace(literal, type=kind, text=datetime.date.fromisoformat(text).isoformat(), span=span)
        moment = datetime.datetime.fromisoformat(
            _FRACTION.sub(lambda fraction: "." + fraction[1][:6].ljust(6, "0"), text)
        )
        if moment.tzinfo is not None:
            moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        pattern = "yyyy-MM-dd" if kind == DATE else "yyyy-MM-dd HH:mm:ss[.fff]"
        raise UserError(
            SqlState.DATATYPE_MISMATCH,
            f"expected {pattern} for a {kind}, found {text!r}",
            span=span or literal.span,
        ) from None
    return replace(literal, type=kind, text=moment.isoformat(sep=" "), span=span)


def cast_literal(literal: Literal, kind: DataType, *, span: Span | None) -> Literal:
    """Return CAST of a text literal AS DATE or TIMESTAMP: as `literal_as`, without the digits that the type has not."""
    time = literal_as(literal, kind, span=span)
    if not isinstance(kind, Timestamp):
        return time
    seconds, _, fraction = (time.text or "").partition(".")
    return replace(time, text=f"{seconds}.{fraction[: kind.digits]}".rstrip("."))
