"""Checks of a relation's tables in their current form."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.connectors.postgresql import publication, rows, tables
from headrace.connectors.postgresql.changes import Table
from headrace.connectors.postgresql.connection import Connection, connect
from headrace.connectors.postgresql.failures import classified
from headrace.connectors.postgresql.options import TABLE_LIST
from headrace.core.errors import UserError
from headrace.core.names import EntityPath
from headrace.core.schema import Schema
from headrace.core.sqlstate import SqlState
from headrace.core.types import Struct


def read_tables(
    store: Mapping[str, str], path: EntityPath, schema: Schema, options: Mapping[str, str], *, upsert: bool
) -> tuple[Table, ...]:
    """Return the tables of a stream of changes, or with `upsert` of a changelog.

    Raises UserError 42P16, 42703, 0A000 or 3D008 for columns or a table that do not do, 3D007 for a missing one; ExternalError 57015.
    """
    listed = options.get(TABLE_LIST.name)
    if upsert and listed is not None:
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            "a changelog reads exactly one table",
            hint=f"CREATE STREAM takes '{TABLE_LIST.name}'.",
        )
    if not upsert:
        rows.check_envelope(schema.columns)
    names = rows.needed_columns(schema.columns, upsert=upsert)
    if listed is None:
        database, paths = path[:-2], [path[-2:]]
    else:
        database, paths = path, [tuple(name.strip().split(".")) for name in listed.split(",")]
        structs = [
            column.name
            for column in schema.columns
            if column.name != "source" and isinstance(column.type, Struct)
        ]
        if structs:
            raise UserError(
                SqlState.INVALID_RELATION_DEFINITION,
                f"the column {structs[0]} is of several tables",
                hint='Declare "before" and "after" as BYTES: they are the rows as JSON.',
            )
    with classified(store), connect(store, *database) as connection:
        return tuple(_table(connection, one, names, schema.primary_key if upsert else None) for one in paths)


def _table(
    connection: Connection,
    path: EntityPath,
    column_names: tuple[str, ...] | None,
    key: tuple[str, ...] | None,
) -> Table:
    description = tables.describe(connection, path)
    where = ".".join(path)
    if description.configs["kind"] != "table":
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"{where} is a {description.configs['kind']}, of which no changes can be read",
            hint="Read its tables instead.",
        )
    if not description.key:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"the table {where} has no primary key, by which its rows could be read",
            hint=f"ALTER TABLE {where} ADD PRIMARY KEY (…).",
        )
    if key is not None and set(key) != set(description.key):
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            f"the primary key of the table {where} is ({', '.join(description.key)}), not ({', '.join(key)})",
            hint="A changelog has the primary key of its table.",
        )
    names = [column.name for column in description.columns]
    for name in column_names or ():
        if name not in names:
            raise UserError(
                SqlState.UNDEFINED_COLUMN,
                f"the table {where} has no column {name}",
                hint=f"It has {', '.join(names)}. Names fold to lower case unless they are in double quotes.",
            )
    columns = tuple(dict.fromkeys((*column_names, *description.key))) if column_names is not None else ()
    schema, name = path
    table = Table(schema, name, columns, description.key, whole=column_names is None)
    publication.check_readable(connection, table)
    return table
