"""Conversion of columns, types and partitions between Iceberg's table format and Headrace's; pure.

Source: the table specification, version 2. TINYINT and SMALLINT become `int`, and a VARCHAR loses its length. Types without a counterpart
become text (`uuid`) or bytes (`fixed`), and `time`, which Spark does not read, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, cast

from headrace.connectors import table_fit
from headrace.core.errors import UserError
from headrace.core.names import EntityPath, path_text, printed
from headrace.core.schema import Column, Schema
from headrace.core.sqlstate import SqlState
from headrace.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    VARCHAR,
    Array,
    DataType,
    Decimal,
    Map,
    Primitive,
    Struct,
    Timestamp,
    Varchar,
)

Json = Mapping[str, Any]
_OURS: dict[str, DataType] = {
    "boolean": BOOLEAN,
    "int": INTEGER,
    "long": BIGINT,
    "float": FLOAT,
    "double": DOUBLE,
    "date": DATE,
    "timestamp": Timestamp(),
    "timestamptz": Timestamp(local=True),
    "string": VARCHAR,
    "uuid": VARCHAR,
    "binary": BYTES,
}
_THEIRS = {
    "BOOLEAN": "boolean",
    "TINYINT": "int",
    "SMALLINT": "int",
    "INTEGER": "int",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "DATE": "date",
    "BYTES": "binary",
}
_NARROWER = {"long": ("int",), "double": ("float",)}
_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)\Z")
_FIXED = re.compile(r"fixed\[\d+\]\Z")
_TRANSFORM = re.compile(r'(?:(\w+)\()?(?:(\d+) *, *)?("(?:[^"]|"")+"|\w+)\)?\Z')
_WITHOUT_NUMBER = ("year", "month", "day", "hour")
_WITH_NUMBER = ("bucket", "truncate")
_FIRST_PARTITION_FIELD = 1000


@dataclass(frozen=True)
class Table:
    """A table as its catalog describes it."""

    columns: tuple[Column, ...]
    key: tuple[str, ...]
    partition_by: str
    location: str
    uuid: str | None
    """None for some of format version 1."""
    properties: Json = field(default_factory=dict)
    snapshot: int | None = None


@dataclass(frozen=True)
class NewTable:
    """A table to create: the `schema`, `partition-spec` and properties for a catalog."""

    schema: Json
    partition_spec: Json
    properties: Mapping[str, str]


def table_of(metadata: Json) -> Table:
    """Reads a table's metadata; raises UserError 0A000 for a type that Spark does not read."""
    schema = next(one for one in metadata["schemas"] if one["schema-id"] == metadata["current-schema-id"])
    spec = next(one for one in metadata["partition-specs"] if one["spec-id"] == metadata["default-spec-id"])
    names = {one["id"]: one["name"] for one in schema["fields"]}
    snapshot = metadata.get("current-snapshot-id")
    return Table(
        tuple(
            Column(one["name"], our_type(one["type"], one["name"]), not one["required"])
            for one in schema["fields"]
        ),
        tuple(names[number] for number in schema.get("identifier-field-ids", ())),
        ", ".join(_transform_text(one, names) for one in spec["fields"]),
        metadata["location"],
        metadata.get("table-uuid"),
        metadata.get("properties", {}),
        None if snapshot in (None, -1) else int(snapshot),
    )


def new_table(schema: Schema, partition_by: str | None, properties: Mapping[str, str]) -> NewTable:
    """Return a table with these columns, the key as its identifier fields.

    Raises UserError 3D008 for invalid partitions, 42P16 for a key of a type that Iceberg does not support.
    """
    numbers = count(1)
    ids = {column.name: next(numbers) for column in schema.columns}
    fields = [
        {
            "id": ids[column.name],
            "name": column.name,
            "required": not column.nullable or column.name in schema.primary_key,
            "type": _their_type(column.type, numbers),
        }
        for column in schema.columns
    ]
    for name in schema.primary_key:
        kind = next(column.type for column in schema.columns if column.name == name)
        if kind in (FLOAT, DOUBLE) or isinstance(kind, Array | Map | Struct):
            raise UserError(
                SqlState.INVALID_RELATION_DEFINITION,
                f"the key's column {name} is {kind}, which Iceberg does not support in a key",
                hint="Use key columns of whole numbers, texts, dates or times.",
            )
    return NewTable(
        {
            "type": "struct",
            "schema-id": 0,
            "fields": fields,
            "identifier-field-ids": [ids[name] for name in schema.primary_key],
        },
        {"spec-id": 0, "fields": list(_partition_fields(partition_by or "", ids))},
        properties,
    )


def our_type(kind: Any, column: str) -> DataType:
    """Return the data type of a column; raises UserError 0A000 for a type that Spark does not read."""
    match kind:
        case {"type": "list", "element": element}:
            return Array(our_type(element, column))
        case {"type": "map", "key": key, "value": value}:
            return Map(our_type(key, column), our_type(value, column))
        case {"type": "struct", "fields": fields}:
            return Struct(tuple((one["name"], our_type(one["type"], column)) for one in fields))
        case str() if kind in _OURS:
            return _OURS[kind]
        case str() if match := _DECIMAL.match(kind):
            return Decimal(int(match[1]), int(match[2]))
        case str() if _FIXED.match(kind):
            return BYTES
    raise UserError(
        SqlState.FEATURE_NOT_SUPPORTED,
        f"the column {column} of the table has Iceberg's type {kind if isinstance(kind, str) else '?'}, which is not read here",
        hint="Change the column to a timestamp or a string with another tool.",
    )


def check_written(table: Table, path: EntityPath, schema: Schema, *, upsert: bool) -> None:
    """Check that rows of `schema` can be written into a table, with `upsert` by their key; raises UserError 42P16.

    Raises UserError 42703 for missing columns, 42P16 for columns that do not fit or require a value, and for another key.
    """
    table_fit.check_written(path, schema, _types(table), _fits)
    needed = [
        printed(column.name)
        for column in table.columns
        if not column.nullable and schema.column(column.name) is None
    ]
    if needed:
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            f"the table {path_text(path)} needs a value of {', '.join(needed)}, and the query has no such column",
            hint="Select a column of that name too, or change the table's column to optional.",
        )
    if upsert and table.key:
        table_fit.check_key(path, schema, table.key)


def check_read(table: Table, path: EntityPath, schema: Schema) -> None:
    """Raise UserError 42703 for columns that the table lacks, 42P16 for columns of a type that does not fit `schema`."""
    table_fit.check_read(path, schema, _types(table), lambda declared, own: _fits(own, declared))


def _types(table: Table) -> dict[str, DataType]:
    return {column.name: column.type for column in table.columns}


def _fits(given: DataType, actual: DataType) -> bool:
    match given, actual:
        case Varchar(), Varchar():
            return True
        case Primitive(), Primitive():
            narrow, wide = _THEIRS[given.name], _THEIRS[actual.name]
            return narrow == wide or narrow in _NARROWER.get(wide, ())
        case Decimal(), Decimal():
            return given.scale == actual.scale and given.precision <= actual.precision
        case Timestamp(), Timestamp():
            return given.local == actual.local
        case Array(one), Array(other):
            return _fits(one, other)
        case Map(), Map():
            return _fits(given.key, actual.key) and _fits(given.value, actual.value)
        case Struct(), Struct():
            return [name for name, _ in given.fields] == [name for name, _ in actual.fields] and all(
                _fits(one, other) for (_, one), (_, other) in zip(given.fields, actual.fields, strict=True)
            )
    return False


def _their_type(kind: DataType, numbers: Iterator[int]) -> Any:
    match kind:
        case Primitive(name):
            return _THEIRS[name]
        case Varchar():
            return "string"
        case Decimal(precision, scale):
            return f"decimal({precision}, {scale})"
        case Timestamp(_, local):
            return "timestamptz" if local else "timestamp"
        case Array(element):
            number = next(numbers)
            return {
                "type": "list",
                "element-id": number,
                "element": _their_type(element, numbers),
                "element-required": False,
            }
        case Map(key, value):
            ids = {"key-id": next(numbers), "value-id": next(numbers)}
            parts = {"key": _their_type(key, numbers), "value": _their_type(value, numbers)}
            return {"type": "map", **ids, **parts, "value-required": False}
        case Struct(fields):
            inner = [
                {"id": next(numbers), "name": name, "required": False, "type": _their_type(item, numbers)}
                for name, item in fields
            ]
            return {"type": "struct", "fields": inner}
    raise TypeError(f"no type of Iceberg for {kind}")


def _partition_fields(text: str, ids: Mapping[str, int]) -> Iterator[Json]:
    parts = [part.strip() for part in re.split(r",(?![^(]*\))", text) if part.strip()]
    for number, part in enumerate(parts, _FIRST_PARTITION_FIELD):
        match = _TRANSFORM.match(part)
        function, argument, name = match.groups() if match else (None, None, "")
        name = name[1:-1].replace('""', '"') if name.startswith('"') else name
        known = (
            (function is None and argument is None)
            or (function in _WITHOUT_NUMBER and argument is None)
            or (function in _WITH_NUMBER and argument is not None and int(argument) > 0)
        )
        if not known or name not in ids or part.endswith(")") is not (function is not None):
            raise UserError(
                SqlState.INVALID_PARAMETER,
                f"'iceberg.partition.by' has {part!r}, which is no partition of the table's columns",
                hint="Write columns, year(c), month(c), day(c), hour(c), bucket(16, c) or truncate(4, c), with commas between them.",
            )
        suffix = {"truncate": "trunc"}.get(function or "", function)
        yield {
            "name": f"{name}_{suffix}" if function else name,
            "transform": f"{function}[{argument}]" if argument else function or "identity",
            "source-id": ids[name],
            "field-id": number,
        }


def _transform_text(part: Json, names: Mapping[int, str]) -> str:
    name, transform = names.get(part["source-id"], "?"), cast(str, part["transform"])
    if transform == "identity":
        return name
    function, _, argument = transform.partition("[")
    return f"{function}({argument.rstrip(']')}, {name})" if argument else f"{function}({name})"


def first_metadata(table: NewTable, *, uuid: str, location: str, moment_ms: int) -> Json:
    """Return the whole metadata of a table without rows, for a catalog that keeps only its location."""
    schema, spec = table.schema, table.partition_spec
    return {
        "format-version": 2,
        "table-uuid": uuid,
        "location": location,
        "last-sequence-number": 0,
        "last-updated-ms": moment_ms,
        "last-column-id": max(_ids(schema["fields"])),
        "schemas": [schema],
        "current-schema-id": 0,
        "partition-specs": [spec],
        "default-spec-id": 0,
        "last-partition-id": _FIRST_PARTITION_FIELD - 1 + len(spec["fields"]),
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": dict(table.properties),
        "current-snapshot-id": -1,
        "snapshots": [],
        "snapshot-log": [],
        "metadata-log": [],
        "refs": {},
    }


def _ids(fields: Sequence[Json]) -> Iterator[int]:
    for one in fields:
        yield one["id"]
        yield from _ids_of(one["type"])


def _ids_of(kind: Any) -> Iterator[int]:
    match kind:
        case {"type": "list", "element-id": number, "element": element}:
            yield number
            yield from _ids_of(element)
        case {"type": "map", "key-id": key, "value-id": value}:
            yield from (key, value)
            yield from _ids_of(kind["key"])
            yield from _ids_of(kind["value"])
        case {"type": "struct", "fields": fields}:
            yield from _ids(fields)
