"""The drivers of pools in the catalog: each server that commands one has a later epoch than the server before."""

from __future__ import annotations

import datetime

import pytest

from headrace.catalog.catalog import Catalog
from headrace.catalog.objects import ComputePool
from headrace.catalog.pool_drivers import PoolDriver
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


def test_a_dropped_pool_has_no_driver(catalog: Catalog, pool: ComputePool) -> None:
    catalog.pool_drivers.claim(pool.id, "here", "host-a", 95)
    catalog.drop(pool)
    assert catalog.pool_drivers.all() == {}
    with pytest.raises(UserError) as refused:
        catalog.pool_drivers.claim(pool.id, "here", "host-a", 95)
    assert refused.value.state is SqlState.COMPUTE_POOL_NOT_FOUND
