"""Catalogs, schemas and tables: listed, described, made, dropped and checked, each by statements of one session."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.connectors import table_fit
from headrace.connectors.base import EntityDescription
from headrace.connectors.databricks import types
from headrace.connectors.databricks.options import LOCATION
from headrace.connectors.databricks.warehouse import Warehouse
from headrace.core.errors import UserError
from headrace.core.names import EntityPath, path_text, printed
from headrace.core.schema import Column, Schema
from headrace.core.sqlstate import SqlState
from headrace.core.types import Array, DataType, Map, Struct
from headrace.formats.types import name_sql, text_sql

KEY = "headrace.primary.key"
"""The property of a table that has the columns of its key, as a JSON array: a key of Unity Catalog's own is not enforced either."""
_LEVELS = ("catalog", "schema", "table")
_PLAIN_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


@dataclass(frozen=True)
class Table:
    """A table as DESCRIBE shows it: its columns, and its properties by the names in DESCRIBE."""

    name: str
    columns: dict[str, DataType]
    about: dict[str, str]
    foreign: dict[str, str]
    """The columns that are only read, as text, with their types."""


def children(warehouse: Warehouse, within: EntityPath) -> list[str]:
    """Return the catalogs, the schemas of a catalog, or the tables of a schema. Raises UserError 3D007 for a missing parent."""
    if not within:
        return sorted(row[0] for row in warehouse.rows("SHOW CATALOGS"))
    if len(within) == 1:
        return sorted(row[0] for row in warehouse.rows(f"SHOW SCHEMAS IN {name_sql(within[0])}"))
    if len(within) > 2:
        raise _not_a("catalog.schema", within)
    rows = warehouse.rows(f"SHOW TABLES IN {name_sql(within[0])}.{name_sql(within[1])}")
    return sorted(name for _, name, temporary in rows if not temporary)


def find(warehouse: Warehouse, path: EntityPath) -> Table:
    """Raises UserError 3D007 when there is none."""
    rows = iter(warehouse.rows(f"DESCRIBE TABLE EXTENDED {table_sql(path)}"))
    columns: dict[str, DataType] = {}
    foreign: dict[str, str] = {}
    for name, kind, _ in rows:
        if not kind:
            break
        columns[name] = types.of_delta(kind)
        only_read = types.foreign(kind)
        if only_read is not None:
            foreign[name] = only_read
    return Table(table_sql(path), columns, {name: text or "" for name, text, _ in rows}, foreign)


def delta_id(warehouse: Warehouse, path: EntityPath) -> dict[str, str]:
    """Return a Delta table's id by its name; nothing for a table that is missing."""
    try:
        (detail,) = warehouse.rows(f"DESCRIBE DETAIL {table_sql(path)}")
    except UserError as error:
        if error.state is not SqlState.ENTITY_NOT_FOUND:
            raise
        return {}
    return {path_text(path): str(detail[1])}


def describe(warehouse: Warehouse, path: EntityPath) -> EntityDescription:
    """Return a table's columns, its key if it was made here, and where it lies."""
    table = find(warehouse, path)
    key: list[str] = next(
        (
            json.loads(text)
            for name, text in warehouse.rows(f"SHOW TBLPROPERTIES {table.name}")
            if name == KEY
        ),
        [],
    )
    shown = {"kind": "Type", "format": "Provider", "location": "Location"}
    configs = {
        name: table.about[title].lower() if name != "location" else table.about[title]
        for name, title in shown.items()
        if table.about.get(title)
    }
    columns = tuple(Column(name, kind, name not in key) for name, kind in table.columns.items())
    return EntityDescription(path, configs=configs, columns=columns, key=tuple(key))


def create(
    warehouse: Warehouse,
    path: EntityPath,
    columns: Sequence[Column],
    key: Sequence[str],
    location: str | None = None,
) -> None:
    """Create a Delta table at a location, or a managed one. Raises UserError 42710 if it exists, 42P16 for unsupported columns."""
    names = [column.name.lower() for column in columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise _unfit(
            path,
            f"columns differ in case only: {', '.join(twice)}",
            "Databricks ignores case in column names: rename one of the columns.",
        )
    for column in columns:
        if column.name in key and isinstance(column.type, Array | Map | Struct):
            raise _unfit(
                path,
                f"the primary key's column {column.name} is of the type {column.type}",
                "Use columns of numbers, texts or times.",
            )
    parts = [
        f"{name_sql(column.name)} {types.to_delta(column.type)}{'' if column.nullable and column.name not in key else ' NOT NULL'}"
        for column in columns
    ]
    properties = {KEY: json.dumps(list(key))} if key else {}
    if any(not _PLAIN_NAME.issuperset(name) for column in columns for name in _names(column)):
        # Names that Parquet cannot have are kept beside it then.
        properties["delta.columnMapping.mode"] = "name"
    table_properties = ", ".join(f"{text_sql(name)} = {text_sql(text)}" for name, text in properties.items())
    warehouse.execute(
        f"CREATE TABLE {table_sql(path)} ({', '.join(parts)}) USING DELTA"
        + (f" LOCATION {text_sql(location)}" if location else "")
        + (f" TBLPROPERTIES ({table_properties})" if table_properties else "")
    )


def drop(warehouse: Warehouse, path: EntityPath) -> None:
    """Drop a table. Raises UserError 3D007 when there is none."""
    warehouse.execute(f"DROP TABLE {table_sql(path)}")


def check(table: Table, path: EntityPath, schema: Schema, location: str | None) -> None:
    """True if rows of `schema` can be written into a table, which must be at `location` if that is not None.

    Raises UserError 42703 for missing columns, 42P16 for columns of other types and for a table that is not a Delta table.
    """
    kind, lies = table.about.get("Provider", "").lower(), table.about.get("Location", "").rstrip("/")
    if kind != "delta":
        raise _unfit(path, f"it is not a Delta table ({kind or 'a view'})", "Only Delta tables are written.")
    if location is not None and lies != location:
        raise _unfit(
            path,
            f"it lies at {lies}, not at {location}",
            f"Leave '{LOCATION.name}' out, or name another table.",
        )
    table_fit.check_written(path, schema, table.columns, types.fits)
    for column in schema.columns:
        if column.name in table.foreign:
            raise _unfit(
                path,
                f"the type of its column {printed(column.name)} is {table.foreign[column.name].upper()}, "
                "which is read as text and not written",
                "Leave the column out of the query, or name another table.",
            )


def check_readable(table: Table, path: EntityPath, schema: Schema) -> None:
    """Raise UserError 42703 for columns that the table lacks, 42P16 for columns of another type."""
    table_fit.check_read(path, schema, table.columns, types.reads)


def table_sql(path: EntityPath) -> str:
    """Return a table as SQL; raises UserError 3D008 for a path that is none."""
    if len(path) != len(_LEVELS):
        raise _not_a("catalog.schema.table", path)
    return ".".join(map(name_sql, path))


def _names(column: Column) -> list[str]:
    names, kinds = [column.name], [column.type]
    while kinds:
        match kinds.pop():
            case Array(element):
                kinds.append(element)
            case Map(key, value):
                kinds += (key, value)
            case Struct(fields):
                names += (name for name, _ in fields)
                kinds += (kind for _, kind in fields)
    return names


def _not_a(expected: str, path: EntityPath) -> UserError:
    return UserError(
        SqlState.INVALID_PARAMETER,
        f"expected {expected}, found {path_text(path) or 'nothing'}",
        hint="LIST ENTITIES shows catalogs, IN catalog its schemas, IN catalog.schema its tables.",
    )


def _unfit(path: EntityPath, difference: str, hint: str) -> UserError:
    return UserError(
        SqlState.INVALID_RELATION_DEFINITION,
        f"the table {path_text(path)} does not fit: {difference}",
        hint=hint,
    )
