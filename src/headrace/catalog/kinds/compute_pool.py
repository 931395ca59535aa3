"""Compute pools."""

from __future__ import annotations

from headrace.catalog.kinds.spec import KindSpec, Stored
from headrace.catalog.objects import ComputePool, DesiredState
from headrace.core.sqlstate import SqlState


def _read(stored: Stored) -> ComputePool:
    return ComputePool(
        name=stored.name,
        size=stored.definition["size"],
        owner=stored.owner,
        created_at=stored.created_at,
        updated_at=stored.updated_at,
        desired_state=DesiredState(stored.definition["desired_state"]),
        id=stored.id,
    )


COMPUTE_POOL = KindSpec(
    kind="compute_pool",
    value=ComputePool,
    path=lambda pool: (pool.name,),
    write=lambda pool: {"size": pool.size, "desired_state": pool.desired_state.value},
    read=_read,
    duplicate=SqlState.DUPLICATE_COMPUTE_POOL,
    missing=SqlState.COMPUTE_POOL_NOT_FOUND,
)
