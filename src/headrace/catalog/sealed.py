"""Objects whose properties are encrypted at rest: stores, schema registries, secrets and alerts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Generic, TypeVar

from headrace.catalog.kinds.secret import SECRET
from headrace.catalog.kinds.spec import KindSpec
from headrace.catalog.objects import (
    SECRET_STRING,
    Alert,
    AlertFacts,
    RegistryFacts,
    SchemaRegistry,
    Secret,
    SecretFacts,
    Store,
    StoreFacts,
)
from headrace.catalog.repository import Repository
from headrace.catalog.secrets import SecretBox
from headrace.catalog.storage import Storage

F = TypeVar("F", bound=StoreFacts | RegistryFacts | AlertFacts | SecretFacts)
V = TypeVar("V", bound=Store | SchemaRegistry | Alert | Secret)


class SealedRepository(Generic[F, V]):
    """Objects of one kind: reads decrypt their properties, writes encrypt them for the object alone.

    `facts` are the objects without their properties. `value` creates an object from its facts and `properties`; `box` returns the current
    box.
    """

    def __init__(
        self, storage: Storage, spec: KindSpec[F], value: Callable[..., V], box: Callable[[], SecretBox]
    ) -> None:
        self._storage = storage
        self._spec = spec
        self._value = value
        self._box = box
        self.facts = Repository(storage, spec)

    def get(self, *path: str) -> V | None:
        """Return the object of that path with decrypted properties, or None."""
        facts = self.facts.get(*path)
        return self.opened(facts) if facts is not None else None

    def all(self) -> list[V]:
        """Return all objects by path, with decrypted properties."""
        return [self.opened(facts) for facts in self.facts.all()]

    def opened(self, facts: F) -> V:
        """Return an object with decrypted properties, and with the current texts of the secrets that it names."""
        named = {} if isinstance(facts, SecretFacts) else facts.secrets
        secrets = {key: self._storage.state.get(SECRET, (name,)) for key, name in named.items()}
        texts = {key: self._properties(secret.id)[SECRET_STRING] for key, secret in secrets.items() if secret}
        return self._value(**vars(facts), properties={**self._properties(facts.id), **texts})

    def create(self, value: V) -> None:
        """Store a new object; raises as `Repository.create`."""
        # In one transaction, so that a new key does not replace the box between the two.
        with self._storage.transaction():
            self.facts.create(self._facts(value), self._sealed(value))

    def update(self, value: V) -> None:
        """Replace the object of that path; raises as `Repository.update`."""
        with self._storage.transaction():
            self.facts.update(self._facts(value), self._sealed(value))

    def _facts(self, value: V) -> F:
        return self._spec.value(
            **{field.name: getattr(value, field.name) for field in fields(self._spec.value)}
        )

    def _sealed(self, value: V) -> bytes:
        """Return the object's encrypted properties, without the properties that name secrets."""
        named = () if isinstance(value, Secret) else value.secrets
        own = {name: text for name, text in value.properties.items() if name not in named}
        return self._box().seal(json.dumps(own).encode(), value.id)

    def _properties(self, identifier: str) -> Mapping[str, str]:
        opened: dict[str, str] = json.loads(
            self._box().open(self._storage.state.sealed[identifier], identifier)
        )
        return opened
