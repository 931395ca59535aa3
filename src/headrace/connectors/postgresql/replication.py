"""Reading the log: slot and publication on demand, and the stream of changes from a position on.

The slot keeps what was not confirmed, so that a stream that is opened again at a position that was not confirmed gives the same changes.
"""

from __future__ import annotations

import re
import select
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import LiteralString, Never, Self

import psycopg
from psycopg.pq import ExecStatus
from psycopg.sql import SQL, Identifier, Literal

from headrace.connectors.postgresql.changes import Change, Position, Table, Transactions, lsn_of, lsn_text
from headrace.connectors.postgresql.connection import Connection, connect_replication
from headrace.connectors.postgresql.failures import classified
from headrace.connectors.postgresql.pgoutput import (
    POSTGRESQL_EPOCH_US,
    Begin,
    Commit,
    Decoder,
    Delete,
    Insert,
    Truncate,
    Update,
)
from headrace.core.errors import ExternalError, UserError
from headrace.core.sqlstate import SqlState

_SLOT_WAIT_S = 3.0
_SLOT = re.compile(r"[a-z0-9_]{1,63}\Z")
_XLOG_DATA, _KEEPALIVE = b"wk"
_DATA_HEADER = struct.Struct(">xQQq")
_KEEPALIVE_BODY = struct.Struct(">xQqB")
_STATUS = struct.Struct(">cQQQqB")

_IDENTITY: LiteralString = """
SELECT relreplident::text, EXISTS (SELECT FROM pg_index AS i, pg_index AS k
  WHERE i.indrelid = pg_class.oid AND i.indisreplident AND k.indrelid = pg_class.oid AND k.indisprimary
  AND k.indkey::int2[] <@ i.indkey::int2[])
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = %s AND relname = %s
"""


def prepare(connection: Connection, slot: str, tables: Sequence[Table]) -> int | None:
    """Makes what a stream needs, where it is missing: the publication of the slot's name over the tables, and the slot.

    Returns the LSN from which a new slot gives changes, None for one that was there. Raises UserError 3D008 when the server or a table
    is not set up for it, `psycopg.Error`.
    """
    if not _SLOT.match(slot):
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"{slot!r} is no name of a slot",
            hint="Use up to 63 lower-case letters, digits and '_'.",
        )
    (level,) = connection.execute("SELECT current_setting('wal_level')").fetchone() or ("",)
    if level != "logical":
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"the server writes a log from which no changes can be read: its wal_level is {level}",
            hint="Set wal_level = logical in the server's configuration, and restart it.",
        )
    for table in tables:
        _check_identity(connection, table)
    try:
        _publish(connection, slot, tables)
    except psycopg.errors.InsufficientPrivilege as error:
        names = ", ".join(f"{table.schema}.{table.name}" for table in tables)
        raise _lacks_right(
            error, f"Let the tables' owner do it: CREATE PUBLICATION {slot} FOR TABLE {names}."
        ) from None
    found = connection.execute(
        "SELECT plugin, database = current_database(), wal_status FROM pg_replication_slots WHERE slot_name = %s",
        (slot,),
    ).fetchone()
    if found is None:
        try:
            made = connection.execute(
                "SELECT lsn::text FROM pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,)
            )
        except psycopg.errors.InsufficientPrivilege as error:
            raise _lacks_right(error, "ALTER ROLE … REPLICATION lets the store's user make one.") from None
        return lsn_of((made.fetchone() or ("0/0",))[0])
    plugin, of_database, status = found
    if plugin != "pgoutput" or not of_database:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"the replication slot {slot} is there, and not one of pgoutput for this database",
            hint="Name another with 'postgresql.slot.name'.",
        )
    if status == "lost":
        raise lost(slot)
    return None


def advance(connection: Connection, slot: str) -> int:
    """Moves a slot to the end of the log, and returns where that is; raises `psycopg.Error` 55006 while the slot is read."""
    moved = connection.execute(
        "SELECT end_lsn::text FROM pg_replication_slot_advance(%s, pg_current_wal_lsn())", (slot,)
    )
    return lsn_of((moved.fetchone() or ("0/0",))[0])


def drop(connection: Connection, slot: str) -> None:
    """Drops slot and publication, if they are there; raises `psycopg.Error` 55006 while the slot is read."""
    connection.execute(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", (slot,)
    )
    connection.execute(SQL("DROP PUBLICATION IF EXISTS {}").format(Identifier(slot)))


def lag_bytes(connection: Connection, slot: str) -> int | None:
    """How much of its log the server keeps for a slot, None when there is no such slot."""
    found = connection.execute(
        "SELECT pg_current_wal_lsn() - restart_lsn FROM pg_replication_slots WHERE slot_name = %s", (slot,)
    ).fetchone()
    return None if found is None else int(found[0])


def lost(slot: str) -> UserError:
    """The server threw away what the slot should have kept, or somebody dropped it."""
    return UserError(
        SqlState.DATA_EXCEPTION,
        f"changes that the query had not read yet are gone: the replication slot {slot} was dropped, or the server invalidated it",
        hint="If max_slot_wal_keep_size of the server is too small, raise it. Drop the slot if it is there, and create the query again: "
        "it reads the tables anew.",
    )


def _lacks_right(error: psycopg.Error, hint: str) -> ExternalError:
    return ExternalError(
        SqlState.REMOTE_UNAVAILABLE,
        f"the store's user lacks a right that reading changes needs: {error.diag.message_primary}",
        hint=hint,
    )


def _check_identity(connection: Connection, table: Table) -> None:
    """A published table without a replica identity takes no UPDATE and no DELETE any more: that is not to be our doing."""
    found = connection.execute(_IDENTITY, table.path).fetchone()
    identity, covers = found or ("d", True)
    if identity == "n" or (identity == "i" and table.key and not covers):
        where = f"{table.schema}.{table.name}"
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"the replica identity of {where} does not have its primary key, so that its UPDATEs and DELETEs cannot be told",
            hint=f"ALTER TABLE {where} REPLICA IDENTITY DEFAULT, or FULL to have the whole row before each change too.",
        )


def _publish(connection: Connection, name: str, tables: Sequence[Table]) -> None:
    exists = connection.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", (name,)).fetchone()
    if exists is None:
        connection.execute(
            SQL("CREATE PUBLICATION {} FOR TABLE {}").format(
                Identifier(name), SQL(", ").join(Identifier(*table.path) for table in tables)
            )
        )
        return
    published = set(
        connection.execute(
            "SELECT schemaname::text, tablename::text FROM pg_publication_tables WHERE pubname = %s", (name,)
        ).fetchall()
    )
    for table in tables:
        if table.path not in published:
            connection.execute(
                SQL("ALTER PUBLICATION {} ADD TABLE {}").format(Identifier(name), Identifier(*table.path))
            )


class ChangeStream:
    """The changes of some tables from a position on, over one connection; a context manager."""

    def __init__(
        self,
        store: Mapping[str, str],
        database: str | None,
        slot: str,
        tables: Sequence[Table],
        start: Position,
    ) -> None:
        self._store = store
        self._start = start
        self._decoder = Decoder()
        self._transactions = Transactions(tables)
        self._read_to = start
        self._confirmed = start.lsn
        self._in_transaction = False
        with classified(store):
            self._connection = connect_replication(store, database)
            try:
                self._begin(slot)
            except BaseException:
                self._connection.close()
                raise

    def _begin(self, slot: str) -> None:
        command = SQL(
            "START_REPLICATION SLOT {} LOGICAL {} (proto_version '1', publication_names {})"
        ).format(Identifier(slot), SQL(lsn_text(self._start.lsn)), Literal(slot))
        deadline = time.monotonic() + _SLOT_WAIT_S
        while True:
            try:
                cursor = self._connection.execute(command)
                break
            except psycopg.errors.ObjectInUse:
                # The reader before us may be gone, and the server not know it yet.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            except (psycopg.errors.UndefinedObject, psycopg.errors.ObjectNotInPrerequisiteState):
                raise lost(slot) from None
        result = cursor.pgresult
        if result is None or result.status != ExecStatus.COPY_BOTH:
            raise psycopg.OperationalError("the server did not start to send changes")

    def read(self, *, at_most: int, wait_s: float) -> list[Change]:
        """The next changes, in order: those that are there, about `at_most`; waits so long for the first.

        Raises UserError as `Transactions.changes` does; ExternalError 57015 when the connection broke: then open another.
        """
        found: list[Change] = []
        deadline = time.monotonic() + wait_s
        with classified(self._store):
            while len(found) < at_most:
                message = self._next(0 if found else deadline - time.monotonic())
                if message is None:
                    break
                if message[0] == _XLOG_DATA:
                    found += self._changes(message)
                elif message[0] == _KEEPALIVE:
                    self._keep_alive(message, idle=not found)
        if found:
            self._read_to = found[-1].position
        return found

    def confirm(self, position: Position) -> None:
        """What is before it need not be sent again; raises ExternalError 57015 when the connection broke."""
        self._confirmed = max(self._confirmed, position.lsn)
        with classified(self._store):
            self._tell()

    def close(self) -> None:
        """Lets the slot go."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _changes(self, message: bytes) -> Iterator[Change]:
        lsn, _, _ = _DATA_HEADER.unpack_from(message)
        match self._decoder.decode(message[_DATA_HEADER.size :]):
            case Begin() as begin:
                self._in_transaction = True
                self._transactions.begin(begin)
            case Commit():
                self._in_transaction = False
            case Insert() | Update() | Delete() | Truncate() as change:
                for made in self._transactions.changes(change, lsn):
                    if made.position > self._start:
                        yield made

    def _keep_alive(self, message: bytes, *, idle: bool) -> None:
        end, _, reply = _KEEPALIVE_BODY.unpack_from(message)
        # When all that was read is confirmed, nothing of ours is between that and where the server is.
        if idle and not self._in_transaction and self._confirmed >= self._read_to.lsn:
            self._confirmed = max(self._confirmed, end)
        if reply:
            self._tell()

    def _next(self, wait_s: float) -> bytes | None:
        """The next message, None when none comes for so long."""
        connection = self._connection.pgconn
        while True:
            length, data = connection.get_copy_data(1)
            if length > 0:
                return bytes(data)
            if length < 0:
                self._ended()
            if not select.select([connection.socket], [], [], max(0, wait_s))[0]:
                return None
            connection.consume_input()

    def _ended(self) -> Never:
        result = self._connection.pgconn.get_result()
        if result is not None and result.status == ExecStatus.FATAL_ERROR:
            raise psycopg.errors.error_from_result(result, "utf-8")
        raise psycopg.OperationalError("the server closed the connection")

    def _tell(self) -> None:
        moment = time.time_ns() // 1000 - POSTGRESQL_EPOCH_US
        done = self._confirmed
        connection = self._connection.pgconn
        connection.put_copy_data(_STATUS.pack(b"r", done, done, done, moment, 0))
        connection.flush()
