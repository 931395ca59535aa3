"""Functions that queries of the catalog call: each as an expression of DuckDB's SQL over its arguments `$1`, `$2`, ….

A function that is neither here nor in `KNOWN` is refused, so that a query reaches nothing but the tables of the catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headrace.server.postgres.catalog.rows import Snapshot
from headrace.server.postgres.catalog.shapes import PG_CATALOG, TYPE_NAMES
from headrace.server.postgres.types import BPCHAR, NUMERIC, TIMESTAMP, TIMESTAMPTZ, VARCHAR, type_name

Template = str | Callable[[Snapshot], str]

KNOWN = frozenset(
    [
        "Abs",
        "All",
        "And",
        "Any",
        "Array",
        "ArrayAgg",
        "ArrayConcat",
        "ArrayContains",
        "ArrayPosition",
        "ArraySize",
        "Avg",
        "Case",
        "Cast",
        "Coalesce",
        "Concat",
        "ConcatWs",
        "Count",
        "CurrentDate",
        "CurrentTimestamp",
        "DenseRank",
        "Exists",
        "Explode",
        "Extract",
        "Floor",
        "Ceil",
        "Greatest",
        "GroupConcat",
        "If",
        "Initcap",
        "Least",
        "Left",
        "Length",
        "LogicalAnd",
        "LogicalOr",
        "Lower",
        "Max",
        "Min",
        "Mod",
        "Nullif",
        "Or",
        "Rank",
        "RegexpILike",
        "RegexpLike",
        "RegexpReplace",
        "Replace",
        "Right",
        "Round",
        "RowNumber",
        "SplitPart",
        "StrPosition",
        "Substring",
        "Sum",
        "Trim",
        "TryCast",
        "Upper",
        "Unnest",
        "Xor",
    ]
)
"""Classes of sqlglot for functions that DuckDB has in the same sense."""


_OBJECTS = (
    "table",
    "any_column",
    "column",
    "schema",
    "database",
    "sequence",
    "function",
    "type",
    "tablespace",
    "server",
)


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _format_type() -> str:
    zone = {TIMESTAMP: "without", TIMESTAMPTZ: "with"}
    precise = " ".join(
        f"WHEN $1 = {oid} AND $2 >= 0 THEN 'timestamp(' || CAST($2 AS VARCHAR) || ') {word} time zone'"
        for oid, word in zone.items()
    )
    limited = " ".join(
        f"WHEN $1 = {oid} AND $2 > 4 THEN '{type_name(oid)}(' || CAST($2 - 4 AS VARCHAR) || ')'"
        for oid in (VARCHAR, BPCHAR)
    )
    number = (
        f"WHEN $1 = {NUMERIC} AND $2 > 4 THEN 'numeric(' || CAST(($2 - 4) // 65536 AS VARCHAR) || ',' || "
        "CAST(($2 - 4) % 65536 AS VARCHAR) || ')'"
    )
    named = f"(SELECT min(t.name) FROM {PG_CATALOG}.{TYPE_NAMES} AS t WHERE t.oid = $1)"
    return f"CASE {limited} {number} {precise} ELSE {named} END"


def _search_path(objects: Snapshot) -> str:
    return objects.variables.get("search_path", "public")


def _schema(objects: Snapshot) -> str:
    names = (name.strip().strip('"') for name in _search_path(objects).split(","))
    return next((name for name in names if name in objects.schemas), "public")


def _visible(objects: Snapshot) -> str:
    schemas = f"({_text(_schema(objects))}, 'pg_catalog')"
    return (
        "($1 IN (SELECT c.oid FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace "
        f"WHERE n.nspname IN {schemas}))"
    )


def _to_regclass(objects: Snapshot) -> str:
    """Return the OID of the relation with a name: in the current schema or PostgreSQL's own, or with its schema before it."""
    name = "replace($1, '\"', '')"
    return (
        "(SELECT min(c.oid) FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace "
        f"WHERE n.nspname || '.' || c.relname = {name} OR (c.relname = {name} AND n.nspname IN ({_text(_schema(objects))}, 'pg_catalog')))"
    )


def _setting(objects: Snapshot) -> str:
    known = " ".join(f"WHEN {_text(name)} THEN {_text(value)}" for name, value in objects.variables.items())
    return f"CASE lower($1) {known} END"


_EMPTY = "CAST(NULL AS VARCHAR)"
_SCALARS: Mapping[str, Template] = {
    # Only objects that the role may see are listed; a statement checks its privileges itself.
    **{f"has_{kind}_privilege": "TRUE" for kind in _OBJECTS},
    "pg_has_role": "TRUE",
    **dict.fromkeys(
        ("pg_type_is_visible", "pg_function_is_visible", "pg_opclass_is_visible", "pg_collation_is_visible"),
        "TRUE",
    ),
    **dict.fromkeys(
        ("pg_operator_is_visible", "pg_ts_config_is_visible", "pg_statistics_obj_is_visible"), "TRUE"
    ),
    **dict.fromkeys(
        (
            "pg_get_expr",
            "pg_get_constraintdef",
            "pg_get_indexdef",
            "pg_get_partkeydef",
            "pg_get_partition_constraintdef",
            "pg_get_functiondef",
            "pg_get_function_arguments",
            "pg_get_function_identity_arguments",
            "pg_get_function_result",
            "pg_get_serial_sequence",
            "pg_get_ruledef",
            "pg_get_triggerdef",
            "pg_get_statisticsobjdef_columns",
            "pg_tablespace_location",
            "shobj_description",
            "inet_server_addr",
            "inet_client_addr",
            "to_regproc",
            "to_regnamespace",
        ),
        _EMPTY,
    ),
    **dict.fromkeys(
        (
            "pg_relation_size",
            "pg_table_size",
            "pg_total_relation_size",
            "pg_indexes_size",
            "pg_database_size",
            "txid_current",
        ),
        "CAST(0 AS BIGINT)",
    ),
    "pg_size_pretty": "'0 bytes'",
    "pg_is_in_recovery": "FALSE",
    "pg_is_other_temp_schema": "FALSE",
    "pg_my_temp_schema": "CAST(0 AS UINTEGER)",
    "pg_backend_pid": "0",
    "pg_relation_is_publishable": "FALSE",
    "pg_encoding_to_char": "'UTF8'",
    "pg_client_encoding": "'UTF8'",
    "row_security_active": "FALSE",
    "format_type": _format_type(),
    "pg_get_userbyid": "(SELECT min(r.rolname) FROM pg_catalog.pg_roles AS r WHERE r.oid = $1)",
    "pg_get_viewdef": (
        "(SELECT min(v.definition) FROM pg_catalog.pg_matviews AS v JOIN pg_catalog.pg_namespace AS n ON n.nspname = v.schemaname "
        "JOIN pg_catalog.pg_class AS c ON c.relname = v.matviewname AND c.relnamespace = n.oid WHERE c.oid = $1)"
    ),
    "obj_description": (
        "(SELECT min(d.description) FROM pg_catalog.pg_description AS d WHERE d.objoid = $1 AND d.objsubid = 0)"
    ),
    "col_description": (
        "(SELECT min(d.description) FROM pg_catalog.pg_description AS d WHERE d.objoid = $1 AND d.objsubid = $2)"
    ),
    "pg_table_is_visible": _visible,
    "to_regclass": _to_regclass,
    "to_regtype": "(SELECT min(t.oid) FROM pg_catalog.pg_type AS t WHERE t.typname = $1 OR format_type(t.oid, -1) = $1)",
    # The second is sqlglot's name of the first.
    **dict.fromkeys(
        ("version", "current_version"),
        lambda objects: _text(f"PostgreSQL {objects.variables['server_version']}"),
    ),
    "current_schema": lambda objects: _text(_schema(objects)),
    "current_schemas": lambda objects: (
        f"CASE WHEN $1 THEN ['pg_catalog', {_text(_schema(objects))}] ELSE [{_text(_schema(objects))}] END"
    ),
    "current_database": lambda objects: _text(objects.database),
    "current_catalog": lambda objects: _text(objects.database),
    **dict.fromkeys(
        ("current_user", "session_user", "current_role", "user"), lambda objects: _text(objects.user)
    ),
    "current_setting": _setting,
    "quote_ident": (
        "CASE WHEN regexp_full_match($1, '[a-z_][a-z0-9_$]*') THEN $1 ELSE '\"' || replace($1, '\"', '\"\"') || '\"' END"
    ),
    "quote_literal": "chr(39) || replace($1, chr(39), chr(39) || chr(39)) || chr(39)",
    "parse_ident": "string_split(replace($1, '\"', ''), '.')",
    "array_to_string": "array_to_string($1, $2)",
    "string_to_array": "string_split($1, $2)",
    "array_length": "CASE WHEN len($1) > 0 THEN len($1) END",
    "array_upper": "CASE WHEN len($1) > 0 THEN len($1) END",
    "array_lower": "CASE WHEN len($1) > 0 THEN 1 END",
    "cardinality": "len($1)",
    "array_remove": "list_filter($1, lambda x: x IS DISTINCT FROM $2)",
    "array_append": "list_append($1, $2)",
    **dict.fromkeys(("generate_series", "exploding_generate_series"), "unnest(generate_series($1, $2))"),
    "generate_subscripts": "unnest(generate_series(1, len($1)))",
    "_pg_expandarray": "{'x': CAST(0 AS SMALLINT), 'n': 0}",
    "now": "CAST(current_timestamp AS TIMESTAMP)",
    "pg_postmaster_start_time": "CAST(NULL AS TIMESTAMP)",
    "btrim": "trim($1)",
    "char_length": "length($1)",
    "octet_length": "strlen($1)",
    "substr": "substring($1, $2)",
    "strpos": "strpos($1, $2)",
    "starts_with": "starts_with($1, $2)",
    "bool_or": "bool_or($1)",
    "bool_and": "bool_and($1)",
    "every": "bool_and($1)",
    "string_agg": "string_agg($1, $2)",
    "pg_char_to_encoding": "6",
    # Its comparison becomes `NOT list_contains` (`translation`).
    "all": "$1",
    "pg_get_keywords": "unnest(CAST([] AS STRUCT(word VARCHAR, catcode VARCHAR, catdesc VARCHAR)[]), recursive := TRUE)",
    "aclexplode": (
        "unnest(CAST([] AS STRUCT(grantor UINTEGER, grantee UINTEGER, privilege_type VARCHAR, is_grantable BOOLEAN)[]), "
        "recursive := TRUE)"
    ),
    "pg_partition_ancestors": "unnest(CAST([] AS UINTEGER[]))",
    "pg_available_extensions": (
        "unnest(CAST([] AS STRUCT(name VARCHAR, default_version VARCHAR, comment VARCHAR)[]), recursive := TRUE)"
    ),
    "pg_options_to_table": (
        "unnest(CAST([] AS STRUCT(option_name VARCHAR, option_value VARCHAR)[]), recursive := TRUE)"
    ),
}
RECORD_SETS = frozenset({"pg_get_keywords", "aclexplode", "pg_options_to_table", "pg_available_extensions"})
"""Functions that return rows of several columns; they have none here."""


RENAMED = {"json_build_object": "json_object"}
"""Functions that DuckDB has by another name, with any number of arguments."""


def template(name: str, objects: Snapshot) -> str | None:
    """Return the expression of a function, None for an unknown one."""
    expression = _SCALARS.get(name)
    return expression if expression is None or isinstance(expression, str) else expression(objects)


def function_names() -> frozenset[str]:
    """Return the names of the functions that are known here."""
    return frozenset(_SCALARS)
