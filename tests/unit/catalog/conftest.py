"""Fixtures that run every test of the catalog over both databases: a file, and a separate schema on a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import make_url

from harness.postgresql import PostgresServer
from headrace.catalog.catalog import Catalog

_numbers = count()


@dataclass(frozen=True)
class Place:
    """Location of a catalog."""

    folder: Path
    url: str | None

    def open(self) -> Catalog:
        """The catalog that is kept there."""
        return Catalog.open(self.folder, self.url)

    @property
    def engine_url(self) -> str:
        """The address for SQLAlchemy."""
        if self.url is None:
            return f"sqlite:///{self.folder / 'catalog.db'}"
        return make_url(self.url).set(drivername="postgresql+psycopg").render_as_string(hide_password=False)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with PostgresServer(tmp_path_factory.mktemp("catalog-postgresql"), 16, wal_level="replica") as server:
        yield server


@pytest.fixture
def schema_of(server: PostgresServer) -> Callable[[], str]:
    """Create an empty schema, and return its address."""

    def make() -> str:
        name = f"catalog{next(_numbers)}"
        server.execute(f"CREATE SCHEMA {name}")
        return f"{server.catalog_url()}?options=-csearch_path%3D{name}"

    return make


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    url = None if request.param == "sqlite" else request.getfixturevalue("schema_of")()
    return Place(tmp_path, url)


@pytest.fixture
def catalog(place: Place) -> Iterator[Catalog]:
    opened = place.open()
    yield opened
    opened.close()
