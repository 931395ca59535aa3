"""Avro schemas as columns, and columns as Avro schemas. Source: dialect section 16 and the Avro specification, 1.12.

    BOOLEAN boolean · TINYINT, SMALLINT, INTEGER int · BIGINT long · FLOAT float · DOUBLE double · VARCHAR string · BYTES bytes ·
    DECIMAL bytes, decimal · DATE int, date · TIMESTAMP and TIMESTAMP_LTZ long, timestamp-millis (to 3 digits) or timestamp-micros ·
    ARRAY array · MAP map, whose keys are strings · STRUCT record · a column that may be NULL: a union of null and its type

The way back has more to read: an enum is a VARCHAR, a fixed BYTES, a local timestamp a TIMESTAMP, and a logical type that the
dialect lacks (a time of day, a UUID) what it is stored as.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from headrace.core.errors import UserError
from headrace.core.names import Identifier
from headrace.core.schema import Column
from headrace.core.sqlstate import SqlState
from headrace.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    NESTING_MAX,
    SMALLINT,
    TINYINT,
    VARCHAR,
    Array,
    DataType,
    Decimal,
    Map,
    Struct,
    Timestamp,
    Varchar,
    parse_type,
)
from headrace.core.wording import with_article

FIELDS_MAX = 10_000
"""Of one schema, each counted as often as it occurs: a named type may stand in many places."""

_PRIMITIVES: dict[str, DataType] = {
    "boolean": BOOLEAN,
    "int": INTEGER,
    "long": BIGINT,
    "float": FLOAT,
    "double": DOUBLE,
    "bytes": BYTES,
    "string": VARCHAR,
}
_WRITTEN: dict[DataType, str] = {
    **{kind: name for name, kind in _PRIMITIVES.items()},
    TINYINT: "int",
    SMALLINT: "int",
}
_TIMES: dict[str, DataType] = {
    f"{local}timestamp-{unit}": Timestamp(precision)
    for local in ("", "local-")
    for unit, precision in (("millis", 3), ("micros", 6))
}
_LOGICAL: dict[tuple[str, str], DataType] = {
    ("int", "date"): DATE,
    **{("long", name): kind for name, kind in _TIMES.items()},
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DECLARE = "Declare the columns that you need, with supported types: (name TYPE, …)."


def columns_of(schema: str, references: Sequence[str] = ()) -> tuple[Column, ...]:
    """Return the columns of a record's schema, as JSON text; NOT NULL where the schema has no null.

    `references` are the schemas whose types it names, each after those that it needs itself. Raises UserError 0A000 for what no
    data type holds, 22000 for a text that is no Avro schema, 53000 for one that is too large.
    """
    with reading():
        node = json.loads(schema)
        if not isinstance(node, dict) or node.get("type") != "record":
            raise _unsupported(f"it is {_shown(node)}, a single value instead of a record")
        fields = _Reader(references).record(node, "")
        return tuple(
            Column(Identifier(name).name, parse_type(str(kind)), nullable) for name, kind, nullable in fields
        )


def type_of(schema: str, references: Sequence[str] = ()) -> DataType:
    """Return the data type of any schema; a key's may be a single value. Raises as `columns_of`."""
    with reading():
        kind, _ = _Reader(references).read(json.loads(schema), "", "the value")
        return parse_type(str(kind))


def record_schema(columns: Sequence[Column], name: str) -> str:
    """Return the schema of records with these columns, as JSON text; `name` is made a name of Avro's.

    Raises UserError 42P16 for a column whose name Avro has not, 0A000 for a type that it has not.
    """
    return _dumped(_record(((column.name, column.type, column.nullable) for column in columns), _named(name)))


def value_schema(kind: DataType, name: str) -> str:
    """Return the schema of a single value that is never null, such as a key. Raises as `record_schema`."""
    return _dumped(_written(kind, _named(name), name))


class _Reader:
    """Reads a schema; of `references` it keeps the types that have names, with the fields that are in them."""

    def __init__(self, references: Sequence[str]) -> None:
        self._types: dict[str, tuple[DataType, int] | None] = {}
        self._fields = 0
        for schema in references:
            self.read(json.loads(schema), "", "a referenced schema")
        self._fields = 0

    def read(self, node: Any, namespace: str, place: str) -> tuple[DataType, bool]:
        """Return the type of a schema, and whether it has null. `place` is what is read, for errors."""
        match node:
            case list():
                return self._union(node, namespace, place)
            case str():
                return self._by_name(node, namespace, place), False
            case {"type": str() as kind} if kind in _PRIMITIVES:
                return _logical(node, place) or _PRIMITIVES[kind], False
            case {"type": "array", "items": items}:
                return Array(self.read(items, namespace, f"an element of {place}")[0]), False
            case {"type": "map", "values": values}:
                return Map(VARCHAR, self.read(values, namespace, f"a value of {place}")[0]), False
            case {"type": "record" | "error" | "enum" | "fixed", "name": str()}:
                return self._definition(node, namespace, place), False
            case {"type": dict() | list() | str() as inner}:
                # A schema in the place of a type's name, as many generators write it.
                return self.read(inner, namespace, place)
        raise _malformed(f"{place} is {_shown(node)}")

    def record(self, node: dict[str, Any], namespace: str) -> list[tuple[str, DataType, bool]]:
        """Return the fields of a record: name, type, and whether it has null."""
        full = full_name(node, namespace)
        self._types[full] = None
        fields = node.get("fields")
        if not isinstance(fields, list) or not fields:
            raise _unsupported(f"the record {full} has no fields, and no data type is empty")
        read = []
        for field in fields:
            match field:
                case {"name": str() as name, "type": kind}:
                    self._count(1)
                    read.append((name, *self.read(kind, full.rpartition(".")[0], f"the field {name!r}")))
                case _:
                    raise _malformed(f"the record {full} has the field {_shown(field)}")
        return read

    def _union(self, node: list[Any], namespace: str, place: str) -> tuple[DataType, bool]:
        others = [branch for branch in node if branch not in ("null", {"type": "null"})]
        if len(others) != 1:
            branches = " and ".join(_shown(branch) for branch in node) or "nothing"
            raise _unsupported(f"{place} is a union of {branches}, which no data type supports")
        return self.read(others[0], namespace, place)[0], len(others) < len(node)

    def _by_name(self, name: str, namespace: str, place: str) -> DataType:
        if name in _PRIMITIVES:
            return _PRIMITIVES[name]
        if name == "null":
            raise _unsupported(f"{place} is always null, which no data type supports")
        full = next(
            (candidate for candidate in (f"{namespace}.{name}", name) if candidate in self._types), None
        )
        if full is None:
            raise _malformed(f"{place} is of the type {_shown(name)}, which is not defined")
        known = self._types[full]
        if known is None:
            raise _unsupported(f"the record {full} contains itself, which no data type supports")
        self._count(known[1])
        return known[0]

    def _definition(self, node: dict[str, Any], namespace: str, place: str) -> DataType:
        before = self._fields
        kind: DataType
        if node["type"] == "enum":
            kind = VARCHAR
        elif node["type"] == "fixed":
            kind = _logical(node, place) or BYTES
        else:
            kind = Struct(tuple((name, item) for name, item, _ in self.record(node, namespace)))
        self._types[full_name(node, namespace)] = (kind, self._fields - before)
        return kind

    def _count(self, fields: int) -> None:
        self._fields += fields
        if self._fields > FIELDS_MAX:
            raise _too_large(f"{FIELDS_MAX} fields")


def _logical(node: dict[str, Any], place: str) -> DataType | None:
    """Return the data type of a logical type; None for an unknown logical type or one over another base type, which Avro ignores."""
    name = node.get("logicalType")
    if name != "decimal" or node["type"] not in ("bytes", "fixed"):
        return _LOGICAL.get((node["type"], str(name)))
    precision, scale = node.get("precision"), node.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision:
        return None
    if not 1 <= precision <= 38:
        raise _unsupported(f"{place} is a decimal of {precision} digits, but DECIMAL supports at most 38")
    return Decimal(precision, scale)


def _record(fields: Any, full: str) -> dict[str, Any]:
    namespace, _, name = full.rpartition(".")
    written = []
    for field, kind, nullable in fields:
        if not _NAME.fullmatch(field):
            raise UserError(
                SqlState.INVALID_RELATION_DEFINITION,
                f"expected the name of an Avro field, which consists of letters, digits and _, found {field!r}",
                hint="Rename it, with AS in a SELECT.",
            )
        schema = _written(kind, f"{full}.{field}", field)
        written.append(
            {"name": field, "type": ["null", schema], "default": None}
            if nullable
            else {"name": field, "type": schema}
        )
    return {
        "type": "record",
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        "fields": written,
    }


def _written(kind: DataType, full: str, place: str) -> Any:
    """Return the schema of a type. `full` is the name of a record here: the field's in the enclosing record, so that names are unique."""
    if kind in _WRITTEN:
        return _WRITTEN[kind]
    match kind:
        case Varchar():
            return "string"
        case Decimal(precision, scale):
            return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
        case Timestamp(precision):
            return {"type": "long", "logicalType": f"timestamp-{'millis' if precision <= 3 else 'micros'}"}
        case Array(element):
            return {"type": "array", "items": ["null", _written(element, full, place)]}
        case Map(Varchar(), value):
            return {"type": "map", "values": ["null", _written(value, full, place)]}
        case Struct(fields):
            return _record(((name, item, True) for name, item in fields), full)
    if kind == DATE:
        return {"type": "int", "logicalType": "date"}
    raise UserError(
        SqlState.FEATURE_NOT_SUPPORTED,
        f"Avro has no type for {place}, {with_article(str(kind))}: the keys of its maps are strings",
        hint="Use a MAP<VARCHAR, …> instead, or leave the column out.",
    )


@contextmanager
def reading() -> Iterator[None]:
    """Raise UserError for a schema that is not JSON, or nested too deeply, while it is read."""
    try:
        yield
    except json.JSONDecodeError:
        raise _malformed("it is not JSON") from None
    except RecursionError:
        raise _too_large(f"{NESTING_MAX} levels") from None


def _dumped(schema: Any) -> str:
    return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)


def full_name(node: dict[str, Any], namespace: str) -> str:
    """Return the full name of a definition, with its own namespace or the enclosing one."""
    name, own = str(node.get("name", "record")), node.get("namespace", namespace)
    return name if "." in name or not own else f"{own}.{name}"


def _named(name: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return plain if _NAME.fullmatch(plain) else f"_{plain}"


def _shown(node: Any) -> str:
    if isinstance(node, dict):
        node = node.get("name") or node.get("type")
    text = node if isinstance(node, str) else json.dumps(node)
    return repr(text if len(text) <= 80 else text[:80] + "…")


def _malformed(what: str) -> UserError:
    return UserError(SqlState.DATA_EXCEPTION, f"the Avro schema cannot be read: {what}")


def _unsupported(what: str) -> UserError:
    return UserError(
        SqlState.FEATURE_NOT_SUPPORTED,
        f"the Avro schema cannot be converted to columns: {what}",
        hint=_DECLARE,
    )


def _too_large(most: str) -> UserError:
    message = f"expected an Avro schema of at most {most}, found more"
    return UserError(SqlState.CONFIGURATION_LIMIT_EXCEEDED, message, hint=_DECLARE)
