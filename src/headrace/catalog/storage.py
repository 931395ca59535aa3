"""The catalog's database, and the state in memory that follows it.

One connection does all the writing, under a lock: a catalog belongs to one server. A transaction works on a state of its own, which
only its thread sees, and which takes the place of the present one when the database has committed.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import CursorResult, Engine, Executable, RowMapping, Select, create_engine, event

from headrace.catalog.state import CatalogState

FILE = "catalog.db"


class Storage:
    """Reads of the state never wait; transactions do, for each other and for the database: they are for threads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.RLock()
        self._connection = engine.connect()
        self._depth = 0
        self._writer: int | None = None
        self._state: CatalogState | None = None
        self._draft: CatalogState | None = None

    def close(self) -> None:
        """Give the database back."""
        self._connection.close()
        self._engine.dispose()

    @property
    def state(self) -> CatalogState:
        """The present state, or what this thread's transaction has made of it so far."""
        found = self._draft if self._writer == threading.get_ident() else self._state
        if found is None:
            raise RuntimeError("the catalog was not loaded")
        return found

    def put(self, state: CatalogState) -> None:
        """The state after what this transaction wrote."""
        self._draft = state

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Several writes as one; an exception undoes them all. May be nested: the outermost commits."""
        with self._lock:
            if self._depth == 0:
                self._draft, self._writer = self._state, threading.get_ident()
            self._depth += 1
            try:
                yield
                if self._depth == 1:
                    self._connection.commit()
                    self._state = self._draft
            except BaseException:
                if self._depth == 1:
                    self._connection.rollback()
                raise
            finally:
                self._depth -= 1
                if self._depth == 0:
                    self._draft = self._writer = None

    def execute(self, statement: Executable) -> CursorResult[Any]:
        """Within a transaction."""
        result: CursorResult[Any] = self._connection.execute(statement)
        return result

    def rows(self, query: Select[Any]) -> list[RowMapping]:
        """What a query finds, in a transaction of its own unless there is one."""
        with self.transaction():
            return list(self._connection.execute(query).mappings())

    def run(self, use: Callable[[Any], None]) -> None:
        """Hand the connection to what brings the tables up to date."""
        use(self._connection)


def sqlite(directory: Path) -> Storage:
    """The database in a file of a data directory, which is made if it is not there."""
    directory.mkdir(parents=True, exist_ok=True)
    engine = create_engine(f"sqlite:///{directory / FILE}", connect_args={"check_same_thread": False})
    event.listen(engine, "connect", _configure)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    (directory / FILE).touch(mode=0o600)
    return Storage(engine)


def _configure(connection: sqlite3.Connection, _record: object) -> None:
    # The driver's own transactions do not begin before a SAVEPOINT, so that a rollback would miss what it released.
    connection.isolation_level = None
    for pragma in ("journal_mode=WAL", "foreign_keys=ON", "synchronous=FULL", "busy_timeout=5000"):
        connection.execute(f"PRAGMA {pragma}")
