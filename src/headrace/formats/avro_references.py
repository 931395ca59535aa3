"""An Avro schema that names types of other schemas, as one that holds them all: what is written by one is written by the other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from headrace.formats.avro_schema import full_name, reading

_Kept = dict[str, tuple[dict[str, Any], str]]
"""Definitions by their full names, each with the namespace that is around it."""

_NAMED = ("record", "error", "enum", "fixed")


def self_contained(schema: str, references: Sequence[str]) -> str:
    """Return `schema` with each type of the `references` written out where it is named first; all are JSON text.

    A name that none of them defines is left as it is. Raises UserError 22000 for what is no JSON, 53000 for what is too deep.
    """
    if not references:
        return schema
    kept: _Kept = {}
    with reading():
        for text in references:
            _keep(json.loads(text), "", kept)
        made = _written(json.loads(schema), "", kept, set())
    return json.dumps(made, separators=(",", ":"), ensure_ascii=False)


def _keep(node: Any, namespace: str, kept: _Kept) -> None:
    if isinstance(node, list):
        for branch in node:
            _keep(branch, namespace, kept)
    elif isinstance(node, dict):
        if node.get("type") in _NAMED:
            full = full_name(node, namespace)
            kept[full] = (node, namespace)
            namespace = full.rpartition(".")[0]
        for inner in _parts(node):
            _keep(inner, namespace, kept)


def _written(node: Any, namespace: str, kept: _Kept, defined: set[str]) -> Any:
    if isinstance(node, list):
        return [_written(branch, namespace, kept, defined) for branch in node]
    if isinstance(node, str):
        full = node if "." in node or not namespace else f"{namespace}.{node}"
        referenced = next((name for name in (full, node) if name in kept or name in defined), None)
        if referenced is None or referenced in defined:
            return node if referenced is None else referenced
        definition, around = kept[referenced]
        return _written(definition, around, kept, defined)
    if not isinstance(node, dict):
        return node
    made = dict(node)
    if node.get("type") in _NAMED:
        full = full_name(node, namespace)
        if full in defined:
            return full
        defined.add(full)
        namespace, _, made["name"] = full.rpartition(".")
        # Said, since it may be another one than that of what is around it now.
        made["namespace"] = namespace
    elif isinstance(node.get("type"), str | list | dict):
        made["type"] = _written(node["type"], namespace, kept, defined)
    for name in ("items", "values"):
        if name in node:
            made[name] = _written(node[name], namespace, kept, defined)
    if isinstance(node.get("fields"), list):
        made["fields"] = [
            field | {"type": _written(field.get("type"), namespace, kept, defined)}
            for field in node["fields"]
        ]
    return made


def _parts(node: dict[str, Any]) -> list[Any]:
    inner = [node[name] for name in ("items", "values") if name in node]
    if not isinstance(node.get("type"), str):
        inner.append(node.get("type"))
    fields = node.get("fields")
    return (
        inner + [field.get("type") for field in fields if isinstance(field, dict)]
        if isinstance(fields, list)
        else inner
    )
