"""STORE: create, update, list, describe, drop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace

from headrace.analyzer import properties as dialect
from headrace.catalog.access import Privilege
from headrace.catalog.objects import Store
from headrace.catalog.policy import Requirement
from headrace.connectors.base import StoreDescriptor
from headrace.connectors.registry import connector, type_names
from headrace.core.errors import HeadraceError, UserError
from headrace.core.names import Identifier
from headrace.core.properties import PropertyReader, Scope, masked, of_scope, value_of
from headrace.core.resultset import result
from headrace.core.sqlstate import SqlState
from headrace.core.types import BOOLEAN, VARCHAR
from headrace.core.wording import with_article
from headrace.runtime.extension import group_jars
from headrace.sql.ast import Properties
from headrace.sql.statements.store import (
    CheckStore,
    CreateStore,
    DescribeStore,
    DropStore,
    UpdateStore,
)
from headrace.statements.base import (
    Execution,
    Outcome,
    changed,
    ddl,
    handles,
    kept_secrets,
    named_secrets,
    now,
    others_secrets,
)
from headrace.statements.dropping import drop, ownership


def _registry(statement: CreateStore | UpdateStore, run: Execution) -> Iterator[Requirement]:
    given = [entry for entry in statement.properties.entries if not entry.removed]
    name = value_of(given, dialect.SCHEMA_REGISTRY)
    if name is not None:
        span = next(entry.span for entry in given if dialect.SCHEMA_REGISTRY.matches_name(entry.key))
        yield Requirement(Privilege.USAGE, run.schema_registry(Identifier(name, span)))


def _creation(statement: CreateStore, run: Execution) -> Iterator[Requirement]:
    yield Requirement(Privilege.CREATE_STORE)
    yield from named_secrets(statement.properties, run)
    yield from _registry(statement, run)


def _update(statement: UpdateStore, run: Execution) -> Iterator[Requirement]:
    yield Requirement(Privilege.OWNERSHIP, run.store(statement.name)[0])
    yield from named_secrets(statement.properties, run)
    yield from _registry(statement, run)


def _usage(statement: CheckStore | DescribeStore, run: Execution) -> list[Requirement]:
    return [Requirement(Privilege.USAGE, run.store(statement.name)[0])]


@handles(CreateStore, requires=_creation, checked=True)
async def create_store(statement: CreateStore, run: Execution) -> Outcome:
    """Create a store, which must answer. The first store of a session is selected."""
    name = statement.name.name
    existing = run.catalog.store(name)
    if not (statement.if_not_exists and run.knows(existing)):
        if existing is not None:
            raise UserError(
                SqlState.DUPLICATE_STORE,
                f"the store {name!r} already exists",
                hint="Choose another name, or change it with UPDATE STORE.",
                span=statement.name.span,
            )
        store = declared_store(statement, run)
        await asyncio.to_thread(_test, store, statement.properties, run)
        await asyncio.to_thread(run.catalog.create_store, store)
    selected = run.context.store and run.knows(run.catalog.store(run.context.store))
    context = None if selected else run.with_context(store=name)
    done = "was created" if existing is None else "already exists"
    return Outcome(ddl("store", name, "CREATE", f"store {name} {done}", [name]), context)


@handles(UpdateStore, requires=_update, checked=True)
async def update_store(statement: UpdateStore, run: Execution) -> Outcome:
    """Change properties; the store must answer with the new values. Running queries use them at their next start."""
    store, kind = run.store(statement.name)
    given, named = run.with_secrets(run.with_files(statement.properties, kind.properties), kind.properties)
    registry = {dialect.SCHEMA_REGISTRY.name: store.schema_registry} if store.schema_registry else {}
    reader = changed(
        given,
        {**store.properties, **registry},
        of_scope((*kind.properties, *dialect.DIALECT), Scope.STORE),
        kind=kind.type,
        what=with_article(f"{kind.label} store"),
    )
    properties, chosen = _read(kind, reader)
    secrets = kept_secrets({**others_secrets(store.secrets, given, kind.properties), **named}, properties)
    updated = replace(store, properties=properties, schema_registry=chosen, secrets=secrets, updated_at=now())
    await asyncio.to_thread(_test, updated, given, run)
    await asyncio.to_thread(run.catalog.update_store, updated)
    return Outcome(ddl("store", store.name, "UPDATE", f"store {store.name} was updated", [store.name]))


@handles(
    DropStore,
    requires=lambda statement, run: ownership(run.store(statement.name)[0], run, cascade=statement.cascade),
    checked=True,
)
async def drop_store(statement: DropStore, run: Execution) -> Outcome:
    """Drop a store. Refused with 2BP01 while a relation is defined on it, unless CASCADE drops it too; entities stay."""
    store, _ = run.store(statement.name)
    suffix = await drop(store, run, cascade=statement.cascade, span=statement.name.span)
    context = run.with_context(store=None) if run.context.store == store.name else None
    summary = f"store {store.name} was dropped{suffix}"
    return Outcome(ddl("store", store.name, "DROP", summary, [store.name]), context)


@handles(CheckStore, requires=_usage)
async def check_store(statement: CheckStore, run: Execution) -> Outcome:
    """Checks whether the store answers; a store that does not answer is a result, not an error."""
    store, _ = run.store(statement.name)
    message = None
    try:
        await asyncio.to_thread(_test, store, Properties(), run)
    except HeadraceError as error:
        message = error.text()
    columns = [(title, VARCHAR) for title in ("Name", "Status", "Message")]
    return Outcome(result(columns, [(store.name, "errored" if message else "ready", message)]))


@handles(DescribeStore, requires=_usage)
async def describe_store(statement: DescribeStore, run: Execution) -> Outcome:
    """Return one row of seven columns, which the public clients read by position (client-contract, 6.6); secrets masked."""
    store, kind = run.store(statement.name)
    public = masked(store.properties, kind.properties, store.secrets)
    metadata = {
        "name": store.name,
        "type": kind.label,
        "owner": store.owner,
        "status": "errored" if run.services.engine.store_problem(store) else "ready",
        "created_at": store.created_at.isoformat(),
        "updated_at": store.updated_at.isoformat(),
    }
    columns = [
        ("Metadata", VARCHAR),
        ("Uris", VARCHAR),
        ("Details", VARCHAR),
        ("TlsEnabled", BOOLEAN),
        ("VerifyHostname", BOOLEAN),
        ("SchemaRegistry", VARCHAR),
        ("Path", VARCHAR),
    ]
    row = (
        json.dumps(metadata),
        public.get("uris", ""),
        json.dumps(public),
        public.get("tls.disabled") != "TRUE",
        public.get("tls.verify_server_hostname") != "FALSE",
        store.schema_registry,
        json.dumps([store.name]),
    )
    return Outcome(result(columns, [row]))


def declared_store(statement: CreateStore, run: Execution) -> Store:
    """Return the store that a statement declares. Raises UserError for its properties; contacts nothing."""
    kind = value_of(statement.properties.entries, dialect.TYPE)
    if kind is None:
        raise UserError(
            SqlState.MISSING_PARAMETER,
            "CREATE STORE needs the property 'type'",
            hint=f"It is one of {type_names()}.",
            span=statement.span,
        )
    span = statement.properties.span(dialect.TYPE.name)
    descriptor = connector(kind, span=span)
    specs = of_scope((*descriptor.properties, *dialect.DIALECT), Scope.STORE)
    # A missing property has no position in the text, so the error points at the type that requires it.
    given, named = run.with_secrets(run.with_files(statement.properties, specs), specs)
    reader = PropertyReader(
        given.entries, specs, what=with_article(f"{descriptor.label} store"), lacking=span
    )
    properties, registry = _read(descriptor, reader)
    moment = now()
    return Store(
        statement.name.name,
        descriptor.type,
        run.role,
        moment,
        moment,
        properties,
        schema_registry=registry,
        secrets=kept_secrets(named, properties),
    )


def _read(kind: StoreDescriptor, reader: PropertyReader) -> tuple[dict[str, str], str | None]:
    """Return the properties of a store, and the name of its schema registry."""
    for spec in (dialect.TYPE, dialect.REGION, dialect.DESCRIPTION):
        reader.take(spec)
    name = reader.take(dialect.SCHEMA_REGISTRY)
    properties = kind.read(reader)
    reader.finish()
    return properties, name


def _test(store: Store, given: Properties, run: Execution) -> None:
    """Check that every address in the properties is allowed and that the store answers; download what its queries need."""
    if run.checking:
        return
    kind = connector(store.type)
    property_name = "uris"
    try:
        for name, text in kind.addresses(store.properties):
            property_name = name
            run.egress.check([text])
        property_name = "uris"
        run.services.engine.store_health.measured(store.name, lambda: kind.test(store.properties))
        if kind.jars is not None:
            group_jars(kind.jars)
    except HeadraceError as error:
        error.span = error.span or given.span(property_name) or given.span("uris")
        raise
