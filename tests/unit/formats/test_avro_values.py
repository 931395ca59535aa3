"""Avro's binary encoding as JSON values: examples of the specification, and bytes that nobody should write."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from headrace.formats.avro_values import ITEMS_MAX, AvroDecoder

SCHEMA = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "ratio", "type": "double"},
        {"name": "raw", "type": {"type": "fixed", "name": "Two", "size": 2}},
        {"name": "next", "type": ["null", "Order"]},
    ],
}


def number(value: int) -> bytes:
    """Return Avro's encoding of an int or long."""
    value = (value << 1) ^ (value >> 63)
    parts = io.BytesIO()
    while value > 0x7F:
        parts.write(bytes([value & 0x7F | 0x80]))
        value >>= 7
    parts.write(bytes([value]))
    return parts.getvalue()


def decoder(schema: Any, *references: Any) -> AvroDecoder:
    return AvroDecoder(json.dumps(schema), [json.dumps(one) for one in references])


def order(following: bytes) -> bytes:
    parts = [
        number(-7),
        number(1) + number(2) + b"hi",
        number(1),
        number(-1) + number(2) + number(1) + b"a" + number(0),
        number(1) + number(1) + b"k" + number(300) + number(0),
        number(2) + (1234).to_bytes(2),
        number(19_000),
        number(1_500),
        b"\x00\x00\x00\x00\x00\x00\xf8\x3f",
        b"\xff\x00",
        following,
    ]
    return b"".join(parts)


def test_every_kind_of_type_and_a_type_that_contains_itself() -> None:
    value = decoder(SCHEMA).value(order(number(1) + order(number(0))))
    inner = value.pop("next")
    assert inner.pop("next") is None
    assert inner == value
    assert value == {
        "id": -7,
        "note": "hi",
        "kind": "OLD",
        "tags": ["a"],
        "counts": {"k": 300},
        "price": "12.34",
        "day": "2022-01-08",
        "at": "1970-01-01 00:00:01.500Z",
        "ratio": 1.5,
        "raw": "/wA=",
    }


def test_a_type_of_another_schema() -> None:
    address = {"type": "record", "name": "shop.Address", "fields": [{"name": "city", "type": "string"}]}
    person = {"type": "record", "name": "shop.Person", "fields": [{"name": "home", "type": "Address"}]}
    assert decoder(person, address).value(number(1) + b"x") == {"home": {"city": "x"}}


def test_numbers_that_json_lacks_are_texts() -> None:
    assert decoder("float").value(b"\x00\x00\xc0\x7f") == "nan"


@pytest.mark.parametrize(
    ("schema", "data", "problem"),
    [
        ("long", b"", "end before"),
        ("long", b"\xff" * 11, "more than 10"),
        ("long", b"\x02\x02", "1 bytes follow"),
        ("string", number(1 << 40), "end before"),
        ("bytes", number(-5), "end before"),
        (["null", "int"], number(2), "no branch"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, number(1), "no symbol"),
        ({"type": "array", "items": "null"}, number(1 << 60), f"more than {ITEMS_MAX}"),
        ({"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}, b"", "too deeply"),
        ({"type": "record", "name": "R", "fields": [{"name": "r"}]}, b"", "incomplete"),
        ("Missing", b"", "does not define"),
    ],
)
def test_bytes_that_are_no_value(schema: Any, data: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        decoder(schema).value(data)
