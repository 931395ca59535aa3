"""Fixtures: one stand-in for the session, and a store of it."""

from __future__ import annotations

import pytest

from harness.kinesis import ACCESS_KEY, SECRET_KEY, KinesisClient, StandIn
from headrace.connectors.kinesis.options import PROPERTIES, read_store
from headrace.core.properties import PropertyReader, Scope, of_scope, stored

Store = dict[str, str]


def store_of(server: StandIn, **more: str) -> Store:
    """Checked properties of a store."""
    keys = {"kinesis.access_key_id": ACCESS_KEY, "kinesis.secret_access_key": SECRET_KEY}
    return checked({"uris": server.uri, "tls.disabled": "TRUE", **keys, **more})


def checked(properties: Store) -> Store:
    """Return properties as CREATE STORE checks them."""
    reader = PropertyReader(stored(properties), of_scope(PROPERTIES, Scope.STORE), what="a store")
    texts = read_store(reader)
    reader.finish()
    return texts


@pytest.fixture
def store(kinesis: KinesisClient) -> Store:
    return store_of(kinesis.server)
