"""Databases, schemas and tables: listed, described, made, dropped and checked, each by statements of one session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.connectors import table_fit
from headrace.connectors.base import EntityDescription
from headrace.connectors.snowflake import types
from headrace.connectors.snowflake.client import Snowflake, identifier, literal
from headrace.connectors.snowflake.options import wrong_path
from headrace.connectors.upper_case import folded, unfolded, unfolded_all
from headrace.core.errors import UserError
from headrace.core.names import EntityPath, path_text
from headrace.core.schema import Column, Schema
from headrace.core.sqlstate import SqlState

_OWN = "INFORMATION_SCHEMA"


@dataclass(frozen=True)
class Found:
    """A column as Snowflake has it: its name there, its type's text, and whether it may be NULL."""

    name: str
    type: str
    nullable: bool


@dataclass(frozen=True)
class Table:
    """A table: `name` as SQL, its columns by the names that they have here, and its primary key, if one is declared."""

    name: str
    columns: dict[str, Found]
    key: tuple[str, ...] = ()

    @property
    def types(self) -> dict[str, str]:
        """The types of its columns, by the names that they have here."""
        return {name: column.type for name, column in self.columns.items()}


def databases(snowflake: Snowflake) -> list[str]:
    """Return the databases that the role sees."""
    return [unfolded(row["name"]) for row in snowflake.rows("SHOW TERSE DATABASES")]


def schemas(snowflake: Snowflake, database: str) -> list[str]:
    """Return the schemas, without Snowflake's own."""
    rows = snowflake.rows(f"SHOW TERSE SCHEMAS IN DATABASE {identifier(database)}")
    return [unfolded(row["name"]) for row in rows if row["name"].upper() != _OWN]


def tables(snowflake: Snowflake, path: EntityPath) -> list[str]:
    """Return tables and views."""
    return [unfolded(row["name"]) for row in snowflake.rows(f"SHOW TERSE OBJECTS IN SCHEMA {named(path)}")]


def find(snowflake: Snowflake, path: EntityPath) -> Table:
    """Set the session's schema. Raises UserError 3D007 if it does not exist."""
    name = named(_table_path(path))
    snowflake.execute(f"USE SCHEMA {named(path[:-1])}")
    described = snowflake.rows(f"DESCRIBE TABLE {name}")
    matches = [
        Found(row["name"], row["type"], row["null?"] == "Y") for row in described if row["kind"] == "COLUMN"
    ]
    names = unfolded_all([column.name for column in matches])
    keys = sorted(
        snowflake.rows(f"SHOW PRIMARY KEYS IN TABLE {name}"), key=lambda row: int(row["key_sequence"])
    )
    return Table(
        name,
        {names[column.name]: column for column in matches},
        tuple(names[row["column_name"]] for row in keys),
    )


def creation(snowflake: Snowflake, path: EntityPath) -> dict[str, str]:
    """Return when a table was created, by its name; nothing for a table that is missing. Needs no warehouse that runs."""
    name = folded(_table_path(path)[-1])
    # LIKE ignores case and knows wildcards.
    shown = snowflake.rows(f"SHOW TABLES LIKE {literal(name)} IN SCHEMA {named(path[:-1])}")
    return {path_text(path): str(row["created_on"].timestamp()) for row in shown if row["name"] == name}


def exists(snowflake: Snowflake, path: EntityPath) -> bool:
    """True if there is a table that the role may see."""
    try:
        find(snowflake, path)
    except UserError as error:
        if error.state is SqlState.ENTITY_NOT_FOUND:
            return False
        raise
    return True


def describe(snowflake: Snowflake, path: EntityPath) -> EntityDescription:
    """Return a table's columns and primary key; raises UserError 3D007."""
    table = find(snowflake, path)
    columns = tuple(
        Column(name, types.of_snowflake(column.type), column.nullable)
        for name, column in table.columns.items()
    )
    return EntityDescription(path, columns=columns, key=table.key)


def create(snowflake: Snowflake, path: EntityPath, columns: Sequence[Column], key: Sequence[str]) -> None:
    """Create a table; key columns and columns that are not nullable are NOT NULL. Raises UserError 42710 if it exists."""
    if exists(snowflake, path):
        raise UserError(
            SqlState.DUPLICATE_ENTITY,
            f"the table {path_text(path)} already exists",
            hint="Choose another name, or drop it first.",
        )
    snowflake.execute(create_sql(path, columns, key))


def create_sql(path: EntityPath, columns: Sequence[Column], key: Sequence[str]) -> str:
    """Return CREATE TABLE; raises UserError 42P16 for a column that a VARIANT does not hold."""
    table_fit.check_json(path, columns)
    parts = [
        types.column_sql(column.name, column.type, nullable=column.nullable and column.name not in key)
        for column in columns
    ]
    if key:
        parts.append(f"PRIMARY KEY ({', '.join(map(identifier, key))})")
    return f"CREATE TABLE {named(path)} ({', '.join(parts)})"


def drop(snowflake: Snowflake, path: EntityPath) -> None:
    """Drops a table with its rows; Snowflake keeps it for its time of retention, for UNDROP."""
    snowflake.execute(f"DROP TABLE {named(_table_path(path))}")


def check(table: Table, path: EntityPath, schema: Schema, *, upsert: bool) -> None:
    """Check that rows of `schema` can be written into a table, with `upsert` as versions of keys; raises UserError 42P16."""
    table_fit.check_written(path, schema, table.types, types.fits)
    table_fit.check_json(path, schema.columns)
    if upsert and table.key:
        table_fit.check_key(path, schema, table.key)


def check_readable(table: Table, path: EntityPath, schema: Schema) -> None:
    """Check that a table can be read as a relation. Raises UserError 42703 and 42P16."""
    table_fit.check_read(path, schema, table.types, types.reads)


def named(path: EntityPath) -> str:
    """Return a path as SQL."""
    return ".".join(map(identifier, path))


def _table_path(path: EntityPath) -> EntityPath:
    if len(path) != 3:
        raise wrong_path(path, "database.schema.table")
    return path
