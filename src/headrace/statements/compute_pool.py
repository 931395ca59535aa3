"""COMPUTE_POOL: list and describe."""

from __future__ import annotations

from headrace.catalog.access import Privilege
from headrace.catalog.objects import ComputePool
from headrace.catalog.policy import Requirement
from headrace.core.resultset import result
from headrace.core.types import BIGINT, TIMESTAMP, VARCHAR
from headrace.sql.statements.compute_pool import DescribeComputePool, ListComputePools
from headrace.statements.base import Execution, Outcome, handles, nothing

_COLUMNS = [
    *((title, VARCHAR) for title in ("Name", "Size", "IntendedState", "ActualState", "ErrorMessages")),
    ("Timeout", BIGINT),
    ("Owner", VARCHAR),
    ("CreatedAt", TIMESTAMP),
    ("UpdatedAt", TIMESTAMP),
]


@handles(ListComputePools, requires=nothing)
async def list_compute_pools(_statement: ListComputePools, run: Execution) -> Outcome:
    return Outcome(result(_COLUMNS, [_row(pool, run) for pool in run.visible(run.catalog.compute_pools())]))


@handles(
    DescribeComputePool,
    requires=lambda statement, run: [Requirement(Privilege.USAGE, run.named_compute_pool(statement.name))],
)
async def describe_compute_pool(statement: DescribeComputePool, run: Execution) -> Outcome:
    pool = run.named_compute_pool(statement.name)
    return Outcome(result(_COLUMNS, [_row(pool, run)]))


def _row(pool: ComputePool, run: Execution) -> tuple[object, ...]:
    state, message = run.services.engine.pool_state(pool.name)
    return (
        pool.name,
        pool.size,
        pool.desired_state.value,
        state,
        message,
        0,
        pool.owner,
        pool.created_at,
        pool.updated_at,
    )
