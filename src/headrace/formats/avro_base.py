"""Merging of a generated Avro schema with a schema that a user keeps: its entries for the fields that both have."""

from __future__ import annotations

import json
from typing import Any

_OF_THE_RECORD = ("doc",)
_OF_A_TYPE = ("logicalType", "precision", "scale")


def based_on(generated: str, base: str) -> str:
    """Return the schema `generated` of columns, where each field that `base` has by the same name and of the same type is as `base` has
    it.

    So are its doc, its default, its other properties and a logical type that ours lacks; of another type ours stays. Of a record its
    doc is taken, too. Both are JSON text, and so is what comes out.
    """
    ours, theirs = json.loads(generated), json.loads(base)
    if _is_record(ours) and _is_record(theirs):
        known = {field.get("name"): field for field in theirs["fields"] if isinstance(field, dict)}
        ours |= {name: theirs[name] for name in _OF_THE_RECORD if name in theirs}
        ours["fields"] = [
            known[field["name"]]
            if field["name"] in known and _is_same(field["type"], known[field["name"]].get("type"))
            else field
            for field in ours["fields"]
        ]
    elif _is_same(ours, theirs):
        ours = theirs
    return json.dumps(ours, separators=(",", ":"), ensure_ascii=False)


def _is_record(schema: Any) -> bool:
    return (
        isinstance(schema, dict) and schema.get("type") == "record" and isinstance(schema.get("fields"), list)
    )


def _is_same(ours: Any, theirs: Any) -> bool:
    """True if bytes of one are those of the other, but for the order of a union's branches. What is only named there is another one."""
    if isinstance(ours, list) and isinstance(theirs, list):
        left = list(theirs)
        for branch in ours:
            counterpart = next((other for other in left if _is_same(branch, other)), None)
            if counterpart is None:
                return False
            left.remove(counterpart)
        return not left
    if isinstance(ours, list) or isinstance(theirs, list):
        return False
    one, other = _opened(ours), _opened(theirs)
    if one.get("type") != other.get("type"):
        return False
    if "logicalType" in one and any(one.get(name) != other.get(name) for name in _OF_A_TYPE):
        return False
    match one["type"]:
        case "array":
            return _is_same(one.get("items"), other.get("items"))
        case "map":
            return _is_same(one.get("values"), other.get("values"))
        case "record":
            pairs = list(zip(one["fields"], other.get("fields") or [], strict=False))
            return len(pairs) == len(one["fields"]) == len(other["fields"]) and all(
                mine["name"] == its.get("name") and _is_same(mine["type"], its.get("type"))
                for mine, its in pairs
            )
    return True


def _opened(schema: Any) -> dict[str, Any]:
    """Return a type that is not a union, as an object."""
    while isinstance(schema, dict) and isinstance(schema.get("type"), dict):
        schema = schema["type"]
    return schema if isinstance(schema, dict) else {"type": schema}
