"""Functions on regular expressions, which are Java's in continuous queries and RE2's in queries of views."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.analyzer.functions.signature import Function, function, integer_places, text_function
from headrace.core.types import BOOLEAN, INTEGER, VARCHAR, Array


def _regexp_extract(arguments: Sequence[str]) -> str:
    group = arguments[2] if len(arguments) > 2 else "0"
    return f"CASE WHEN {arguments[0]} RLIKE {arguments[1]} THEN regexp_extract({arguments[0]}, {arguments[1]}, {group}) END"


def _tried(call: str) -> str:
    """Return DuckDB's SQL of a call over `r.text` and `r.pattern`, NULL if the pattern is not valid.

    DuckDB compiles a constant pattern before TRY catches its error; a variable of a lambda function is not constant.
    """
    return f"list_transform([struct_pack(text := {{0}}, pattern := {{1}})], lambda r: TRY({call}))[1]"


_NULL_IF_INVALID = "NULL for a pattern that is not valid."

REGULAR_EXPRESSIONS: tuple[Function, ...] = (
    text_function(
        "REGEXP_REPLACE",
        "text, text, text",
        "With each match of the regular expression replaced; `$1` is its first group, `\\$` is a dollar.",
        duckdb="regexp_replace({0}, {1}, replacement({2}), 'g')",
    ),
    text_function(
        "REGEXP_EXTRACT",
        "text, text, [integer]",
        "The group (0: all) of the first match; NULL when nothing matches.",
        spark=_regexp_extract,
        duckdb=None,
    ),
    function(
        "REGEXP",
        "text, text",
        BOOLEAN,
        "True if a part matches the regular expression.",
        spark="({0} RLIKE {1})",
        duckdb="regexp_matches({0}, {1})",
    ),
    function(
        "REGEXP_COUNT",
        "text, text",
        INTEGER,
        f"Number of matches of the regular expression; {_NULL_IF_INVALID}",
        spark="headrace_regexp_count({*})",
        duckdb=_tried("CAST(len(regexp_extract_all(r.text, r.pattern)) AS INTEGER)"),
    ),
    function(
        "REGEXP_INSTR",
        "text, text",
        INTEGER,
        f"1-based position of the first match; 0 if nothing matches, {_NULL_IF_INVALID}",
        spark="headrace_regexp_instr({*})",
        duckdb=_tried(
            "CASE regexp_matches(r.text, r.pattern) WHEN true THEN CAST(length(regexp_extract(r.text, "
            "concat('(?s:\\A(.*?))(?:', r.pattern, ')'), 1)) + 1 AS INTEGER) WHEN false THEN 0 END"
        ),
    ),
    text_function(
        "REGEXP_SUBSTR",
        "text, text",
        f"The first match; NULL if nothing matches, {_NULL_IF_INVALID}",
        spark="headrace_regexp_substr({*})",
        duckdb=_tried(
            "CASE WHEN regexp_matches(r.text, r.pattern) THEN regexp_extract(r.text, r.pattern) END"
        ),
    ),
    function(
        "REGEXP_EXTRACT_ALL",
        "text, text, [integer]",
        Array(VARCHAR),
        f"A group (1; 0 is the whole match) of each match; {_NULL_IF_INVALID}",
        spark=lambda arguments: f"headrace_regexp_extract_all({', '.join([*arguments, '1'][:3])})",
        operands=integer_places("text, text, integer"),
    ),
)
