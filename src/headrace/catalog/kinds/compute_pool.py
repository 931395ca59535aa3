"""Compute pools."""

from __future__ import annotations

from headrace.catalog.kinds.spec import Definition, KindSpec, Stored
from headrace.catalog.objects import ComputePool, PoolIntent
from headrace.core.sqlstate import SqlState


def _write(pool: ComputePool) -> Definition:
    return {
        "size": pool.size,
        "desired_state": pool.desired_state.value,
        "timeout_min": pool.timeout_min,
        "properties": dict(pool.properties),
    }


def _read(stored: Stored) -> ComputePool:
    return ComputePool(
        name=stored.name,
        size=stored.definition["size"],
        owner=stored.owner,
        created_at=stored.created_at,
        updated_at=stored.updated_at,
        desired_state=PoolIntent(stored.definition["desired_state"]),
        timeout_min=stored.definition["timeout_min"],
        properties=stored.definition["properties"],
        id=stored.id,
    )


COMPUTE_POOL = KindSpec(
    kind="compute_pool",
    value=ComputePool,
    path=lambda pool: (pool.name,),
    write=_write,
    read=_read,
    duplicate=SqlState.DUPLICATE_COMPUTE_POOL,
    missing=SqlState.COMPUTE_POOL_NOT_FOUND,
    upgrades=(
        lambda definition: {**definition, "timeout_min": 0},
        lambda definition: {**definition, "properties": {}},
    ),
)
