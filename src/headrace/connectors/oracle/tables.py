"""Schemas and tables: listed, described, made, dropped and checked, by the dictionary's views and DDL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.connectors import table_fit
from headrace.connectors.base import EntityDescription
from headrace.connectors.oracle import types
from headrace.connectors.oracle.client import Oracle, identifier, quoted
from headrace.connectors.oracle.options import wrong_path
from headrace.connectors.upper_case import folded, unfolded, unfolded_all
from headrace.core.errors import UserError
from headrace.core.names import EntityPath, path_text, printed
from headrace.core.schema import Column, Schema
from headrace.core.sqlstate import SqlState
from headrace.core.wording import with_article

SCHEMAS = "SELECT USERNAME FROM ALL_USERS WHERE ORACLE_MAINTAINED = 'N' ORDER BY USERNAME"
# A materialized view is a table, too. Dropped tables in the recycle bin are named BIN$….
TABLES = (
    "SELECT DISTINCT OBJECT_NAME FROM ALL_OBJECTS WHERE OWNER = :1 AND OBJECT_TYPE IN ('TABLE', 'VIEW') "
    "AND SECONDARY = 'N' AND OBJECT_NAME NOT LIKE 'BIN$%' ORDER BY OBJECT_NAME"
)
COLUMNS = (
    "SELECT COLUMN_NAME, DATA_TYPE, DATA_PRECISION, DATA_SCALE, CHAR_LENGTH, NULLABLE, VIRTUAL_COLUMN FROM ALL_TAB_COLS "
    "WHERE OWNER = :1 AND TABLE_NAME = :2 AND HIDDEN_COLUMN = 'NO' ORDER BY COLUMN_ID"
)
KEY = (
    "SELECT PART.COLUMN_NAME FROM ALL_CONSTRAINTS WHOLE JOIN ALL_CONS_COLUMNS PART "
    "ON PART.OWNER = WHOLE.OWNER AND PART.CONSTRAINT_NAME = WHOLE.CONSTRAINT_NAME "
    "WHERE WHOLE.OWNER = :1 AND WHOLE.TABLE_NAME = :2 AND WHOLE.CONSTRAINT_TYPE = 'P' ORDER BY PART.POSITION"
)

OBJECT_ID = (
    "SELECT OBJECT_ID FROM ALL_OBJECTS WHERE OWNER = :1 AND OBJECT_NAME = :2 AND OBJECT_TYPE = 'TABLE'"
)


@dataclass(frozen=True)
class Found:
    """A column as Oracle has it: its name there, its type's text, whether it may be NULL, and whether it is computed."""

    name: str
    type: str
    nullable: bool = True
    computed: bool = False


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


def session(store: Mapping[str, str], path: EntityPath) -> Oracle:
    """Return a session where a table is."""
    _check_path(path)
    return Oracle(store, *path[:-2])


def schemas(oracle: Oracle) -> list[str]:
    """Return the schemas of users, without Oracle's own."""
    return [unfolded(name) for (name,) in oracle.rows(SCHEMAS)]


def tables(oracle: Oracle, schema: str) -> list[str]:
    """Return tables and views of a schema that the user may see."""
    return [unfolded(name) for (name,) in oracle.rows(TABLES, (folded(schema),))]


def find(oracle: Oracle, path: EntityPath) -> Table:
    """Raises UserError 3D007 when there is none."""
    owner = tuple(map(folded, path[-2:]))
    matches = [
        Found(
            name,
            types.type_text(kind, *(None if number is None else int(number) for number in sizes)),
            nullable == "Y",
            computed == "YES",
        )
        for name, kind, *sizes, nullable, computed in oracle.rows(COLUMNS, owner)
    ]
    if not matches:
        raise UserError(
            SqlState.ENTITY_NOT_FOUND,
            f"there is no table {path_text(path)}, or the store's user may not see it",
            hint="LIST ENTITIES IN schema lists the tables that the user may read.",
        )
    names = unfolded_all([column.name for column in matches])
    key = tuple(names[name] for (name,) in oracle.rows(KEY, owner))
    return Table(named(path), {names[column.name]: column for column in matches}, key)


def object_id(store: Mapping[str, str], path: EntityPath) -> dict[str, str]:
    """Return a table's object id by its name, over a new session; empty for a missing table."""
    with session(store, path) as oracle:
        rows = oracle.rows(OBJECT_ID, tuple(map(folded, path[-2:])))
    return {path_text(path): str(number) for (number,) in rows}


def describe(oracle: Oracle, path: EntityPath) -> EntityDescription:
    """Return a table's columns and primary key; raises UserError 3D007."""
    table = find(oracle, path)
    columns = tuple(
        Column(name, types.of_oracle(column.type), column.nullable) for name, column in table.columns.items()
    )
    return EntityDescription(path, columns=columns, key=table.key)


def create(oracle: Oracle, path: EntityPath, columns: Sequence[Column], key: Sequence[str]) -> None:
    """Create a table. Raises UserError 42710 if it exists, 42P16 for a key of a type that Oracle does not compare."""
    oracle.execute(create_sql(path, columns, key))


def create_sql(path: EntityPath, columns: Sequence[Column], key: Sequence[str]) -> str:
    """Return CREATE TABLE; a column that is not nullable, or is of the key, is NOT NULL. Raises UserError 42P16."""
    table_fit.check_json(path, columns)
    wrong = [column for column in columns if column.name in key and not types.is_key(column.type)]
    if wrong:
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            f"the primary key's column {printed(wrong[0].name)} would be "
            f"{with_article(types.to_oracle(wrong[0].type))}, which Oracle does not compare",
            hint=f"Use key columns of numbers, times, and texts of at most {types.TEXT_LENGTH_MAX} characters.",
        )
    parts = [
        types.column_sql(
            identifier(column.name), column.type, nullable=column.nullable and column.name not in key
        )
        for column in columns
    ]
    if key:
        parts.append(f"PRIMARY KEY ({', '.join(map(identifier, key))})")
    return f"CREATE TABLE {named(path)} ({', '.join(parts)})"


def drop(oracle: Oracle, path: EntityPath) -> None:
    """Drops a table with its rows; Oracle may keep it for FLASHBACK TABLE."""
    oracle.execute(f"DROP TABLE {named(path)}")


def check(table: Table, path: EntityPath, schema: Schema, *, upsert: bool) -> None:
    """Check that rows of `schema` can be written into a table, with `upsert` as versions of keys; raises UserError 42P16."""
    actual_types = {
        name: f"{column.type} GENERATED" if column.computed else column.type
        for name, column in table.columns.items()
    }
    table_fit.check_written(path, schema, actual_types, types.fits)
    table_fit.check_json(path, schema.columns)
    if not upsert:
        return
    if table.key:
        table_fit.check_key(path, schema, table.key)
    long = [
        name for name in schema.primary_key if types.name_of(actual_types[name]) in ("CLOB", "NCLOB", "BLOB")
    ]
    if long:
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            f"the key's column {printed(long[0])} is {actual_types[long[0]]}, which Oracle does not compare",
            hint="Name another table, or another key.",
        )


def check_readable(table: Table, path: EntityPath, schema: Schema) -> None:
    """Check that a table can be read as a relation. Raises UserError 42703 and 42P16."""
    table_fit.check_read(path, schema, table.types, types.reads)


def named(path: EntityPath) -> str:
    """Return a table as SQL, with its schema. Raises UserError 3D008 for a path that is not a table's."""
    _check_path(path)
    return ".".join(map(identifier, path[-2:]))


def _check_path(path: EntityPath) -> None:
    if len(path) not in (2, 3):
        raise wrong_path(path, "schema.table, or service.schema.table")


def readable(table: Table) -> dict[str, Found]:
    """Return the columns that have a value for us: not LONG, BFILE and types of users."""
    return {
        name: column
        for name, column in table.columns.items()
        if types.reads(types.of_oracle(column.type), column.type)
    }


def column_name(column: Found) -> str:
    """Return a column as SQL."""
    return quoted(column.name)
