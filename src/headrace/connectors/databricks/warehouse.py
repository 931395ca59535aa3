"""A SQL warehouse: statements in, rows out, by Databricks' own client for Python.

The client is an extra of Headrace's, and is imported for the first store. Its telemetry is off, and it does not
fetch results from addresses in responses.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import httpx
import pyarrow as pa
import urllib3

from headrace.connectors.databricks import options
from headrace.connectors.databricks.failures import (
    no_warehouse,
    of_network,
    of_statement,
    of_status,
)
from headrace.connectors.extras import client_module
from headrace.connectors.hosts import resolve
from headrace.connectors.tls import TLS_CA, TLS_DISABLED, authority_file

CONNECT_TIMEOUT_S = 15.0
# The time limit of a statement; the client polls in the meantime.
_ANSWER_TIMEOUT_S = 300.0
# A stopped warehouse starts at the first request. After this time it counts as unavailable, and callers retry.
_START_S = 60
_SCOPE = "all-apis"


class Warehouse:
    """A session at a store's SQL warehouse; a context manager. Methods raise UserError or ExternalError, classified."""

    def __init__(self, store: Mapping[str, str]) -> None:
        self._store = store
        url = urlsplit(store[options.URIS.name])
        self._host = url.hostname or ""
        self._port = int(store[options.PORT.name])
        self._base = f"{url.scheme}://{url.netloc}:{self._port}"
        self.server = f"{self._host}:{self._port}"
        self._connection: Any = None

    def __enter__(self) -> Self:
        reach(self._store)
        self._connection = self._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a query, and return its rows."""
        with self._cursor(statement) as cursor, self._classified():
            return [tuple(row) for row in cursor.fetchall()]

    def execute(self, statement: str) -> None:
        """Execute a statement and ignore its rows."""
        with self._cursor(statement):
            pass

    def sets(self, name: str, value: str) -> bool:
        """Gives the session a setting of Spark's or Delta's; False where the warehouse refuses: SQL warehouses do not take all."""
        from databricks.sql import exc

        with closing(self._connection.cursor()) as cursor, self._classified():
            try:
                cursor.execute(f"SET {name} = {value}")
            except exc.DatabaseError as error:
                if isinstance(error, exc.OperationalError):  # no answer at all
                    raise
                return False
        return True

    def columns(self, statement: str, count: int) -> Iterator[list[Sequence[Any]]]:
        """Yield the columns of a query in chunks of at most `count` rows, as Arrow arrays or plain values."""
        with self._cursor(statement) as cursor:
            while True:
                with self._classified():
                    part = cursor.fetchmany_arrow(count)
                if not part.num_rows:
                    return
                yield part.columns if isinstance(part, pa.Table) else part.column_table

    @contextmanager
    def _cursor(self, statement: str) -> Iterator[Any]:
        with closing(self._connection.cursor()) as cursor:
            with self._classified():
                cursor.execute(statement)
            yield cursor

    def _open(self) -> Any:
        sql = client_module("databricks.sql", extra="databricks", label="Databricks")
        path = f"/sql/1.0/warehouses/{self._store[options.WAREHOUSE.name]}"
        authority = self._store.get(TLS_CA.name)
        with self._classified():
            return sql.connect(
                self._host,
                path,
                self._token(),
                _connection_uri=self._base + path,
                _tls_trusted_ca_file=None if authority is None else authority_file(authority),
                _socket_timeout=_ANSWER_TIMEOUT_S,
                _retry_stop_after_attempts_duration=_START_S,
                user_agent_entry="headrace",
                enable_telemetry=False,
                use_cloud_fetch=False,
            )

    def _token(self) -> str:
        """Return the store's own token, or a token that its client is granted for an hour."""
        if options.TOKEN.name in self._store:
            return self._store[options.TOKEN.name]
        client = self._store[options.CLIENT_ID.name], self._store[options.CLIENT_SECRET.name]
        form = {"grant_type": "client_credentials", "scope": _SCOPE}
        try:
            answer = httpx.post(
                f"{self._base}/oidc/v1/token",
                data=form,
                auth=client,
                verify=_context(self._store) or False,
                timeout=CONNECT_TIMEOUT_S,
                follow_redirects=False,
                trust_env=False,
            )
            if answer.status_code in (400, 401, 403):  # RFC 6749 has 400 for some clients that are not known
                raise of_status(401, self.server)
            token = answer.json().get("access_token") if answer.status_code == httpx.codes.OK else None
        except (httpx.HTTPError, ValueError, AttributeError):
            raise no_warehouse(self.server) from None
        if not isinstance(token, str) or not token.isprintable():
            raise no_warehouse(self.server)
        return token

    @contextmanager
    def _classified(self) -> Iterator[None]:
        from databricks.sql import exc

        try:
            yield
        except exc.RequestError as error:
            raise of_status(error.context.get("http-code"), self.server) from None
        except exc.Error as error:
            raise of_statement(str(error)) from None
        except (urllib3.exceptions.HTTPError, OSError):
            raise no_warehouse(self.server) from None


def reach(store: Mapping[str, str]) -> None:
    """Check that a server listens there and, with TLS, is trusted; no warehouse is started. The error names the failed step."""
    url, port = urlsplit(store[options.URIS.name]), int(store[options.PORT.name])
    host = url.hostname or ""
    resolve(host, port)
    try:
        with socket.create_connection((host, port), CONNECT_TIMEOUT_S) as connection:
            context = _context(store)
            if context is not None:
                context.wrap_socket(connection, server_hostname=host).close()
    except OSError as error:
        raise of_network(error, f"{host}:{port}") from None


def _context(store: Mapping[str, str]) -> ssl.SSLContext | None:
    if store[TLS_DISABLED.name] == "TRUE":
        return None
    return ssl.create_default_context(cadata=store.get(TLS_CA.name))
