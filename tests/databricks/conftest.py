"""A store over the session's workspace, and a schema of each test's own."""

from __future__ import annotations

import pytest

from harness.databricks import CATALOG, Workspace
from headrace.connectors.databricks.options import PROPERTIES, read_store
from headrace.core.properties import PropertyReader, Scope, of_scope, stored


def store_of(workspace: Workspace, **others: str | None) -> dict[str, str]:
    """The checked properties of a store; `others` differ from what is right, None being left out."""
    given = workspace.properties(**others)
    return read_store(PropertyReader(stored(given), of_scope(PROPERTIES, Scope.STORE), what="a store"))


@pytest.fixture
def store(databricks: Workspace) -> dict[str, str]:
    return store_of(databricks)


@pytest.fixture
def schema(databricks: Workspace, seed: str) -> str:
    """A schema of this test's own."""
    databricks.execute(f"CREATE SCHEMA {CATALOG}.s{seed}")
    return f"s{seed}"
