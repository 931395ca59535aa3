"""Stores, which may have a schema registry and name secrets."""

from __future__ import annotations

from dataclasses import replace

from headrace.catalog.kinds.schema_registry import SCHEMA_REGISTRY
from headrace.catalog.kinds.secret import SECRET, renamed_secret, used_secrets, without_secrets
from headrace.catalog.kinds.spec import KindSpec, Path, Stored
from headrace.catalog.objects import StoreFacts
from headrace.core.sqlstate import SqlState


def _read(stored: Stored) -> StoreFacts:
    return StoreFacts(
        name=stored.name,
        type=stored.definition["type"],
        owner=stored.owner,
        created_at=stored.created_at,
        updated_at=stored.updated_at,
        schema_registry=stored.definition["schema_registry"],
        secrets=stored.definition["secrets"],
        id=stored.id,
    )


def _uses(store: StoreFacts) -> list[tuple[str, Path]]:
    registries = [(SCHEMA_REGISTRY.kind, (store.schema_registry,))] if store.schema_registry else []
    return [*registries, *used_secrets(store.secrets)]


def _renamed(store: StoreFacts, kind: str, old: str, new: str) -> StoreFacts:
    if kind == SCHEMA_REGISTRY.kind and store.schema_registry == old:
        return replace(store, schema_registry=new)
    if kind == SECRET.kind:
        return replace(store, secrets=renamed_secret(store.secrets, old, new))
    return store


STORE = KindSpec(
    kind="store",
    value=StoreFacts,
    path=lambda store: (store.name,),
    write=lambda store: {
        "type": store.type,
        "schema_registry": store.schema_registry,
        "secrets": dict(store.secrets),
    },
    read=_read,
    duplicate=SqlState.DUPLICATE_STORE,
    missing=SqlState.STORE_NOT_FOUND,
    uses=_uses,
    renamed=_renamed,
    upgrades=(without_secrets,),
)
