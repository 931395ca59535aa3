"""Conversion of PostgreSQL's texts to Arrow columns of Headrace's types, a whole column at a time; pure.

The texts are those of a connection with the settings of `connection.py`: ISO dates in UTC, bytea in hex.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import pyarrow as pa
from pyarrow import compute

from headrace.connectors.arrow_types import arrow_type
from headrace.core.types import (
    Array,
    DataType,
    Map,
    Primitive,
    Struct,
    Timestamp,
    Varchar,
)

Texts: TypeAlias = Sequence[str | None] | pa.Array
"""PostgreSQL's texts of a column; an Array of strings spares a walk through them where a type needs none."""

_BOOLEANS = {"t": True, "f": False, "true": True, "false": False, None: None}
_BOOL_OID, _NUMBER_OIDS = 16, frozenset((20, 21, 23, 26, 700, 701, 1700))
_ELEMENT = re.compile(r'"((?:[^"\\]|\\.)*)"|([^,{}"]+)|([{},])', re.DOTALL)


def column(texts: Texts, kind: DataType) -> pa.Array:
    """Return a column of `kind`; raises ValueError, with the text, for a text that is not a column."""
    match kind:
        case Varchar():
            return _strings(texts)
        case Primitive("BOOLEAN"):
            return pa.array([_boolean(text) for text in _list_of(texts)], pa.bool_())
        case Primitive("BYTES"):
            return pa.array([None if text is None else _bytes(text) for text in _list_of(texts)], pa.binary())
        case Timestamp():
            # A time with a zone ends in +00, one without is UTC by our reading.
            plain = compute.replace_substring_regex(_strings(texts), r"(\+00|Z)$", "")
            return compute.assume_timezone(compute.cast(plain, pa.timestamp("us")), "UTC")
        case Array(element):
            lists = [None if text is None else _list(text) for text in _list_of(texts)]
            child = column([text for items in lists if items is not None for text in items], element)
            return pa.ListArray.from_arrays(_offsets(lists), child)
        case Map(key, value):
            objects = [None if text is None else _object(text) for text in _list_of(texts)]
            keys = column([name for items in objects if items is not None for name in items], key)
            values = column(
                [_text(item) for items in objects if items is not None for item in items.values()], value
            )
            return pa.MapArray.from_arrays(_offsets(objects), keys, values)
        case Struct(fields):
            objects = [None if text is None else _object(text) for text in _list_of(texts)]
            children = {
                name: column([None if row is None else _text(row.get(name)) for row in objects], field)
                for name, field in fields
            }
            return struct(children, [row is None for row in objects])
    return compute.cast(_strings(texts), arrow_type(kind))


def _strings(texts: Texts) -> pa.Array:
    return texts if isinstance(texts, pa.Array) else pa.array(texts, pa.string())


def _list_of(texts: Texts) -> Sequence[str | None]:
    items: Sequence[str | None] = texts.to_pylist() if isinstance(texts, pa.Array) else texts
    return items


def struct(children: dict[str, pa.Array], missing: Sequence[bool] | None = None) -> pa.Array:
    """Return a column of STRUCTs, NULL where `missing`."""
    mask = None if missing is None else pa.array(missing, pa.bool_())
    return pa.StructArray.from_arrays(list(children.values()), list(children), mask=mask)


def json_row(names: Sequence[str], type_oids: Sequence[int], row: Sequence[str | None]) -> str:
    """Return a row as a JSON object: numbers and booleans stay, all other values are PostgreSQL's text."""
    return f"{{{','.join(map(_member, names, type_oids, row))}}}"


def _member(name: str, oid: int, text: str | None) -> str:
    if text is None:
        value = "null"
    elif oid == _BOOL_OID:
        value = "true" if text == "t" else "false"
    elif oid in _NUMBER_OIDS and text[-1].isdigit():  # not NaN, not Infinity
        value = text
    else:
        value = json.dumps(text, ensure_ascii=False)
    return f"{json.dumps(name, ensure_ascii=False)}:{value}"


def _boolean(text: str | None) -> bool | None:
    if text not in _BOOLEANS:
        raise ValueError(f"{text!r} is not t or f")
    return _BOOLEANS[text]


def _bytes(text: str) -> bytes:
    if not text.startswith("\\x"):
        raise ValueError(f"{text!r} is not the text of a bytea")
    return bytes.fromhex(text[2:])


def _offsets(lists: Sequence[Any]) -> pa.Array:
    """Return where each list begins among the elements of all; None for a NULL list."""
    offsets: list[int | None] = []
    end = 0
    for items in lists:
        offsets.append(None if items is None else end)
        end += 0 if items is None else len(items)
    return pa.array([*offsets, end], pa.int32())


def _object(text: str) -> dict[str, Any]:
    members = _parsed(text)
    if not isinstance(members, dict):
        raise ValueError(f"{text!r} is not a JSON object")
    return members


class _Number(str):
    """The digits of a number in JSON, which has more of them than a DOUBLE, or than Python makes an integer of."""

    __slots__ = ()


def _parsed(text: str) -> Any:
    return json.loads(text, parse_float=_Number, parse_int=_Number)


def _text(value: Any) -> str | None:
    """Return a value of JSON as PostgreSQL would write it."""
    return value if value is None or isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    """Return a parsed value as JSON again, its numbers digit by digit."""
    match value:
        case _Number():
            return value
        case dict():
            members = (
                f"{json.dumps(name, ensure_ascii=False)}: {_json(item)}" for name, item in value.items()
            )
            return f"{{{', '.join(members)}}}"
        case list():
            return f"[{', '.join(map(_json, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _list(text: str) -> list[str | None]:
    """Return the elements of PostgreSQL's text of an array, `{1,"a b",NULL}`, or of a JSON array; one that is an array itself as its
    text."""
    if text.startswith("[") and text.endswith("]"):
        return [_text(item) for item in _parsed(text)]
    if not text.startswith("{"):
        raise ValueError(f"{text!r} is not the text of an array")
    items: list[str | None] = []
    depth, start = 0, 0
    for match in _ELEMENT.finditer(text):
        quoted, plain, mark = match.groups()
        if mark == "{":
            depth += 1
            start = match.start() if depth == 2 else start
        elif mark == "}":
            depth -= 1
            if depth == 1:
                items.append(text[start : match.end()])
        elif mark is None and depth == 1:
            items.append(
                re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
                if quoted is not None
                else None
                if plain == "NULL"
                else plain
            )
    return items
