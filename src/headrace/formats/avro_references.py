"""An Avro schema that names types of other schemas, as one that holds them all: what is written by one is written by the other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from headrace.formats.avro_schema import full_name, reading

_Definitions = dict[str, tuple[dict[str, Any], str]]
"""Definitions by their full names, each with the namespace that is around it."""

_NAMED = ("record", "error", "enum", "fixed")


def self_contained(schema: str, references: Sequence[str]) -> str:
    """Return `schema` with each type of the `references` written out where it is named first; all are JSON text.

    A name that none of them defines is left as it is. Raises UserError 22000 for what is no JSON, 53000 for what is too deep.
    """
    if not references:
        return schema
    definitions: _Definitions = {}
    with reading():
        for text in references:
            _collect(json.loads(text), "", definitions)
        schema_json = _written(json.loads(schema), "", definitions, set())
    return json.dumps(schema_json, separators=(",", ":"), ensure_ascii=False)


def _collect(node: Any, namespace: str, definitions: _Definitions) -> None:
    if isinstance(node, list):
        for branch in node:
            _collect(branch, namespace, definitions)
    elif isinstance(node, dict):
        if node.get("type") in _NAMED:
            full = full_name(node, namespace)
            definitions[full] = (node, namespace)
            namespace = full.rpartition(".")[0]
        for inner in _parts(node):
            _collect(inner, namespace, definitions)


def _written(node: Any, namespace: str, definitions: _Definitions, defined: set[str]) -> Any:
    if isinstance(node, list):
        return [_written(branch, namespace, definitions, defined) for branch in node]
    if isinstance(node, str):
        full = node if "." in node or not namespace else f"{namespace}.{node}"
        referenced = next((name for name in (full, node) if name in definitions or name in defined), None)
        if referenced is None or referenced in defined:
            return node if referenced is None else referenced
        definition, around = definitions[referenced]
        return _written(definition, around, definitions, defined)
    if not isinstance(node, dict):
        return node
    copied = dict(node)
    if node.get("type") in _NAMED:
        full = full_name(node, namespace)
        if full in defined:
            return full
        defined.add(full)
        namespace, _, copied["name"] = full.rpartition(".")
        # Said, since it may be another one than that of what is around it now.
        copied["namespace"] = namespace
    elif isinstance(node.get("type"), str | list | dict):
        copied["type"] = _written(node["type"], namespace, definitions, defined)
    for name in ("items", "values"):
        if name in node:
            copied[name] = _written(node[name], namespace, definitions, defined)
    if isinstance(node.get("fields"), list):
        copied["fields"] = [
            field | {"type": _written(field.get("type"), namespace, definitions, defined)}
            for field in node["fields"]
        ]
    return copied


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
