"""Key and value of printed records as text: as they are, as base64, or decoded by a schema of the store's schema registry."""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import dataclass, field, replace
from typing import Protocol

from google.protobuf import json_format
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from headrace.connectors.base import PrintedRecord
from headrace.connectors.schema_registry.client import RegisteredSchema, RegistryClient
from headrace.core.errors import UserError
from headrace.core.resultset import Cell
from headrace.formats.avro_values import AvroDecoder
from headrace.formats.protobuf_schema import Descriptors, of_text

_HEAD_BYTES = 5
"""A zero, and the schema's id: how the serializers of Confluent's protocol frame a value."""


class _Decoder(Protocol):
    def value(self, data: bytes) -> object:
        """Return the value as JSON has it. Raises ValueError."""
        ...


@dataclass
class RecordText:
    """Formats of key and value, words of `print.value.format`, and the client of the registry for `registry`."""

    key: str = "text"
    value: str = "text"
    registry: RegistryClient | None = None
    _decoders: dict[int, _Decoder] = field(default_factory=dict)

    async def shown(self, record: PrintedRecord) -> PrintedRecord:
        """Return the record with its texts. What a schema cannot decode stays as it is, with the reason in `metadata`.

        Raises ExternalError 57015 when the registry does not answer.
        """
        if self.key == self.value == "text":
            return record
        if "registry" in (self.key, self.value):
            return await asyncio.to_thread(self._shown, record)
        return self._shown(record)

    def _shown(self, record: PrintedRecord) -> PrintedRecord:
        key, key_problem = self._text(self.key, record.key_bytes, record.key)
        value, value_problem = self._text(self.value, record.value_bytes, record.value)
        problems = [
            f", {part} not decoded: {problem}"
            for part, problem in (("key", key_problem), ("value", value_problem))
            if problem
        ]
        return replace(record, key=key, value=value, metadata=record.metadata + "".join(problems))

    def _text(self, form: str, data: bytes | None, text: Cell) -> tuple[Cell, str | None]:
        if data is None or form == "text":
            return text, None
        if form == "base64":
            return base64.b64encode(data).decode(), None
        try:
            return json.dumps(self._value(data), ensure_ascii=False), None
        except UserError as error:
            return text, error.message
        except (ValueError, RecursionError) as error:
            return text, str(error)

    def _value(self, data: bytes) -> object:
        if len(data) < _HEAD_BYTES or data[0] != 0:
            raise ValueError("it does not refer to a schema")
        identifier = int.from_bytes(data[1:_HEAD_BYTES])
        if identifier not in self._decoders:
            if self.registry is None:
                raise ValueError("the store has no schema registry")
            self._decoders[identifier] = _decoder(self.registry, self.registry.by_id(identifier))
        return self._decoders[identifier].value(data[_HEAD_BYTES:])


def _decoder(registry: RegistryClient, schema: RegisteredSchema) -> _Decoder:
    match schema.type:
        case "AVRO":
            return AvroDecoder(schema.text, registry.resolved(schema))
        case "PROTOBUF":
            return _Protobuf(of_text(schema.text, registry.referenced(schema)))
    return _Json()


class _Json:
    def value(self, data: bytes) -> object:
        return json.loads(data)


class _Protobuf:
    """The path of a message's indexes precedes its bytes."""

    def __init__(self, descriptors: Descriptors) -> None:
        self._messages = {descriptors.indexes(name): name for name in descriptors.messages}
        self._descriptors = descriptors

    def value(self, data: bytes) -> object:
        count, place = _zigzag(data, 0)
        indexes = [0] if count == 0 else []
        for _ in range(min(count, len(data))):
            index, place = _zigzag(data, place)
            indexes.append(index)
        name = self._messages.get(tuple(indexes))
        if name is None:
            raise ValueError(f"the schema has no message {indexes}")
        message = GetMessageClass(self._descriptors.message(name))()
        try:
            message.ParseFromString(data[place:])
            return json_format.MessageToDict(message, preserving_proto_field_name=True)
        except (DecodeError, json_format.Error, TypeError) as error:
            raise ValueError(f"it is not a message {name}: {error}") from None


def _zigzag(data: bytes, place: int) -> tuple[int, int]:
    """Return the number at a place, and the place behind it."""
    value = 0
    for shift in range(0, 35, 7):
        if place >= len(data):
            raise ValueError("the bytes end before the value")
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), place
    raise ValueError("a number has more than 5 bytes")
