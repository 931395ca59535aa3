"""Publications: created only if they do not disturb the tables' writers, and checked for each table.

A publication may leave out kinds of changes, rows and columns. The snapshot of a table is read by a SELECT without these filters, so a
publication that leaves out data that a query reads is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from psycopg.sql import SQL, Identifier

from headrace.connectors.postgresql.changes import Table, missing_column
from headrace.connectors.postgresql.connection import Connection
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState

_PUBLISHES_GENERATED = 180000
"""From this version on a publication may have stored generated columns, and one without them stops UPDATEs of tables identified by them."""

# xmin is the last transaction that wrote the row: it differs after a publication was altered, even if it was altered back.
_PUBLICATION: LiteralString = """
SELECT oid::int8, xmin::text, pubinsert, pubupdate, pubdelete, pubtruncate FROM pg_publication WHERE pubname = %s
"""
# A table taken out of a publication and put back has another oid there; so has one whose row filter or column list was changed.
_TABLE: LiteralString = """
SELECT t.oid::int8, t.relpersistence::text, shown.attnames::text[], shown.rowfilter,
  ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = t.oid AND attnum > 0 AND NOT attisdropped),
  ARRAY(SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = t.oid),
  ARRAY(
    SELECT p.oid::int8 WHERE p.puballtables
    UNION ALL SELECT oid::int8 FROM pg_publication_rel WHERE prpubid = p.oid AND prrelid IN (
      SELECT t.oid UNION ALL SELECT relid::oid FROM pg_partition_ancestors(t.oid))
    UNION ALL SELECT oid::int8 FROM pg_publication_namespace WHERE pnpubid = p.oid AND pnnspid IN (
      SELECT relnamespace FROM pg_class WHERE oid IN (SELECT t.oid UNION ALL SELECT relid::oid FROM pg_partition_ancestors(t.oid))))
FROM pg_class AS t JOIN pg_namespace AS n ON n.oid = t.relnamespace CROSS JOIN pg_publication AS p
LEFT JOIN pg_publication_tables AS shown ON shown.pubname = p.pubname AND shown.schemaname = n.nspname AND shown.tablename = t.relname
WHERE p.pubname = %s AND n.nspname = %s AND t.relname = %s
"""
# The columns by which an UPDATE or DELETE names its row, of an index without those that it only includes.
_REPLICA_IDENTITY: LiteralString = """
WITH keyed AS (SELECT indexrelid, indisprimary, indisreplident, indimmediate,
    ARRAY(SELECT part FROM unnest(indkey) WITH ORDINALITY AS k(part, place) WHERE place <= indnkeyatts) AS parts
  FROM pg_index WHERE indrelid = to_regclass(%s))
SELECT relreplident::text,
  (SELECT indimmediate FROM keyed WHERE indisprimary),
  EXISTS (SELECT FROM keyed AS i, keyed AS k WHERE i.indisreplident AND k.indisprimary AND k.parts <@ i.parts),
  ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = pg_class.oid AND attgenerated::text = ANY(%s) AND (relreplident = 'f'
    OR attnum = ANY(SELECT unnest(parts) FROM keyed WHERE CASE relreplident WHEN 'd' THEN indisprimary ELSE indisreplident END))),
  ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = pg_class.oid AND attgenerated <> ''
    AND attnum = ANY(SELECT unnest(parts) FROM keyed WHERE indisprimary))
FROM pg_class WHERE oid = to_regclass(%s)
"""


_LACKING: LiteralString = """
SELECT relpersistence <> 'p', ARRAY(SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = pg_class.oid),
  ARRAY(SELECT attname::text FROM pg_attribute
    WHERE attrelid = pg_class.oid AND attgenerated::text = ANY(%s) AND attname = ANY(%s))
FROM pg_class WHERE oid = to_regclass(%s)
"""


@dataclass(frozen=True)
class Published:
    """A publication: `version` changes with each alteration or re-creation; for each table its oid, and the oids of what publishes it."""

    version: str
    tables: tuple[tuple[int, tuple[int, ...]], ...]


def publish(connection: Connection, name: str, tables: Sequence[Table]) -> None:
    """Create a publication of tables, or add missing tables to it.

    Raises UserError 3D008, before any change, for a table whose UPDATEs and DELETEs PostgreSQL would then refuse;
    `psycopg.Error`.
    """
    missing = [table for table in tables if not _is_published(connection, name, table)]
    exists = (
        connection.execute("SELECT FROM pg_publication WHERE pubname = %s", (name,)).fetchone() is not None
    )
    publishes_generated = connection.info.server_version >= _PUBLISHES_GENERATED and (
        not exists or _publishes_generated(connection, name)
    )
    for table in tables:
        check_writable(connection, table, publishes_generated=publishes_generated)
    # Without ONLY the children of a table would be published too, and those without a key could not be updated any more.
    names = SQL(", ").join(SQL("ONLY {}").format(Identifier(*table.path)) for table in missing)
    if not exists:
        options = SQL(" WITH (publish_generated_columns = stored)" if publishes_generated else "")
        connection.execute(
            SQL("CREATE PUBLICATION {} FOR TABLE {}{}").format(Identifier(name), names, options)
        )
    elif missing:
        connection.execute(SQL("ALTER PUBLICATION {} ADD TABLE {}").format(Identifier(name), names))


def check_writable(connection: Connection, table: Table, *, publishes_generated: bool) -> None:
    """Raises UserError 3D008 when UPDATEs and DELETEs of a table that is published would be refused, or would not name their row."""
    where = f"{table.schema}.{table.name}"
    may_fail = connection.info.server_version >= _PUBLISHES_GENERATED
    breaking = ["v" if publishes_generated else "s", "v"] if may_fail else []
    quoted = Identifier(*table.path).as_string(connection)
    row = connection.execute(_REPLICA_IDENTITY, (quoted, breaking, quoted)).fetchone()
    if row is None:
        return  # The statement that publishes the table reports it.
    identity, key_is_immediate, covers_key, generated, generated_key = row
    if identity == "n" or (identity == "i" and table.key and not covers_key):
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"the replica identity of {where} does not contain its primary key, so that its UPDATEs and DELETEs cannot be assigned to rows",
            hint=f"ALTER TABLE {where} REPLICA IDENTITY DEFAULT, or FULL to have the whole row before each change too.",
        )
    if identity == "d" and key_is_immediate is False:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"the primary key of {where} is DEFERRABLE: once the table is published, PostgreSQL refuses every UPDATE and DELETE of it",
            hint=f"ALTER TABLE {where} REPLICA IDENTITY FULL, or change the primary key to NOT DEFERRABLE.",
        )
    if generated:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"the replica identity of {where} contains the generated column {', '.join(generated)}, which is not published: "
            "PostgreSQL would refuse every UPDATE and DELETE of the table",
            hint=f"ALTER TABLE {where} REPLICA IDENTITY DEFAULT. A publication WITH (publish_generated_columns = stored) contains "
            "STORED columns.",
        )
    if generated_key and not publishes_generated:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"the primary key of {where} contains the generated column {', '.join(generated_key)}, which PostgreSQL does not publish",
            hint="PostgreSQL 18 publishes generated columns that are STORED.",
        )


def check_readable(connection: Connection, table: Table) -> None:
    """Raise UserError 0A000 for a table whose changes are not in the log, have other names, or lack a column to read."""
    where = f"{table.schema}.{table.name}"
    unsent = ["v"] if connection.info.server_version >= _PUBLISHES_GENERATED else ["v", "s"]
    quoted = Identifier(*table.path).as_string(connection)
    row = connection.execute(_LACKING, (unsent, list(table.columns), quoted)).fetchone()
    unlogged, children, generated = row or (False, (), ())
    if unlogged:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"the table {where} is UNLOGGED, so that its changes are not in the server's log",
            hint=f"ALTER TABLE {where} SET LOGGED.",
        )
    if children:
        raise _inherited(where, children)
    if generated:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"the column {generated[0]} of {where} is generated, and PostgreSQL does not send its values with changes",
            hint="Leave it out, and compute it in the query. PostgreSQL 18 sends generated columns that are STORED.",
        )


def read(connection: Connection, name: str, tables: Sequence[Table]) -> Published:
    """Read a publication's settings for tables.

    Raises UserError 3D008 if it does not publish all changes of the columns to read.
    """
    row = connection.execute(_PUBLICATION, (name,)).fetchone()
    if row is None:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"the publication {name} does not exist",
            hint="Let the query create it, or create it for the tables before the query starts.",
        )
    oid, written_by, *kinds = row
    left_out = [
        kind
        for kind, published in zip(("insert", "update", "delete", "truncate"), kinds, strict=True)
        if not published
    ]
    if left_out:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"the publication {name} does not publish {', '.join(left_out)}",
            hint=f"ALTER PUBLICATION {name} SET (publish = 'insert, update, delete, truncate').",
        )
    return Published(f"{oid}.{written_by}", tuple(_read_table(connection, name, table) for table in tables))


def _read_table(connection: Connection, name: str, table: Table) -> tuple[int, tuple[int, ...]]:
    where = f"{table.schema}.{table.name}"
    row = connection.execute(_TABLE, (name, *table.path)).fetchone()
    if row is None:
        raise UserError(
            SqlState.ENTITY_NOT_FOUND,
            f"the table {where} does not exist",
            hint="It was dropped or renamed, or moved to another schema.",
        )
    oid, persistence, columns, row_filter, existing, children, members = row
    if children:
        raise _inherited(where, children)
    if columns is None or persistence != "p":
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"the publication {name} does not publish the table {where} under its own name",
            hint=f"ALTER PUBLICATION {name} ADD TABLE {where}. A partition is published under its own name without "
            "publish_via_partition_root, and an UNLOGGED table not at all.",
        )
    if row_filter is not None:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"the publication {name} leaves rows of {where} out: its row filter is {row_filter}",
            hint="Publish the whole table, and filter with WHERE in the query.",
        )
    lacking = [column for column in (*table.columns, *table.key) if column not in columns]
    if lacking and lacking[0] not in existing:
        raise missing_column(table, lacking[0])
    if lacking:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"the publication {name} does not publish the column {lacking[0]} of {where}",
            hint="Leave the column out of the relation, or publish it: without a column list, and if it is generated and STORED, with "
            "publish_generated_columns = stored, which PostgreSQL 18 has.",
        )
    return oid, tuple(sorted(members))


def _inherited(where: str, children: Sequence[str]) -> UserError:
    return UserError(
        SqlState.FEATURE_NOT_SUPPORTED,
        f"tables inherit from {where} ({', '.join(children)}), whose changes PostgreSQL reports under their own names",
        hint="Read the tables that inherit from it, each by its own name.",
    )


def _is_published(connection: Connection, name: str, table: Table) -> bool:
    return (
        connection.execute(
            "SELECT FROM pg_publication_tables WHERE pubname = %s AND schemaname = %s AND tablename = %s",
            (name, *table.path),
        ).fetchone()
        is not None
    )


def _publishes_generated(connection: Connection, name: str) -> bool:
    row = connection.execute(
        "SELECT pubgencols = 's' FROM pg_publication WHERE pubname = %s", (name,)
    ).fetchone()
    return row == (True,)
