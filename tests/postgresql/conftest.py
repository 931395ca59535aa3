"""A store over the session's PostgreSQL, and a schema of each test's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.patience import until
from harness.postgresql import PASSWORD, USER, PostgresServer
from headrace.connectors.postgresql import replication
from headrace.connectors.postgresql.options import PROPERTIES, read_store
from headrace.core.properties import PropertyReader, Scope, of_scope, stored


def store_of(**properties: str) -> dict[str, str]:
    """The checked properties of a store; `uris` and whatever differs from the server's user without TLS."""
    given = {
        "postgres.username": USER,
        "postgres.password": PASSWORD,
        "tls.disabled": "true",
        **{name.replace("__", "."): value for name, value in properties.items()},
    }
    return read_store(PropertyReader(stored(given), of_scope(PROPERTIES, Scope.STORE), what="property"))


@pytest.fixture
def store(postgresql: PostgresServer) -> dict[str, str]:
    return store_of(uris=postgresql.uri)


@pytest.fixture
def schema(postgresql: PostgresServer, seed: str) -> str:
    """A separate schema for this test, with a name that needs quotes."""
    name = f"Shop {seed}"
    postgresql.execute(f'CREATE SCHEMA "{name}"')
    return name


@pytest.fixture
def slot(postgresql: PostgresServer, seed: str) -> Iterator[str]:
    """The name of a slot, which is dropped afterwards."""
    yield f"s_{seed}"
    active = f"SELECT 1 FROM pg_replication_slots WHERE slot_name = 's_{seed}' AND active"
    until(lambda: not postgresql.execute(active), "nobody reads the slot")
    with postgresql.connect() as connection:
        replication.drop(connection, f"s_{seed}")
