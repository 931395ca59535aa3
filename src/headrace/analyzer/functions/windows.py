"""Window functions, which require OVER. `{over}` in a template marks the position of that clause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.analyzer.functions.aggregates import AGGREGATES, DUCKDB_DIVISION, quotient
from headrace.analyzer.functions.signature import Function, Template, function
from headrace.core.types import BIGINT, DOUBLE, DataType


def _first(kinds: Sequence[DataType]) -> DataType:
    return kinds[0]


def _aggregate(name: str, duckdb: Template) -> Function:
    row = next(row for row in AGGREGATES if row.name == name)
    return replace(
        row, spark=None, duckdb=duckdb, aggregate=False, doc=f"{row.doc[:-1]}, of the rows of the frame."
    )


RANKINGS: tuple[Function, ...] = (
    function(
        "ROW_NUMBER",
        "",
        BIGINT,
        "The position of a row in its partition, from 1.",
        duckdb="row_number() {over}",
        never_null=True,
    ),
    function(
        "RANK",
        "",
        BIGINT,
        "Like ROW_NUMBER; equal rows share the position of the first.",
        duckdb="rank() {over}",
        never_null=True,
    ),
    function(
        "DENSE_RANK",
        "",
        BIGINT,
        "Like RANK, without gaps after equal rows.",
        duckdb="dense_rank() {over}",
        never_null=True,
    ),
    function(
        "PERCENT_RANK",
        "",
        DOUBLE,
        "The RANK minus one, divided by the number of rows in the partition minus one; 0 for one row.",
        duckdb="percent_rank() {over}",
        never_null=True,
    ),
    function(
        "CUME_DIST",
        "",
        DOUBLE,
        "The share of the partition's rows that are not after the row.",
        duckdb="cume_dist() {over}",
        never_null=True,
    ),
    function(
        "NTILE",
        "integer",
        BIGINT,
        "The bucket of the row, from 1, if the partition is divided into a number of buckets of equal size.",
        duckdb="ntile({0}) {over}",
    ),
    function(
        "LAG",
        "any, [integer], [any]",
        _first,
        "The value of a number of rows (1) before; NULL or the third argument if there is no such row.",
        duckdb="lag({*}) {over}",
    ),
    function(
        "LEAD",
        "any, [integer], [any]",
        _first,
        "The value of a number of rows (1) after; NULL or the third argument if there is no such row.",
        duckdb="lead({*}) {over}",
    ),
)

WINDOW_FUNCTIONS: dict[str, Function] = {
    row.name: row
    for row in (
        *RANKINGS,
        function(
            "FIRST_VALUE",
            "any",
            _first,
            "The value of the first row of the frame.",
            duckdb="first_value({0}) {over}",
        ),
        function(
            "LAST_VALUE",
            "any",
            _first,
            "The value of the last row of the frame.",
            duckdb="last_value({0}) {over}",
        ),
        _aggregate("COUNT", "count({*}) {over}"),
        _aggregate("SUM", "CAST(sum({0}) {over} AS {type})"),
        _aggregate("AVG", quotient("avg({0}) {over}", DUCKDB_DIVISION, " {over}")),
        _aggregate("MIN", "min({0}) {over}"),
        _aggregate("MAX", "max({0}) {over}"),
    )
}
"""By name."""
