"""Rows into a table: each batch of them is one transaction, written by COPY.

With a primary key the batch goes into a temporary table first, from which the rows that have ended are deleted and the others are
inserted, or updated where they are. Exactly once: the transaction holds the batch's epoch too, in a table of marks in the same schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from psycopg import errors
from psycopg.sql import SQL, Composed, Identifier

from headrace.connectors import table_fit
from headrace.connectors.base import EntityDescription
from headrace.connectors.marks import BEFORE_ANY, is_written
from headrace.connectors.postgresql import tables
from headrace.connectors.postgresql.connection import Connection, connect
from headrace.connectors.postgresql.failures import classified
from headrace.connectors.postgresql.types import changes, fits
from headrace.core.errors import UserError
from headrace.core.internal_columns import DELETED
from headrace.core.names import EntityPath, path_text
from headrace.core.schema import Schema
from headrace.core.sqlstate import SqlState
from headrace.core.types import DataType
from headrace.runtime.fail_points import fail_point

MARKS = "headrace_epochs"
"""The table of marks, in the schema of the table that is written: of each query the last epoch that it has written."""
_BATCH = ("pg_temp", "headrace_batch")
_WRITABLE = ("table", "partitioned table", "foreign table")


@dataclass(frozen=True)
class Target:
    """Target of a write: `columns` of a table; with a `key` as versions of rows. With a `query` each of its epochs once."""

    store: Mapping[str, str] = field(repr=False)
    path: EntityPath
    columns: tuple[str, ...]
    key: tuple[str, ...] = ()
    query: str | None = None
    is_begun: bool = False
    """Whether it has finished a batch before: then its mark is not made again."""


def create(store: Mapping[str, str], path: EntityPath, schema: Schema) -> None:
    """Makes a table; raises UserError 42710 when it exists, 3D007 without its schema, ExternalError 57015."""
    with classified(store), connect(store, *path[:-2]) as connection:
        tables.create(connection, path, schema.columns, schema.primary_key)


def check(store: Mapping[str, str], path: EntityPath, schema: Schema, *, upsert: bool) -> None:
    """Raises UserError 42P16, 42703, 0A000 or 3D007 when a table cannot hold such rows, with the columns that do not fit."""
    names = {column.name for column in schema.columns}
    with classified(store), connect(store, *path[:-2]) as connection:
        description = tables.describe(connection, path)
        texts = tables.type_texts(connection, path)
        generated = [name for name in tables.computed(connection, path, upsert=upsert) if name in names]
        deferrable = upsert and tables.has_deferrable_key(connection, path)
    kind = description.configs["kind"]
    if kind not in _WRITABLE:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"{path_text(path)} is a {kind}, into which no rows can be written",
            hint="Name a table.",
        )
    table_fit.check_written(path, schema, _types(description), fits)
    table_fit.check_written(path, schema, texts, lambda given, text: not changes(given, text))
    table_fit.check_json(path, schema.columns)
    if generated:
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            f"PostgreSQL computes the column {generated[0]} of {path_text(path)} itself, and takes no value for it",
            hint="Leave the column out.",
        )
    if deferrable:
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            f"the primary key of {path_text(path)} is DEFERRABLE, and PostgreSQL's ON CONFLICT updates no rows by such a key",
            hint="Change the primary key to NOT DEFERRABLE.",
        )
    if upsert:
        table_fit.check_key(path, schema, description.key)


def check_readable(store: Mapping[str, str], path: EntityPath, schema: Schema) -> None:
    """Raises UserError 42P16, 42703 or 3D007 when a table or view cannot be read as `schema` says, with what does not fit."""
    with classified(store), connect(store, *path[:-2]) as connection:
        description = tables.describe(connection, path)
    table_fit.check_read(
        path, schema, _types(description), lambda declared, own: fits(declared, own) or fits(own, declared)
    )
    if schema.primary_key:
        table_fit.check_key(path, schema, description.key)


def _types(description: EntityDescription) -> dict[str, DataType]:
    return {column.name: column.type for column in description.columns}


def oid(store: Mapping[str, str], path: EntityPath) -> dict[str, str]:
    """Return a table's oid by its name, over a connection of its own; nothing for a table that is missing."""
    with classified(store), connect(store, *path[:-2]) as connection:
        text = tables.named(path).as_string(connection)
        row = connection.execute("SELECT to_regclass(%s)::oid::text", (text,)).fetchone()
    return {} if row is None or row[0] is None else {path_text(path): row[0]}


def prepare(target: Target) -> None:
    """Prepare the first epoch of a start: create the table of marks if needed, and the mark of a query that is new."""
    if target.query is None:
        return
    marks = _marks(target)
    with classified(target.store), connect(target.store, *target.path[:-2]) as connection:
        row = connection.execute("SELECT to_regclass(%s)", (marks.as_string(connection),)).fetchone()
        if row == (None,):
            # Another query may make it at the same time, and be ahead with the table, its type or a row of the system's catalogs.
            with suppress(errors.DuplicateTable, errors.DuplicateObject, errors.UniqueViolation):
                connection.execute(
                    SQL("CREATE TABLE {} (query_id text PRIMARY KEY, epoch bigint NOT NULL)").format(marks)
                )
        if not target.is_begun:
            connection.execute(
                SQL("INSERT INTO {} VALUES (%s, %s) ON CONFLICT DO NOTHING").format(marks),
                (target.query, BEFORE_ANY),
            )


def write(target: Target, epoch: int, rows: Iterable[bytes]) -> None:
    """Writes the rows of an epoch, as lines of CSV with the columns of the target (and with a key `DELETED`), in one transaction.

    An epoch that the query's mark says is written already is left out. Raises UserError 22000 for a row that the table refuses, 3D007
    when it is gone; ExternalError 57015.
    """
    with (
        classified(target.store),
        connect(target.store, *target.path[:-2]) as connection,
        connection.transaction(),
    ):
        if target.query is not None and is_written(_held_mark(connection, target), epoch, MARKS):
            return
        if target.key:
            _upsert(connection, target, rows)
        else:
            _copy(connection, tables.named(target.path), target.columns, rows)
        if target.query is not None:
            moved = SQL("UPDATE {} SET epoch = %s WHERE query_id = %s").format(_marks(target))
            connection.execute(moved, (epoch, target.query))
        fail_point("inside_transaction")


def _held_mark(connection: Connection, target: Target) -> int | None:
    """Return the query's mark, locked until the transaction ends: an earlier run of the query waits."""
    query = SQL("SELECT epoch FROM {} WHERE query_id = %s FOR UPDATE").format(_marks(target))
    row = connection.execute(query, (target.query,)).fetchone()
    return None if row is None else int(row[0])


def _upsert(connection: Connection, target: Target, rows: Iterable[bytes]) -> None:
    batch, table = Identifier(*_BATCH), tables.named(target.path)
    names = _listed(target.columns)
    connection.execute(
        SQL("CREATE TEMPORARY TABLE {} ON COMMIT DROP AS SELECT {}, false AS {} FROM {} WITH NO DATA").format(
            batch, names, Identifier(DELETED), table
        )
    )
    _copy(connection, batch, (*target.columns, DELETED), rows)
    same = SQL(" AND ").join(SQL("kept.{0} = sent.{0}").format(Identifier(name)) for name in target.key)
    connection.execute(
        SQL("DELETE FROM {} AS kept USING {} AS sent WHERE sent.{} AND {}").format(
            table, batch, Identifier(DELETED), same
        )
    )
    rest = [name for name in target.columns if name not in target.key]
    changed = SQL(", ").join(SQL("{0} = excluded.{0}").format(Identifier(name)) for name in rest)
    connection.execute(
        SQL("INSERT INTO {} ({}) SELECT {} FROM {} WHERE NOT {} ON CONFLICT ({}) DO {}").format(
            table,
            names,
            names,
            batch,
            Identifier(DELETED),
            _listed(target.key),
            SQL("UPDATE SET {}").format(changed) if rest else SQL("NOTHING"),
        )
    )


def _copy(connection: Connection, table: Identifier, columns: Iterable[str], rows: Iterable[bytes]) -> None:
    statement = SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(table, _listed(columns))
    with connection.cursor().copy(statement) as copy:
        for lines in rows:
            copy.write(lines)


def _listed(names: Iterable[str]) -> Composed:
    return SQL(", ").join(map(Identifier, names))


def _marks(target: Target) -> Identifier:
    return Identifier(target.path[-2], MARKS)
