"""Databases, schemas and tables: listed, described, made, dropped, read and written, each over one connection."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any, LiteralString

from psycopg.sql import SQL, Composable, Composed, Identifier, Literal

from headrace.connectors import table_fit
from headrace.connectors.base import EntityDescription
from headrace.connectors.postgresql.connection import AsyncConnection, Connection
from headrace.connectors.postgresql.types import of_postgresql, to_postgresql
from headrace.core.errors import UserError
from headrace.core.names import EntityPath
from headrace.core.schema import Column
from headrace.core.sqlstate import SqlState

_KINDS = {"r": "table", "p": "partitioned table", "v": "view", "m": "materialized view", "f": "foreign table"}
_IDENTITIES = {"d": "default", "f": "full", "n": "nothing", "i": "index"}
_DATABASES: LiteralString = """
SELECT datname FROM pg_database WHERE datallowconn AND NOT datistemplate AND has_database_privilege(oid, 'CONNECT') ORDER BY 1
"""
_SCHEMAS: LiteralString = """
SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' AND has_schema_privilege(oid, 'USAGE')
ORDER BY 1
"""
_TABLES: LiteralString = """
SELECT relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = %s AND relkind = ANY(%s) AND NOT relispartition ORDER BY 1
"""
_TABLE: LiteralString = """
SELECT pg_class.oid, relkind::text, relreplident::text FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = %s AND relname = %s AND relkind = ANY(%s)
"""
# A domain's columns have the type under it.
_COLUMNS: LiteralString = """
WITH RECURSIVE kind(number, name, required, type, modifier) AS (
  SELECT attnum, attname, attnotnull, atttypid, atttypmod FROM pg_attribute
  WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped
  UNION ALL
  SELECT number, name, required OR typnotnull, typbasetype, typtypmod FROM kind JOIN pg_type ON oid = type WHERE typtype = 'd')
SELECT name, format_type(type, modifier), NOT required FROM kind JOIN pg_type ON oid = type WHERE typtype <> 'd' ORDER BY number
"""
# Behind the columns of the key the index has those that it only includes.
_KEY: LiteralString = """
SELECT attname FROM pg_index, unnest(indkey) WITH ORDINALITY AS part(number, place)
JOIN pg_attribute ON attnum = number
WHERE indrelid = %s AND attrelid = indrelid AND indisprimary AND place <= indnkeyatts ORDER BY place
"""
# COPY gives an identity column its value, INSERT does not.
_COMPUTED: LiteralString = """
SELECT attname::text FROM pg_attribute
WHERE attrelid = to_regclass(%s) AND (attgenerated <> '' OR (attidentity = 'a' AND %s)) ORDER BY attnum
"""


def databases(connection: Connection) -> list[str]:
    """Return the databases that the user may connect to."""
    return [name for (name,) in connection.execute(_DATABASES)]


def schemas(connection: Connection) -> list[str]:
    """Return the schemas of the connection's database that the user may use, without PostgreSQL's own."""
    return [name for (name,) in connection.execute(_SCHEMAS)]


def tables(connection: Connection, schema: str) -> list[str]:
    """Return tables and views of a schema; a partitioned table without its partitions."""
    return [name for (name,) in connection.execute(_TABLES, (schema, list(_KINDS)))]


def describe(connection: Connection, path: EntityPath) -> EntityDescription:
    """Return a table's columns and primary key; raises UserError 3D007 when there is none."""
    schema, table = path[-2:]
    row = connection.execute(_TABLE, (schema, table, list(_KINDS))).fetchone()
    if row is None:
        raise UserError(
            SqlState.ENTITY_NOT_FOUND,
            f"the table {schema}.{table} does not exist",
            hint="LIST ENTITIES IN database.schema lists its tables.",
        )
    oid, kind, identity = row
    columns = tuple(
        Column(name, of_postgresql(type_text), nullable)
        for name, type_text, nullable in connection.execute(_COLUMNS, (oid,))
    )
    key = tuple(name for (name,) in connection.execute(_KEY, (oid,)))
    configs = {"kind": _KINDS[kind]}
    if kind in "rp":
        configs["replica.identity"] = _IDENTITIES[identity]
    return EntityDescription(path, configs=configs, columns=columns, key=key)


def type_texts(connection: Connection, path: EntityPath) -> dict[str, str]:
    """Return the types of a table's columns as PostgreSQL writes them, by the columns' names."""
    rows = connection.execute(_COLUMNS, (named(path).as_string(connection),))
    return {name: text for name, text, _ in rows}


def computed(connection: Connection, path: EntityPath, *, upsert: bool) -> list[str]:
    """Return the columns for which PostgreSQL takes no value: generated ones, and where rows are updated those GENERATED ALWAYS AS
    IDENTITY."""
    rows = connection.execute(_COMPUTED, (named(path).as_string(connection), upsert))
    return [name for (name,) in rows]


def has_deferrable_key(connection: Connection, path: EntityPath) -> bool:
    """True if the check of the table's primary key can wait for the end of a transaction."""
    rows = connection.execute(
        "SELECT FROM pg_index WHERE indrelid = to_regclass(%s) AND indisprimary AND NOT indimmediate",
        (named(path).as_string(connection),),
    )
    return rows.fetchone() is not None


def create(connection: Connection, path: EntityPath, columns: Sequence[Column], key: Sequence[str]) -> None:
    """Create a table; columns that are not nullable, or of the key, are NOT NULL. Raises UserError 42P16 for MAPs that JSON cannot hold."""
    table_fit.check_json(path, columns)
    parts: list[Composable] = [
        SQL("{} {}{}").format(
            Identifier(column.name),
            SQL(to_postgresql(column.type)),
            SQL("" if column.nullable else " NOT NULL"),
        )
        for column in columns
    ]
    if key:
        parts.append(SQL("PRIMARY KEY ({})").format(SQL(", ").join(map(Identifier, key))))
    connection.execute(SQL("CREATE TABLE {} ({})").format(named(path), SQL(", ").join(parts)))


def drop(connection: Connection, path: EntityPath) -> None:
    """Drops a table with its rows."""
    connection.execute(SQL("DROP TABLE {}").format(named(path)))


def insert(connection: Connection, path: EntityPath, columns: Sequence[str], row: str) -> None:
    """Writes one row: of the JSON object `row`, the values of `columns`; the others get their defaults."""
    names = SQL(", ").join(map(Identifier, columns))
    statement = SQL(
        "INSERT INTO {table} ({names}) SELECT {names} FROM json_populate_record(NULL::{table}, {row})"
    )
    connection.execute(statement.format(table=named(path), names=names, row=Literal(row)))


async def printed_rows(
    connection: AsyncConnection, path: EntityPath, key: Sequence[str], limit: int | None
) -> AsyncGenerator[tuple[str | None, str]]:
    """Yield a table's rows, at most `limit`: (key as text, row as JSON); by the key, if there is one."""
    ordered = SQL(" ORDER BY {}").format(SQL(", ").join(map(Identifier, key))) if key else SQL("")
    query = SQL("COPY (SELECT {}, row_to_json(t)::text FROM {} AS t{}{}) TO STDOUT").format(
        _key_text(key),
        named(path),
        ordered,
        SQL("") if limit is None else SQL(" LIMIT {}").format(Literal(limit)),
    )
    async with connection.cursor() as cursor, cursor.copy(query) as copy:
        async for row in copy.rows():
            yield row[0], row[1]


def named(path: EntityPath) -> Identifier:
    """Return a table as SQL; the connection is to its database."""
    return Identifier(*path[-2:])


def _key_text(key: Sequence[str]) -> Composed:
    """Return one key column as its text, several as a JSON object, none as NULL."""
    if len(key) == 1:
        return SQL("{}::text").format(Identifier(key[0]))
    pairs: list[Any] = [part for name in key for part in (Literal(name), Identifier(name))]
    if not pairs:
        return Composed([SQL("NULL::text")])
    return SQL("json_build_object({})::text").format(SQL(", ").join(pairs))
