"""Session of a database: statements with their parameters, rows in and out, over Oracle's thin driver.

The driver has no time-out for a listener that accepts a connection and sends nothing, so this module limits the wait for the driver.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Overdue
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from types import ModuleType, TracebackType
from typing import Any, Self

from headrace.connectors.extras import client_module
from headrace.connectors.hosts import check_listening
from headrace.connectors.oracle.failures import of_connecting, of_oracle, unanswered
from headrace.connectors.oracle.options import PASSWORD, URIS, USERNAME, address, server
from headrace.connectors.tls import TLS_CA, TLS_CLIENT_CERT, TLS_CLIENT_KEY, TLS_DISABLED, TLS_VERIFY
from headrace.connectors.upper_case import folded
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState

CONNECT_TIMEOUT_S = 20
_REACH_TIMEOUT_S = 5
_UNKNOWN = "Check 'uris': oracle://host:1521/service."
_CALL_TIMEOUT_MS = 300_000
ROWS_PER_FETCH = 5_000
Row = tuple[Any, ...]


class Oracle:
    """A session of a store's user at a service, that of the store's 'uris' or another; a context manager.

    Nothing is committed but by `commit` and by DDL. All of it raises UserError or ExternalError, classified.
    """

    def __init__(
        self, store: Mapping[str, str], service: str | None = None, *, timeout_s: float = CONNECT_TIMEOUT_S
    ) -> None:
        self.server = server(store)
        self._driver = _driver()
        reach(store)
        try:
            self._connection = _within(timeout_s, lambda: _connect(self._driver, store, service))
        except Overdue:
            raise unanswered(self.server) from None
        except self._driver.Error as error:
            raise of_connecting(_code(error), str(error), self.server) from None
        self._connection.call_timeout = _CALL_TIMEOUT_MS
        self.execute("ALTER SESSION SET TIME_ZONE = '+00:00'")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the session without a commit. Ignores errors."""
        with suppress(self._driver.Error):
            self._connection.close()

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Run a statement, and return its rows: numbers as Decimal, LOBs as texts and bytes."""
        return [row for part in self.parts(statement, parameters) for row in part]

    def parts(self, statement: str, parameters: Sequence[Any] = ()) -> Iterator[list[Row]]:
        """Yield the same, some thousands of rows at a time."""
        with self._classified(), self._connection.cursor() as cursor:
            cursor.arraysize = ROWS_PER_FETCH
            cursor.execute(statement, list(parameters), fetch_lobs=False, fetch_decimals=True)
            while rows := cursor.fetchmany():
                yield rows

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """Execute a statement without rows."""
        with self._classified(), self._connection.cursor() as cursor:
            cursor.execute(statement, list(parameters))

    def execute_many(self, statement: str, rows: list[Row], sent_as: Sequence[str | None]) -> None:
        """Execute a statement for each row. `sent_as` are the types of its values: names of the driver's, or None for texts."""
        sizes = [
            getattr(self._driver, name) if name else _longest(row[place] for row in rows)
            for place, name in enumerate(sent_as)
        ]
        with self._classified(), self._connection.cursor() as cursor:
            cursor.setinputsizes(*sizes)
            cursor.executemany(statement, rows)

    def commit(self) -> None:
        """Ends the transaction."""
        with self._classified():
            self._connection.commit()

    @contextmanager
    def _classified(self) -> Iterator[None]:
        try:
            yield
        except self._driver.Error as error:
            raise of_oracle(_code(error), str(error), self.server) from None
        except (OverflowError, ValueError) as error:
            # A time before the year 1, which Python has no value for.
            raise of_oracle("DPY-0000", f"{type(error).__name__}: {error}", self.server) from None


def reach(store: Mapping[str, str]) -> None:
    """Check that the listener's host is known and something listens there; raises ExternalError 57015."""
    place = address(store[URIS.name])
    port = place.port_of(secure=store[TLS_DISABLED.name] != "TRUE")
    try:
        check_listening(place.host, port, timeout_s=_REACH_TIMEOUT_S, hint=_UNKNOWN)
    except OSError:
        raise unanswered(server(store)) from None


def _driver() -> ModuleType:
    return client_module("oracledb", extra="oracle", label="Oracle")


def _connect(driver: ModuleType, store: Mapping[str, str], service: str | None) -> Any:
    place, secure = address(store[URIS.name]), store[TLS_DISABLED.name] != "TRUE"
    return driver.connect(
        user=store[USERNAME.name],
        password=store[PASSWORD.name],
        host=place.host,
        port=place.port_of(secure=secure),
        service_name=service or place.service,
        protocol="tcps" if secure else "tcp",
        ssl_context=_tls(store) if secure else None,
        ssl_server_dn_match=store[TLS_VERIFY.name] == "TRUE",
        tcp_connect_timeout=_REACH_TIMEOUT_S,
        expire_time=1,
        # By default, the driver sends the names of this machine and its user, and the program's path, to the server.
        **dict.fromkeys(("program", "machine", "terminal", "osuser"), "headrace"),
    )


def _tls(store: Mapping[str, str]) -> ssl.SSLContext:
    # The driver compares names itself, for which the certificate must be checked.
    context = ssl.create_default_context(cadata=store.get(TLS_CA.name))
    if TLS_CLIENT_CERT.name in store:
        with TemporaryDirectory(prefix="headrace-tls-") as folder:
            file = Path(folder, "client.pem")
            file.touch(mode=0o600)
            file.write_text(f"{store[TLS_CLIENT_KEY.name]}\n{store[TLS_CLIENT_CERT.name]}")
            context.load_cert_chain(file)
    return context


def _within(seconds: float, connect: Any) -> Any:
    """Return the result of `connect`; raises Overdue when it is late. A connection that arrives later is closed."""
    connecting: Future[Any] = Future()

    def run() -> None:
        try:
            connecting.set_result(connect())
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            connecting.set_exception(error)

    Thread(target=run, name="oracle-connect", daemon=True).start()
    try:
        return connecting.result(seconds)
    except Overdue:
        connecting.add_done_callback(_close)
        raise


def _close(connecting: Future[Any]) -> None:
    if connecting.exception() is None:
        connecting.result().close()


def _code(error: Any) -> str:
    """Return 'ORA-00942', or the driver's own 'DPY-4011'."""
    detail = error.args[0]
    return f"ORA-{detail.code:05}" if detail.code else str(detail.full_code)


def _longest(texts: Iterator[str | None]) -> int:
    return max((len(text) for text in texts if text is not None), default=0) or 1


def identifier(name: str) -> str:
    """Return a name as SQL: one that would fold to lower case here is folded to upper case there, as Oracle does without quotes.

    Raises UserError 3D008 for one that Oracle cannot have.
    """
    return quoted(folded(name))


def quoted(name: str) -> str:
    """Return a name, as it is, as SQL; raises UserError 3D008 for one with a double quote, which cannot be written in any way."""
    if '"' in name or "\0" in name or not name:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"Oracle has no name with a double quote in it: {name!r}",
            hint="Choose another name.",
        )
    return f'"{name}"'
