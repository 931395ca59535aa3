"""Functions on JSON texts."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.analyzer.functions.signature import Function, function, text_function
from headrace.core.types import BOOLEAN, VARCHAR
from headrace.formats.json import nested_sql


def _json_string(arguments: Sequence[str]) -> str:
    """Return to_json of an array with its brackets removed, since Spark's to_json does not accept a plain value."""
    text = nested_sql(f"array({arguments[0]})", nulls=False)
    return f"CASE WHEN {arguments[0]} IS NOT NULL THEN substring({text}, 2, char_length({text}) - 2) END"


def _json(name: str, output: str, doc: str) -> Function:
    arguments = f"({{0}}, {{1}}, '{output}')"
    return function(
        name,
        "text, text",
        VARCHAR,
        doc,
        spark=f"headrace_json{arguments}",
        duckdb=f"json_answer{arguments}",
    )


JSON_STATES = {
    "JSON_VALUE": _json("JSON_VALUE_STATE", "value_state", "found, empty or error."),
    "JSON_QUERY": _json("JSON_QUERY_STATE", "query_state", "found, empty or error."),
    "JSON_EXISTS": _json("JSON_EXISTS_STATE", "exists_state", "found, empty or error."),
}
"""Conditions of ON EMPTY and ON ERROR by function."""

JSON_WRAPPERS = {
    word: (
        _json("JSON_QUERY", f"query_{word.lower()}", f"The value at a path, {doc} in an array."),
        _json("JSON_QUERY_STATE", f"query_{word.lower()}_state", "found, empty or error."),
    )
    for word, doc in (("CONDITIONAL", "unless it is an array,"), ("UNCONDITIONAL", "always"))
}
"""JSON_QUERY with a WRAPPER, and its condition."""

JSON: tuple[Function, ...] = (
    _json(
        "JSON_VALUE",
        "value",
        "The scalar at a path ('$.a.b[0]') of a JSON text, as text; NULL if there is none.",
    ),
    _json(
        "JSON_QUERY",
        "query",
        "The object or array at a path of a JSON text, as JSON text; NULL if there is none.",
    ),
    function(
        "JSON_EXISTS",
        "text, text",
        BOOLEAN,
        "True if the path matches a value in the JSON text, including null.",
        spark="(headrace_json({0}, {1}, 'exists') IS NOT NULL)",
        duckdb="(json_answer({0}, {1}, 'exists') IS NOT NULL)",
    ),
    function("JSON_STRING", "any", VARCHAR, "The value as JSON text; NULL of NULL.", spark=_json_string),
    function(
        "JSON_OBJECT",
        "[text], [any], ...",
        VARCHAR,
        "A JSON object: JSON_OBJECT(KEY 'name' VALUE value, …). A NULL value is null, or left out if ABSENT ON NULL "
        "follows.",
        never_null=True,
    ),
    function(
        "JSON_ARRAY",
        "[any], ...",
        VARCHAR,
        "The arguments as a JSON array, without NULLs unless NULL ON NULL follows.",
        never_null=True,
    ),
    text_function(
        "JSON_QUOTE",
        "text",
        "The text as a JSON string, in ASCII.",
        spark="headrace_json_quote({0})",
        duckdb="json_quoted({0})",
    ),
    text_function(
        "JSON_UNQUOTE",
        "text",
        "The text in a JSON string; any other text as it is.",
        spark="headrace_json_unquote({0})",
        duckdb="json_unquoted({0})",
    ),
)

JSON_PREDICATES: tuple[Function, ...] = tuple(
    function(
        name,
        "text",
        BOOLEAN,
        doc,
        spark=f"coalesce(headrace_json_kind({{0}}) {test}, false)",
        duckdb=f"coalesce(json_kind({{0}}) {test}, false)",
        never_null=True,
    )
    for name, test, doc in (
        ("IS JSON", "IS NOT NULL", "The text is JSON."),
        ("IS JSON SCALAR", "= 'scalar'", "The text is a JSON string, number, true, false or null."),
        ("IS JSON ARRAY", "= 'array'", "The text is a JSON array."),
        ("IS JSON OBJECT", "= 'object'", "The text is a JSON object."),
    )
)
"""Predicates; false of NULL."""
