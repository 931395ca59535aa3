"""Errors of values that an expression does not accept, in the dialect's words and equal for both engines."""

from __future__ import annotations

from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState

DIVISION_BY_ZERO = "NULLIF(divisor, 0) returns NULL instead; or exclude such rows with WHERE."
OUT_OF_RANGE = (
    "CAST an operand to a wider type, or TRY_CAST the value, which returns NULL instead; or "
    "exclude such rows with WHERE."
)
OTHERWISE = "TRY_CAST returns NULL if CAST fails; or exclude such rows with WHERE."


def data_error(code: str, detail: str, *, hint: str | None = OTHERWISE) -> UserError:
    """Return the error of an engine's SQLSTATE of class 22; `detail` is its sentence, in which a value may stand."""
    if code == SqlState.DIVISION_BY_ZERO.value:
        return UserError(SqlState.DIVISION_BY_ZERO, "division by zero", hint=DIVISION_BY_ZERO)
    if code == SqlState.NUMERIC_VALUE_OUT_OF_RANGE.value:
        return UserError(
            SqlState.NUMERIC_VALUE_OUT_OF_RANGE,
            f"a number is out of the range of its type: {detail}",
            hint=OUT_OF_RANGE,
        )
    return UserError(SqlState.DATA_EXCEPTION, f"a value does not fit the query: {detail}", hint=hint)
