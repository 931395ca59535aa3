"""COMPUTE_POOL: create, update, start, stop, drop, describe, list. Source: dialect section 7.6."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

from headrace.catalog.access import Privilege
from headrace.catalog.objects import ComputePool, PoolIntent, Query
from headrace.catalog.policy import Requirement
from headrace.connectors.egress import Egress
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.names import printed
from headrace.core.properties import PropertyReader, PropertySpec, Scope, choice, number
from headrace.core.resultset import ResultSet
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.engine.kubernetes.api import KubernetesApi
from headrace.engine.pool_properties import (
    CHECKPOINTS,
    MASTER,
    PLACE,
    check_bucket,
    check_master,
    is_kubernetes,
    read_place,
)
from headrace.engine.sizes import SIZES, memory_mb, pool_resources, refuse_beyond_memory
from headrace.planner.physical import SparkPlan
from headrace.planner.placement import placed_on
from headrace.planner.target import Target
from headrace.planner.upgrades import UnreadablePlanError
from headrace.sql.statements.compute_pool import (
    CreateComputePool,
    DescribeComputePool,
    DropComputePool,
    StartComputePool,
    StopComputePool,
    UpdateComputePool,
)
from headrace.statements.base import Execution, Outcome, changed, ddl, handles, now, on_organization
from headrace.statements.dropping import PATIENCE_MS, POLL_S, drop, ownership
from headrace.statements.listing import COMPUTE_POOLS

MINUTES_MAX = 7 * 24 * 60
SIZE = PropertySpec(
    "compute_pool.size",
    choice(*SIZES),
    Scope.POOL,
    "`small`, `medium` or `large`: one, two or four times the driver's heap and concurrent tasks that the "
    "operator configures",
    default="`small`",
)
TIMEOUT = PropertySpec(
    "compute_pool.timeout_min",
    number(0, MINUTES_MAX, f"minutes, 0 to {MINUTES_MAX}"),
    Scope.POOL,
    "minutes without any query after which its process stops until it is needed again; 0 for never",
    default="0",
)
PROPERTIES = (SIZE, TIMEOUT, *PLACE)
_WHAT = "a compute pool"


def _owned(
    statement: UpdateComputePool | StartComputePool | StopComputePool, run: Execution
) -> Iterator[Requirement]:
    return ownership(run.named_compute_pool(statement.name), run)


@handles(CreateComputePool, requires=on_organization(Privilege.CREATE_COMPUTE_POOL), checked=True)
async def create_compute_pool(statement: CreateComputePool, run: Execution) -> Outcome:
    """Create a compute pool and start it."""
    name = statement.name.name
    existing = run.catalog.compute_pool(name)
    if existing is not None and not (statement.if_not_exists and run.knows(existing)):
        raise UserError(
            SqlState.DUPLICATE_COMPUTE_POOL,
            f"the compute pool {name!r} already exists",
            hint="Choose another name, or change it with UPDATE COMPUTE_POOL.",
            span=statement.name.span,
        )
    if existing is None:
        reader = PropertyReader(statement.properties.entries, PROPERTIES, what=_WHAT)
        size, moment = reader.take(SIZE) or "small", now()
        pool = ComputePool(
            name,
            size,
            run.role,
            moment,
            moment,
            timeout_min=reader.take(TIMEOUT) or 0,
            properties=read_place(reader, run.services.settings),
        )
        reader.finish()
        await asyncio.to_thread(_check_place, pool, reader, run)
        await asyncio.to_thread(_written, pool, statement, run)
        _wake(run)
    return Outcome(_answer(name, "CREATE", "already exists" if existing else "was created"))


@handles(UpdateComputePool, requires=_owned, checked=True)
async def update_compute_pool(statement: UpdateComputePool, run: Execution) -> Outcome:
    """Change properties: the timeout changes at once, the master and the folder of checkpoints only in a stopped pool, all else at the next
    start of the pool's process."""
    pool = run.named_compute_pool(statement.name)
    current = {SIZE.name: pool.size, TIMEOUT.name: str(pool.timeout_min), **pool.properties}
    reader = changed(statement.properties, current, PROPERTIES, kind="", what=_WHAT)
    updated = replace(
        pool,
        size=reader.take(SIZE) or "small",
        timeout_min=reader.take(TIMEOUT) or 0,
        properties=read_place(reader, run.services.settings),
        updated_at=now(),
    )
    reader.finish()
    before, after = (pool_resources(each, run.services.settings) for each in (pool, updated))
    moves = before.place.checkpoints != after.place.checkpoints
    if moves or (
        before.place.master != after.place.master and MASTER.name in {*pool.properties, *updated.properties}
    ):
        _refuse_running(pool, statement, run)
    await asyncio.to_thread(_check_place, updated, reader, run)
    queries = [query for query in run.catalog.queries() if query.compute_pool == pool.name]
    running = [query for query in queries if query.should_run]
    await asyncio.to_thread(_refuse_unplaced, running, after.target, statement)
    if moves and not run.checking:
        await run.services.engine.copy_checkpoints(queries, pool, updated)
    await asyncio.to_thread(_written, updated, statement, run)
    if moves and not run.checking:
        await run.services.engine.remove_checkpoints(queries, pool)
    _wake(run)
    runs = not run.checking and run.services.engine.has_process(pool.name)
    later = "; STOP and START it to apply the changes" if runs and before != after else ""
    return Outcome(_answer(pool.name, "UPDATE", f"was updated{later}"))


def _refuse_running(pool: ComputePool, statement: UpdateComputePool, run: Execution) -> None:
    """Raise UserError 3E004 unless the pool is stopped and its process has ended: a move needs its checkpoints at rest."""
    is_stopped = run.checking or not run.services.engine.has_process(pool.name)
    if pool.desired_state is not PoolIntent.STOPPED or not is_stopped:
        raise UserError(
            SqlState.COMPUTE_POOL_NOT_READY,
            f"the compute pool {pool.name!r} runs: its master and the folder of its checkpoints can be changed when it is stopped",
            hint=f"STOP COMPUTE_POOL {printed(pool.name)}; UPDATE it, and START it: its queries continue from their checkpoints.",
            span=statement.name.span,
        )


def _refuse_unplaced(queries: Iterable[Query], target: Target, statement: UpdateComputePool) -> None:
    """Raise UserError 0A000 for a query of the pool that the target does not support."""
    for query in queries:
        try:
            placed_on(SparkPlan.from_json(query.plan), target)
        except UnreadablePlanError:
            continue
        except UserError as error:
            message = f"the pool's query {query.name or query.id}: {error.message}"
            raise UserError(error.state, message, hint=error.hint, span=statement.name.span) from None


def _check_place(pool: ComputePool, reader: PropertyReader, run: Execution) -> None:
    """Raise UserError 3D008 or ExternalError 57015 if the pool's own master is not allowed or does not answer, or if its bucket cannot keep
    checkpoints. A check asks nobody."""
    settings, place = run.services.settings, pool_resources(pool, run.services.settings).place
    checked: list[tuple[PropertySpec[str], Callable[[], None]]] = []
    if (master := pool.properties.get(MASTER.name)) is not None:
        checked.append((MASTER, partial(_check_master, master, settings)))
    if place.checkpoints is not None and place.is_remote:
        checked.append((CHECKPOINTS, partial(check_bucket, place.checkpoints, settings)))
    for spec, check in () if run.checking else checked:
        try:
            check()
        except HeadraceError as error:
            error.span = reader.span(spec)
            raise


def _check_master(master: str, settings: Settings) -> None:
    if is_kubernetes(master):
        KubernetesApi(master, settings).check()
    else:
        check_master(master, Egress(settings.egress_allowed))


@handles(StartComputePool, requires=_owned, checked=True)
async def start_compute_pool(statement: StartComputePool, run: Execution) -> Outcome:
    """Answers at once; the pool's queries start when its process is ready. Starting a running pool has no effect."""
    pool = run.named_compute_pool(statement.name)
    if pool.desired_state is not PoolIntent.RUNNING:
        started = replace(pool, desired_state=PoolIntent.RUNNING, updated_at=now())
        await asyncio.to_thread(_written, started, statement, run)
    if not run.checking:
        run.services.engine.rouse_pool(pool.name)
    return Outcome(_answer(pool.name, "START", "is being started"))


@handles(StopComputePool, requires=_owned, checked=True)
async def stop_compute_pool(statement: StopComputePool, run: Execution) -> Outcome:
    """Returns when the pool's process has ended. Its queries keep their desired state, and continue from their checkpoints at START."""
    pool = run.named_compute_pool(statement.name)
    if pool.desired_state is not PoolIntent.STOPPED:
        stopped = replace(pool, desired_state=PoolIntent.STOPPED, updated_at=now())
        await asyncio.to_thread(run.catalog.update_compute_pool, stopped)
    _wake(run)
    await _ended(pool, run)
    return Outcome(_answer(pool.name, "STOP", "was stopped"))


@handles(
    DropComputePool,
    requires=lambda statement, run: ownership(
        run.named_compute_pool(statement.name), run, cascade=statement.cascade
    ),
    checked=True,
)
async def drop_compute_pool(statement: DropComputePool, run: Execution) -> Outcome:
    """Drop a pool. Refused with 2BP01 while a query of it is not terminated; CASCADE terminates them."""
    pool = run.named_compute_pool(statement.name)
    suffix = await drop(pool, run, cascade=statement.cascade, span=statement.name.span)
    _wake(run)
    await _ended(pool, run)
    context = run.with_context(compute_pool=None) if run.context.compute_pool == pool.name else None
    return Outcome(_answer(pool.name, "DROP", f"was dropped{suffix}"), context)


@handles(
    DescribeComputePool,
    requires=lambda statement, run: [Requirement(Privilege.USAGE, run.named_compute_pool(statement.name))],
)
async def describe_compute_pool(statement: DescribeComputePool, run: Execution) -> Outcome:
    """Return one row of the list."""
    return Outcome(await COMPUTE_POOLS.rows(run, name=run.named_compute_pool(statement.name).name))


def _written(
    pool: ComputePool, statement: CreateComputePool | UpdateComputePool | StartComputePool, run: Execution
) -> None:
    """Create or change a pool. Raises UserError 53000 if the pool is to run and exceeds the capacity that other pools leave."""
    with run.catalog.transaction():
        others = run.catalog.compute_pools()
        if pool.desired_state is PoolIntent.RUNNING:
            try:
                refuse_beyond_memory(pool, others, run.services.settings, memory_mb())
            except UserError as error:
                error.span = statement.name.span
                raise
        if any(other.id == pool.id for other in others):
            run.catalog.update_compute_pool(pool)
        else:
            run.catalog.create_compute_pool(pool)


def _wake(run: Execution) -> None:
    """Wake the supervisor, except in a check, which changes no process."""
    if not run.checking:
        run.services.engine.wake()


async def _ended(pool: ComputePool, run: Execution) -> None:
    """Return when the pool's process has ended, or the pool is to run again. Raises ExternalError 57014 after a time-out."""
    until = time.monotonic() + (run.services.settings.stop_timeout_ms + PATIENCE_MS) / 1000
    while not run.checking and run.services.engine.has_process(pool.name):
        current = run.catalog.compute_pool(pool.name)
        if current is not None and current.desired_state is PoolIntent.RUNNING:
            return
        if time.monotonic() > until:
            message = f"the process of the compute pool {pool.name!r} was asked to stop, and is still running"
            raise ExternalError(SqlState.TIMEOUT, message, hint="LIST COMPUTE_POOLS shows its state.")
        await asyncio.sleep(POLL_S)


def _answer(name: str, command: str, done: str) -> ResultSet:
    return ddl("compute_pool", name, command, f"compute pool {name} {done}", [name])
