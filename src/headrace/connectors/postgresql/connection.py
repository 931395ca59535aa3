"""Connections to a store's databases.

libpq reads missing parameters from the environment of the process (PGSSLMODE, PGOPTIONS, …), so this module sets all relevant ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg

from headrace.connectors.postgresql.options import (
    PASSWORD,
    URIS,
    USERNAME,
    address,
)
from headrace.connectors.tls import TLS_CA, TLS_CLIENT_CERT, TLS_CLIENT_KEY, TLS_DISABLED, TLS_VERIFY

Connection = psycopg.Connection[tuple[Any, ...]]
AsyncConnection = psycopg.AsyncConnection[tuple[Any, ...]]

_CONNECT_TIMEOUT_S = 10
# Values as text have one form, whatever the server's or the user's own settings are.
_SETTINGS = {
    "timezone": "UTC",
    "datestyle": "ISO",
    "intervalstyle": "iso_8601",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "search_path": "pg_catalog",
}


def connect(store: Mapping[str, str], database: str | None = None) -> Connection:
    """Return a connection on which every statement commits, to a database of the store or to that of its 'uris'.

    Raises `psycopg.Error`.
    """
    with _parameters(store, database) as parameters:
        return psycopg.connect(autocommit=True, **parameters)


def connect_replication(store: Mapping[str, str], database: str | None = None) -> Connection:
    """Connect as `connect` does, with the commands of the replication protocol."""
    with _parameters(store, database) as parameters:
        return psycopg.connect(autocommit=True, replication="database", **parameters)


async def connect_async(store: Mapping[str, str], database: str | None = None) -> AsyncConnection:
    """Connect as `connect` does, for an event loop."""
    with _parameters(store, database) as parameters:
        return await psycopg.AsyncConnection.connect(autocommit=True, **parameters)


@contextmanager
def _parameters(store: Mapping[str, str], database: str | None) -> Iterator[dict[str, Any]]:
    place = address(store[URIS.name])
    with _tls(store) as tls:
        yield {
            "host": place.host,
            "port": place.port,
            "dbname": database or place.name,
            "user": store[USERNAME.name],
            "password": store[PASSWORD.name],
            "connect_timeout": _CONNECT_TIMEOUT_S,
            "application_name": "headrace",
            "client_encoding": "UTF8",
            "options": " ".join(f"-c {name}={value}" for name, value in _SETTINGS.items()),
            "gssencmode": "disable",
            "require_auth": "!gss,!sspi",
            "target_session_attrs": "any",
            "keepalives_idle": 30,
            "tcp_user_timeout": 60_000,
            **tls,
        }


@contextmanager
def _tls(store: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield libpq's parameters. It reads certificates from files only, which exist while it connects."""
    if store[TLS_DISABLED.name] == "TRUE":
        yield {"sslmode": "disable"}
        return
    parameters = {
        "sslmode": "verify-full" if store[TLS_VERIFY.name] == "TRUE" else "verify-ca",
        "sslcertmode": "allow" if TLS_CLIENT_CERT.name in store else "disable",
        "sslrootcert": "system",
    }
    with TemporaryDirectory(prefix="headrace-tls-") as folder:
        files = {"sslrootcert": TLS_CA, "sslcert": TLS_CLIENT_CERT, "sslkey": TLS_CLIENT_KEY}
        for parameter, spec in files.items():
            if spec.name in store:
                path = Path(folder, parameter)
                path.touch(mode=0o600)
                path.write_text(store[spec.name])
                parameters[parameter] = str(path)
        yield parameters
