"""A PostgreSQL database as the catalog: one server at a time, outages of the database, and errors without its password."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.patience import until
from harness.postgresql import PostgresServer
from headrace.catalog.catalog import Catalog
from headrace.core.errors import ExternalError, UserError
from headrace.core.sqlstate import SqlState

END_OTHERS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"


def test_two_servers_have_no_catalog_together(schema_of: Callable[[], str], tmp_path: Path) -> None:
    url = schema_of()
    catalog = Catalog.open(tmp_path, url)
    other = Catalog.open(tmp_path / "other", schema_of())
    with pytest.raises(UserError, match="another server is running on this catalog"):
        Catalog.open(tmp_path, url)
    other.close()
    catalog.close()
    Catalog.open(tmp_path, url).close()
    assert not (tmp_path / "catalog.db").exists()
    assert stat.S_IMODE((tmp_path / "catalog.key").stat().st_mode) == 0o600


def test_while_the_database_is_away_writes_are_refused_and_reads_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.catalog.lease.RENEWAL_S", 0.02)
    (tmp_path / "server").mkdir()
    server = PostgresServer(tmp_path / "server", 16, wal_level="replica").start()
    catalog = Catalog.open(tmp_path, server.catalog_url())
    catalog.create_database("before", "sysadmin")
    # It would wait for its clients.
    server.execute(END_OTHERS)
    server.stop()
    for _ in range(2):
        with pytest.raises(ExternalError) as failure:
            catalog.create_database("during", "sysadmin")
        assert failure.value.state is SqlState.REMOTE_UNAVAILABLE
    assert [database.name for database in catalog.databases()] == ["before"]
    assert not catalog.is_readable()
    server.start()
    catalog.create_database("after", "sysadmin")
    assert catalog.is_readable()
    until(lambda: server.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'") != [], server.log)
    with pytest.raises(UserError, match="another server is running on this catalog"):
        Catalog.open(tmp_path / "other", server.catalog_url())
    catalog.close()
    again = Catalog.open(tmp_path, server.catalog_url())
    assert [database.name for database in again.databases()] == ["after", "before"]
    again.close()
    server.stop()


def test_a_catalog_that_another_server_took_meanwhile_is_not_written(
    server: PostgresServer, schema_of: Callable[[], str], tmp_path: Path
) -> None:
    url = schema_of()
    catalog = Catalog.open(tmp_path, url)
    server.execute(END_OTHERS)
    other = Catalog.open(tmp_path, url)
    other.create_database("theirs", "sysadmin")
    other.close()
    # What this server has in memory is of an earlier epoch.
    with pytest.raises(ExternalError, match="another server writes the catalog"):
        catalog.create_database("ours", "sysadmin")
    catalog.close()
    again = Catalog.open(tmp_path, url)
    assert [database.name for database in again.databases()] == ["theirs"]
    again.close()


def test_a_missing_server_is_reported_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(ExternalError) as failure:
        Catalog.open(tmp_path, "postgresql://u:hunter2@127.0.0.1:1/d")
    assert failure.value.state is SqlState.REMOTE_UNAVAILABLE
    assert "hunter2" not in failure.value.text()
