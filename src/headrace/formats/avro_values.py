"""Values of Avro's binary encoding, for the display of single records. Queries decode Avro in the JVM.

A value is what JSON can hold: BYTES as base64, decimals, dates and timestamps as text, the value of a union without its branch. Records
come from anybody who may write to a store, so that a value's items and its nesting are limited.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from headrace.core.types import NESTING_MAX
from headrace.formats.avro_references import self_contained
from headrace.formats.avro_schema import full_name, reading

ITEMS_MAX = 100_000
"""Of one value: a count in a record may claim any number of items that need no bytes."""
_DEPTH_MAX = 3 * NESTING_MAX
"""A nullable field of a record is two levels below the record."""
_LONG_BYTES = 10
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = {
    "timestamp-millis": 1000,
    "timestamp-micros": 1,
    "local-timestamp-millis": 1000,
    "local-timestamp-micros": 1,
}


class AvroDecoder:
    """Decoder of the values of one schema. `references` are the texts of the schemas that it names."""

    def __init__(self, schema: str, references: Sequence[str] = ()) -> None:
        """Raises UserError 22000 for a text that is no JSON, 53000 for a schema that is too deep."""
        with reading():
            self._schema = json.loads(self_contained(schema, references))
        self._named: dict[str, tuple[dict[str, Any], str]] = {}
        _define(self._schema, "", self._named)

    def value(self, data: bytes) -> Any:
        """Return the value of exactly these bytes. Raises ValueError if they are not a value of the schema."""
        reader = _Bytes(data)
        try:
            value = self._read(self._schema, "", reader, 0)
        except (KeyError, TypeError):
            raise ValueError("the schema is incomplete") from None
        if reader.remaining:
            raise ValueError(f"{reader.remaining} bytes follow the value")
        return value

    def _read(self, node: Any, namespace: str, data: _Bytes, depth: int) -> Any:
        if depth > _DEPTH_MAX:
            raise ValueError("the value is nested too deeply")
        data.count_item()
        if isinstance(node, list):
            branch = data.long()
            if not 0 <= branch < len(node):
                raise ValueError(f"the union has no branch {branch}")
            return self._read(node[branch], namespace, data, depth + 1)
        if isinstance(node, str):
            if node in _PRIMITIVES:
                return _PRIMITIVES[node](data)
            return self._complex(*self._type_of(node, namespace), data, depth)
        kind = node.get("type") if isinstance(node, dict) else None
        if isinstance(kind, dict | list) or (isinstance(kind, str) and kind not in _KINDS):
            return self._read(kind, namespace, data, depth + 1)
        return self._complex(node, namespace, data, depth)

    def _type_of(self, name: str, namespace: str) -> tuple[dict[str, Any], str]:
        for candidate in (f"{namespace}.{name}" if namespace and "." not in name else name, name):
            if candidate in self._named:
                return self._named[candidate]
        raise ValueError(f"the schema does not define {name!r}")

    def _complex(self, node: Any, namespace: str, data: _Bytes, depth: int) -> Any:
        match node:
            case {"type": "record" | "error", "fields": list() as fields}:
                inner = full_name(node, namespace).rpartition(".")[0]
                return {field["name"]: self._read(field["type"], inner, data, depth + 1) for field in fields}
            case {"type": "enum", "symbols": list() as symbols}:
                index = data.long()
                if not 0 <= index < len(symbols):
                    raise ValueError(f"the enum has no symbol {index}")
                return symbols[index]
            case {"type": "array", "items": items}:
                return list(data.blocks(lambda: self._read(items, namespace, data, depth + 1)))
            case {"type": "map", "values": values}:
                return dict(
                    data.blocks(lambda: (data.text(), self._read(values, namespace, data, depth + 1)))
                )
            case {"type": "fixed", "size": int() as size}:
                return _logical(node, data.take(size))
            case {"type": "bytes"}:
                return _logical(node, data.take(data.long()))
            case {"type": str() as kind} if kind in _PRIMITIVES:
                return _logical(node, _PRIMITIVES[kind](data))
        raise ValueError("the schema contains an unknown type")


class _Bytes:
    """Reader of the encoding's parts. Methods raise ValueError if the bytes end too early."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._index = 0
        self._items = 0

    @property
    def remaining(self) -> int:
        return len(self._data) - self._index

    def count_item(self) -> None:
        self._items += 1
        if self._items > ITEMS_MAX:
            raise ValueError(f"the value has more than {ITEMS_MAX} parts")

    def take(self, size: int) -> bytes:
        if not 0 <= size <= self.remaining:
            raise ValueError("the bytes end before the value")
        self._index += size
        return self._data[self._index - size : self._index]

    def long(self) -> int:
        value = 0
        for shift in range(0, 7 * _LONG_BYTES, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
        raise ValueError("a number has more than 10 bytes")

    def text(self) -> str:
        return self.take(self.long()).decode()

    def blocks(self, item: Callable[[], Any]) -> list[Any]:
        """Return the items of an array or a map, which come in blocks. A negative count is followed by the block's size."""
        items: list[Any] = []
        while count := self.long():
            if count < 0:
                self.long()
            items.extend(item() for _ in range(abs(count)))
        return items


def _number(form: str) -> Callable[[_Bytes], Any]:
    size = struct.calcsize(form)
    return lambda data: _json_number(struct.unpack(form, data.take(size))[0])


def _json_number(value: float) -> float | str:
    """JSON has neither NaN nor infinity."""
    return value if value - value == 0 else str(value)


_PRIMITIVES: dict[str, Callable[[_Bytes], Any]] = {
    "null": lambda _data: None,
    "boolean": lambda data: data.take(1) != b"\0",
    "int": _Bytes.long,
    "long": _Bytes.long,
    "float": _number("<f"),
    "double": _number("<d"),
    "bytes": lambda data: base64.b64encode(data.take(data.long())).decode(),
    "string": _Bytes.text,
}
_KINDS = {*_PRIMITIVES, "record", "error", "enum", "array", "map", "fixed"}


def _define(node: Any, namespace: str, named: dict[str, tuple[dict[str, Any], str]]) -> None:
    if isinstance(node, list):
        for branch in node:
            _define(branch, namespace, named)
    elif isinstance(node, dict):
        if node.get("type") in ("record", "error", "enum", "fixed"):
            name = full_name(node, namespace)
            named[name] = (node, namespace)
            namespace = name.rpartition(".")[0]
        fields = node.get("fields")
        inner = [field.get("type") for field in fields] if isinstance(fields, list) else []
        for part in (*inner, node.get("items"), node.get("values"), node.get("type")):
            if isinstance(part, dict | list):
                _define(part, namespace, named)


def _logical(node: dict[str, Any], value: Any) -> Any:
    """Return a value by its logical type; as it is stored if it has none, or if the value is outside of the type's range."""
    kind = node.get("logicalType")
    try:
        if kind == "decimal" and isinstance(value, bytes):
            return f"{Decimal(int.from_bytes(value, signed=True)).scaleb(-int(node.get('scale', 0))):f}"
        if kind == "date" and isinstance(value, int):
            return str(date(1970, 1, 1) + timedelta(days=value))
        if kind in _UNITS and isinstance(value, int):
            moment = _EPOCH + timedelta(microseconds=value * _UNITS[kind])
            digits = "milliseconds" if kind.endswith("millis") else "microseconds"
            text = moment.replace(tzinfo=None).isoformat(" ", digits)
            return text if kind.startswith("local") else f"{text}Z"
    except (ArithmeticError, ValueError):
        pass
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value
