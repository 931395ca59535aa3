"""A store over the session's PostgreSQL, and a schema of each test's own."""

from __future__ import annotations

import pytest

from headrace.connectors.postgresql.options import PROPERTIES, read_store
from headrace.core.properties import PropertyReader, Scope, of_scope, stored
from tests.harness.postgresql import PASSWORD, USER, PostgresServer


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
    """A schema of this test's own, whose name has to be quoted."""
    name = f"Shop {seed}"
    postgresql.execute(f'CREATE SCHEMA "{name}"')
    return name
