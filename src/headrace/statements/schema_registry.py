"""SCHEMA_REGISTRY: create, update, list, describe, drop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

from headrace.catalog.access import Privilege
from headrace.catalog.objects import SchemaRegistry
from headrace.catalog.policy import Requirement
from headrace.connectors.schema_registry.client import registry_client
from headrace.connectors.schema_registry.options import TYPE, TYPES, URIS, RegistryType, registry_type
from headrace.core.errors import HeadraceError, UserError
from headrace.core.properties import PropertyReader, masked, value_of
from headrace.core.resultset import result
from headrace.core.sqlstate import SqlState
from headrace.core.types import VARCHAR
from headrace.core.wording import with_article
from headrace.sql.ast import Properties
from headrace.sql.statements.schema_registry import (
    CreateSchemaRegistry,
    DescribeSchemaRegistry,
    DropSchemaRegistry,
    UpdateSchemaRegistry,
)
from headrace.statements.base import (
    Execution,
    Outcome,
    changed,
    ddl,
    handles,
    kept_secrets,
    moment_text,
    named_secrets,
    now,
    others_secrets,
)
from headrace.statements.dropping import drop, ownership

_KIND = "schema_registry"


def _creation(statement: CreateSchemaRegistry, run: Execution) -> Iterator[Requirement]:
    yield Requirement(Privilege.CREATE_SCHEMA_REGISTRY)
    yield from named_secrets(statement.properties, run)


def _update(statement: UpdateSchemaRegistry, run: Execution) -> Iterator[Requirement]:
    yield Requirement(Privilege.OWNERSHIP, run.schema_registry(statement.name))
    yield from named_secrets(statement.properties, run)


@handles(CreateSchemaRegistry, requires=_creation, checked=True)
async def create_schema_registry(statement: CreateSchemaRegistry, run: Execution) -> Outcome:
    """Create a schema registry; it must answer."""
    name = statement.name.name
    existing = run.catalog.schema_registry(name)
    if existing is not None and not (statement.if_not_exists and run.knows(existing)):
        raise UserError(
            SqlState.DUPLICATE_SCHEMA_REGISTRY,
            f"the schema registry {name!r} already exists",
            hint="Choose another name, or change it with UPDATE SCHEMA_REGISTRY.",
            span=statement.name.span,
        )
    if existing is None:
        registry = declared_registry(statement, run)
        await _test(registry, statement.properties, run)
        await asyncio.to_thread(run.catalog.create_schema_registry, registry)
    done = "was created" if existing is None else "already exists"
    return Outcome(ddl(_KIND, name, "CREATE", f"schema registry {name} {done}", [name]))


@handles(UpdateSchemaRegistry, requires=_update, checked=True)
async def update_schema_registry(statement: UpdateSchemaRegistry, run: Execution) -> Outcome:
    """Change properties; the registry must answer with the new values. Running queries use them at their next start."""
    registry = run.schema_registry(statement.name)
    kind = TYPES[registry.type]
    given, named = run.with_secrets(run.with_files(statement.properties, kind.properties), kind.properties)
    reader = changed(
        given,
        registry.properties,
        kind.properties,
        kind=kind.type,
        what=with_article(f"{kind.label} registry"),
    )
    properties = _read(kind, reader)
    secrets = kept_secrets({**others_secrets(registry.secrets, given, kind.properties), **named}, properties)
    updated = replace(registry, properties=properties, secrets=secrets, updated_at=now())
    await _test(updated, statement.properties, run)
    await asyncio.to_thread(run.catalog.update_schema_registry, updated)
    name = registry.name
    return Outcome(ddl(_KIND, name, "UPDATE", f"schema registry {name} was updated", [name]))


@handles(
    DropSchemaRegistry,
    requires=lambda statement, run: ownership(
        run.schema_registry(statement.name), run, cascade=statement.cascade
    ),
    checked=True,
)
async def drop_schema_registry(statement: DropSchemaRegistry, run: Execution) -> Outcome:
    """Drop a registry. Refused with 2BP01 while a store or a relation uses it; CASCADE drops these too."""
    registry = run.schema_registry(statement.name)
    suffix = await drop(registry, run, cascade=statement.cascade, span=statement.name.span)
    name = registry.name
    return Outcome(ddl(_KIND, name, "DROP", f"schema registry {name} was dropped{suffix}", [name]))


@handles(
    DescribeSchemaRegistry,
    requires=lambda statement, run: [Requirement(Privilege.USAGE, run.schema_registry(statement.name))],
)
async def describe_schema_registry(statement: DescribeSchemaRegistry, run: Execution) -> Outcome:
    """Return property and value rows; secrets masked."""
    registry = run.schema_registry(statement.name)
    kind = TYPES[registry.type]
    facts = {
        "name": registry.name,
        "type": kind.label,
        "status": "ready",
        **masked(registry.properties, kind.properties, registry.secrets),
        "owner": registry.owner,
        "created_at": moment_text(registry.created_at),
        "updated_at": moment_text(registry.updated_at),
    }
    return Outcome(result([("Property", VARCHAR), ("Value", VARCHAR)], list(facts.items())))


def declared_registry(statement: CreateSchemaRegistry, run: Execution) -> SchemaRegistry:
    """Return the schema registry that a statement declares. Raises UserError for its properties; contacts nothing."""
    written = value_of(statement.properties.entries, TYPE)
    if written is None:
        raise UserError(
            SqlState.MISSING_PARAMETER,
            "CREATE SCHEMA_REGISTRY needs the property 'type'",
            hint=f"It is one of {', '.join(sorted(TYPES)).upper()}.",
            span=statement.span,
        )
    span = statement.properties.span(TYPE.name)
    kind = registry_type(written, span=span)
    files = run.with_files(statement.properties, kind.properties)
    given, named = run.with_secrets(files, kind.properties)
    reader = PropertyReader(
        given.entries, kind.properties, what=with_article(f"{kind.label} registry"), lacking=span
    )
    moment = now()
    properties = _read(kind, reader)
    secrets = kept_secrets(named, properties)
    return SchemaRegistry(
        statement.name.name, kind.type, run.role, moment, moment, properties, secrets=secrets
    )


def _read(kind: RegistryType, reader: PropertyReader) -> dict[str, str]:
    properties = kind.read(reader)
    reader.finish()
    return properties


async def _test(registry: SchemaRegistry, given: Properties, run: Execution) -> None:
    if run.checking:
        return
    try:
        await asyncio.to_thread(registry_client(registry.properties, run.egress).test)
    except HeadraceError as error:
        error.span = given.span(URIS.name)
        raise
