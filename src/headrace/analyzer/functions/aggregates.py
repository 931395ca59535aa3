"""Aggregate functions. They ignore NULLs, except for ARRAY_AGG, and return NULL over no values, except for COUNT, COLLECT and JSON."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.analyzer.functions.signature import SAME, Function, PerType, Spelling, Template, function
from headrace.analyzer.typing import DECIMAL_PRECISION_MAX, DECIMAL_SCALE_KEPT, has_approximate
from headrace.core.types import BIGINT, DOUBLE, INTEGRAL, VARCHAR, Array, DataType, Decimal


def _sum(kinds: Sequence[DataType]) -> DataType:
    kind = kinds[0]
    if isinstance(kind, Decimal):
        return Decimal(DECIMAL_PRECISION_MAX, kind.scale)
    return BIGINT if kind in INTEGRAL else DOUBLE


def _average(kinds: Sequence[DataType]) -> DataType:
    kind = kinds[0]
    if isinstance(kind, Decimal):
        return Decimal(DECIMAL_PRECISION_MAX, max(kind.scale, DECIMAL_SCALE_KEPT))
    return DOUBLE


def _first(kinds: Sequence[DataType]) -> DataType:
    return kinds[0]


def _deviation(name: str, doc: str, spark: str | None = None) -> Function:
    return function(name, "number", DOUBLE, doc, spark=spark, duckdb=SAME, aggregate=True)


def quotient(plain: str, division: str, over: str = "") -> Template:
    """Return the template of AVG over DECIMALs: sum by count, as in Flink; the engines' own would round differently."""

    def choose(kinds: Sequence[DataType], result: DataType) -> Spelling:
        if not isinstance(kinds[0], Decimal) or not isinstance(result, Decimal):
            return plain
        total = f"CAST(sum({{0}}){over} AS DECIMAL({DECIMAL_PRECISION_MAX}, {kinds[0].scale}))"
        count = f"CAST(nullif(count({{0}}){over}, 0) AS DECIMAL(20, 0))"
        text = division.replace("{0}", total).replace("{1}", count).replace("{scale}", str(result.scale))
        return f"CAST({text} AS {{type}})"

    return PerType(choose)


DUCKDB_DIVISION = "decimal_arithmetic('/', CAST({0} AS VARCHAR), CAST({1} AS VARCHAR), 38, {scale})"

AGGREGATES: tuple[Function, ...] = (
    function(
        "COUNT",
        "any",
        BIGINT,
        "Number of rows, COUNT(*), or of values; COUNT(DISTINCT x) of different values.",
        spark="count({*})",
        duckdb=SAME,
        aggregate=True,
        never_null=True,
    ),
    function(
        "APPROX_COUNT_DISTINCT",
        "any",
        BIGINT,
        "Number of different values; it is exact.",
        duckdb=SAME,
        aggregate=True,
        never_null=True,
    ),
    function(
        "SUM",
        "number",
        _sum,
        "Sum; of whole numbers a BIGINT.",
        duckdb="CAST(sum({0}) AS {type})",
        aggregate=True,
    ),
    function(
        "AVG",
        "number",
        _average,
        "Mean; a DOUBLE unless of a DECIMAL.",
        spark=quotient("avg({0})", "({0} / {1})"),
        duckdb=quotient("avg({0})", DUCKDB_DIVISION),
        aggregate=True,
    ),
    function("MIN", "ordered", _first, "The smallest.", duckdb=SAME, aggregate=True),
    function("MAX", "ordered", _first, "The largest.", duckdb=SAME, aggregate=True),
    _deviation("STDDEV_POP", "Standard deviation of the whole population."),
    _deviation("STDDEV_SAMP", "Standard deviation of a sample."),
    _deviation("STDDEV", "As STDDEV_SAMP.", "stddev_samp({0})"),
    _deviation("VAR_POP", "Variance of the whole population."),
    _deviation("VAR_SAMP", "Variance of a sample."),
    _deviation("VARIANCE", "As VAR_SAMP.", "var_samp({0})"),
    function(
        "COLLECT",
        "any",
        lambda kinds: Array(kinds[0]),
        "All values as an array.",
        spark="collect_list({0})",
        duckdb="list_filter(coalesce(list({0}), []), lambda item: item IS NOT NULL)",
        aggregate=True,
        never_null=True,
    ),
    function(
        "ARRAY_AGG",
        "any",
        lambda kinds: Array(kinds[0]),
        "All values as an array, with NULLs unless IGNORE NULLS follows the value; NULL for no rows.",
        duckdb=SAME,
        aggregate=True,
    ),
    function(
        "PERCENTILE",
        "number, number, [integer]",
        DOUBLE,
        "The value at a share from 0 to 1 of the sorted values, by linear interpolation; 0.5 is the median. An ARRAY "
        "of shares returns an ARRAY. The third argument is the frequency of the value.",
        duckdb=SAME,
        aggregate=True,
    ),
    function(
        "JSON_ARRAYAGG",
        "any",
        VARCHAR,
        "All values as a JSON array, without NULLs unless NULL ON NULL follows.",
        aggregate=True,
        never_null=True,
    ),
    function(
        "JSON_OBJECTAGG",
        "text, any",
        VARCHAR,
        "A JSON object: JSON_OBJECTAGG(KEY text VALUE value). Each key once; a NULL value is null, or left out if ABSENT "
        "ON NULL follows.",
        aggregate=True,
        never_null=True,
    ),
    function(
        "COLLECT_SET",
        "any",
        lambda kinds: Array(kinds[0]),
        "The different values as an array.",
        # Spark's set holds a NaN as often as it comes.
        spark=PerType(
            lambda kinds, _: (
                "array_distinct(collect_set({0}))" if has_approximate(kinds) else "collect_set({0})"
            )
        ),
        aggregate=True,
        never_null=True,
    ),
    function(
        "LISTAGG",
        "text, [text]",
        VARCHAR,
        "All texts, with a delimiter (',') between them.",
        spark=lambda arguments: f"listagg({arguments[0]}, {_delimiter(arguments)})",
        duckdb=lambda arguments: f"string_agg({arguments[0]}, {_delimiter(arguments)})",
        aggregate=True,
        constant_from=1,
    ),
    function(
        "FIRST_VALUE",
        "any",
        _first,
        "The first value in order of arrival, without NULLs.",
        spark="first({0}, true)",
        duckdb="any_value({0})",
        aggregate=True,
    ),
    function(
        "LAST_VALUE",
        "any",
        _first,
        "The last value in order of arrival, without NULLs.",
        spark="last({0}, true)",
        duckdb="last({0}) FILTER (WHERE {0} IS NOT NULL)",
        aggregate=True,
    ),
)


def _delimiter(arguments: Sequence[str]) -> str:
    return arguments[1] if len(arguments) > 1 else "','"
