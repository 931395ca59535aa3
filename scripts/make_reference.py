"""Writes the parts of docs/ that are generated from the code: functions, properties, system relations, settings, what is refused.

Run it after changing either; tests/unit/docs/test_docs.py fails until it was. A generated part stands between the lines
`<!-- generated: <what> -->` and `<!-- end -->`; all else in those pages is written by hand and kept.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from headrace.analyzer.functions import OPERATORS_BY_NAME, SYNONYMS, WINDOW_FUNCTIONS
from headrace.analyzer.functions.aggregates import AGGREGATES
from headrace.analyzer.functions.arrays import COLLECTIONS
from headrace.analyzer.functions.encodings import ENCODINGS
from headrace.analyzer.functions.json import JSON
from headrace.analyzer.functions.regular_expressions import REGULAR_EXPRESSIONS
from headrace.analyzer.functions.scalars import CONDITIONALS, MATHEMATICS, TEXTS
from headrace.analyzer.functions.signature import Function, ParameterKind
from headrace.analyzer.functions.temporals import TEMPORALS
from headrace.analyzer.properties import DIALECT
from headrace.connectors.registry import STORE_TYPES, connector
from headrace.connectors.schema_registry.options import PROPERTIES as REGISTRY_PROPERTIES
from headrace.core.idioms import IDIOMS, Place
from headrace.core.names import INFORMATION_SCHEMA, SYSTEM_SCHEMA
from headrace.core.properties import PropertySpec, Scope, of_scope
from headrace.core.settings import Settings
from headrace.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DOUBLE,
    INTEGER,
    VARCHAR,
    Array,
    DataType,
    Decimal,
    Map,
    Timestamp,
)
from headrace.engine.metrics import METRICS
from headrace.engine.pool_properties import PLACE, SPARK, SPARK_SETTINGS
from headrace.planner.placement import CLUSTER_RULES, REMOTE_RULES, Rule
from headrace.server.app import create_app
from headrace.server.graphql.schema import sdl
from headrace.server.openapi import document
from headrace.server.ports import ServerParts
from headrace.sql.catalogue import HINTS, NOT_SUPPORTED
from headrace.statements.system import RELATIONS

DOCS = Path(__file__).resolve().parents[1] / "docs"
# RLIKE has no syntax: REGEXP(a, b) says the same.
GROUPS: dict[str, Sequence[Function]] = {
    "Operators and predicates": tuple(row for name, row in OPERATORS_BY_NAME.items() if name != "RLIKE"),
    "Aggregates": AGGREGATES,
    "Window functions": tuple(WINDOW_FUNCTIONS.values()),
    "Conditions": CONDITIONALS,
    "Numbers": MATHEMATICS,
    "Text": TEXTS,
    "Regular expressions": REGULAR_EXPRESSIONS,
    "Encodings, hashes": ENCODINGS,
    "Dates and times": TEMPORALS,
    "Arrays and maps": COLLECTIONS,
    "JSON": JSON,
}
FORMS = {
    "NEGATE": "-a",
    "NOT": "NOT a",
    "DIV": "a / b",
    "IS NULL": "a IS NULL",
    "IS JSON": "a IS JSON [VALUE]",
    "IS JSON SCALAR": "a IS JSON SCALAR",
    "IS JSON ARRAY": "a IS JSON ARRAY",
    "IS JSON OBJECT": "a IS JSON OBJECT",
    "IS TRUE": "a IS TRUE",
    "IS FALSE": "a IS FALSE",
    "BETWEEN": "a BETWEEN b AND c",
    "IN": "a IN (b, …)",
    "LIKE": "a LIKE b [ESCAPE c]",
    "ELEMENT_AT": "a[b]",
}
"""How operators are written that do not stand between two operands."""
_ALL_KINDS: tuple[DataType, ...] = (INTEGER, BIGINT, DOUBLE, VARCHAR)
_SAMPLES: dict[ParameterKind, tuple[DataType, ...]] = {
    ParameterKind.NUMBER: (INTEGER, DOUBLE, Decimal(10, 2)),
    ParameterKind.INTEGER: (INTEGER, BIGINT),
    ParameterKind.TEXT: (VARCHAR,),
    ParameterKind.BOOLEAN: (BOOLEAN,),
    ParameterKind.TIMESTAMP: (Timestamp(3),),
    ParameterKind.TEMPORAL: (Timestamp(3),),
    ParameterKind.EVENT_TIME: (BIGINT, Timestamp(3)),
    ParameterKind.BYTES: (BYTES,),
    ParameterKind.BINARY: (VARCHAR, BYTES),
    ParameterKind.ARRAY: (Array(INTEGER), Array(VARCHAR)),
    ParameterKind.MAP: (Map(VARCHAR, INTEGER), Map(VARCHAR, VARCHAR)),
    ParameterKind.COLLECTION: (Array(INTEGER), Map(VARCHAR, VARCHAR)),
}


def functions() -> str:
    """The function catalogue as tables, one for each family."""
    return "\n\n".join(f"## {title}\n\n{_table(rows)}" for title, rows in GROUPS.items())


def synonyms() -> str:
    """Other names of functions."""
    return "\n".join(
        [
            "| name | is |",
            "|---|---|",
            *(f"| `{other}` | `{name}` |" for other, name in sorted(SYNONYMS.items())),
        ]
    )


def settings() -> str:
    """The settings of the server as a table."""
    lines = ["| variable | default | |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = "" if field.default in (None, ()) or field.default_factory else f"`{field.default}`"
        default = (
            f"`{','.join(field.default)}`" if field.default and isinstance(field.default, tuple) else default
        )
        default = "the user's data folder" if name == "data_dir" else default
        lines.append(f"| `HEADRACE_{name.upper()}` | {default} | {_cell(field.description or '')} |")
    return "\n".join(lines)


def placement_rules(rules: Iterable[Rule], where: str) -> str:
    """Return the features that a kind of pool does not support as a table."""
    lines = [f"| not in a pool {where} | instead |", "|---|---|"]
    lines += [f"| {_cell(rule.feature)} | {_cell(rule.hint)} |" for rule in rules]
    return "\n".join(lines)


def cluster_stores() -> str:
    """Return what the tasks of each store type need of the workers of a cluster as a table."""
    needs = {"java": "Java", "python": "`HEADRACE_WORKER_PYTHON`", None: "refused: it was never tested there"}
    lines = ["| store type | its tasks need on workers |", "|---|---|"]
    lines += [f"| {name.upper()} | {needs[connector(name).on_clusters]} |" for name in sorted(STORE_TYPES)]
    return "\n".join(lines)


def pool_properties() -> str:
    """Return the properties that say where a compute pool runs as a table."""
    lines = ["| property | default | |", "|---|---|---|"]
    lines += [f"| {_names(spec)} | {_cell(spec.default)} | {_cell(spec.doc)} |" for spec in PLACE]
    accepted = ", ".join(f"`{SPARK.name}{name}` ({kind.expected})" for name, kind in SPARK_SETTINGS.items())
    return "\n".join([*lines, "", f"The settings of Spark are {accepted}."])


def metrics() -> str:
    """Return the metrics of queries as a table, with those that are not on the metrics page."""
    lines = ["| metric | |", "|---|---|"]
    for metric in METRICS:
        labels = f"{{{', '.join(metric.labels)}}}" if metric.labels else ""
        name = f"headrace_query_{metric.name}" if metric.is_exported else metric.name
        only = "" if metric.is_exported else " Not on the metrics page."
        lines.append(f"| `{name}{labels}` | {_cell(metric.help)}{only} |")
    return "\n".join(lines)


def refused() -> str:
    """Return the statements that the grammar knows and refuses, grouped by hint."""
    statements: dict[str, list[str]] = {}
    for start in NOT_SUPPORTED:
        statements.setdefault(HINTS.get(start, ""), []).append(f"`{start}`")
    rows = (f"| {', '.join(starts)} | {_cell(hint)} |" for hint, starts in statements.items())
    return "\n".join(["| statement | instead |", "|---|---|", *rows])


def idioms(*places: Place) -> str:
    """Return a table of other systems' idioms and our forms of them."""
    rows = (
        f"| `{_cell(idiom.typed)}` | `{_cell(idiom.ours)}` | {_cell(idiom.hint)} | {', '.join(idiom.systems)} |"
        for idiom in IDIOMS
        if idiom.place in places
    )
    return "\n".join(["| typed | here | | known from |", "|---|---|---|---|", *rows])


def types() -> str:
    """Names of types in other systems and ours."""
    rows = (
        f"| `{idiom.words}` | `{idiom.replacement}` | {', '.join(idiom.systems)} |"
        for idiom in IDIOMS
        if idiom.place is Place.TYPE
    )
    return "\n".join(["| type | here | known from |", "|---|---|---|", *rows])


def properties(scope: Scope) -> str:
    """The dialect's own properties that may stand in one place, as a table."""
    rows = (
        f"| {_names(spec)} | {_cell(spec.default)} | {_cell(spec.doc)} |" for spec in of_scope(DIALECT, scope)
    )
    return "\n".join(["| property | default | |", "|---|---|---|", *rows])


def registries() -> str:
    """The properties of schema registries, as a table."""
    rows = (f"| {_names(spec)} | {_cell(spec.default)} | {_cell(spec.doc)} |" for spec in REGISTRY_PROPERTIES)
    return "\n".join(["| property | default | |", "|---|---|---|", *rows])


def sinks() -> str:
    """The same for sinks, with marks for INSERT INTO and views."""
    lines = ["| property | default | also | |", "|---|---|---|---|"]
    for spec in of_scope(DIALECT, Scope.SINK | Scope.VIEW):
        also = [word for word, scope in _OTHER_SINKS.items() if spec.scope & scope]
        lines.append(f"| {_names(spec)} | {_cell(spec.default)} | {', '.join(also)} | {_cell(spec.doc)} |")
    return "\n".join(lines)


def store_type(name: str) -> str:
    """Return a table of a store type's properties."""
    lines = ["| property | in | default | |", "|---|---|---|---|"]
    for spec in connector(name).properties:
        places = [word for word, scope in _PLACES.items() if spec.scope & scope]
        lines.append(f"| {_names(spec)} | {', '.join(places)} | {_cell(spec.default)} | {_cell(spec.doc)} |")
    return "\n".join(lines)


_OTHER_SINKS = {"insert": Scope.INSERT, "view": Scope.VIEW}
_PLACES = {
    "stores": Scope.STORE,
    "entities": Scope.ENTITY,
    "optimize": Scope.OPTIMIZE,
    "relations": Scope.RELATION,
    "sources": Scope.SOURCE,
    "tables": Scope.TABLE,
    "sinks": Scope.SINK,
    **_OTHER_SINKS,
    "print": Scope.PRINT,
    "record": Scope.RECORD,
}


def _names(spec: PropertySpec[Any]) -> str:
    names = [f"{spec.name}<setting>" if spec.open else spec.name, *spec.synonyms]
    return ", ".join(f"`{name}`" for name in names)


def system_relations(schema: str) -> str:
    """The system relations of a schema, each with its columns."""
    parts = []
    for relation in sorted(RELATIONS.values(), key=lambda relation: relation.name):
        if relation.schema == schema:
            columns = (
                f"`{column.name}` {column.type}{' or NULL' if column.nullable else ''}"
                for column in relation.columns
            )
            parts.append(f"### {relation.name}\n\n{relation.doc}\n\n{', '.join(columns)}")
    return "\n\n".join(parts)


def routes() -> str:
    """A table of the routes of REST, from the OpenAPI document."""
    accounts: Any = SimpleNamespace(user=None, known_token=None)
    statements: Any = None
    parts = ServerParts(
        Settings.model_construct(),
        statements,
        lambda _token: None,
        accounts=accounts,
        worksheets=accounts,
    )
    lines = ["| request | |", "|---|---|"]
    for path, operations in sorted(document(create_app(parts))["paths"].items()):
        for method, operation in operations.items():
            public = " (without a token)" if operation.get("security") == [] else ""
            lines.append(f"| `{method.upper()} {path}` | {operation['summary']}{public} |")
    return "\n".join(lines)


PAGES: dict[str, dict[str, Callable[[], str]]] = {
    "reference/functions.md": {"functions": functions, "synonyms": synonyms},
    "reference/properties.md": {
        "stores": partial(properties, Scope.STORE),
        "registries": registries,
        "print": partial(properties, Scope.PRINT),
        "record": partial(properties, Scope.RECORD),
        "relations": partial(properties, Scope.RELATION),
        "sinks": sinks,
        "sources": partial(properties, Scope.SOURCE | Scope.TABLE),
        "queries": partial(properties, Scope.QUERY),
        "kafka": partial(store_type, "kafka"),
        "postgresql": partial(store_type, "postgresql"),
        "kinesis": partial(store_type, "kinesis"),
        "s3": partial(store_type, "s3"),
        "clickhouse": partial(store_type, "clickhouse"),
        "snowflake": partial(store_type, "snowflake"),
        "oracle": partial(store_type, "oracle"),
        "databricks": partial(store_type, "databricks"),
        "iceberg_rest": partial(store_type, "iceberg_rest"),
        "iceberg_glue": partial(store_type, "iceberg_glue"),
        "generator": partial(store_type, "generator"),
    },
    "reference/system-relations.md": {
        "sys": partial(system_relations, SYSTEM_SCHEMA),
        "information schema": partial(system_relations, INFORMATION_SCHEMA),
    },
    "reference/statements.md": {"refused": refused, "pool properties": pool_properties},
    "growing.md": {
        "remote": partial(placement_rules, REMOTE_RULES, "with its checkpoints in S3"),
        "cluster": partial(placement_rules, CLUSTER_RULES, "on a cluster"),
        "cluster stores": cluster_stores,
    },
    "reference/rest.md": {"routes": routes},
    "operations.md": {"settings": settings, "metrics": metrics},
    "coming-from.md": {
        "statements": partial(idioms, Place.STATEMENT),
        "declarations": partial(idioms, Place.COLUMN, Place.PROPERTY),
        "types": types,
        "clauses": partial(idioms, Place.CLAUSE),
        "expressions": partial(idioms, Place.FUNCTION, Place.OPERATOR, Place.CHARACTER, Place.NAME),
    },
}


FILES: dict[str, Callable[[], str]] = {
    "reference/schema.graphql": lambda: sdl(Settings.model_construct()),
}
"""Files that are generated as a whole."""


def renewed(page: str) -> str:
    """Return the text of a page with its generated parts written again; raises ValueError for a missing mark."""
    text = (DOCS / page).read_text(encoding="utf-8")
    for what, make in PAGES[page].items():
        part = re.compile(rf"(<!-- generated: {what} -->\n).*?(\n<!-- end -->)", re.DOTALL)
        if not part.search(text):
            raise ValueError(f"expected <!-- generated: {what} --> … <!-- end --> in docs/{page}")
        made = make()
        text = part.sub(lambda match, made=made: f"{match[1]}\n{made}\n{match[2]}", text, count=1)
    return text


def _table(rows: Iterable[Function]) -> str:
    lines = ["| | result | |", "|---|---|---|"]
    for row in rows:
        views = "" if row.duckdb is not None else " *Not in queries of views.*"
        lines.append(f"| `{_cell(_written(row))}` | {_cell(_result(row))} | {_cell(row.doc)}{views} |")
    return "\n".join(lines)


def _written(row: Function) -> str:
    if row.name not in OPERATORS_BY_NAME:
        return row.signature
    return FORMS.get(row.name, f"a {row.name} b")


def _result(row: Function) -> str:
    """The result type, where it is the same for all arguments or that of the first."""
    repeated = [*row.parameters, *row.parameters[-1:]] if row.variadic else row.parameters
    samples = [_SAMPLES.get(kind, _ALL_KINDS) for kind in repeated]
    combinations = {(arguments[:1], row.result(arguments)) for arguments in itertools.product(*samples)}
    kinds = {kind for _, kind in combinations if kind is not None}
    if len(kinds) == 1:
        return str(kinds.pop())
    if all(kind is None or first == (kind,) for first, kind in combinations):
        return "as the first"
    return "by the arguments"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    for name in PAGES:
        (DOCS / name).write_text(renewed(name), encoding="utf-8")
        print(f"docs/{name}")
    for name, make in FILES.items():
        (DOCS / name).write_text(make(), encoding="utf-8")
        print(f"docs/{name}")
