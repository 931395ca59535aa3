"""Door that the tests of this folder share: its start takes longer than each of them."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.clients.postgres.served import Served, serving


@pytest.fixture(scope="session")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("door") / "data") as served:
        yield served


@pytest.fixture
def connection(door: Served) -> Iterator[psycopg.Connection]:
    with psycopg.connect(door.address, autocommit=True) as opened:
        yield opened
