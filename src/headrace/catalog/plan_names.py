"""Names in the stored text of a plan: the catalog reads nothing else of it.

A plan names its stores, its schema registries and the users' functions that it calls, so that what they need can be sent beside it.
A query records the ids of the objects that have these names when it is created (`queries.create`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from headrace.catalog.kinds.function import FUNCTION
from headrace.catalog.kinds.schema_registry import SCHEMA_REGISTRY
from headrace.catalog.kinds.spec import Path
from headrace.catalog.kinds.store import STORE


def places(plan: str) -> frozenset[tuple[str, ...]]:
    """Return store and entity of all that a plan reads and writes, the records that it leaves out among them."""
    steps = [step for step in _steps(json.loads(plan)) if step.get("store")]
    return frozenset((step["store"], *(step.get("entity") or ())) for step in steps)


def references(plan: str) -> frozenset[tuple[str, Path]]:
    """Return kind and path of the stores, schema registries and functions that a plan names."""
    return frozenset((kind, (holder[word],)) for kind, holder, word in _names(json.loads(plan)))


def renamed(plan: str, kind: str, old: str, new: str) -> str:
    """Return a plan of any version with the new name of a store, a schema registry or a function."""
    parsed, changed = json.loads(plan), False
    for named, holder, word in _names(parsed):
        if (named, holder[word]) == (kind, old):
            holder[word], changed = new, True
    return json.dumps(parsed, indent=1, ensure_ascii=False) if changed else plan


def _names(plan: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield each name with its kind, as the mapping and the key that hold it."""
    for step in _steps(plan):
        if step.get("store"):
            yield STORE.kind, step, "store"
        for layout in (step.get("value"), step.get("key")):
            if isinstance(layout, dict) and layout.get("registry"):
                yield SCHEMA_REGISTRY.kind, layout, "registry"
    for function in plan.get("functions", ()):
        yield FUNCTION.kind, function, "signature"


def _steps(plan: dict[str, Any]) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = plan.get("steps", [])
    return steps
