"""The lease of a catalog in PostgreSQL: at most one server leads, and writes carry its epoch (docs/adr/0086).

An advisory lock excludes other servers while the leader's connection lives. The row in the table `leadership` has the epoch, which grows
with each leader, and the time of the last renewal by the clock of the database: a leader that is paused keeps its lock, but not its lease.

The table is not one of `tables`: a server leads before it may look at the revision of the catalog, since upgrading is a write.
"""

from __future__ import annotations

import os
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import Connection, Engine, NullPool, Row, create_engine, event, make_url, text
from sqlalchemy.exc import DBAPIError, ProgrammingError

from headrace.core.errors import ExternalError, UserError
from headrace.core.sqlstate import SqlState

log = structlog.get_logger()

TABLE = "leadership"
LEASE_S = 6.0
"""Time since the last renewal after which another server may lead."""
HOLD_S = 4.5
"""Time since the last renewal after which a leader that shares its data, and its drivers, have ended: less than `LEASE_S` by the time that
the guards of the drivers take to notice it."""
RENEWAL_S = 1.0
CONNECT_TIMEOUT_S = 5
ANSWER_TIMEOUT_MS = 10_000
DEADLINE = struct.Struct("d")
"""A time of the monotonic clock, which all processes of a machine share."""

_UNDEFINED_TABLE = "42P01"
_LOCK = "hashtext('headrace ' || current_schema())"
_IS_OVER = f"renewed_at + interval '{LEASE_S} seconds' < clock_timestamp()"
# The key is the epoch: raising it waits for transactions that hold FOR KEY SHARE, and a renewal does not.
_CREATE = text(
    f"CREATE TABLE IF NOT EXISTS {TABLE} "
    "(epoch BIGINT PRIMARY KEY, address TEXT NOT NULL, renewed_at TIMESTAMPTZ NOT NULL)"
)
_READ = text(f"SELECT epoch, address, renewed_at, {_IS_OVER} AS is_over FROM {TABLE}")  # noqa: S608
_RENEW = text(f"UPDATE {TABLE} SET renewed_at = clock_timestamp() WHERE epoch = :epoch")  # noqa: S608
_RELEASE = text(f"UPDATE {TABLE} SET renewed_at = 'epoch' WHERE epoch = :epoch")  # noqa: S608
_FENCE = text(f"SELECT 1 FROM {TABLE} WHERE epoch = :epoch FOR KEY SHARE")  # noqa: S608
_FIRST = text(f"INSERT INTO {TABLE} VALUES (1, :address, clock_timestamp())")  # noqa: S608
_NEXT = text(
    f"UPDATE {TABLE} SET epoch = epoch + 1, address = :address, renewed_at = clock_timestamp() "  # noqa: S608
    "WHERE epoch = :epoch AND renewed_at = :renewed_at"
)
_TRY_LOCK = text(f"SELECT pg_try_advisory_lock({_LOCK})")
_UNLOCK = text(f"SELECT pg_advisory_unlock({_LOCK})")
_END_LOCK_HOLDER = text(
    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1 "  # noqa: S608
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    f"AND ((classid::bigint << 32) | objid::bigint) = {_LOCK}::bigint AND pid <> pg_backend_pid()"
)
_END_WRITERS = text(
    "SELECT pg_terminate_backend(pid) FROM (SELECT DISTINCT l.pid FROM pg_locks l "
    "JOIN pg_class c ON c.oid = l.relation JOIN pg_stat_activity a ON a.pid = l.pid "
    "WHERE c.relnamespace = current_schema()::regnamespace AND l.mode <> 'AccessShareLock' AND l.pid <> pg_backend_pid() "
    "AND a.datname = current_database() AND a.usename = current_user AND a.backend_type = 'client backend') AS writers"
)


@dataclass(frozen=True)
class Leader:
    """The server that leads, or led last: its epoch, and the address at which clients reach it."""

    epoch: int
    address: str


def connections(url: str) -> Engine:
    """Return the engine of a database of a PostgreSQL server, without a pool; its connections give up on a server that does not answer."""
    timeouts = {
        "connect_timeout": CONNECT_TIMEOUT_S,
        "keepalives_idle": CONNECT_TIMEOUT_S,
        "tcp_user_timeout": ANSWER_TIMEOUT_MS,
    }
    chosen = make_url(url).set(drivername="postgresql+psycopg")
    engine = create_engine(chosen, poolclass=NullPool, connect_args=timeouts, hide_parameters=True)
    event.listen(engine, "connect", _limit)
    return engine


def _limit(connection: Any, _record: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SET statement_timeout = {ANSWER_TIMEOUT_MS}")
    connection.commit()


class Lease:
    """The lease of the catalog at `url`, for one server that clients reach at `address`.

    `file` gets the deadline of the lease with each renewal, for the guards of drivers. `claim` or `try_claim` first, from one thread;
    `keep` then renews in a thread of its own. `deadline` and `verify` are for any thread.
    """

    def __init__(self, url: str, *, address: str = "", file: Path | None = None) -> None:
        self._engine = connections(url)
        self._connection: Connection | None = None
        self._address = address
        self._file = file
        self._epoch: int | None = None
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self.leader: Leader | None = None
        """The leader when this server last looked."""
        self.is_lost = False
        """True once another server has led since."""
        self.deadline = 0.0
        """Time of the monotonic clock until which no other server leads that waits for the end of the lease."""

    @property
    def epoch(self) -> int:
        """The epoch of this server's lease."""
        if self._epoch is None:
            raise RuntimeError("the lease was not claimed")
        return self._epoch

    def claim(self) -> None:
        """Lead at once, whatever the last leader's lease is. Raises UserError 53000 while another server holds the lock."""
        try:
            if not self._claimed(self._open(), waits=False):
                raise UserError(
                    SqlState.CONFIGURATION_LIMIT_EXCEEDED,
                    "another server is running on this catalog",
                    hint="Stop the other server first, or set another database in HEADRACE_CATALOG_URL. "
                    "HEADRACE_SHARED_DIR lets a second server stand by.",
                )
        except BaseException:
            self._close()
            raise

    def try_claim(self) -> bool:
        """Lead if no server does; True if this server leads now. Ends the connection of a leader whose lease is over."""
        try:
            return self._claimed(self._open(), waits=True)
        except DBAPIError as error:
            self._close()
            log.warning("lease_not_read", reason=str(error.orig).partition("\n")[0])
            return False

    def keep(self) -> None:
        """Renew the lease until `release`."""
        self._thread = threading.Thread(target=self._renew_always, name="lease", daemon=True)
        self._thread.start()

    def verify(self, connection: Connection) -> None:
        """Let no other server lead before the transaction of `connection` ends. Raises ExternalError 57P03 if one has led since."""
        if not connection.execute(_FENCE, {"epoch": self.epoch}).all():
            self.is_lost = True
            with suppress(DBAPIError):
                self.leader = _read(connection)
            raise not_leading(self.leader)

    def release(self) -> None:
        """End the lease: a server that stands by leads at once."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
        if self._epoch is not None and not self.is_lost:
            with suppress(DBAPIError):
                self._open().execute(_RELEASE, {"epoch": self._epoch})
        self._close()
        self._engine.dispose()

    def _claimed(self, connection: Connection, *, waits: bool) -> bool:
        last = _row(connection)
        self.leader = Leader(last.epoch, last.address) if last is not None else None
        if waits and last is not None and not last.is_over:
            return False
        if not connection.execute(_TRY_LOCK).scalar():
            if waits and last is not None:
                ended = connection.execute(_END_LOCK_HOLDER).all()
                log.warning("lease_is_over", leader=last.address, epoch=last.epoch, connections=len(ended))
            return False
        if last is None:
            connection.execute(_CREATE)
            # Another server may have led and ended between the look and the lock.
            last = _row(connection)
        before = time.monotonic()
        if last is None:
            connection.execute(_FIRST, {"address": self._address})
            epoch = 1
        else:
            # Of a leader that is paused in a transaction, whose locks would be in the way.
            connection.execute(_END_WRITERS)
            values = {"epoch": last.epoch, "renewed_at": last.renewed_at, "address": self._address}
            if not connection.execute(_NEXT, values).rowcount:
                connection.execute(_UNLOCK)
                return False
            epoch = last.epoch + 1
        self._epoch = epoch
        self.leader = Leader(epoch, self._address)
        self._extend(before)
        log.info("leads", epoch=epoch)
        return True

    def _renew_always(self) -> None:
        while not self._ending.wait(RENEWAL_S):
            try:
                self._renew()
            except DBAPIError as error:
                self._close()
                log.warning("lease_not_renewed", reason=str(error.orig).partition("\n")[0])
            if self.is_lost:
                log.error("lease_lost", epoch=self._epoch, leader=self.leader and self.leader.address)
                return

    def _renew(self) -> None:
        connection = self._connection
        if connection is None:
            connection = self._open()
            if not connection.execute(_TRY_LOCK).scalar():
                # Its holder leads already, or is about to.
                self.leader = _read(connection)
                self.is_lost = self.leader is not None and self.leader.epoch != self._epoch
                self._close()
                return
        before = time.monotonic()
        if connection.execute(_RENEW, {"epoch": self._epoch}).rowcount:
            self._extend(before)
        else:
            self.is_lost, self.leader = True, _read(connection)
            self._close()

    def _extend(self, before: float) -> None:
        """Extend the lease after a renewal that was requested at `before`: measured from the request, the leader's view ends first."""
        self.deadline = before + HOLD_S
        if self._file is not None:
            descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                os.pwrite(descriptor, DEADLINE.pack(self.deadline), 0)
            finally:
                os.close(descriptor)

    def _open(self) -> Connection:
        if self._connection is None:
            self._connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        return self._connection

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(DBAPIError):
                connection.close()


def not_leading(leader: Leader | None) -> ExternalError:
    """Return the error of a server that does not lead, with the address of the leader as a hint."""
    address = leader.address if leader is not None else ""
    return ExternalError(
        SqlState.CANNOT_CONNECT_NOW,
        "this server does not lead: another server writes the catalog",
        hint=f"Connect to the leader: {address}" if address else "Connect to the server that leads.",
    )


def _read(connection: Connection) -> Leader | None:
    row = _row(connection)
    return Leader(row.epoch, row.address) if row is not None else None


def _row(connection: Connection) -> Row[Any] | None:
    try:
        return connection.execute(_READ).one_or_none()
    except ProgrammingError as error:
        if getattr(error.orig, "sqlstate", None) == _UNDEFINED_TABLE:
            # No server has led yet since the lease exists.
            return None
        raise
