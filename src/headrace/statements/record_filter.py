"""Filter of printed records: a text that a record contains, or a comparison of a field of its JSON value."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable
from typing import Any

from headrace.connectors.base import PrintedRecord
from headrace.core import json_path
from headrace.core.json_path import JsonPath

FORM = "a text, or $.field = value with =, <>, <, <=, >, >= or ~ (contains)"
_COMPARISON = re.compile(r"(\$.*?)\s*(=|<>|!=|<=|>=|<|>|~)\s*(.+)", re.DOTALL)
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MISSING = object()

Filter = Callable[[PrintedRecord], bool]


def record_filter(text: str) -> Filter:
    """Return the filter that a text describes. Raises ValueError."""
    if not text.startswith("$"):
        if not text:
            raise ValueError(text)
        return lambda record: any(text in part for part in (record.key, record.value, record.headers) if part)
    comparison = _COMPARISON.fullmatch(text)
    path = json_path.parse(comparison[1] if comparison else text)
    if path is None or path.several:
        raise ValueError(text)
    if comparison is None:
        return lambda record: _value_at(record, path) is not _MISSING
    compare, expected = comparison[2], _literal(comparison[3].strip())
    return lambda record: _holds(_value_at(record, path), compare, expected)


def _literal(text: str) -> Any:
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1]
    try:
        return json.loads(text)
    except ValueError:
        return text


def _value_at(record: PrintedRecord, path: JsonPath) -> Any:
    """Return the value of a field; `_MISSING` if the record has none, or is not JSON."""
    try:
        value = json.loads(record.value or "")
    except (ValueError, RecursionError):
        return _MISSING
    for step in path.steps:
        match value:
            case dict() if isinstance(step, str):
                value = value.get(step, _MISSING)
            case list() if isinstance(step, int) and step < len(value):
                value = value[step]
            case _:
                return _MISSING
    return value


def _holds(value: Any, compare: str, expected: Any) -> bool:
    if value is _MISSING:
        return False
    if compare == "~":
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return str(expected) in text
    equal = value == expected and isinstance(value, bool) == isinstance(expected, bool)
    if compare in _ORDERS:
        numbers = all(
            isinstance(side, int | float) and not isinstance(side, bool) for side in (value, expected)
        )
        texts = isinstance(value, str) and isinstance(expected, str)
        return (numbers or texts) and _ORDERS[compare](value, expected)
    return equal if compare == "=" else not equal
