"""The statements, one module per kind of object; importing this package fills `headrace.sql.grammar.GRAMMAR`."""

from __future__ import annotations

from headrace.sql.statements import (
    alter,
    api_token,
    compute_pool,
    database,
    descriptor_source,
    entity,
    generate,
    grant,
    listing,
    organization,
    privilege,
    query,
    relation,
    role,
    schema,
    schema_registry,
    secret,
    session,
    store,
    user,
)

__all__ = [
    "alter",
    "api_token",
    "compute_pool",
    "database",
    "descriptor_source",
    "entity",
    "generate",
    "grant",
    "listing",
    "organization",
    "privilege",
    "query",
    "relation",
    "role",
    "schema",
    "schema_registry",
    "secret",
    "session",
    "store",
    "user",
]
