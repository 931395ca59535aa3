"""Calls of users' functions: the choice among the overloads of a name, and what an aggregate stands for."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.analyzer.coercion import as_type
from headrace.analyzer.expressions import Call, Expression
from headrace.analyzer.functions import CATALOGUE
from headrace.analyzer.functions.composed import ROW
from headrace.analyzer.functions.implementation import Implementation
from headrace.analyzer.functions.resolver import as_function
from headrace.analyzer.invocation import call
from headrace.analyzer.typing import common
from headrace.catalog.objects import FunctionKind
from headrace.core.errors import Span, UserError
from headrace.core.sqlstate import SqlState
from headrace.core.types import (
    DOUBLE,
    FLOAT,
    INTEGRAL,
    NULL,
    DataType,
    Decimal,
    Varchar,
    is_numeric,
)


def user_call(
    overloads: Sequence[Implementation], arguments: Sequence[Expression], *, distinct: bool, span: Span | None
) -> Call:
    """Return the call of the overload whose parameters fit the arguments best; raises UserError 42804 if none does, or two do.

    A call of an aggregate is a call over the rows of the group, which COLLECT keeps: so it is right under updates and deletions, in
    windows and after a restart, for accumulators of any class.
    """
    fitting = sorted(
        ((cost, item) for item in overloads if (cost := _cost(item, arguments)) is not None),
        key=lambda pair: pair[0],
    )
    if not fitting or (len(fitting) > 1 and fitting[0][0] == fitting[1][0]):
        raise _mismatch(overloads, arguments, span, ambiguous=bool(fitting))
    chosen = fitting[0][1]
    values = [
        as_type(argument, kind)
        for argument, (_, kind) in zip(arguments, chosen.function.parameters, strict=True)
    ]
    if chosen.function.kind is not FunctionKind.AGGREGATE:
        if distinct:
            name = chosen.function.name
            message = f"DISTINCT requires an aggregate, and {name} is not one"
            raise UserError(SqlState.SYNTAX_ERROR, message, span=span)
        return call(as_function(chosen), values, span=span)
    if distinct:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"{chosen.function.name}(DISTINCT …) is not supported",
            hint="SELECT DISTINCT in a subquery, and aggregate its rows.",
            span=span,
        )
    rows = call(CATALOGUE["COLLECT"], [call(ROW, values, span=span)], span=span)
    return call(as_function(chosen), [rows], span=span)


def _cost(overload: Implementation, arguments: Sequence[Expression]) -> int | None:
    """Return how many arguments must be converted; None if one cannot be, or if there are more or fewer than parameters."""
    parameters = [kind for _, kind in overload.function.parameters]
    if len(parameters) != len(arguments):
        return None
    costs = [_conversion(argument.type, kind) for argument, kind in zip(arguments, parameters, strict=True)]
    return None if None in costs else sum(cost for cost in costs if cost)


def _conversion(given: DataType, parameter: DataType) -> int | None:
    """Return 0 for the parameter's own type, more the wider a type is that can hold the argument, None for any other."""
    if given in (parameter, NULL):
        return 0
    if isinstance(given, Varchar) and isinstance(parameter, Varchar):
        return 0 if parameter.length is None else 1
    if common([given, parameter]) != parameter:
        return None
    return max(_width(parameter) - _width(given), 1)


def _width(kind: DataType) -> int:
    """Return the place of a number among those that can hold it; of any other type 0."""
    widths = (*INTEGRAL, None, FLOAT, DOUBLE)
    return widths.index(None if isinstance(kind, Decimal) else kind) if is_numeric(kind) else 0


def _mismatch(
    overloads: Sequence[Implementation],
    arguments: Sequence[Expression],
    span: Span | None,
    *,
    ambiguous: bool,
) -> UserError:
    name = overloads[0].function.name
    given = ", ".join(str(argument.type) for argument in arguments)
    known = ", ".join(overload.function.declaration for overload in overloads)
    if ambiguous:
        message = f"several functions fit the call {name}({given})"
        return UserError(
            SqlState.DATATYPE_MISMATCH,
            message,
            hint=f"Use CAST(… AS type) to choose one: {known}.",
            span=span,
        )
    message = f"no function fits the call {name}({given})"
    return UserError(
        SqlState.DATATYPE_MISMATCH,
        message,
        hint=f"Use CAST(… AS type). The functions are {known}.",
        span=span,
    )
