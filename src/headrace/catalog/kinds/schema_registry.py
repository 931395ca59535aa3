"""Schema registries."""

from __future__ import annotations

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
        id=stored.id,
    )


SCHEMA_REGISTRY = KindSpec(
    kind="schema_registry",
    value=RegistryFacts,
    path=lambda registry: (registry.name,),
    write=lambda registry: {"type": registry.type},
    read=_read,
    duplicate=SqlState.DUPLICATE_SCHEMA_REGISTRY,
    missing=SqlState.SCHEMA_REGISTRY_NOT_FOUND,
)
