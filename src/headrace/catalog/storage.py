"""The catalog's database, and the state in memory that follows it.

A single connection performs all writes, under a lock: a catalog belongs to one server. In PostgreSQL each transaction that writes ends with
a look at the epoch of the lease. A transaction works on a private state, which only its thread sees, and which replaces the current state
after the database has committed.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, NoReturn

import structlog
from sqlalchemy import (
    Connection,
    CursorResult,
    Engine,
    Executable,
    RowMapping,
    Select,
    create_engine,
    event,
    text,
)
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from headrace.catalog.lease import Lease, connections, not_leading
from headrace.catalog.state import CatalogState
from headrace.core.errors import ExternalError, UserError
from headrace.core.signals import Signal
from headrace.core.sqlstate import SqlState

log = structlog.get_logger()

FILE = "catalog.db"


class Storage:
    """Reads of the state never wait. Transactions wait for each other and for the database: use a thread.

    `load` reads the whole state: after a lost connection, the outcome of the last transaction is unknown. `committed` reports each
    replacement of the current state. `lease` was claimed, and is released by `close`; a file has none.
    """

    def __init__(
        self, engine: Engine, load: Callable[[Storage], CatalogState], lease: Lease | None = None
    ) -> None:
        self._engine = engine
        self._load = load
        self._lease = lease
        self._is_written = False
        self._lock = threading.RLock()
        self._connection: Connection | None = None
        self._depth = 0
        self._writer: int | None = None
        self._state: CatalogState | None = None
        self._draft: CatalogState | None = None
        self.committed = Signal()

    def close(self) -> None:
        """Close the connections to the database."""
        with self._lock:
            self._disconnect()
            self._engine.dispose()
            if self._lease is not None:
                self._lease.release()

    @property
    def state(self) -> CatalogState:
        """The current state, or the private state of this thread's transaction."""
        state = self._draft if self._writer == threading.get_ident() else self._state
        if state is None:
            raise RuntimeError("the catalog was not loaded")
        return state

    def put(self, state: CatalogState) -> None:
        """Set the state that follows this transaction's writes."""
        self._draft = state

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run several writes as one; an exception undoes them all. May be nested: the outermost commits.

        Raises ExternalError 57015 when the database does not answer.
        """
        with self._lock, nullcontext() if self._depth else self._committed():
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1

    def execute(self, statement: Executable) -> int:
        """Execute a write within a transaction, and return its number of rows."""
        result: CursorResult[Any] = self.connection.execute(statement)
        return result.rowcount

    def rows(self, query: Select[Any]) -> list[RowMapping]:
        """Return the rows of a query, in a new transaction unless this thread already has one."""
        with nullcontext() if self._writer == threading.get_ident() else self.transaction():
            return list(self._connected.execute(query).mappings())

    @property
    def connection(self) -> Connection:
        """The connection of this thread's transaction, for writes."""
        self._is_written = True
        return self._connected

    @property
    def _connected(self) -> Connection:
        if self._connection is None:
            raise RuntimeError("there is no transaction")
        return self._connection

    def read(self) -> None:
        """Replace this transaction's state by the content of the database."""
        self._draft = self._load(self)

    @contextmanager
    def _committed(self) -> Iterator[None]:
        self._writer = threading.get_ident()
        self._is_written = False
        before = self._state
        try:
            self._connect()
            yield
            if self._lease is not None and self._is_written:
                self._lease.verify(self._connected)
            self._connected.commit()
            self._state = self._draft
            if self._state is not before:
                self.committed.notify()
        except (OperationalError, InterfaceError) as error:
            self._disconnect()
            raise _unavailable(error) from error
        except BaseException:
            if self._connection is not None:
                with suppress(DBAPIError):
                    self._connection.rollback()
            raise
        finally:
            self._draft = self._writer = None

    def _connect(self) -> None:
        """Open a connection that works, and read the state that belongs to it."""
        self._draft = self._state
        if self._lease is not None and self._lease.is_lost:
            raise not_leading(self._lease.leader)
        if self._connection is not None and self._engine.dialect.name != "sqlite":
            try:
                self._connection.execute(text("SELECT 1"))
            except DBAPIError:
                # The connection was lost while it was idle.
                self._disconnect()
        if self._connection is None:
            self._connection = self._engine.connect()
            if self._state is not None:
                self.read()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(DBAPIError):
                connection.close()

    def copy(self, file: Path) -> None:
        """Copy the database, as it is between two transactions, into a new file. Raises UserError 0A000 for PostgreSQL."""
        if self._engine.dialect.name != "sqlite":
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                "the catalog is in PostgreSQL, which this statement does not copy",
                hint="Stop the server, copy the database with pg_dump, and copy the data directory.",
            )
        file.touch(mode=0o600, exist_ok=False)
        # Another connection: a copy through the one of this transaction would wait for the end of the transaction.
        source = sqlite3.connect(
            f"{Path(str(self._engine.url.database)).resolve().as_uri()}?mode=ro", uri=True
        )
        with self.transaction(), closing(source), closing(sqlite3.connect(file)) as copy:
            source.backup(copy)


class Draft(Storage):
    """A draft: its state starts as a copy of another storage's state and is never written. Data outside of the state is read from there."""

    def __init__(self, kept: Storage) -> None:
        self._kept = kept
        self._drafted = kept.state

    @property
    def state(self) -> CatalogState:
        """The state with this draft's writes."""
        return self._drafted

    def put(self, state: CatalogState) -> None:
        """Set the state after a write."""
        self._drafted = state

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run writes that an exception undoes."""
        before = self._drafted
        try:
            yield
        except BaseException:
            self._drafted = before
            raise

    def execute(self, _statement: Executable) -> int:
        """Write nothing."""
        return 0

    def rows(self, query: Select[Any]) -> list[RowMapping]:
        """Return the rows of the other storage."""
        return self._kept.rows(query)


class Follower(Storage):
    """State of a catalog that another server writes: `refresh` reads it again. A transaction only reads: each write raises ExternalError
    57P03."""

    def __init__(self, url: str, load: Callable[[Storage], CatalogState], lease: Lease) -> None:
        super().__init__(connections(url), load)
        self._followed = lease

    def refresh(self) -> None:
        """Read the state, as it is between two transactions of the leader. Raises ExternalError 57015."""
        with self.transaction():
            state = self._load(self)
        self._state = state
        self.committed.notify()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Read as of one moment, in a new connection unless this thread has one. The state is that of the last `refresh`."""
        with nullcontext() if self._writer == threading.get_ident() else self._reading():
            yield

    @property
    def connection(self) -> NoReturn:
        """Raise ExternalError 57P03: connections are for writes."""
        raise not_leading(self._followed.leader)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._lock:
            self._writer = threading.get_ident()
            self._draft = self._state
            try:
                self._connection = self._engine.connect().execution_options(
                    isolation_level="REPEATABLE READ", postgresql_readonly=True
                )
                yield
            except (OperationalError, InterfaceError) as error:
                raise _unavailable(error) from error
            finally:
                self._draft = self._writer = None
                self._disconnect()


def _unavailable(error: DBAPIError) -> ExternalError:
    log.warning("catalog_unavailable", reason=str(error.orig).partition("\n")[0])
    return ExternalError(
        SqlState.REMOTE_UNAVAILABLE,
        "the catalog's database does not answer",
        hint="Running queries continue. Try again; the server's log contains the reason.",
    )


def sqlite(directory: Path, load: Callable[[Storage], CatalogState]) -> Storage:
    """Return the database in a file of a data directory."""
    engine = create_engine(f"sqlite:///{directory / FILE}", connect_args={"check_same_thread": False})
    event.listen(engine, "connect", _configure)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    (directory / FILE).touch(mode=0o600)
    return Storage(engine, load)


@contextmanager
def readable(directory: Path, url: str | None) -> Iterator[None]:
    """Raise UserError 3D008, with the database's own reason, if the catalog cannot be opened; ExternalError 57015 if its server is away."""
    try:
        yield
    except (ExternalError, DBAPIError) as error:
        cause = error if isinstance(error, DBAPIError) else error.__cause__
        reason = str(getattr(cause, "orig", cause)).partition("\n")[0]
        if url is not None and isinstance(error, ExternalError):
            raise
        place = directory / FILE if url is None else "the database of HEADRACE_CATALOG_URL"
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"cannot open the catalog in {place}: {reason}",
            hint="Grant the server's user access to read and write it, or restore it from a backup.",
        ) from None


def postgresql(url: str, load: Callable[[Storage], CatalogState], lease: Lease | None = None) -> Storage:
    """Return the storage in a database of a PostgreSQL server, in the first schema of the search path, with a lease that was claimed.
    Without `lease`, claim one: raises UserError 53000 while another server has it."""
    if lease is None:
        lease = Lease(url)
        try:
            lease.claim()
        except (OperationalError, InterfaceError) as error:
            raise _unavailable(error) from error
        lease.keep()
    return Storage(connections(url), load, lease)


def _configure(connection: sqlite3.Connection, _record: object) -> None:
    # The driver starts no transaction before a SAVEPOINT, so a rollback would not undo a released savepoint.
    connection.isolation_level = None
    for pragma in ("journal_mode=WAL", "foreign_keys=ON", "synchronous=FULL", "busy_timeout=5000"):
        connection.execute(f"PRAGMA {pragma}")
