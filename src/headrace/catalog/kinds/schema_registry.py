"""Schema registries, which may name secrets."""

from __future__ import annotations

from dataclasses import replace

from headrace.catalog.kinds.secret import SECRET, renamed_secret, used_secrets, without_secrets
from headrace.catalog.kinds.spec import KindSpec, Stored
from headrace.catalog.objects import RegistryFacts
from headrace.core.sqlstate import SqlState


def _read(stored: Stored) -> RegistryFacts:
    return RegistryFacts(
        name=stored.name,
        type=stored.definition["type"],
        owner=stored.owner,
        created_at=stored.created_at,
        updated_at=stored.updated_at,
        secrets=stored.definition["secrets"],
        id=stored.id,
    )


def _renamed(registry: RegistryFacts, kind: str, old: str, new: str) -> RegistryFacts:
    if kind == SECRET.kind:
        return replace(registry, secrets=renamed_secret(registry.secrets, old, new))
    return registry


SCHEMA_REGISTRY = KindSpec(
    kind="schema_registry",
    value=RegistryFacts,
    path=lambda registry: (registry.name,),
    write=lambda registry: {"type": registry.type, "secrets": dict(registry.secrets)},
    read=_read,
    duplicate=SqlState.DUPLICATE_SCHEMA_REGISTRY,
    missing=SqlState.SCHEMA_REGISTRY_NOT_FOUND,
    uses=lambda registry: used_secrets(registry.secrets),
    renamed=_renamed,
    upgrades=(without_secrets,),
)
