"""Protobuf records: bare messages of a type that a descriptor source has, or in Confluent's wire format, of the schemas of a registry.

That is a zero byte, the id of a schema, where in its file the message stands, and the message. Each record is read by the schema
that it names (`ProtobufDecoder`); what is written has the one that was registered when its query was planned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Literal

from headrace.core.errors import UserError
from headrace.core.schema import Column
from headrace.core.types import Struct
from headrace.formats.base import Field, Format
from headrace.formats.protobuf_schema import decoded, proto_text
from headrace.formats.types import spark_type, text_sql


class Protobuf(Format):
    """`registry` is the catalog's name of the one that knows the schemas; without it all records are of `message`, a full name.

    `descriptors`, a FileDescriptorSet in base64, has that message; with a registry, and `schema_id`, it is what a query writes.
    """

    format: Literal["protobuf"] = "protobuf"
    a_row: ClassVar[str] = "a message"
    for_keys: ClassVar[bool] = True
    registry: str | None = None
    message: str | None = None
    descriptors: str | None = None
    schema_id: int | None = None

    def refusal(self, columns: Struct) -> str | None:
        """Return what Protobuf's names and types cannot represent; without a registry, columns that are not fields of the message."""
        if self.registry is None:
            return decoded(self.descriptors or "").misfit(self.message or "", columns)
        try:
            proto_text([Column(name, kind) for name, kind in columns.fields], "t")
        except UserError as error:
            return f"does not support it: {error.message}"
        return None

    def read(self, data: str, columns: Struct) -> str:
        """Return a call of `ProtobufDecoder`."""
        of_source = self.descriptors if self.registry is None else None
        given = (spark_type(columns), self.registry or "", self.message or "", of_source or "")
        return f"headrace_from_protobuf({data}, {', '.join(map(text_sql, given))})"

    def written(self, fields: Sequence[Field]) -> str:
        """Return a call of `ProtobufEncoder`. Raises ValueError when the message is not pinned."""
        if self.descriptors is None or self.message is None or (self.registry and self.schema_id is None):
            raise ValueError("expected a message that is known, found none")
        row = ", ".join(f"{text_sql(name)}, {item}" for name, item, _ in fields)
        known = f"{text_sql(self.descriptors)}, {text_sql(self.message)}"
        return f"headrace_to_protobuf(named_struct({row}), {known}, X'{self._prefix().hex()}')"

    def _prefix(self) -> bytes:
        if self.schema_id is None:
            return b""
        place = decoded(self.descriptors or "").indexes(self.message or "")
        # Most records are the first message of a file, whose index takes one byte.
        numbers = (0,) if place == (0,) else (len(place), *place)
        return b"\0" + self.schema_id.to_bytes(4, "big") + _zigzags(numbers)


def _zigzags(numbers: Iterable[int]) -> bytes:
    written = bytearray()
    for number in numbers:
        left = number << 1
        while left >= 0x80:
            written.append(left & 0x7F | 0x80)
            left >>= 7
        written.append(left)
    return bytes(written)
