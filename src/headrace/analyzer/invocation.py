"""A call of a catalogue row: number and types of arguments, and the type of the result."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.analyzer.coercion import as_type
from headrace.analyzer.expressions import Call, Cast, Expression, Literal, over_rows
from headrace.analyzer.functions import OPERATORS_BY_NAME
from headrace.analyzer.functions.signature import Function
from headrace.analyzer.typing import is_temporal
from headrace.core.errors import Span, UserError
from headrace.core.sqlstate import SqlState
from headrace.core.types import DataType, is_numeric
from headrace.core.wording import counted

COMPARISONS = {"=", "<>", "<", "<=", ">", ">=", "IS NOT DISTINCT FROM", "IS DISTINCT FROM"}
_NOT_NULL_IN_NOT_NULL_OUT = {
    "+",
    "-",
    "*",
    "AND",
    "OR",
    "NOT",
    "UPPER",
    "LOWER",
    "CONCAT",
    "||",
    "UNIX_MILLIS",
    "DATE_FORMAT",
}


def check_count(row: Function, arguments: Sequence[object], span: Span | None) -> None:
    """Raise UserError 42804 if a function does not accept as many arguments."""
    if not row.accepts_count(len(arguments)):
        raise UserError(
            SqlState.DATATYPE_MISMATCH,
            f"{row.name} does not accept {counted(len(arguments), 'argument')}",
            hint=f"Write {row.signature}. {row.doc}",
            span=span,
        )


def call(
    row: Function, arguments: Sequence[Expression], *, span: Span | None, distinct: bool = False
) -> Call:
    """Return a call of `row`; raises UserError 42804 for arguments that do not fit, 42803 for an aggregate in an aggregate."""
    check_count(row, arguments, span)
    for index, argument in enumerate(arguments):
        if not row.parameter(index).accepts(argument.type):
            raise _mismatch(row, arguments, argument.span or span)
        constant = isinstance(argument, Literal) or (
            isinstance(argument, Cast) and isinstance(argument.operand, Literal)
        )
        if row.constant_from is not None and index >= row.constant_from and not constant:
            raise UserError(
                SqlState.DATATYPE_MISMATCH,
                f"argument {index + 1} of {row.name} must be a constant",
                hint=f"Write {row.signature}. {row.doc}",
                span=argument.span or span,
            )
        if row.aggregate and over_rows(argument):
            raise UserError(
                SqlState.GROUPING_ERROR,
                "an aggregate cannot contain an aggregate or a window function",
                hint="Compute the inner one in a subquery of FROM, and aggregate its rows.",
                span=argument.span,
            )
    kind = row.result([argument.type for argument in arguments])
    if kind is None:
        # Each alone would do. What does not go with the left operand is the right one.
        last = arguments[-1].span if row.infix is not None else None
        raise _mismatch(row, arguments, last or span)
    if row.operands is not None:
        operand_types = row.operands([argument.type for argument in arguments])
        arguments = [
            as_type(argument, target) for argument, target in zip(arguments, operand_types, strict=True)
        ]
    always = row.never_null or (
        not row.aggregate and _keeps_not_null(row) and not any(a.nullable for a in arguments)
    )
    return Call(
        function=row, arguments=tuple(arguments), type=kind, nullable=not always, distinct=distinct, span=span
    )


def equality(left: Expression, right: Expression, *, span: Span | None = None) -> Call:
    """Return `left = right`; raises UserError 42804 for types that cannot be compared."""
    return call(OPERATORS_BY_NAME["="], [left, right], span=span)


def conjunction(parts: Sequence[Expression]) -> Expression:
    """Join `parts` (at least one) with AND as a balanced tree, which has the fewest levels."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    sides = [conjunction(parts[:middle]), conjunction(parts[middle:])]
    return call(OPERATORS_BY_NAME["AND"], sides, span=parts[0].span)


def _keeps_not_null(row: Function) -> bool:
    return row.name in _NOT_NULL_IN_NOT_NULL_OUT or row.infix in COMPARISONS


def _mismatch(row: Function, arguments: Sequence[Expression], span: Span | None) -> UserError:
    kinds = [argument.type for argument in arguments]
    if row.infix is not None and len(kinds) == 2:
        message = f"the operator {row.infix} is not defined for {kinds[0]} and {kinds[1]}"
        hint = _way_out(row.infix, *kinds)
        return UserError(SqlState.DATATYPE_MISMATCH, message, hint=hint, span=span)
    return UserError(
        SqlState.DATATYPE_MISMATCH,
        f"{row.name} is not defined for {', '.join(map(str, kinds))}",
        hint=f"Write {row.signature}. {row.doc}",
        span=span,
    )


def _way_out(infix: str, left: DataType, right: DataType) -> str:
    """Return the spelling to use in place of an operator that is not defined for its operands."""
    if infix == "-" and is_temporal(left) and is_temporal(right):
        return "Use TIMESTAMPDIFF(SECOND, earlier, later)."
    if infix in ("+", "-") and is_temporal(left) and is_numeric(right):
        return (
            f"Add a unit to the number: {infix} INTERVAL '5' MINUTE, or TIMESTAMPADD(MINUTE, number, time)."
        )
    return "Use CAST(… AS type) on one side" + (", or || to join texts." if infix == "+" else ".")
