"""Rows of calls that `composed_calls.py` and `json_calls.py` put around others; nobody calls them by name."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.analyzer.functions.signature import Function, function, text_function
from headrace.core.internal_columns import PREFIX
from headrace.core.types import DOUBLE, INTEGER, NULL, VARCHAR, Array, DataType, Struct

_ITEM = f"{PREFIX}item"


def _row(kinds: Sequence[DataType]) -> DataType:
    return Struct(tuple((f"f{index}", kind) for index, kind in enumerate(kinds)))


def _field_of_elements(kinds: Sequence[DataType]) -> DataType | None:
    array = kinds[0]
    return (
        Array(array.element.fields[0][1])
        if isinstance(array, Array) and isinstance(array.element, Struct)
        else None
    )


def _fields(arguments: Sequence[str], name: str, field: str) -> str:
    return f"{name}({', '.join(field.format(i, text) for i, text in enumerate(arguments))})"


ROW = function(
    "ROW",
    "any, ...",
    _row,
    "The arguments as a STRUCT with fields f0, f1, ….",
    spark=lambda arguments: _fields(arguments, "named_struct", "'f{0}', {1}"),
    duckdb=lambda arguments: _fields(arguments, "struct_pack", "f{0} := {1}"),
    never_null=True,
)
COPIES = function(
    "COPIES",
    "integer",
    Array(INTEGER),
    "An array of as many elements as the argument is.",
    spark="array_repeat(1, CAST({0} AS INT))",
    never_null=True,
)
RAISE = function(
    "RAISE",
    "text",
    NULL,
    "An error with the SQLSTATE in brackets and the reason.",
    spark="raise_error({0})",
    duckdb="error({0})",
)
FROM_JSON = function(
    "FROM_JSON",
    "text",
    VARCHAR,
    "A JSON text as a typed value.",
    spark="headrace_from_json(CAST({0} AS BINARY), {type_text}, 'any').value",
)
RAND_INTEGER = function(
    "RAND_INTEGER",
    "integer, integer",
    INTEGER,
    "A random whole number from 0 up to, not including, the first argument, of a sequence that the second determines.",
    spark="CAST(floor(rand({1}) * {0}) AS INT)",
    deterministic=False,
    constant_from=1,
)

# --- around COLLECT

ARRAY_AGG = function(
    "ARRAY_AGG",
    "array",
    _field_of_elements,
    "The first field of each STRUCT; NULL for no rows.",
    spark=f"CASE WHEN cardinality({{0}}) > 0 THEN transform({{0}}, {_ITEM} -> {_ITEM}.f0) END",
    duckdb=f"CASE WHEN len({{0}}) > 0 THEN list_transform({{0}}, lambda {_ITEM}: {_ITEM}.f0) END",
)
ARRAY_AGG_NOT_NULL = function(
    "ARRAY_AGG",
    "array",
    lambda kinds: kinds[0],
    "The array; NULL for no elements.",
    spark="CASE WHEN cardinality({0}) > 0 THEN {0} END",
    duckdb="CASE WHEN len({0}) > 0 THEN {0} END",
)
PERCENTILE = function(
    "PERCENTILE",
    "array, number",
    DOUBLE,
    "The value at a share of the sorted elements.",
    spark="headrace_percentile({0}, {1})",
    duckdb="list_aggregate({0}, 'quantile_cont', {1})",
)
WEIGHTED_PERCENTILE = function(
    "PERCENTILE",
    "array, number",
    DOUBLE,
    "The value at a share of the sorted elements, which are STRUCTs of a value and its frequency.",
    spark="headrace_weighted_percentile({0}, {1})",
)
PERCENTILES = function(
    "PERCENTILE",
    "number, ...",
    Array(DOUBLE),
    "The values as an array; NULL if they are.",
    spark="CASE WHEN {0} IS NOT NULL THEN array({*}) END",
    duckdb="CASE WHEN {0} IS NOT NULL THEN list_value({*}) END",
)
JSON_ARRAYAGG = text_function(
    "JSON_ARRAYAGG",
    "array",
    "JSON texts as a JSON array.",
    spark="concat('[', array_join({0}, ','), ']')",
    duckdb=None,
)
JSON_OBJECTAGG = text_function(
    "JSON_OBJECTAGG",
    "array, array",
    "Members as a JSON object; the second array contains the keys.",
    spark="IF(cardinality(array_distinct({1})) < cardinality({1}), raise_error('[22000] "
    "JSON_OBJECTAGG has the same key twice'), concat('{', array_join({0}, ','), '}'))",
    duckdb=None,
)

# --- JSON


def _joined(opening: str, closing: str) -> Function:
    def spell(arguments: Sequence[str]) -> str:
        if not arguments:
            return f"'{opening}{closing}'"
        return f"concat('{opening}', array_join(array({', '.join(arguments)}), ','), '{closing}')"

    name = "JSON_OBJECT" if opening == "{" else "JSON_ARRAY"
    doc = "JSON texts in one, without NULLs."
    return function(name, "[text], ...", VARCHAR, doc, spark=spell, never_null=True)


JSON_OBJECT, JSON_ARRAY = _joined("{", "}"), _joined("[", "]")
JSON_RAW = text_function(
    "JSON",
    "text",
    "A JSON text as it is; NULL of an empty one.",
    spark="CASE WHEN headrace_json_kind({0}) IS NOT NULL THEN {0} WHEN {0} <> '' THEN "
    "raise_error('[22000] the text of JSON() is not JSON') END",
    duckdb=None,
)
JSON_CONSTRUCTORS = (JSON_OBJECT, JSON_ARRAY, JSON_OBJECTAGG, JSON_ARRAYAGG)
"""Calls whose text is a JSON value, which another takes as it is."""
