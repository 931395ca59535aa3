"""The objects of the catalog, as the public clients read them (client-contract, sections 6.4 and 6.6)."""

from __future__ import annotations

import json
from collections import Counter, defaultdict

from headrace.analyzer.functions import CATALOGUE
from headrace.analyzer.functions.signature import Function
from headrace.catalog.objects import UserFunction
from headrace.connectors.registry import connector
from headrace.connectors.schema_registry.options import TYPES, URIS
from headrace.core.names import Identifier, path_text
from headrace.core.schema import Column
from headrace.core.types import BIGINT, BOOLEAN, INTEGER, TIMESTAMP, VARCHAR
from headrace.formats.protobuf_schema import of_set
from headrace.statements.base import Execution
from headrace.statements.copying import download_path
from headrace.statements.system.relation import Reference, Rows, always, owned, system_relation

_READY = "ready"
"""What is created answered then: nothing is created otherwise."""
_OWNED = (always("owner"), always("created_at", TIMESTAMP), always("updated_at", TIMESTAMP))


@system_relation(
    "organizations",
    always("id"),
    always("name"),
    Column("description", VARCHAR),
    Column("profile_image_uri", VARCHAR),
    always("created_at", TIMESTAMP),
    key=("id",),
    doc="The server's one organization.",
)
def organizations(run: Execution) -> Rows:
    only = run.catalog.organization()
    return [(only.id, only.name, only.description, only.image, only.created_at)]


@system_relation(
    "databases",
    always("name"),
    always("owner"),
    always("created_at", TIMESTAMP),
    always("is_default", BOOLEAN),
    key=("name",),
    references=(owned("databases"),),
    doc=(
        "The databases. In databases, schemas and stores, `is_default` marks the default of your sessions; "
        "if you set none, the server's default."
    ),
)
def databases(run: Execution) -> Rows:
    return [
        (
            item.name,
            item.owner,
            item.created_at,
            run.is_default("database", item, current=item.name == run.context.database),
        )
        for item in run.visible(run.catalog.databases())
    ]


@system_relation(
    "schemas",
    always("database_name"),
    always("name"),
    always("owner"),
    always("created_at", TIMESTAMP),
    always("managed_access", BOOLEAN),
    always("is_default", BOOLEAN),
    key=("database_name", "name"),
    references=(
        owned("schemas"),
        Reference("database", "databases", ("database_name",), "schemas"),
    ),
    doc=(
        "The schemas of all databases. With `managed_access`, the owner of the schema grants the privileges "
        "on its objects."
    ),
)
def schemas(run: Execution) -> Rows:
    chosen = (run.context.database, run.context.schema)
    return [
        (
            item.database,
            item.name,
            item.owner,
            item.created_at,
            item.managed,
            run.is_default("schema", item, current=(item.database, item.name) == chosen),
        )
        for item in run.visible(run.catalog.schemas())
    ]


@system_relation(
    "stores",
    always("name"),
    always("type"),
    always("status"),
    Column("status_message", VARCHAR),
    Column("schema_registry_name", VARCHAR),
    *_OWNED,
    always("store_type"),
    always("is_default", BOOLEAN),
    Column("last_tested_at", TIMESTAMP),
    Column("last_test_ms", BIGINT),
    key=("name",),
    references=(
        owned("stores"),
        Reference("schema_registry", "schema_registries", ("schema_registry_name",), "stores"),
    ),
    doc=(
        "The stores. `type` is the word that the public clients know, `store_type` the one of LIST STORES, "
        "which differs for PostgreSQL. `status` is `ready`, since a store answered when it was created, or "
        "`errored` with a message while a query waits for the store, or after a test that failed. `last_tested_at` and "
        "`last_test_ms` are the end and the duration of the last test since the server started: the server tests the stores "
        "in use at an interval, except for warehouses that a test would wake; TEST STORE tests any store."
    ),
)
def stores(run: Execution) -> Rows:
    return [
        (
            item.name,
            kind.client_label or kind.label,
            "errored" if problem else _READY,
            problem,
            item.schema_registry,
            item.owner,
            item.created_at,
            item.updated_at,
            kind.label,
            run.is_default("store", item, current=item.name == run.context.store),
            test.ended_at if test is not None else None,
            test.duration_ms if test is not None else None,
        )
        for item in run.visible(run.catalog.stores())
        for kind, problem, test in (
            (
                connector(item.type),
                run.services.engine.store_problem(item),
                run.services.engine.store_health.last(item),
            ),
        )
    ]


@system_relation(
    "schema_registries",
    always("name"),
    always("type"),
    always("status"),
    always("url"),
    *_OWNED,
    key=("name",),
    references=(owned("schema_registries"),),
    doc="The schema registries.",
)
def schema_registries(run: Execution) -> Rows:
    return [
        (
            item.name,
            TYPES[item.type].label,
            _READY,
            item.properties[URIS.name],
            item.owner,
            item.created_at,
            item.updated_at,
        )
        for item in run.visible(run.catalog.schema_registries())
    ]


@system_relation(
    "descriptor_sources",
    always("name"),
    Column("description", VARCHAR),
    *_OWNED,
    always("type"),
    always("url"),
    Column("tags", VARCHAR),
    key=("name",),
    references=(owned("descriptor_sources"),),
    doc=(
        "The descriptor sources. LIST DESCRIPTORS shows their messages. `type` is always Protobuf, `url` is "
        "the server's path of the file; `tags` is NULL."
    ),
)
def descriptor_sources(run: Execution) -> Rows:
    return [
        (
            item.name,
            item.description,
            item.owner,
            item.created_at,
            item.updated_at,
            "Protobuf",
            download_path(item, run),
            None,
        )
        for item in run.visible(run.catalog.descriptor_sources())
    ]


@system_relation(
    "descriptors",
    always("name"),
    always("source_name"),
    always("message"),
    always("owner"),
    always("created_at", TIMESTAMP),
    key=("name",),
    references=(
        owned("descriptors"),
        Reference("source", "descriptor_sources", ("source_name",), "descriptors"),
    ),
    doc=(
        "The messages of the descriptor sources. `name` is the name that relations use: the source, a point, "
        "and the `message` with its package."
    ),
)
def descriptors(run: Execution) -> Rows:
    return [
        (f"{Identifier(source.name)}.{message}", source.name, message, source.owner, source.created_at)
        for source in run.visible(run.catalog.descriptor_sources())
        for message in of_set(source.descriptors).messages
    ]


@system_relation(
    "entities",
    always("store_name"),
    always("name"),
    always("relations", INTEGER),
    always("relation_fqns"),
    key=("store_name", "name"),
    references=(Reference("store", "stores", ("store_name",), "entities"),),
    doc=(
        "The entities of relations, with the number and the names of the relations, separated by commas. The "
        "stores are not contacted: LIST ENTITIES shows all entities of a store."
    ),
)
def entities(run: Execution) -> Rows:
    over: dict[tuple[str, str], list[str]] = defaultdict(list)
    for item in run.visible(run.catalog.relations()):
        if item.store is not None and item.entity:
            over[item.store, path_text(item.entity)].append(item.name.fqn)
    return [(*place, len(names), ", ".join(names)) for place, names in sorted(over.items())]


@system_relation(
    "secrets",
    always("name"),
    always("type"),
    Column("description", VARCHAR),
    always("status"),
    *_OWNED,
    key=("name",),
    references=(owned("secrets"),),
    doc="The secrets, without their values.",
)
def secrets(run: Execution) -> Rows:
    return [
        (item.name, item.type, item.description, _READY, item.owner, item.created_at, item.updated_at)
        for item in run.visible(run.catalog.secrets())
    ]


@system_relation(
    "relations",
    always("database_name"),
    always("schema_name"),
    always("name"),
    always("fqn"),
    always("relation_type"),
    Column("primary_key", VARCHAR),
    always("state"),
    *_OWNED,
    Column("description", VARCHAR),
    Column("store_name", VARCHAR),
    Column("entity", VARCHAR),
    always("relation_name"),
    always("type"),
    key=("database_name", "schema_name", "name"),
    references=(
        owned("relations"),
        Reference("database", "databases", ("database_name",), "relations"),
        Reference(
            "schema",
            "schemas",
            (
                "database_name",
                "schema_name",
            ),
            "relations",
        ),
        Reference("store", "stores", ("store_name",), "relations"),
        Reference(
            "store_entity",
            "entities",
            (
                "store_name",
                "entity",
            ),
            "relations_over",
        ),
    ),
    doc=(
        "The relations of all databases. `fqn` is the full name, each part in double quotes; `relation_type` "
        "is `stream`, `changelog`, `table` or `materialized_view`; `primary_key` lists its columns, "
        "separated by commas. `relation_name` and `type` are other words for `name` and `relation_type`."
    ),
)
def relations(run: Execution) -> Rows:
    return (
        (
            *item.name.path,
            item.name.fqn,
            item.kind.value,
            ", ".join(item.schema.primary_key) or None,
            item.state,
            item.owner,
            item.created_at,
            item.updated_at,
            item.description,
            item.store,
            path_text(item.entity) if item.entity else None,
            item.name.name,
            item.kind.value,
        )
        for item in run.visible(run.catalog.relations())
    )


@system_relation(
    "relation_columns",
    always("database_name"),
    always("schema_name"),
    always("relation_name"),
    always("name"),
    always("type"),
    always("nullable", BOOLEAN),
    always("is_primary_key", BOOLEAN),
    always("position", INTEGER),
    key=("database_name", "schema_name", "relation_name", "position"),
    references=(
        Reference(
            "relation",
            "relations",
            (
                "database_name",
                "schema_name",
                "relation_name",
            ),
            "columns",
        ),
    ),
    doc="The columns of all relations; `position` counts from 1.",
)
def relation_columns(run: Execution) -> Rows:
    return (
        (
            *relation.name.path,
            column.name,
            str(column.type),
            column.nullable,
            column.name in relation.schema.primary_key,
            position,
        )
        for relation in run.visible(run.catalog.relations())
        for position, column in enumerate(relation.schema.columns, 1)
    )


@system_relation(
    "roles",
    always("name"),
    always("owner"),
    always("created_at", TIMESTAMP),
    always("is_current", BOOLEAN),
    always("is_available", BOOLEAN),
    key=("name",),
    references=(owned("roles"),),
    doc=(
        "The roles, which are visible to everybody. `is_current` marks the active role, `is_available` the "
        "roles that you can use or that the active role can grant."
    ),
)
def roles(run: Execution) -> Rows:
    held = run.policy.graph.roles_of(run.principal)
    return [
        (
            item.name,
            item.owner,
            item.created_at,
            item.name == run.role,
            item.name in held or run.may_grant(item),
        )
        for item in run.catalog.roles()
    ]


@system_relation(
    "functions",
    always("name"),
    always("kind"),
    always("min_arguments", INTEGER),
    Column("max_arguments", INTEGER),
    always("in_views", BOOLEAN),
    Column("description", VARCHAR),
    always("built_in", BOOLEAN),
    Column("signature", VARCHAR),
    Column("returns", VARCHAR),
    Column("source_name", VARCHAR),
    Column("class_name", VARCHAR),
    Column("egress_allow_uris", VARCHAR),
    Column("owner", VARCHAR),
    Column("created_at", TIMESTAMP),
    Column("updated_at", TIMESTAMP),
    Column("properties", VARCHAR),
    key=("name", "signature"),
    references=(
        owned("functions"),
        Reference("source", "function_sources", ("source_name",), "functions"),
    ),
    doc=(
        "The functions: built-in functions, and functions of users. `kind` is "
        "`scalar`, `table` or `aggregate`; `max_arguments` is NULL if any number is allowed; `in_views`: a SELECT of "
        "materialized views and system relations supports it too. After `signature`, the columns are NULL "
        "for built-in functions. `properties` is JSON: `returns`, `language`, and `uses`, the number of queries that call the function "
        "and are not terminated."
    ),
)
def functions(run: Execution) -> Rows:
    built_in = [
        _built_in(item)
        for name, item in sorted(CATALOGUE.items())
        if item.infix is None and name.isidentifier()
    ]
    callers = Counter(use for query in run.catalog.unfinished_queries() for use in query.uses)
    return [*built_in, *(_made(item, callers[item.id]) for item in run.visible(run.catalog.functions()))]


def _built_in(function: Function) -> tuple[object, ...]:
    return (
        function.name,
        "aggregate" if function.aggregate else "scalar",
        function.required,
        None if function.variadic else len(function.parameters),
        function.duckdb is not None,
        function.doc,
        True,
        function.signature,
        *([None] * 8),
    )


@system_relation(
    "properties",
    always("name"),
    Column("store_type", VARCHAR),
    always("statements"),
    Column("default_value", VARCHAR),
    Column("allowed_values", VARCHAR),
    always("is_secret", BOOLEAN),
    always("description"),
    key=("name", "store_type", "statements"),
    doc=(
        "The properties of WITH (…), and the `statements` that accept each, separated by commas. Without a `store_type`, a property does "
        "not depend on the type of the store. `allowed_values` is NULL for properties that accept more than a few values."
    ),
)
def properties(_run: Execution) -> Rows:
    # The language is of all statements, and some of them import this module.
    from headrace.statements.language import language

    return [
        (
            facts.name,
            facts.store_type or None,
            ", ".join(facts.statements),
            facts.default or None,
            ", ".join(facts.values) or None,
            facts.is_secret,
            facts.documentation,
        )
        for facts in language().properties
    ]


def _made(function: UserFunction, callers: int) -> tuple[object, ...]:
    count = len(function.parameters)
    return (
        function.name,
        function.kind.value,
        count,
        count,
        True,
        None,
        False,
        function.declaration,
        str(function.returns),
        function.source,
        function.class_name,
        ",".join(function.egress) or None,
        function.owner,
        function.created_at,
        function.updated_at,
        json.dumps(
            {
                "returns": str(function.returns),
                "language": function.language.value.upper(),
                "uses": callers,
            }
        ),
    )


@system_relation(
    "function_sources",
    always("name"),
    always("status"),
    always("language"),
    Column("description", VARCHAR),
    always("size_bytes", BIGINT),
    always("sha256"),
    always("classes", INTEGER),
    *_OWNED,
    always("url"),
    key=("name",),
    references=(owned("function_sources"),),
    doc=(
        "The function sources: uploaded JARs, Python modules and wheels, with their numbers of bytes and classes, and the server's path "
        "of the file."
    ),
)
def function_sources(run: Execution) -> Rows:
    return [
        (
            item.name,
            _READY,
            item.language.value,
            item.description,
            item.size,
            item.digest,
            item.classes,
            item.owner,
            item.created_at,
            item.updated_at,
            download_path(item, run),
        )
        for item in run.visible(run.catalog.function_sources())
    ]
