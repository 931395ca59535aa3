"""The kinds of catalog objects: names, stored forms and dependencies.

May import: `objects`, core, formats. To add a kind: its value in `objects.py`, a module here with its `KindSpec`, and an entry in `KINDS`.
"""

from __future__ import annotations

from typing import Any

from headrace.catalog.kinds.compute_pool import COMPUTE_POOL
from headrace.catalog.kinds.descriptor_source import DESCRIPTOR_SOURCE
from headrace.catalog.kinds.function import FUNCTION, FUNCTION_SOURCE
from headrace.catalog.kinds.namespace import DATABASE, SCHEMA
from headrace.catalog.kinds.relation import RELATION
from headrace.catalog.kinds.role import ROLE
from headrace.catalog.kinds.schema_registry import SCHEMA_REGISTRY
from headrace.catalog.kinds.secret import SECRET
from headrace.catalog.kinds.spec import KindSpec
from headrace.catalog.kinds.store import STORE

KINDS: tuple[KindSpec[Any], ...] = (
    ROLE,
    COMPUTE_POOL,
    DATABASE,
    SCHEMA,
    DESCRIPTOR_SOURCE,
    FUNCTION_SOURCE,
    FUNCTION,
    SECRET,
    SCHEMA_REGISTRY,
    STORE,
    RELATION,
)
"""Every kind; what an object is in comes before it."""

BY_NAME = {spec.kind: spec for spec in KINDS}
_OF_TYPE: dict[type[object], KindSpec[Any]] = {}


def spec_of(value: object) -> KindSpec[Any]:
    """Return the kind of an object of the catalog."""
    kind = type(value)
    if kind not in _OF_TYPE:
        _OF_TYPE[kind] = next(spec for spec in KINDS if issubclass(kind, spec.value))
    return _OF_TYPE[kind]


def described(value: object) -> str:
    """Return an object as a text names it: its kind and its name."""
    spec = spec_of(value)
    return spec.described(spec.path(value))
