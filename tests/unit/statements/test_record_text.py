"""Printed records as text: formats, schemas of a registry, and values that no schema fits."""

from __future__ import annotations

import asyncio
import json
from typing import cast

import pytest

from headrace.connectors.base import PrintedRecord
from headrace.connectors.schema_registry.client import RegisteredSchema, RegistryClient
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.statements.record_text import RecordText

PROTO = """
syntax = "proto3";
message Other { string text = 1; }
message Order { message Line { int32 count = 1; } string user = 1; repeated Line lines = 2; }
"""


class Registry:
    """A registry with four schemas that counts requests."""

    def __init__(self) -> None:
        self.requests = 0

    def by_id(self, identifier: int) -> RegisteredSchema:
        self.requests += 1
        match identifier:
            case 1:
                return RegisteredSchema(
                    1,
                    "AVRO",
                    '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}',
                )
            case 2:
                return RegisteredSchema(2, "PROTOBUF", PROTO)
            case 3:
                return RegisteredSchema(3, "JSON", "{}")
        raise UserError(
            SqlState.DESCRIPTOR_NOT_FOUND, f"the schema registry does not know the schema {identifier}"
        )

    def resolved(self, _schema: RegisteredSchema) -> tuple[str, ...]:
        return ()

    def referenced(self, _schema: RegisteredSchema) -> tuple[tuple[str, str], ...]:
        return ()


def shown(value: bytes | None, form: str = "registry") -> PrintedRecord:
    texts = RecordText("text", form, cast(RegistryClient, Registry()))
    record = PrintedRecord("k", "as it is", "partition 0", key_bytes=b"k", value_bytes=value)
    return asyncio.run(texts.shown(record))


def framed(identifier: int, data: bytes) -> bytes:
    return b"\0" + identifier.to_bytes(4) + data


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (framed(1, b"\x0e"), {"id": 7}),
        (framed(2, b"\x00\x0a\x01x"), {"text": "x"}),
        (framed(2, b"\x02\x02\x0a\x01u\x12\x02\x08\x05"), {"user": "u", "lines": [{"count": 5}]}),
        (framed(2, b"\x04\x02\x00\x08\x05"), {"count": 5}),
        (framed(3, b'{"a": [1]}'), {"a": [1]}),
    ],
)
def test_a_value_is_decoded_by_its_schema(data: bytes, expected: object) -> None:
    record = shown(data)
    assert json.loads(record.value or "") == expected
    assert (record.key, record.metadata) == ("k", "partition 0")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"a": 1}', "does not refer to a schema"),
        (b"", "does not refer to a schema"),
        (framed(1, b""), "the bytes end"),
        (framed(2, b"\x04\x02\x08"), "no message"),
        (framed(2, b"\x00\x0a\x09x"), "not a message Other"),
        (framed(2, b"\xff\xff\xff\xff\xff\xff"), "more than 5 bytes"),
        (framed(3, b"{"), "Expecting"),
        (framed(9, b""), "does not know the schema 9"),
    ],
)
def test_a_value_that_cannot_be_decoded_stays_as_it_is_with_the_reason(data: bytes, reason: str) -> None:
    record = shown(data)
    assert record.value == "as it is"
    assert record.metadata.startswith("partition 0, value not decoded: ")
    assert reason in record.metadata


def test_base64_and_null() -> None:
    assert shown(b"\0a", "base64").value == "AGE="
    assert shown(b"\0a", "text").value == "as it is"
    assert shown(None).value == "as it is"


def test_a_schema_is_requested_once() -> None:
    registry = Registry()
    texts = RecordText("registry", "registry", cast(RegistryClient, registry))
    data = framed(1, b"\x0e")
    record = PrintedRecord(None, None, "", key_bytes=data, value_bytes=data)
    for _ in range(3):
        assert asyncio.run(texts.shown(record)).key == '{"id": 7}'
    assert registry.requests == 1
