"""Properties that each WITH (…) accepts, by the statement or clause that it belongs to."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from headrace.analyzer.properties import DIALECT
from headrace.connectors.registry import connector
from headrace.connectors.schema_registry.options import PROPERTIES as REGISTRY
from headrace.core.properties import PropertySpec, Scope, Specs, of_scope
from headrace.statements.registry import MODULES

_RELATION = Scope.RELATION | Scope.SINK
SCOPES: dict[str, Scope] = {
    "CREATE STORE": Scope.STORE,
    "UPDATE STORE": Scope.STORE,
    "CREATE ENTITY": Scope.ENTITY,
    "UPDATE ENTITY": Scope.ENTITY,
    "OPTIMIZE ENTITY": Scope.OPTIMIZE,
    "PRINT ENTITY": Scope.PRINT,
    "INSERT INTO ENTITY": Scope.RECORD,
    "CREATE STREAM": _RELATION,
    "CREATE CHANGELOG": _RELATION,
    "CREATE TABLE": _RELATION,
    "CREATE OR REPLACE STREAM": Scope.SINK,
    "CREATE OR REPLACE CHANGELOG": Scope.SINK,
    "CREATE OR REPLACE TABLE": Scope.SINK,
    "CREATE MATERIALIZED VIEW": Scope.VIEW,
    "CREATE OR REPLACE MATERIALIZED VIEW": Scope.VIEW,
    "INSERT INTO": Scope.INSERT,
    "CREATE SECRET": Scope.SECRET,
    "UPDATE SECRET": Scope.SECRET,
    "CREATE SCHEMA_REGISTRY": Scope.REGISTRY,
    "UPDATE SCHEMA_REGISTRY": Scope.REGISTRY,
    "CREATE DESCRIPTOR_SOURCE": Scope.DESCRIPTORS,
    "CREATE FUNCTION_SOURCE": Scope.FUNCTIONS,
    "CREATE FUNCTION": Scope.FUNCTION,
    "UPDATE ORGANIZATION": Scope.ORGANIZATION,
    "CREATE API_TOKEN": Scope.TOKEN,
    "INVITE USER": Scope.INVITATION,
    "CREATE COMPUTE_POOL": Scope.POOL,
    "UPDATE COMPUTE_POOL": Scope.POOL,
    "CREATE SAVEPOINT": Scope.SAVEPOINT,
    "CREATE ALERT": Scope.ALERT,
}
"""The scope of a statement's own WITH (…), by its leading words."""
OF_SOURCES = Scope.SOURCE | Scope.TABLE
"""The scope of a relation in FROM."""


@cache
def of_every_store() -> Specs:
    """Return the properties that do not depend on the type of a store: those of the dialect and of the kinds of objects."""
    modules = (importlib.import_module(f"headrace.statements.{name}") for name in MODULES)
    own = (spec for module in modules for spec in getattr(module, "PROPERTIES", ()))
    return tuple(dict.fromkeys((*DIALECT, *REGISTRY, *own)))


def accepted(scope: Scope, store_type: str | None = None) -> Specs:
    """Return the properties that a scope accepts, with those of the type of a store, if it is known. Raises UserError 3D008."""
    of_type = connector(store_type).properties if store_type is not None else ()
    return of_scope((*of_type, *of_every_store()), scope)


def scope_of(words: Sequence[str]) -> Scope | None:
    """Return the scope of the statement that starts with these words; None if it accepts no properties."""
    starts = (" ".join(words[:length]) for length in range(len(words), 0, -1))
    return next((SCOPES[start] for start in starts if start in SCOPES), None)


def statements_of(spec: PropertySpec[Any]) -> Iterator[str]:
    """Yield the leading words of the statements that accept a property, and `FROM` and `QUERY` for clauses of queries."""
    for words, scope in SCOPES.items():
        if spec.scope & scope:
            yield words
    if spec.scope & OF_SOURCES:
        yield "FROM"
    if spec.scope & Scope.QUERY:
        yield "QUERY"
