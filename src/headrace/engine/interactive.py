"""Interactive queries, which run while a client reads their rows, and leave nothing behind."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from headrace.catalog.catalog import Catalog
from headrace.core.errors import ErrorDomain, ExternalError, HeadraceError, InternalError, UserError
from headrace.core.resultset import LiveRows, ResultColumn
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.core.wording import counted
from headrace.engine.checkpoints import Checkpoints
from headrace.engine.functions.runtime import FunctionRuntime
from headrace.engine.pool_properties import login
from headrace.engine.pools import Connection, DriverProcess
from headrace.engine.ports import Pools, reads_buckets, registries_of, stores_of
from headrace.engine.protocol import Ack, QueryEnded, Rows, StartQuery, StopQuery
from headrace.engine.results import ResultChannel
from headrace.planner.physical import SparkPlan, WriteResults

READY_TIMEOUT_S = 300.0
"""A driver starts in 15 s on an idle core and in two minutes on a quarter of one: a reader rather waits than asks again."""
_GENERATION = 1


@dataclass
class _Run:
    user: str
    channel: ResultChannel
    driver: DriverProcess
    starting: asyncio.Task[None] | None = None
    sent: bool = False


class InteractiveQueries:
    """The interactive queries of one server: at most `settings.interactive_queries_max` at a time, of one user half as many."""

    def __init__(
        self,
        catalog: Catalog,
        settings: Settings,
        pools: Pools,
        checkpoints: Checkpoints,
        functions: FunctionRuntime,
    ) -> None:
        self._catalog = catalog
        self._functions = functions
        self._settings = settings
        self._pools = pools
        self._checkpoints = checkpoints
        self._runs: dict[str, _Run] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def run(
        self, plan: SparkPlan, columns: tuple[ResultColumn, ...], *, pool: str, user: str
    ) -> ResultChannel:
        """Start a query as soon as its pool is ready. Raises UserError 53000 when too many run, 3D006 for a missing store."""
        self._refuse_too_many(user)
        target = self._pools.target(pool)
        message = StartQuery(
            query_id=str(uuid.uuid4()),
            generation=_GENERATION,
            plan=plan,
            checkpoint="",
            stores=stores_of(plan, self._catalog),
            registries=registries_of(plan, self._catalog),
            functions=self._functions.launches(plan.functions, f"user {user}", target),
            files=self._functions.files(plan.functions, target),
            bucket=login(self._settings).variables() if reads_buckets(plan) else {},
            checkpoint_interval_ms=self._settings.checkpoint_interval_ms,
            planning_timeout_ms=self._settings.planning_timeout_ms,
        )
        checkpoint = self._checkpoints.temporary(message.query_id, pool).uri
        message = message.model_copy(update={"checkpoint": checkpoint})
        channel = ResultChannel(
            message.query_id,
            columns,
            self._settings.result_channel_rows_max,
            changelog_key=_changelog_key(plan),
        )
        run = self._runs[message.query_id] = _Run(user, channel, self._pools.ensure(pool))
        run.starting = self._spawn(self._start(run, message))
        channel.on_close(lambda: self._closed(message.query_id))
        return channel

    def _refuse_too_many(self, user: str) -> None:
        most = self._settings.interactive_queries_max
        if len(self._runs) >= most:
            raise UserError(
                SqlState.CONFIGURATION_LIMIT_EXCEEDED,
                f"{counted(len(self._runs), 'interactive query is', 'interactive queries are')} running, which is the limit",
                hint="End one of them, or raise HEADRACE_INTERACTIVE_QUERIES_MAX.",
            )
        # Half, so that no user can keep all others out.
        most = max(2, most // 2)
        mine = sum(run.user == user for run in self._runs.values())
        if mine >= most:
            raise UserError(
                SqlState.CONFIGURATION_LIMIT_EXCEEDED,
                f"the user {user!r} runs {mine} interactive queries, which is the limit of one user",
                hint=(
                    "End one of them, or raise HEADRACE_INTERACTIVE_QUERIES_MAX: one user may use half of it."
                ),
            )

    def knows(self, query_id: str) -> bool:
        """True if this is one of ours."""
        return query_id in self._runs

    def query_started(self, query_id: str) -> None:
        """Note that the query runs."""
        if run := self._runs.get(query_id):
            run.channel.mark_started()

    def rows(self, message: Rows, payload: bytes, connection: Connection) -> None:
        """Pass rows on; the driver has its answer once there is room for more."""
        self._spawn(self._deliver(message, payload, connection))

    def query_ended(self, message: QueryEnded) -> None:
        """Finish the result: all rows were sent, or there was an error."""
        self._forget(message.query_id, _error(message))

    def driver_ended(self, driver: DriverProcess, reason: str) -> None:
        """End the queries that ran in a driver; those that wait for the pool go on waiting, unless it cannot start."""
        if driver.refused:
            self.driver_stopped(driver, reason)
            return
        for query_id in [key for key, run in self._runs.items() if run.driver is driver and run.sent]:
            self._forget(query_id, _pool_error(driver.pool, reason))

    def uses(self, driver: DriverProcess) -> bool:
        """True if any runs there, or waits for it."""
        return any(run.driver is driver for run in self._runs.values())

    def driver_stopped(self, driver: DriverProcess, reason: str) -> None:
        """End the queries that run in a driver, and those that wait for it."""
        for query_id, run in list(self._runs.items()):
            if run.driver is driver:
                if run.starting is not None:
                    run.starting.cancel()
                self._forget(query_id, _pool_error(driver.pool, reason))

    async def stop(self) -> None:
        """End them all."""
        for query_id, run in list(self._runs.items()):
            if run.starting is not None:
                run.starting.cancel()
            self._forget(query_id, UserError(SqlState.CANCELLED, "the server is being stopped"))
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _start(self, run: _Run, message: StartQuery) -> None:
        try:
            async with asyncio.timeout(0 if run.driver.refused else READY_TIMEOUT_S):
                await run.driver.wait_ready()
        except TimeoutError:
            why = run.driver.message or f"it is {run.driver.state.value}"
            self._forget(message.query_id, _pool_error(run.driver.pool, why))
            return
        run.sent = run.driver.send(message)
        if not run.sent:
            self._forget(message.query_id, _pool_error(run.driver.pool, "its driver has just ended"))

    async def _deliver(self, message: Rows, payload: bytes, connection: Connection) -> None:
        run = self._runs.get(message.query_id)
        try:
            delivered = run is not None and await run.channel.put(LiveRows(**json.loads(payload)))
        except (ValueError, TypeError):
            connection.send(Ack(sequence=message.sequence, error="the rows cannot be read"))
            return
        connection.send(Ack(sequence=message.sequence, stop=not delivered))

    def _closed(self, query_id: str) -> None:
        run = self._runs.get(query_id)
        if run is None:
            return
        if run.sent:
            # It keeps its place among the running ones until the driver says that it is over.
            run.driver.send(StopQuery(query_id=query_id))
        else:
            if run.starting is not None:
                run.starting.cancel()
            self._forget(query_id, None)

    def _forget(self, query_id: str, error: HeadraceError | None) -> None:
        run = self._runs.pop(query_id, None)
        if run is None:
            return
        run.channel.finish(error)
        if run.sent:
            self._spawn(asyncio.to_thread(self._checkpoints.remove_temporary, query_id, run.driver.pool))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _changelog_key(plan: SparkPlan) -> tuple[str, ...] | None:
    sink = plan.sink
    changes = sink.changes if isinstance(sink, WriteResults) else None
    return tuple(changes.primary_key) if changes is not None else None


def _pool_error(pool: str, reason: str) -> ExternalError:
    return ExternalError(
        SqlState.COMPUTE_POOL_NOT_READY,
        f"the compute pool {pool!r} cannot run the query: {reason}",
        hint=f"DESCRIBE COMPUTE_POOL {pool}; shows its state. Try again when it is running.",
    )


def _error(message: QueryEnded) -> HeadraceError | None:
    """Return the error that ended a query, as it was raised in the driver."""
    if message.error is None:
        return None
    states = {state.value: state for state in SqlState}
    state = states.get(message.sqlstate or "", SqlState.INTERNAL_ERROR)
    domain = ErrorDomain(message.domain or "internal")
    if domain is ErrorDomain.USER:
        return UserError(state, message.error, hint=message.hint)
    if domain is ErrorDomain.EXTERNAL:
        return ExternalError(state, message.error, hint=message.hint)
    return InternalError(message.error, hint=message.hint)
