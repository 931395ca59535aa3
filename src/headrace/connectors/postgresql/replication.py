"""Reading the log: slot and publication on demand, and the stream of changes from a position on.

The slot retains unconfirmed changes, so that a stream that is opened again at an unconfirmed position returns the same changes.
"""

from __future__ import annotations

import re
import select
import struct
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Never, Self

import psycopg
from psycopg.pq import ExecStatus
from psycopg.sql import SQL, Identifier, Literal

from headrace.connectors.postgresql import publication
from headrace.connectors.postgresql.changes import (
    START_ANEW,
    Change,
    Position,
    Table,
    Transactions,
    lsn_of,
    lsn_text,
)
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

_OLDEST_SERVER = 150000
_SLOT_WAIT_S = 3.0
_CREATION_WAIT_S = 60.0
_MOST_SILENCE_S = 10.0
_SLOT = re.compile(r"[a-z0-9_]{1,63}\Z")
_XLOG_DATA, _KEEPALIVE = b"wk"
_DATA_HEADER = struct.Struct(">xQQq")
_KEEPALIVE_BODY = struct.Struct(">xQqB")
_STATUS = struct.Struct(">cQQQqB")


def prepare(
    connection: Connection, slot: str, tables: Sequence[Table], *, wait_s: float = _CREATION_WAIT_S
) -> int | None:
    """Create the publication, which has the slot's name, and the slot if they are missing.

    Return the LSN at which a new slot starts, None for an existing slot. Raises UserError 3D008 if the server or a table does not support
    it; ExternalError 57015 for a missing right, and if transactions delay a new slot for more than `wait_s`;
    `psycopg.Error`.
    """
    _check_server(connection, slot)
    try:
        publication.publish(connection, slot, tables)
    except psycopg.errors.InsufficientPrivilege as error:
        names = ", ".join(f"ONLY {table.schema}.{table.name}" for table in tables)
        raise _lacks_right(
            error,
            f"The tables' owner can create the publication: CREATE PUBLICATION {slot} FOR TABLE {names}.",
        ) from None
    publication.read(connection, slot, tables)
    row = connection.execute(
        "SELECT plugin, database = current_database(), wal_status FROM pg_replication_slots WHERE slot_name = %s",
        (slot,),
    ).fetchone()
    if row is None:
        return _create(connection, slot, wait_s)
    plugin, of_database, status = row
    if plugin != "pgoutput" or not of_database:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"the replication slot {slot} exists, but does not use pgoutput, or belongs to another database",
            hint="Name another with 'postgresql.slot.name'.",
        )
    if status == "lost":
        raise lost(slot)
    return None


def _check_server(connection: Connection, slot: str) -> None:
    if not _SLOT.match(slot):
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"{slot!r} is not a valid slot name",
            hint="Use up to 63 lower-case letters, digits and '_'.",
        )
    if connection.info.server_version < _OLDEST_SERVER:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"the server is PostgreSQL {connection.info.server_version // 10000}, which does not report what its publications leave out",
            hint="Changes are read from PostgreSQL 15 and newer.",
        )
    (level,) = connection.execute("SELECT current_setting('wal_level')").fetchone() or ("",)
    if level != "logical":
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"the server's log does not contain row changes: its wal_level is {level}",
            hint="Set wal_level = logical in the server's configuration, and restart it.",
        )


def _create(connection: Connection, slot: str, wait_s: float) -> int:
    # The server waits until every transaction that runs now has ended, however long that takes.
    limit = "SELECT set_config('statement_timeout', %s, false)"
    connection.execute(limit, (f"{wait_s * 1000:.0f}",))
    try:
        row = connection.execute(
            "SELECT lsn::text FROM pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,)
        ).fetchone()
    except psycopg.errors.InsufficientPrivilege as error:
        raise _lacks_right(error, "ALTER ROLE … REPLICATION lets the store's user create one.") from None
    except psycopg.errors.QueryCanceled:
        raise ExternalError(
            SqlState.REMOTE_UNAVAILABLE,
            f"the replication slot {slot} waits for transactions that are older than the slot: {oldest_transaction(connection)}",
            hint="End them. A continuous query retries automatically.",
        ) from None
    finally:
        connection.execute(limit, ("0",))
    return lsn_of((row or ("0/0",))[0])


def oldest_transaction(connection: Connection) -> str:
    """Return the longest open transaction and how to end it; also for users who may not see others' statements."""
    row = connection.execute(
        "SELECT pid, usename::text, transactionid::text FROM pg_locks LEFT JOIN pg_stat_activity USING (pid) "
        "WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted AND pid IS DISTINCT FROM pg_backend_pid() "
        "ORDER BY age(transactionid) DESC LIMIT 1"
    ).fetchone()
    if row is None:
        return "none runs any more"
    pid, user, number = row
    if pid is None:
        return f"transaction {number} is the oldest, a prepared one (see pg_prepared_xacts)"
    return f"transaction {number} of user {user} is the oldest; SELECT pg_terminate_backend({pid}) ends it"


def check_slot(connection: Connection, slot: str, lsn: int) -> None:
    """Raise UserError 22000 if a slot cannot return all changes after `lsn`, its reader's position; `psycopg.Error`.

    A reader only confirms changes that it has stored, so if the slot is further, another client has moved it.
    """
    confirmed, end = confirmed_lsn(connection, slot), _end_of_log(connection)
    if confirmed > lsn:
        raise UserError(
            SqlState.DATA_EXCEPTION,
            f"changes were lost before the query read them: the replication slot {slot} is at {lsn_text(confirmed)}, and the query "
            f"has read to {lsn_text(lsn)}. The slot was dropped and created again, advanced, or read by another query or program",
            hint=f"{START_ANEW} Use a separate slot for each query.",
        )
    if lsn > end:
        raise UserError(
            SqlState.DATA_EXCEPTION,
            f"the server's log ends at {lsn_text(end)}, and the query has read to {lsn_text(lsn)}: the server was restored from a backup",
            hint=START_ANEW,
        )


def confirmed_lsn(connection: Connection, slot: str) -> int:
    """Return the position after which a slot returns changes. Raises UserError 22000 if the slot does not exist."""
    row = connection.execute(
        "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s", (slot,)
    ).fetchone()
    if row is None or row[0] is None:
        raise lost(slot)
    return lsn_of(row[0])


def _end_of_log(connection: Connection) -> int:
    (end,) = connection.execute("SELECT pg_current_wal_lsn()::text").fetchone() or ("0/0",)
    return lsn_of(end)


def advance(connection: Connection, slot: str) -> int:
    """Moves a slot to the end of the log, and returns where that is; raises `psycopg.Error` 55006 while the slot is read."""
    moved = connection.execute(
        "SELECT end_lsn::text FROM pg_replication_slot_advance(%s, pg_current_wal_lsn())", (slot,)
    )
    return lsn_of((moved.fetchone() or ("0/0",))[0])


def drop(connection: Connection, slot: str) -> None:
    """Drop slot and publication if they exist. Raises `psycopg.Error` 55006 while the slot is read."""
    connection.execute(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", (slot,)
    )
    connection.execute(SQL("DROP PUBLICATION IF EXISTS {}").format(Identifier(slot)))


def lag_bytes(connection: Connection, slot: str) -> int | None:
    """Return how much of its log the server retains for a slot, None if the slot is missing."""
    row = connection.execute(
        "SELECT pg_current_wal_lsn() - restart_lsn FROM pg_replication_slots WHERE slot_name = %s", (slot,)
    ).fetchone()
    return None if row is None else int(row[0])


def lost(slot: str) -> UserError:
    """Return the error of a slot whose log the server discarded, or that was dropped."""
    return UserError(
        SqlState.DATA_EXCEPTION,
        f"changes were lost before the query read them: the replication slot {slot} was dropped, or the server invalidated it",
        hint=f"If max_slot_wal_keep_size of the server is too small, raise it. {START_ANEW}",
    )


def _lacks_right(error: psycopg.Error, hint: str) -> ExternalError:
    return ExternalError(
        SqlState.REMOTE_UNAVAILABLE,
        f"the store's user lacks a right that reading changes needs: {error.diag.message_primary}",
        hint=hint,
    )


class ChangeStream:
    """The changes of some tables from a position on, over one connection; a context manager.

    The log has nothing for its reader between what was read and `idle_at`, if that is further. The server ends connections that say
    nothing for its wal_sender_timeout, so a thread reports while the reader works on what was read.
    """

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
        self._confirmed = start.lsn
        self._in_transaction = False
        self.idle_at = 0
        # libpq serves one thread at a time.
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._reporter = threading.Thread(target=self._report, name=f"slot-{slot}", daemon=True)
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
        (timeout,) = self._connection.execute(
            "SELECT setting FROM pg_settings WHERE name = 'wal_sender_timeout'"
        ).fetchone() or ("0",)
        self._interval_s = min(int(timeout) / 3000 or _MOST_SILENCE_S, _MOST_SILENCE_S)
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
        """Return the next changes in order, about `at_most`; waits `wait_s` for the first.

        Raises UserError as `Transactions.changes` does; ExternalError 57015 when the connection broke: then open another.
        """
        if self._reporter.ident is None:
            self._reporter.start()
        changes: list[Change] = []
        deadline = time.monotonic() + wait_s
        with classified(self._store):
            while len(changes) < at_most:
                message = self._next(0 if changes else deadline - time.monotonic())
                if message is None:
                    break
                if message[0] == _XLOG_DATA:
                    changes += self._changes(message)
                elif message[0] == _KEEPALIVE:
                    self._keep_alive(message, idle=not changes)
        return changes

    def confirm(self, position: Position) -> None:
        """Confirm a position: earlier changes need not be sent again; raises ExternalError 57015 when the connection broke."""
        with classified(self._store), self._lock:
            self._confirmed = max(self._confirmed, position.lsn)
            self._send_status()

    def close(self) -> None:
        """Lets the slot go."""
        self._closed.set()
        if self._reporter.ident is not None:
            self._reporter.join()
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
                for decoded_change in self._transactions.changes(change, lsn):
                    if decoded_change.position > self._start:
                        yield decoded_change

    def _keep_alive(self, message: bytes, *, idle: bool) -> None:
        end, _, reply = _KEEPALIVE_BODY.unpack_from(message)
        if idle and not self._in_transaction:
            self.idle_at = max(self.idle_at, end)
        if reply:
            with self._lock:
                self._send_status()

    def _next(self, wait_s: float) -> bytes | None:
        """Return the next message; None if none arrives within that time."""
        connection = self._connection.pgconn
        while True:
            with self._lock:
                length, data = connection.get_copy_data(1)
            if length > 0:
                return bytes(data)
            if length < 0:
                self._ended()
            if not select.select([connection.socket], [], [], max(0, wait_s))[0]:
                return None
            with self._lock:
                connection.consume_input()

    def _ended(self) -> Never:
        with self._lock:
            result = self._connection.pgconn.get_result()
        if result is not None and result.status == ExecStatus.FATAL_ERROR:
            raise psycopg.errors.error_from_result(result, "utf-8")
        raise psycopg.OperationalError("the server closed the connection")

    def _report(self) -> None:
        # A connection that broke is reported by the next read.
        with suppress(psycopg.Error):
            while not self._closed.wait(self._interval_s):
                with self._lock:
                    self._send_status()

    def _send_status(self) -> None:
        """Reports what was confirmed, and what was received, without which the server asks after every write of others."""
        moment = time.time_ns() // 1000 - POSTGRESQL_EPOCH_US
        received = max(self._confirmed, self.idle_at)
        connection = self._connection.pgconn
        connection.put_copy_data(_STATUS.pack(b"r", received, self._confirmed, self._confirmed, moment, 0))
        connection.flush()
