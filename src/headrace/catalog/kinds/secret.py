"""Secrets, and the properties of other objects that name one."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.catalog.kinds.spec import Definition, KindSpec, Path, Stored
from headrace.catalog.objects import SecretFacts
from headrace.core.sqlstate import SqlState


def _read(stored: Stored) -> SecretFacts:
    return SecretFacts(
        name=stored.name,
        type=stored.definition["type"],
        owner=stored.owner,
        created_at=stored.created_at,
        updated_at=stored.updated_at,
        description=stored.definition["description"],
        id=stored.id,
    )


SECRET = KindSpec(
    kind="secret",
    value=SecretFacts,
    path=lambda secret: (secret.name,),
    write=lambda secret: {"type": secret.type, "description": secret.description},
    read=_read,
    duplicate=SqlState.DUPLICATE_SECRET,
    missing=SqlState.SECRET_NOT_FOUND,
)


def used_secrets(secrets: Mapping[str, str]) -> list[tuple[str, Path]]:
    """Return the secrets that an object names, as kinds and paths of used objects."""
    return [(SECRET.kind, (name,)) for name in dict.fromkeys(secrets.values())]


def renamed_secret(secrets: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    """Return the secrets that an object names after one of them was renamed."""
    return {key: new if name == old else name for key, name in secrets.items()}


def without_secrets(first: Definition) -> Definition:
    """Upgrade a definition from before an object could name secrets."""
    return {**first, "secrets": {}}
