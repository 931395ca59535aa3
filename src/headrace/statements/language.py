"""The language as data, for editors: words, statements, functions, types and properties, each from its own declaration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from headrace.analyzer.functions import CATALOGUE, WINDOW_FUNCTIONS
from headrace.analyzer.functions.signature import Function
from headrace.catalog.access import ON_ORGANIZATION
from headrace.catalog.kinds import KINDS
from headrace.catalog.kinds.query import QUERY
from headrace.catalog.kinds.role import ROLE
from headrace.connectors.registry import STORE_TYPES, connector
from headrace.core.properties import PropertySpec
from headrace.core.types import TYPE_NAMES
from headrace.sql.grammar import GRAMMAR
from headrace.sql.vocabulary import words
from headrace.statements.accepted_properties import of_every_store, statements_of


@dataclass(frozen=True)
class FunctionFacts:
    """A built-in function; `kind` is `scalar`, `aggregate` or `window`."""

    name: str
    kind: str
    signature: str
    documentation: str


@dataclass(frozen=True)
class PropertyFacts:
    """A property of WITH (…), and the statements that accept it. Without a `store_type`, it does not depend on the type of a store.

    `values` are all values of a property that has only a few.
    """

    name: str
    statements: tuple[str, ...]
    documentation: str
    default: str = ""
    store_type: str = ""
    is_secret: bool = False
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class PrivilegeFacts:
    """Privileges that GRANT can grant on a kind of object; `kind` is its word in GRANT, or `ORGANIZATION`."""

    kind: str
    privileges: tuple[str, ...]


@dataclass(frozen=True)
class Language:
    """The language of this version of the server."""

    words: tuple[str, ...]
    statements: tuple[str, ...]
    functions: tuple[FunctionFacts, ...]
    types: tuple[str, ...]
    store_types: tuple[str, ...]
    properties: tuple[PropertyFacts, ...]
    privileges: tuple[PrivilegeFacts, ...] = ()


@cache
def language() -> Language:
    """Return the language. The first call loads all store types, which takes a second: use a thread."""
    return Language(
        words=words(),
        statements=tuple(sorted(" ".join(start) for start in GRAMMAR if start[-1].isidentifier())),
        functions=tuple(
            FunctionFacts(row.name, kind, row.signature, row.doc) for row, kind in built_in_functions()
        ),
        types=TYPE_NAMES,
        store_types=tuple(name.upper() for name in STORE_TYPES),
        properties=(
            *_facts(of_every_store()),
            *(facts for name in STORE_TYPES for facts in _facts(connector(name).properties, name.upper())),
        ),
        privileges=tuple(_privileges()),
    )


def built_in_functions() -> Iterator[tuple[Function, str]]:
    """Yield the built-in functions that are called by name, sorted, each with its kind."""
    rows = {**WINDOW_FUNCTIONS, **CATALOGUE}
    for name in sorted(rows):
        row = rows[name]
        if row.infix is None and name.isidentifier():
            kind = "aggregate" if row.aggregate else "scalar" if name in CATALOGUE else "window"
            yield row, kind


def _privileges() -> Iterator[PrivilegeFacts]:
    yield PrivilegeFacts("ORGANIZATION", tuple(privilege.value for privilege in ON_ORGANIZATION))
    for kind in (*KINDS, QUERY):
        # A role is granted to others by GRANT ROLE.
        if kind is not ROLE:
            words = tuple(privilege.value for privilege in kind.privileges)
            yield PrivilegeFacts(kind.kind.upper(), words)


def _facts(specs: Iterable[PropertySpec[Any]], store_type: str = "") -> Iterator[PropertyFacts]:
    for spec in specs:
        if spec.name:
            yield PropertyFacts(
                spec.name,
                tuple(statements_of(spec)),
                spec.doc,
                spec.default,
                store_type,
                spec.secret,
                spec.type.words,
            )
