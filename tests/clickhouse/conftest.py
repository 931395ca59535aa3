"""A store over the session's ClickHouse, and a database of each test's own."""

from __future__ import annotations

import pytest

from harness.clickhouse import PASSWORD, USER, ClickHouseServer
from headrace.connectors.clickhouse.client import identifier
from headrace.connectors.clickhouse.options import PROPERTIES, read_store
from headrace.core.properties import PropertyReader, Scope, of_scope, stored


def store_of(**properties: str) -> dict[str, str]:
    """The checked properties of a store; `uris` and whatever differs from the server's user without TLS."""
    given = {
        "clickhouse.username": USER,
        "clickhouse.password": PASSWORD,
        "tls.disabled": "true",
        **{name.replace("__", "."): value for name, value in properties.items()},
    }
    return read_store(PropertyReader(stored(given), of_scope(PROPERTIES, Scope.STORE), what="a store"))


@pytest.fixture
def store(clickhouse: ClickHouseServer) -> dict[str, str]:
    return store_of(uris=clickhouse.uri)


@pytest.fixture
def database(clickhouse: ClickHouseServer, seed: str) -> str:
    """A separate database for this test, with a name that needs quotes."""
    name = f"Shop `{seed}' \\ \""
    clickhouse.execute(f"CREATE DATABASE {identifier(name)}")
    return name
