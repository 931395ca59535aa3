"""System relations: the catalog's objects as rows of `deltastream.sys."…"` and of each database's `information_schema`.

Role: a SELECT may read them together with materialized views, and returns at once (docs/adr/0025).
Entry points: `relation.SystemLookup` (names, for binding), `relation.rows_of` (rows, for the snapshot engine).
To add one: a function under `@system_relation(…)` in the module of its subject, which returns its rows;
`python scripts/make_reference.py` writes its part of docs/reference/system-relations.md.
"""

from __future__ import annotations

from headrace.statements.system import (
    access,
    activity,
    alerts,
    audit,
    definitions,
    information_schema,
    lineage,
    metrics,
    objects,
    settings,
    worksheets,
)
from headrace.statements.system.relation import (
    RELATIONS,
    Reference,
    SystemLookup,
    SystemRelation,
    arrow_type,
    rows_of,
    system_relation_of,
)

__all__ = [
    "RELATIONS",
    "Reference",
    "SystemLookup",
    "SystemRelation",
    "access",
    "activity",
    "alerts",
    "arrow_type",
    "audit",
    "definitions",
    "information_schema",
    "lineage",
    "metrics",
    "objects",
    "rows_of",
    "settings",
    "system_relation_of",
    "worksheets",
]
