"""The lease of a catalog in PostgreSQL: one server leads, another takes over, and a leader that comes back writes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url

from harness.patience import until
from harness.postgresql import PostgresServer
from headrace.catalog.catalog import Catalog
from headrace.catalog.keys import GivenKeys
from headrace.catalog.lease import DEADLINE, HOLD_S, Leader, Lease
from headrace.core.errors import ExternalError
from headrace.core.sqlstate import SqlState

KEYS = GivenKeys("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")


class Servers:
    """Servers of one catalog. Their leases are renewed only by `keep`, as if the processes were paused."""

    def __init__(self, server: PostgresServer, url: str, folder: Path) -> None:
        self.database = server
        self.url = url
        self.schema = str(make_url(url).query["options"]).rpartition("=")[2]
        self._folder = folder
        self._opened: list[Catalog | Lease] = []

    def lease(self, name: str) -> Lease:
        """A lease of a server of that name, not claimed."""
        lease = Lease(self.url, address=f"http://{name}:8080", file=self._folder / name)
        self._opened.append(lease)
        return lease

    def catalog(self, lease: Lease) -> Catalog:
        """The catalog of a server that leads."""
        catalog = Catalog.open(self._folder / "data", self.url, KEYS, lease)
        self._opened.append(catalog)
        return catalog

    def expire(self) -> None:
        """Let the time of a lease pass without a renewal."""
        self.database.execute(
            f"UPDATE {self.schema}.leadership SET renewed_at = renewed_at - interval '1 minute'"
        )

    def cut(self, lease: Lease) -> None:
        """Let the database close the connection of a lease, as it does when its client dies."""
        assert lease._connection is not None
        dbapi = lease._connection.connection.dbapi_connection
        assert dbapi is not None
        self.database.execute(f"SELECT pg_terminate_backend({dbapi.info.backend_pid}, 5000)")

    def close(self) -> None:
        for opened in reversed(self._opened):
            opened.close() if isinstance(opened, Catalog) else opened.release()


@pytest.fixture
def servers(
    server: PostgresServer, schema_of: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Servers]:
    monkeypatch.setattr("headrace.catalog.lease.RENEWAL_S", 0.02)
    servers = Servers(server, schema_of(), tmp_path)
    yield servers
    servers.close()


def test_one_server_leads_and_the_others_know_its_address(servers: Servers) -> None:
    first, second = servers.lease("a"), servers.lease("b")
    assert first.try_claim()
    assert not second.try_claim()
    assert second.leader == Leader(1, "http://a:8080")


def test_a_server_that_ends_in_order_is_followed_at_once(servers: Servers) -> None:
    first, second = servers.lease("a"), servers.lease("b")
    assert first.try_claim()
    servers.catalog(first).close()
    assert second.try_claim()
    assert second.epoch == 2
    servers.catalog(second).create_database("d", "sysadmin")


def test_after_a_killed_leader_the_others_wait_for_the_end_of_its_lease(servers: Servers) -> None:
    # Its drivers may live until then.
    first, second, third = servers.lease("a"), servers.lease("b"), servers.lease("c")
    assert first.try_claim()
    servers.cut(first)
    assert not second.try_claim()
    servers.expire()
    assert second.try_claim()
    assert not third.try_claim()
    assert third.leader == Leader(2, "http://b:8080")


def test_a_paused_leader_that_comes_back_writes_nothing(servers: Servers) -> None:
    first, second = servers.lease("a"), servers.lease("b")
    assert first.try_claim()
    theirs = servers.catalog(first)
    theirs.create_database("before", "sysadmin")
    servers.expire()
    # It holds its lock: the first look ends its connection.
    until(second.try_claim, "the other server to lead")
    ours = servers.catalog(second)
    ours.create_database("during", "sysadmin")
    for _ in range(2):
        with pytest.raises(ExternalError) as failure:
            theirs.create_database("after", "sysadmin")
        assert failure.value.state is SqlState.CANNOT_CONNECT_NOW
        assert failure.value.hint == "Connect to the leader: http://b:8080"
    assert first.is_lost
    assert not theirs.is_readable()
    assert [database.name for database in ours.databases()] == ["before", "during"]
    assert servers.database.execute(f"SELECT name FROM {servers.schema}.objects WHERE name = 'after'") == []


def test_a_leader_that_was_paused_within_a_transaction_does_not_finish_it(servers: Servers) -> None:
    first, second = servers.lease("a"), servers.lease("b")
    assert first.try_claim()
    theirs = servers.catalog(first)

    def paused() -> None:
        with theirs.transaction():
            theirs.create_database("same", "sysadmin")
            servers.expire()
            until(second.try_claim, "the other server to lead")
            servers.catalog(second).create_database("same", "sysadmin")

    with pytest.raises(ExternalError) as failure:
        paused()
    assert failure.value.state is SqlState.REMOTE_UNAVAILABLE
    with pytest.raises(ExternalError, match="another server writes the catalog"):
        theirs.create_database("after", "sysadmin")
    assert servers.database.execute(f"SELECT name FROM {servers.schema}.objects WHERE kind = 'database'") == [
        ("same",)
    ]


def test_a_renewal_notices_that_another_server_leads(servers: Servers) -> None:
    first, second = servers.lease("a"), servers.lease("b")
    assert first.try_claim()
    servers.expire()
    until(second.try_claim, "the other server to lead")
    first.keep()
    until(lambda: first.is_lost, "the renewal")
    assert first.leader == Leader(2, "http://b:8080")
    assert not second.is_lost


def test_a_leader_whose_connection_is_cut_goes_on_with_its_epoch(servers: Servers) -> None:
    first, second = servers.lease("a"), servers.lease("b")
    assert first.try_claim()
    catalog = servers.catalog(first)
    before = first.deadline
    first.keep()
    servers.cut(first)
    until(lambda: first.deadline > before, "a renewal")
    assert not second.try_claim()
    catalog.create_database("d", "sysadmin")
    assert first.epoch == 1


def test_the_file_of_a_lease_has_its_deadline(servers: Servers, tmp_path: Path) -> None:
    lease = servers.lease("a")
    before = time.monotonic()
    assert lease.try_claim()
    assert before + HOLD_S <= lease.deadline <= time.monotonic() + HOLD_S
    assert DEADLINE.unpack((tmp_path / "a").read_bytes()) == (lease.deadline,)
