"""Aggregates as functions of an array that contains the values: of the rows of a match, and of the different values of a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.analyzer.functions.aggregates import AGGREGATES
from headrace.analyzer.functions.signature import Function, PerType, Spelling, Template, function
from headrace.analyzer.typing import DECIMAL_PRECISION_MAX
from headrace.core.errors import InternalError
from headrace.core.types import BIGINT, Array, DataType, Decimal

_COUNT = "size(filter({0}, v -> v IS NOT NULL))"


def _folded(kind: str, added: str = "a + v", value: str = "v") -> str:
    return f"aggregate({{0}}, CAST(NULL AS {kind}), (a, v) -> CAST(coalesce({added}, a, {value}) AS {kind}))"


def _of_decimals(scale: int) -> str:
    """Return the spelling of an exact sum: of two DECIMALs of one digit less, Spark keeps the scale."""
    short = f"DECIMAL({DECIMAL_PRECISION_MAX - 1}, {scale})"
    return _folded(f"DECIMAL({DECIMAL_PRECISION_MAX}, {scale})", f"CAST(a AS {short}) + CAST(v AS {short})")


def _total(_kinds: Sequence[DataType], result: DataType) -> Spelling:
    return _of_decimals(result.scale) if isinstance(result, Decimal) else _folded("{type}")


def _mean(kinds: Sequence[DataType], result: DataType) -> Spelling:
    """Return the spelling of AVG: the quotient of two DECIMALs, else of DOUBLEs, as for groups."""
    (values,) = kinds
    if not isinstance(values, Array):
        raise InternalError(f"the mean of {values}")
    if isinstance(values.element, Decimal) and isinstance(result, Decimal):
        total = _of_decimals(values.element.scale)
        return f"CAST({total} / CAST(nullif({_COUNT}, 0) AS DECIMAL(20, 0)) AS {{type}})"
    return f"({_folded('DOUBLE')} / nullif({_COUNT}, 0))"


def _row(name: str, spark: Template) -> Function:
    doc = next(row.doc for row in AGGREGATES if row.name == name)
    return function(name, "array", lambda kinds: kinds[0], doc, spark=spark)


ARRAY_AGGREGATES: Mapping[str, Function] = {
    "COUNT": _row("COUNT", f"CAST({_COUNT} AS BIGINT)"),
    "SUM": _row("SUM", PerType(_total)),
    "AVG": _row("AVG", PerType(_mean)),
    "MIN": _row("MIN", "array_min({0})"),
    "MAX": _row("MAX", "array_max({0})"),
}
"""A sum of DECIMALs has 37 digits at most, else the query ends."""
NUMBER_OF_ROWS = function(
    "COUNT",
    "array",
    BIGINT,
    ARRAY_AGGREGATES["COUNT"].doc,
    spark="CAST(size({0}) AS BIGINT)",
)
