"""Merging of a generated schema with a user's schema."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.formats.avro_base import based_on

LONG = {"type": "long", "logicalType": "timestamp-millis"}
PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}
STOP = {"type": "record", "name": "Stop", "fields": [{"name": "at", "type": "long"}]}


def taken(ours: Any, theirs: Any) -> bool:
    """True if the base's field replaces ours."""
    field = {"name": "x", "type": theirs, "doc": "told", "default": None}
    generated = {"type": "record", "name": "Ours", "fields": [{"name": "x", "type": ours}]}
    base = {
        "type": "record",
        "name": "Base",
        "doc": "all of it",
        "fields": [{"name": "other", "type": "int"}, field],
    }
    schema = json.loads(based_on(json.dumps(generated), json.dumps(base)))
    assert (schema["name"], schema["doc"], len(schema["fields"])) == ("Ours", "all of it", 1)
    return bool(schema["fields"] == [field])


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ("long", "long", True),
        ("long", {"type": "long"}, True),
        ("long", LONG, True),
        (LONG, LONG, True),
        (LONG, "long", False),
        ("long", "int", False),
        (["null", "long"], [LONG, "null"], True),
        (["null", "long"], "long", False),
        ("long", ["null", "long"], False),
        (PRICE, PRICE, True),
        (PRICE, {**PRICE, "scale": 3}, False),
        ("string", {"type": "enum", "name": "E", "symbols": ["A"]}, False),
        ("string", "com.shop.Name", False),
        (
            {"type": "array", "items": ["null", "string"]},
            {"type": "array", "items": ["null", "string"]},
            True,
        ),
        ({"type": "array", "items": "string"}, {"type": "array", "items": "long"}, False),
        ({"type": "map", "values": "long"}, {"type": "map", "values": LONG}, True),
        (STOP, {**STOP, "name": "Halt", "fields": [{"name": "at", "type": LONG}]}, True),
        (STOP, {**STOP, "fields": [*STOP["fields"], {"name": "more", "type": "int"}]}, False),
        (STOP, {"type": "record", "name": "Stop"}, False),
    ],
)
def test_a_field_of_the_same_type_is_as_the_base_has_it(ours: Any, theirs: Any, expected: bool) -> None:
    assert taken(ours, theirs) is expected


def test_a_key_that_is_one_value_is_taken_whole() -> None:
    assert json.loads(based_on('"long"', json.dumps(LONG))) == LONG
    assert json.loads(based_on('"string"', json.dumps(LONG))) == "string"
