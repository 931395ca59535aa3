"""The drivers of pools in the catalog: each server that commands one has a later epoch than the server before."""

from __future__ import annotations

import datetime

import pytest
from sqlalchemy import select, update

from headrace.catalog import tables
from headrace.catalog.catalog import Catalog
from headrace.catalog.objects import ComputePool
from headrace.catalog.pool_drivers import PoolDriver
from headrace.catalog.secrets import SecretBox
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from tests.unit.catalog.conftest import Place

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


@pytest.fixture
def pool(catalog: Catalog) -> ComputePool:
    pool = ComputePool("far", "small", "sysadmin", NOW, NOW)
    catalog.create_compute_pool(pool)
    return pool


def test_epochs_grow_with_each_server(catalog: Catalog, place: Place, pool: ComputePool) -> None:
    drivers = catalog.pool_drivers
    assert drivers.all() == {}
    assert drivers.claim(pool.id, "here", "host-a", 95) == 1
    assert drivers.claim(pool.id, "there", "host-b", 35) == 2
    # Of the server before, which has another one by now.
    drivers.release(pool.id, 1)
    assert drivers.all() == {pool.id: PoolDriver(2, "there", "host-b", 35)}
    drivers.release(pool.id, 2)
    assert drivers.all()[pool.id].outlives_s == 0
    # The catalog is an older copy.
    assert drivers.claim(pool.id, "here", "host-a", 95, after=7) == 8
    catalog.close()
    reopened = place.open()
    try:
        assert reopened.pool_drivers.all() == {pool.id: PoolDriver(8, "here", "host-a", 95)}
        assert reopened.pool_drivers.claim(pool.id, "here", "host-a", 95) == 9
    finally:
        reopened.close()


def test_what_takes_a_driver_over_is_encrypted_until_it_ends(
    catalog: Catalog, place: Place, pool: ComputePool
) -> None:
    drivers = catalog.pool_drivers
    epoch = drivers.claim(pool.id, "kubernetes", "host-a", 0)
    drivers.keep(pool.id, epoch, "the token")
    # Of a server before.
    drivers.keep(pool.id, epoch - 1, "an earlier token")
    assert drivers.kept() == {pool.id: (epoch, "the token")}
    [sealed] = [row["sealed"] for row in catalog._storage.rows(select(tables.pool_drivers))]
    assert b"token" not in sealed
    catalog.rotate_key()
    assert drivers.kept() == {pool.id: (epoch, "the token")}
    catalog.close()
    reopened = place.open()
    try:
        assert reopened.pool_drivers.kept() == {pool.id: (epoch, "the token")}
        # The next server does not lose it by its claim: it may die before it has taken the driver over.
        later = reopened.pool_drivers.claim(pool.id, "kubernetes", "host-b", 0)
        reopened.pool_drivers.release(pool.id, epoch)
        assert reopened.pool_drivers.kept() == {pool.id: (later, "the token")}
        reopened.pool_drivers.release(pool.id, later)
        assert reopened.pool_drivers.kept() == {}
    finally:
        reopened.close()


def test_a_record_that_no_key_opens_is_left_out(catalog: Catalog, pool: ComputePool) -> None:
    drivers = catalog.pool_drivers
    drivers.keep(pool.id, drivers.claim(pool.id, "kubernetes", "host-a", 0), "the token")
    foreign = SecretBox([bytes(32)]).seal(b"another", pool.id)
    with catalog.transaction():
        catalog._storage.execute(update(tables.pool_drivers).values(sealed=foreign))
    assert drivers.kept() == {}
    catalog.rotate_key()
    assert drivers.kept() == {}


def test_a_dropped_pool_has_no_driver(catalog: Catalog, pool: ComputePool) -> None:
    catalog.pool_drivers.claim(pool.id, "here", "host-a", 95)
    catalog.drop(pool)
    assert catalog.pool_drivers.all() == {}
    with pytest.raises(UserError) as refused:
        catalog.pool_drivers.claim(pool.id, "here", "host-a", 95)
    assert refused.value.state is SqlState.COMPUTE_POOL_NOT_FOUND
