"""The kinds of catalog objects: names, stored forms and dependencies.

May import: `objects`, core, formats. To add a kind: its value in `objects.py`, a module here with its `KindSpec`, and an entry in `KINDS`.
Queries are a kind with tables of their own.
"""

from __future__ import annotations

from typing import Any

from headrace.catalog.kinds.alert import ALERT
from headrace.catalog.kinds.compute_pool import COMPUTE_POOL
from headrace.catalog.kinds.descriptor_source import DESCRIPTOR_SOURCE
from headrace.catalog.kinds.function import FUNCTION, FUNCTION_SOURCE
from headrace.catalog.kinds.namespace import DATABASE, SCHEMA
from headrace.catalog.kinds.query import QUERY
from headrace.catalog.kinds.relation import RELATION
from headrace.catalog.kinds.role import ROLE
from headrace.catalog.kinds.savepoint import SAVEPOINT
from headrace.catalog.kinds.schema_registry import SCHEMA_REGISTRY
from headrace.catalog.kinds.secret import SECRET
from headrace.catalog.kinds.spec import KindSpec, ObjectKind
from headrace.catalog.kinds.store import STORE
from headrace.catalog.objects import Query

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
    SAVEPOINT,
    ALERT,
)
"""Every kind that is stored in the table `objects`; what an object is in comes before it."""

BY_NAME = {spec.kind: spec for spec in KINDS}
_OF_TYPE: dict[type[object], KindSpec[Any]] = {}


def spec_of(value: object) -> KindSpec[Any]:
    """Return the kind of an object that is stored in the table `objects`."""
    kind = type(value)
    if kind not in _OF_TYPE:
        _OF_TYPE[kind] = next(spec for spec in KINDS if issubclass(kind, spec.value))
    return _OF_TYPE[kind]


def kind_of(value: object) -> ObjectKind[Any]:
    """Return the kind of an object of the catalog, of a query too."""
    return QUERY if isinstance(value, Query) else spec_of(value)


def described(value: object) -> str:
    """Return an object as a text names it: its kind and its name."""
    kind = kind_of(value)
    return kind.described(kind.path(value))
