"""System relations: what there is, as rows of `deltastream.sys."…"` and of each database's `information_schema`.

Role: a SELECT reads them beside materialized views, and is answered at once (docs/adr/0025).
Entry points: `relation.SystemLookup` (names, for binding), `relation.rows_of` (rows, for the snapshot engine).
To add one: a function under `@system_relation(…)` in the module of its subject, which gives its rows; its part of
docs/reference/system-relations.md is written by `python scripts/make_reference.py`.
"""

from __future__ import annotations

from headrace.statements.system import access, activity, audit, information_schema, objects
from headrace.statements.system.relation import (
    RELATIONS,
    SystemLookup,
    SystemRelation,
    arrow_type,
    rows_of,
    system_relation_of,
)

__all__ = [
    "RELATIONS",
    "SystemLookup",
    "SystemRelation",
    "access",
    "activity",
    "arrow_type",
    "audit",
    "information_schema",
    "objects",
    "rows_of",
    "system_relation_of",
]
