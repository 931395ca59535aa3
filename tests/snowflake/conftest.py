"""A store over the session's stand-in for Snowflake, and a schema of each test's own."""

from __future__ import annotations

import pytest

from harness.snowflake import PASSWORD, USER, SnowflakeServer
from headrace.connectors.snowflake.options import PROPERTIES, read_store
from headrace.core.properties import PropertyReader, Scope, of_scope, stored


def store_of(**properties: str) -> dict[str, str]:
    """The checked properties of a store; `uris` and whatever differs from the user without TLS."""
    given = {
        "snowflake.username": USER,
        "tls.disabled": "true",
        **{name.replace("__", "."): value for name, value in properties.items()},
    }
    if not {"snowflake.token", "snowflake.client.key_file"} & given.keys():
        given.setdefault("snowflake.password", PASSWORD)
    return read_store(PropertyReader(stored(given), of_scope(PROPERTIES, Scope.STORE), what="a store"))


@pytest.fixture
def store(snowflake: SnowflakeServer) -> dict[str, str]:
    return store_of(uris=snowflake.uri)


@pytest.fixture
def schema(snowflake: SnowflakeServer, seed: str) -> tuple[str, str]:
    """A database and a schema of this test's own."""
    database, schema = f"SHOP_{seed.upper()}", f"TILL_{seed.upper()}"
    snowflake.execute(f"CREATE DATABASE {database}", f"CREATE SCHEMA {database}.{schema}")
    return database, schema
