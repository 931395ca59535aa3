"""JSON_VALUE, JSON_QUERY and JSON_EXISTS in queries of views, as the extension's `JsonFunction` answers them in continuous queries."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from headrace.core import json_path
from headrace.core.json_path import All, JsonPath

_ESCAPED = re.compile(r'["\\\x00-\x1f]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_parsed = functools.lru_cache(maxsize=256)(json_path.parse)


class _Number(str):
    """A number as it is written, which keeps its digits."""


class _NoAnswerError(Exception):
    """Case of ON ERROR: no JSON, no path, or no item of the requested kind."""


def json_answer(text: str, path: str, output: str) -> str | None:
    """Return the `output` (value, query, exists or a state) of the items at a path of a JSON text.

    `value` is a scalar as text, `query` an object or array as JSON, both None where there is none; `exists` is an empty text or None;
    `query_conditional` is in an array unless it is one, `query_unconditional` always. With `_state` at the end, they are `found`,
    `empty` or `error`.
    """
    kind, state = output.removesuffix("_state"), output.endswith("_state")
    try:
        items = list(_items(text, path))
        answer = "" if kind == "exists" and items else _answer(items, kind, _parsed(path)) if items else None
        if answer is not None:
            answer.encode()  # half of a surrogate pair, written as an escape, is no character
    except (_NoAnswerError, UnicodeEncodeError):
        return "error" if state else None
    return ("found" if items else "empty") if state else answer


def json_kind(text: str) -> str | None:
    """Return `object`, `array` or `scalar`; None for a text that is not JSON."""
    try:
        (value,) = _items(text, "$")
    except _NoAnswerError:
        return None
    if isinstance(value, dict):
        return "object"
    return "array" if isinstance(value, list) else "scalar"


def json_quoted(text: str) -> str:
    """Return a text as a JSON string in ASCII, as Flink writes it: a solidus is escaped too."""
    return json.dumps(text).replace("/", "\\/").replace("\x7f", "\\u007f")


def json_unquoted(text: str) -> str:
    """Return the text in a JSON string; any other text as it is."""
    if not (text.startswith('"') and text.endswith('"')):
        return text
    try:
        (value,) = _items(text, "$")
        value.encode()
    except (_NoAnswerError, UnicodeEncodeError):
        return text
    return str(value)


def _items(text: str, path: str) -> Iterable[Any]:
    parsed = _parsed(path)
    if parsed is None:
        raise _NoAnswerError
    try:
        value = json.loads(text, parse_float=_Number, parse_int=_Number, parse_constant=_refused)
    except (ValueError, RecursionError) as error:
        raise _NoAnswerError from error
    items: Iterable[Any] = [value]
    for step in parsed.steps:
        items = [part for item in items for part in _parts(item, step, strict=parsed.strict)]
    return items


def _refused(_name: str) -> None:
    raise _NoAnswerError


def _parts(item: Any, step: str | int | All, *, strict: bool) -> Iterator[Any]:
    """Yield the items that a step selects in an item.

    A lax path takes an array for its elements and a single value for an array, and misses without error.
    """
    of_array = isinstance(step, int) or step == All(members=False)
    if of_array and not isinstance(item, list) and not strict:
        item = [item]
    match step, item:
        case str(), dict() if step in item:
            yield item[step]
        case int(), list() if step < len(item):
            yield item[step]
        case All(members=True), dict():
            yield from item.values()
        case All(members=False), list():
            yield from item
        case ((str() | All(members=True)), list()) if not strict:
            for element in item:
                yield from _parts(element, step, strict=False) if isinstance(element, dict) else ()
        case _ if strict:
            raise _NoAnswerError


def _answer(items: list[Any], kind: str, path: JsonPath | None) -> str | None:
    if kind in ("query_conditional", "query_unconditional"):
        several = len(items) > 1 or (path is not None and path.several)
        value = items if several else items[0]
        is_whole = kind == "query_conditional" and isinstance(value, list)
        return _written(value if is_whole else [value])
    if kind == "query" and path is not None and path.several:
        return _written(items)
    if len(items) > 1 or isinstance(items[0], dict | list) != (kind == "query"):
        raise _NoAnswerError
    (item,) = items
    if item is None or isinstance(item, str):
        return None if item is None else str(item)
    return _written(item)


def _written(value: Any) -> str:
    """Return JSON without blanks; numbers stand as they were."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_written(name)}:{_written(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, str):
        return (
            '"' + _ESCAPED.sub(lambda match: _SHORT.get(match[0]) or f"\\u{ord(match[0]):04x}", value) + '"'
        )
    return "null" if value is None else str(value).lower()
