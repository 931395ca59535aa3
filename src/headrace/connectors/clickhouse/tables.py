"""Databases and tables: listed, described, made, dropped and checked, each by statements of one client.

A table of ours with a primary key is a ReplacingMergeTree ordered by that key: of the rows of a key the one of the highest `VERSION`
counts, and none if it is `DELETED`. FINAL reads it so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.connectors import table_fit
from headrace.connectors.base import EntityDescription
from headrace.connectors.clickhouse import types
from headrace.connectors.clickhouse.client import ClickHouse, identifier
from headrace.connectors.clickhouse.types import Type
from headrace.core.errors import UserError
from headrace.core.names import EntityPath, path_text
from headrace.core.schema import Column, Schema
from headrace.core.sqlstate import SqlState
from headrace.core.types import Array, Map, Struct

VERSION, DELETED = "_headrace_version", "_headrace_deleted"
DEDUPLICATED_INSERTS = 1000
_OWN_DATABASES = ("system", "INFORMATION_SCHEMA", "information_schema")
_DATABASES = "SELECT name FROM system.databases WHERE name NOT IN {own:Array(String)} ORDER BY name"
_TABLES = (
    "SELECT name FROM system.tables WHERE database = {database:String} AND NOT is_temporary ORDER BY name"
)
_TABLE = """
SELECT engine, engine_full, sorting_key, total_rows FROM system.tables WHERE database = {database:String} AND name = {table:String}
"""
# A replicated table's UUID identifies it only if its path in Keeper contains the UUID: without ON CLUSTER, replicas have different ones.
_UUID = """
SELECT toString(uuid) AS id FROM system.tables WHERE database = {database:String} AND name = {table:String}
AND uuid != toUUID('00000000-0000-0000-0000-000000000000')
AND (engine NOT LIKE 'Replicated%' OR position(engine_full, '{uuid}') > 0 OR position(engine_full, toString(uuid)) > 0)
"""
_COLUMNS = """
SELECT name, type, default_kind, is_in_sorting_key FROM system.columns
WHERE database = {database:String} AND table = {table:String} ORDER BY position
"""
_NAME = r"`(?:[^`\\]|\\.)*`|[A-Za-z_]\w*"
# Of a replicated one the place and the name of the replica come first.
_REPLACING = re.compile(rf"ReplacingMergeTree\((?:'[^']*', '[^']*'(?:, )?)?(?:({_NAME})(?:, ({_NAME}))?)?\)")
_MERGING = re.compile(r"(Replacing|Collapsing|Coalescing|Summing|Aggregating)MergeTree\Z")
_WINDOW = re.compile(r"non_replicated_deduplication_window = (\d+)")


@dataclass(frozen=True)
class Table:
    """Description of a table in ClickHouse.

    `types` are the types of the writable columns by name, and `readable` the types of all columns. `key` are the columns of ORDER BY, if it
    consists of columns. `version` and `deleted` are the columns of a ReplacingMergeTree. `window` is the number of inserts that the table
    deduplicates; None if it deduplicates by time, as replicated tables do.
    """

    name: str
    engine: str
    types: Mapping[str, Type]
    readable: Mapping[str, Type]
    key: tuple[str, ...] = ()
    version: str | None = None
    deleted: str | None = None
    window: int | None = None
    rows: int | None = None

    @property
    def columns(self) -> dict[str, Type]:
        """The columns that a user sees, without the version column and the deletion mark."""
        hidden = (VERSION, DELETED)
        return {name: kind for name, kind in self.readable.items() if name not in hidden}

    @property
    def final(self) -> str:
        """The modifier behind the table's name in a query that reads the rows that count."""
        return " FINAL" if _MERGING.search(self.engine) else ""

    @property
    def replaces(self) -> bool:
        """True if it keeps the newest row of each key, and can store that a key has ended."""
        return self.version is not None and self.deleted is not None


def databases(clickhouse: ClickHouse) -> list[str]:
    """Return the databases, without ClickHouse's own."""
    own = "[" + ",".join(f"'{name}'" for name in _OWN_DATABASES) + "]"
    return [row["name"] for row in clickhouse.rows(_DATABASES, {"own": own})]


def tables(clickhouse: ClickHouse, database: str) -> list[str]:
    """Raises UserError 3D007 for a database that does not exist."""
    names = [row["name"] for row in clickhouse.rows(_TABLES, {"database": database})]
    if not names and database not in databases(clickhouse):
        raise UserError(
            SqlState.ENTITY_NOT_FOUND,
            f"the database {database} does not exist in the store",
            hint="LIST ENTITIES lists the databases.",
        )
    return names


def find(clickhouse: ClickHouse, path: EntityPath) -> Table:
    """Raises UserError 3D007 when there is none."""
    database, table = _place(clickhouse, path)
    named = {"database": database, "table": table}
    about = clickhouse.rows(_TABLE, named)
    if not about:
        raise UserError(
            SqlState.ENTITY_NOT_FOUND,
            f"the table {path_text(path)} does not exist",
            hint="LIST ENTITIES IN database lists its tables.",
        )
    (row,) = about
    columns = clickhouse.rows(_COLUMNS, named)
    kinds = {column["name"]: Type.read(column["type"]) for column in columns}
    # ALIAS columns, which are computed at each read, are not in SELECT *; no computed column can be written.
    read = {
        column["name"]: kinds[column["name"]] for column in columns if column["default_kind"] != "EPHEMERAL"
    }
    written = {
        column["name"]: kinds[column["name"]]
        for column in columns
        if column["default_kind"] not in ("MATERIALIZED", "ALIAS")
    }
    engine, full = row["engine"], row["engine_full"]
    replacing = _REPLACING.search(full)
    version, deleted = (_plain(name) for name in replacing.groups()) if replacing else (None, None)
    window = _WINDOW.search(full)
    return Table(
        name=named_sql(clickhouse, path),
        engine=engine,
        types=written,
        readable=read,
        key=_key(row["sorting_key"], kinds),
        version=version,
        deleted=deleted,
        window=None if engine.startswith(("Replicated", "Shared")) else int(window[1]) if window else 0,
        rows=None if row["total_rows"] is None else int(row["total_rows"]),
    )


def uuid(clickhouse: ClickHouse, path: EntityPath) -> dict[str, str]:
    """Return a table's UUID by its name; nothing for a table that is missing, or has no UUID that all replicas share."""
    database, table = _place(clickhouse, path)
    rows = clickhouse.rows(_UUID, {"database": database, "table": table})
    return {path_text(path): row["id"] for row in rows}


def describe(clickhouse: ClickHouse, path: EntityPath) -> EntityDescription:
    """Return a table's columns and, where it keeps one row of each key, its key."""
    table = find(clickhouse, path)
    columns = tuple(
        Column(name, types.of_clickhouse(kind), kind.nullable) for name, kind in table.columns.items()
    )
    configs = {"engine": table.engine}
    if table.rows is not None:
        configs["rows"] = str(table.rows)
    return EntityDescription(path, configs=configs, columns=columns, key=table.key if table.version else ())


def create(clickhouse: ClickHouse, path: EntityPath, columns: Sequence[Column], key: Sequence[str]) -> None:
    """Create a table that deduplicates repeated inserts; with a key, it keeps only the newest row of each key.

    Raises UserError 42P16 for a key of lists, maps or structs, and for columns with the names of Headrace's own columns.
    """
    parts = []
    if any(column.name in (VERSION, DELETED) for column in columns):
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            f"{VERSION} and {DELETED} are columns of Headrace's own",
            hint="Name them otherwise.",
        )
    for column in columns:
        nullable = column.nullable and column.name not in key
        parts.append(f"{identifier(column.name)} {types.to_clickhouse(column.type, nullable=nullable)}")
        if column.name in key and isinstance(column.type, Array | Map | Struct):
            raise UserError(
                SqlState.INVALID_RELATION_DEFINITION,
                f"the primary key's column {column.name} is of the type {column.type}",
                hint="ClickHouse orders a table by its key: use columns of numbers, texts or times.",
            )
    engine, order = "MergeTree", "tuple()"
    if key:
        parts += [f"{identifier(VERSION)} UInt64", f"{identifier(DELETED)} UInt8"]
        engine = f"ReplacingMergeTree({identifier(VERSION)}, {identifier(DELETED)})"
        order = f"({', '.join(map(identifier, key))})"
    clickhouse.execute(
        f"CREATE TABLE {named_sql(clickhouse, path)} ({', '.join(parts)}) ENGINE = {engine} ORDER BY {order} "
        f"SETTINGS non_replicated_deduplication_window = {DEDUPLICATED_INSERTS}"
    )


def drop(clickhouse: ClickHouse, path: EntityPath) -> None:
    """Drops a table with its rows; another of the same name can be made at once."""
    clickhouse.execute(f"DROP TABLE {named_sql(clickhouse, path)} SYNC")


def check(table: Table, path: EntityPath, schema: Schema, *, upsert: bool) -> None:
    """Check that rows of `schema` can be written into a table, with `upsert` as versions of keys; raises UserError 42P16.

    Raises UserError 42703 for missing columns, 42P16 for columns of other types and for another key.
    """
    table_fit.check_written(path, schema, table.types, types.fits, _described)
    if not upsert:
        return
    check_key(table, path, schema)
    own = table.types[str(table.version)].name
    if own != "UInt64":
        raise _unfit(path, f"the column of its versions, {table.version}, is {own}", "It must be UInt64.")


def check_key(table: Table, path: EntityPath, schema: Schema) -> None:
    """Raise UserError 42P16 if the primary key of `schema` differs from the columns by which the table identifies rows."""
    if not table.replaces:
        raise _unfit(
            path,
            f"its engine is {table.engine}, which does not keep the newest row of each key",
            "Changes require the engine ReplacingMergeTree(version, is_deleted), which CREATE TABLE … AS uses.",
        )
    if sorted(table.key) != sorted(schema.primary_key):
        raise _unfit(
            path,
            f"it is ordered by ({', '.join(table.key)}), and the primary key is ({', '.join(schema.primary_key)})",
            "ClickHouse identifies a row by the columns of ORDER BY: they must equal the primary key.",
        )


def newest_version(clickhouse: ClickHouse, table: Table) -> int:
    """Return the highest of a table that replaces rows; 0 when it is empty."""
    (newest,) = clickhouse.rows(f"SELECT max({identifier(table.version or '')}) AS newest FROM {table.name}")  # noqa: S608
    return int(newest["newest"])


def check_readable(table: Table, path: EntityPath, schema: Schema) -> None:
    """Raise UserError 42703 for columns that the table lacks, 42P16 for columns of another type."""
    table_fit.check_read(
        path,
        schema,
        table.readable,
        lambda kind, own: types.reads(types.of_clickhouse(own), kind),
        _described,
    )


def named_sql(clickhouse: ClickHouse, path: EntityPath) -> str:
    """Return a table as SQL, with its database."""
    return ".".join(map(identifier, _place(clickhouse, path)))


def _place(clickhouse: ClickHouse, path: EntityPath) -> tuple[str, str]:
    if len(path) not in (1, 2):
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"expected table, or database.table, found {path_text(path) or 'nothing'}",
            hint="LIST ENTITIES shows databases, LIST ENTITIES IN database its tables.",
        )
    return (path[0], path[1]) if len(path) == 2 else (clickhouse.database, path[0])


def _key(sorting: str, columns: Mapping[str, Type]) -> tuple[str, ...]:
    """Return the columns of ORDER BY; none where it has expressions."""
    names = tuple(_plain(name) or "" for name in re.findall(_NAME, sorting))
    plain = re.sub(rf"{_NAME}|[\s,()]", "", sorting) == ""
    return names if plain and all(name in columns for name in names) else ()


def _plain(name: str | None) -> str | None:
    if name is None or not name.startswith("`"):
        return name
    return re.sub(r"\\(.)", r"\1", name[1:-1])


def _described(kind: Type) -> str:
    return f"{kind} ({types.of_clickhouse(kind)})"


def _unfit(path: EntityPath, difference: str, hint: str) -> UserError:
    return UserError(
        SqlState.INVALID_RELATION_DEFINITION,
        f"the table {path_text(path)} does not fit: {difference}",
        hint=hint,
    )
