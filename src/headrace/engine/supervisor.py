"""Continuous queries and their pools: reconciles the drivers with the desired state in the catalog, again and again.

Level-triggered: each pass compares the catalog with what is known to run and does the next step of each difference. Nothing depends
on having seen an event, so that a server which was killed goes on from its catalog alone. Every change of state is recorded there.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import structlog

from headrace.catalog.catalog import Catalog
from headrace.catalog.objects import DesiredState, PoolIntent, Query, QueryState
from headrace.catalog.state import CatalogState
from headrace.connectors.checkpoint_store import LocalFolder
from headrace.core.errors import ErrorDomain, ExternalError, HeadraceError, UserError
from headrace.core.names import printed
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.core.tracing import RunSpans
from headrace.engine.admission import Queued, places, queued
from headrace.engine.checkpoints import Checkpoints
from headrace.engine.findings import STATE_REMEDY, Finding, Observations, Subject, findings, state_size
from headrace.engine.functions.runtime import FunctionRuntime
from headrace.engine.lifecycle import may_follow, on_failure
from headrace.engine.metrics import QueryMetrics
from headrace.engine.pools import DriverProcess
from headrace.engine.ports import Pools, registries_of, stores_of
from headrace.engine.protocol import (
    QueryEnded,
    QueryProgress,
    QueryStarted,
    QueryWaits,
    RunningState,
    StartQuery,
    StopQuery,
)
from headrace.engine.store_health import StoreHealth
from headrace.planner.physical import SparkPlan
from headrace.planner.placement import placed_on
from headrace.planner.upgrades import refuse_unreadable_state

log = structlog.get_logger()
T = TypeVar("T")

CATALOG_RETRY_S = 1.0
_ENDED = (QueryState.QUEUED, QueryState.STOPPED, QueryState.ERRORED, QueryState.TERMINATED)
COMPLETE = "it is complete: all rows of its tables are written"
"""Message of a query that has ended by itself."""


@dataclass
class _Run:
    """A query that was sent to a driver."""

    generation: int
    pool: str
    spans: RunSpans
    has_batch: bool = False
    has_rows: bool = False
    """True when a batch with rows has ended."""
    stop_by: float | None = None
    """Deadline of its end by the monotonic clock; None until it is requested to end."""

    @property
    def stopping(self) -> bool:
        return self.stop_by is not None


@dataclass
class _Record:
    """Memory of a query between its runs."""

    run: _Run | None = None
    failures: int = 0
    last_batch: int = -1
    not_before: float = 0.0
    generation: int = 0
    metrics: QueryMetrics | None = field(default=None, repr=False)
    plan: SparkPlan | None = field(default=None, repr=False)
    """Plan of the run."""
    observed: Observations = field(default_factory=Observations, repr=False)
    since: dict[str, datetime.datetime] = field(default_factory=dict, repr=False)
    """First time of each finding that the query has had in all batches since."""
    silent_store: tuple[str, str] | None = None
    """The store that keeps it from going on, and why; until it does something again."""
    excess: UserError | None = None
    """Why the run is stopped: the query's state is larger than it may be."""
    allowed_at: CatalogState | None = field(default=None, repr=False)
    """The catalog's state in which its role was seen to be allowed to run it."""


class Supervisor:
    """The continuous queries of one server."""

    def __init__(
        self,
        catalog: Catalog,
        settings: Settings,
        pools: Pools,
        checkpoints: Checkpoints,
        functions: FunctionRuntime,
        store_health: StoreHealth,
        on_state: Callable[[Query, QueryState, str | None], None] = lambda _query, _state, _sqlstate: None,
    ) -> None:
        self._catalog = catalog
        self._functions = functions
        self._store_health = store_health
        self._on_state = on_state
        self._settings = settings
        self._pools = pools
        self._checkpoints = checkpoints
        self._records: dict[str, _Record] = {}
        self._events: deque[Callable[[], Awaitable[None]]] = deque()
        self._woken = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None
        self._stopping = False

    def start(self) -> None:
        """Start to reconcile."""
        self._loop = asyncio.create_task(self._reconcile_always(), name="supervisor")

    async def stop(self) -> None:
        """Stop reconciling: from now on the ends of queries do not change their desired state in the catalog."""
        self._stopping = True
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)
            self._loop = None

    def wake(self) -> None:
        """Reconcile now instead of at the next interval."""
        self._woken.set()

    def metrics(self, query_id: str) -> QueryMetrics | None:
        """Return the last progress of a query; None before its first batch since the server started."""
        record = self._records.get(query_id)
        return record.metrics if record else None

    def all_metrics(self) -> dict[str, QueryMetrics]:
        """Return the last progress of each query that runs and has had a batch."""
        return {
            query_id: record.metrics
            for query_id, record in self._records.items()
            if record.run is not None and record.metrics is not None
        }

    def notice(self, query_id: str) -> str | None:
        """Return the most important warning about a running query; None if it is in order."""
        record, query = self._records.get(query_id), self._unfinished(query_id)
        if query is not None and query.actual_state is QueryState.QUEUED:
            return self._queued_text(query)
        if (
            record is None
            or record.run is None
            or query is None
            or query.actual_state is not QueryState.RUNNING
        ):
            return None
        return next((finding.text for finding in self.findings(query) if finding.warns), None)

    def findings(self, query: Query) -> list[Finding]:
        """Return the findings about a query, whatever its state."""
        record = self._records.get(query.id) or _Record()
        driver = self._pools.find(query.compute_pool)
        subject = Subject(
            query,
            record.plan or SparkPlan.from_json(query.plan),
            record.observed.copy(),
            record.metrics,
            time.monotonic(),
            self._settings.backlog_warning_bytes,
            self._settings.query_state_mb_max * 2**20,
            driver.slots if driver is not None else None,
            driver.awaited if driver is not None else None,
            self._queued_text(query) if query.actual_state is QueryState.QUEUED else None,
            self._failed_test,
        )
        return findings(subject)

    def _failed_test(self, store: str) -> str | None:
        facts = self._catalog.store(store)
        return self._store_health.problem(facts) if facts is not None else None

    def finding_since(self, query_id: str, code: str) -> datetime.datetime | None:
        """Return when the batches of a query first had a finding that they still have."""
        record = self._records.get(query_id)
        return record.since.get(code) if record is not None else None

    def silent_store(self, name: str) -> str | None:
        """Return a query's message about the store `name` that does not answer; None if no query waits for it."""
        for query_id, record in self._records.items():
            if record.silent_store is not None and record.silent_store[0] == name:
                query = self._unfinished(query_id)
                if query is not None and query.should_run and query.actual_state is QueryState.RESTARTING:
                    return record.silent_store[1]
        return None

    def driver_of(self, query_id: str) -> DriverProcess | None:
        """Return the driver that runs a query; None if none does."""
        record = self._records.get(query_id)
        return self._pools.find(record.run.pool) if record is not None and record.run is not None else None

    def knows(self, query_id: str) -> bool:
        """True of a continuous query that this server has run, or will."""
        return query_id in self._records

    def forget(self, query_id: str) -> None:
        """Forget a query that will never run again."""
        self._records.pop(query_id, None)

    # --- messages of drivers: received at once, and processed in that order by the reconciling task

    def query_started(self, message: QueryStarted) -> None:
        """Note that the query runs."""
        self._enqueue(lambda: self._started(message))

    def query_waits(self, message: QueryWaits) -> None:
        """Note that the query waits for a store, or no longer does. It is not restarted: Spark continues where it waits."""
        self._enqueue(lambda: self._waits(message))

    def waits_for(self, query_id: str, error: HeadraceError | None) -> None:
        """Note, as `query_waits` does, why the server cannot write for the query; None: it can again."""
        record = self._records.get(query_id)
        if record is not None and record.run is not None:
            reason, state = (error.text(), error.state.value) if error is not None else (None, None)
            generation = record.run.generation
            self.query_waits(
                QueryWaits(query_id=query_id, generation=generation, reason=reason, sqlstate=state)
            )

    def query_ended(self, message: QueryEnded) -> None:
        """Handle a query's end: terminated, stopped for a new start, bounded and complete, or failed."""
        if not self._stopping:
            # Else the driver ends all its queries because the server ends: none has failed, and none is done.
            self._enqueue(lambda: self._ended(message))

    def driver_taken_over(self, pool: str, queries: Collection[RunningState]) -> None:
        """Note the queries that run in the driver of an earlier server. Those that must not run so are stopped at the next reconciliation,
        as if this server had started them; a query that the catalog does not know, or of another pool, at once."""
        for state in queries:
            query = self._unfinished(state.query_id)
            if query is None or query.compute_pool != pool:
                self._send_stop(pool, state.query_id)
                continue
            record = self._records.setdefault(query.id, _Record())
            run = record.run = _Run(state.generation, pool, RunSpans(query.id, _described(query)))
            is_same = state.generation == query.generation and query.actual_state not in _ENDED
            log.info("query_taken_over", query_id=query.id, generation=state.generation, same=is_same)
            if state.is_stopping:
                run.stop_by = time.monotonic() + self._settings.stop_timeout_ms / 1000
            elif not is_same:
                self._stop(query.id, run)
            elif state.is_started and query.actual_state is QueryState.RUNNING:
                run.spans.started()
            elif state.is_started:
                self.query_started(QueryStarted(query_id=query.id, generation=state.generation))
        self.wake()

    def _send_stop(self, pool: str, query_id: str) -> None:
        driver = self._pools.find(pool)
        if driver is not None:
            driver.send(StopQuery(query_id=query_id))

    def driver_ended(self, pool: str, reason: str) -> None:
        """Restart every query of the pool with the pool: only one of them can have caused the end."""
        self._enqueue(lambda: self._lost(pool, reason))

    def _enqueue(self, what: Callable[[], Awaitable[None]]) -> None:
        self._events.append(what)
        self.wake()

    async def _started(self, message: QueryStarted) -> None:
        if running := self._running(message):
            query, run = running
            self._records[query.id].observed.started = time.monotonic()
            run.spans.started()
            if not run.stopping:
                await self._becomes(query, QueryState.RUNNING)

    async def _waits(self, message: QueryWaits) -> None:
        if running := self._running(message):
            query, run = running
            if not run.stopping:
                state = QueryState.RESTARTING if message.reason else QueryState.RUNNING
                silent = (message.store, message.reason) if message.store and message.reason else None
                self._records[query.id].silent_store = silent
                await self._becomes(query, state, message.reason, sqlstate=message.sqlstate)

    def _running(self, message: QueryStarted | QueryWaits) -> tuple[Query, _Run] | None:
        """Return the query and the run of it that a message speaks of, while that is the present one."""
        record, query = self._records.get(message.query_id), self._unfinished(message.query_id)
        run = record.run if record is not None else None
        return (query, run) if query and run and run.generation == message.generation else None

    def query_progress(self, message: QueryProgress) -> None:
        """Note a query's progress: earlier failures no longer count."""
        record = self._records.get(message.query_id)
        if record is None or record.run is None:
            return
        if message.batch_id > record.last_batch:
            record.last_batch = message.batch_id
            record.failures = 0
        earlier = record.metrics
        if not record.run.has_batch:
            # The statement may be another one since the last run.
            earlier = earlier.model_copy(update={"steps_total": {}}) if earlier is not None else None
        record.run.has_batch = True
        record.run.spans.batch(
            message.batch_duration_ms,
            {
                "headrace.batch.id": message.batch_id,
                "headrace.batches": message.batches,
                "headrace.input_rows": message.input_rows,
                "headrace.late_rows": message.late_rows,
                "headrace.bad_records": message.bad_records,
                **({"headrace.output_rows": message.output_rows} if message.output_rows is not None else {}),
            },
        )
        if message.input_rows and not record.run.has_rows:
            # Spark also reports triggers without rows, which prove nothing about a new statement.
            record.run.has_rows = True
            generation = record.run.generation
            self._enqueue(lambda: self._settled(message.query_id, generation))
        record.silent_store = None
        record.metrics = QueryMetrics.after(earlier, message)
        record.observed.add(message, time.monotonic())
        if record.excess is None and (excess := self._excess(message)) is not None:
            record.excess = excess
            self.wake()
        self._note_findings(message.query_id, record)

    def _excess(self, progress: QueryProgress) -> UserError | None:
        """Return the error of a query whose state is larger than it may be."""
        size, limit = state_size(progress), self._settings.query_state_mb_max
        if not limit or size <= limit * 2**20:
            return None
        return UserError(
            SqlState.CONFIGURATION_LIMIT_EXCEEDED,
            f"the state of the query has {size / 2**20:,.1f} MiB, expected at most {limit} MiB",
            hint=f"{STATE_REMEDY} RESTART QUERY then continues this one.",
        )

    def _note_findings(self, query_id: str, record: _Record) -> None:
        """Log new findings, and note since when each is there."""
        query = self._unfinished(query_id)
        present = {finding.code: finding for finding in self.findings(query)} if query is not None else {}
        for code in present.keys() - record.since.keys():
            log.warning("query_finding", query_id=query_id, code=code, message=present[code].text)
            record.since[code] = datetime.datetime.now(datetime.UTC)
        for code in record.since.keys() - present.keys():
            del record.since[code]

    async def _settled(self, query_id: str, generation: int) -> None:
        """Record that a run of the query has finished a batch with rows: then a version that replaced another one stays."""
        query = self._unfinished(query_id)
        if query is not None and not query.is_settled and query.generation == generation:
            await self._write(partial(self._catalog.versions.settle, query))

    async def _ended(self, message: QueryEnded) -> None:
        record, query = self._records.get(message.query_id), self._unfinished(message.query_id)
        if record is None or query is None or record.run is None or not _is_end_of(message, record.run):
            return
        if message.error is not None:
            record.run.spans.failed(message.sqlstate)
        stopping, record.run = record.run.stopping, None
        if not query.should_run:
            await self._becomes(query, QueryState.TERMINATED)
        elif stopping:
            await self._becomes(query, *self._waiting(query))
        elif message.error is not None:
            hint = f"\nHint: {message.hint}" if message.hint else ""
            domain = ErrorDomain(message.domain or "internal")
            await self._failed(query, record, domain, f"{message.error}{hint}", sqlstate=message.sqlstate)
        elif SparkPlan.from_json(query.plan).bounded:
            await self._write(partial(self._catalog.set_desired_state, query.id, DesiredState.TERMINATED))
            await self._becomes(query, QueryState.TERMINATED, COMPLETE)
        else:
            await self._failed(
                query, record, ErrorDomain.INTERNAL, "the query ended though nobody asked it to"
            )

    async def _lost(self, pool: str, reason: str) -> None:
        of_pool = {
            query_id: record
            for query_id, record in self._records.items()
            if record.run is not None and record.run.pool == pool
        }
        for record in of_pool.values():
            record.run = None
        for query_id in of_pool:
            query = self._unfinished(query_id)
            if query is None:
                continue
            if not query.should_run:
                await self._becomes(query, QueryState.TERMINATED, reason)
            else:
                await self._becomes(query, QueryState.RESTARTING, reason, restarts=query.restarts + 1)

    def _unfinished(self, query_id: str) -> Query | None:
        return self._catalog.snapshot().queries.get(query_id)

    # --- reconciliation

    async def _reconcile_always(self) -> None:
        while True:
            self._woken.clear()
            while self._events:
                try:
                    await self._events.popleft()()
                except Exception:
                    # What goes wrong with one query must not cost the others their supervisor.
                    log.exception("not_heard")
            await self._reconcile_all()
            # Not wait_for: before Python 3.12 it loses a cancellation that comes together with the event.
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.reconcile_interval_ms / 1000):
                    await self._woken.wait()

    async def _reconcile_all(self) -> None:
        # While drivers of an earlier server are awaited, nobody knows which queries run.
        for known in [] if self._pools.is_awaiting else self._catalog.unfinished_queries():
            # What was written or heard since comes first.
            query = self._unfinished(known.id)
            if query is None or self._events:
                continue
            try:
                await self._reconcile(query)
            except Exception:
                # One query that we cannot handle must not keep the others from running.
                log.exception("query_not_reconciled", query_id=query.id)
        try:
            self._pools.keep(self._occupied())
        except Exception:
            log.exception("pools_not_kept")

    def _occupied(self) -> set[str]:
        """Return the pools in which queries run, or are to run as soon as they can."""
        pools = {record.run.pool for record in self._records.values() if record.run is not None}
        unfinished = self._catalog.unfinished_queries()
        idle = (QueryState.ERRORED, QueryState.STOPPED, QueryState.QUEUED)
        return pools | {query.compute_pool for query in unfinished if query.actual_state not in idle}

    async def _reconcile(self, query: Query) -> None:
        if not query.should_run:
            await self._terminate(query)
            return
        if query.actual_state is QueryState.QUEUED:
            await self._admit(query)
            return
        record = self._records.setdefault(query.id, _Record())
        if record.generation != query.generation:
            record.generation = query.generation
            record.failures, record.not_before, record.excess = 0, 0.0, None
            # Batches are numbered from 0 again if it starts anew.
            record.last_batch = -1
        if record.run is not None:
            stale = record.run.generation != query.generation
            if (
                stale
                or record.excess is not None
                or self._held_back(query)
                or not self._allowed(query, record)
            ):
                self._stop(query.id, record.run)
        elif query.actual_state is not QueryState.ERRORED and self._held_back(query):
            if query.actual_state is not QueryState.STOPPED:
                await self._becomes(query, *self._waiting(query))
        elif query.actual_state is not QueryState.ERRORED and time.monotonic() >= record.not_before:
            await self._start(query, record)

    async def _admit(self, query: Query) -> None:
        """Let a query start that waits in the queue of its pool, if the pool has room for it."""
        position = self._queued(query)
        if position is None:
            return
        if position.is_admitted:
            await self._becomes(query, QueryState.STARTING)
            self.wake()
        elif not position.places.is_known:
            self._pools.ensure(query.compute_pool)

    def _queued(self, query: Query) -> Queued | None:
        """Return the position of a query in the queue of its pool; None while the pool is stopped."""
        pool = self._catalog.compute_pool(query.compute_pool)
        if pool is None or self._held_back(query):
            return None
        driver = self._pools.find(pool.name)
        limit = places(pool, self._settings, driver.slots if driver is not None else None)
        return queued(query, self._catalog.unfinished_queries(), limit)

    def _queued_text(self, query: Query) -> str:
        position = self._queued(query)
        if position is not None:
            return position.text
        return f"the query waits in the queue of the compute pool {query.compute_pool!r}, which is stopped"

    def _held_back(self, query: Query) -> bool:
        """True if the query's pool is to be stopped: the query ends at its position, and continues when the pool is started."""
        pool = self._catalog.compute_pool(query.compute_pool)
        return pool is None or pool.desired_state is PoolIntent.STOPPED

    def _waiting(self, query: Query) -> tuple[QueryState, str | None]:
        """Return the state, and its reason, of a query that is to run and that no driver runs."""
        if not self._held_back(query):
            return QueryState.STARTING, None
        name = query.compute_pool
        reason = (
            f"the compute pool {name!r} is stopped; START COMPUTE_POOL {printed(name)} starts the query too"
        )
        return QueryState.STOPPED, reason

    def _allowed(self, query: Query, record: _Record) -> bool:
        """True if the query's role may still run it. Otherwise it is stopped, with the reason."""
        state = self._catalog.snapshot()
        if record.allowed_at is not state:
            try:
                state.policy.refuse_query(query, state.by_id)
            except UserError:
                return False
            record.allowed_at = state
        return True

    async def _terminate(self, query: Query) -> None:
        record = self._records.get(query.id)
        if record is not None and record.run is not None:
            if query.actual_state is not QueryState.TERMINATE_REQUESTED:
                await self._becomes(query, QueryState.TERMINATE_REQUESTED)
            self._stop(query.id, record.run)
        elif query.actual_state is not QueryState.TERMINATED:
            await self._becomes(query, QueryState.TERMINATED)

    async def _start(self, query: Query, record: _Record) -> None:
        driver = self._pools.ensure(query.compute_pool)
        if query.actual_state is QueryState.STOPPED:
            await self._becomes(query, QueryState.STARTING)
            self.wake()
            return
        if query.actual_state not in (QueryState.STARTING, QueryState.RESTARTING):
            await self._becomes(query, QueryState.RESTARTING, "the server was started again")
        if not driver.ready:
            if driver.message is not None and query.message != driver.message:
                await self._becomes(query, QueryState.RESTARTING, driver.message)
            return
        try:
            if record.excess is not None:
                raise record.excess
            state = self._catalog.snapshot()
            state.policy.refuse_query(query, state.by_id)
            if not await self._prepared(query):
                self.wake()
                return
            message = self._start_message(query)
        except HeadraceError as error:
            await self._failed(query, record, error.domain, error.text(), sqlstate=error.state.value)
            return
        if driver.send(message):
            record.run = _Run(query.generation, query.compute_pool, RunSpans(query.id, _described(query)))
            record.plan, record.observed = message.plan, Observations()
            self._on_state(query, QueryState.STARTING, None)

    async def _prepared(self, query: Query) -> bool:
        """Prepare the checkpoint of a query that is to start. Return False if the query was changed while that took time."""
        if isinstance(self._checkpoints.store(query), LocalFolder):
            self._prepare(query)
            return True
        await asyncio.to_thread(self._prepare, query)
        present = self._catalog.query(query.id)
        return present is not None and present.should_run and present.generation == query.generation

    def _prepare(self, query: Query) -> None:
        """Prepare a checkpoint. In S3 only that of a query that was started anew is looked at here: while S3 is away, the queries of other
        pools must not wait for it."""
        checkpoint = self._checkpoints.prepare(query)
        try:
            refuse_unreadable_state(json.loads(query.plan))
        except UserError:
            if checkpoint.exists():
                raise

    def _start_message(self, query: Query) -> StartQuery:
        target = self._pools.target(query.compute_pool)
        plan = placed_on(SparkPlan.from_json(query.plan), target)
        return StartQuery(
            query_id=query.id,
            generation=query.generation,
            plan=plan,
            checkpoint=self._checkpoints.store(query).uri,
            stores=stores_of(plan, self._catalog),
            registries=registries_of(plan, self._catalog),
            functions=self._functions.launches(plan.functions, f"role {query.owner}", target),
            files=self._functions.files(plan.functions, target),
            checkpoint_interval_ms=self._settings.checkpoint_interval_ms,
            planning_timeout_ms=self._settings.planning_timeout_ms,
        )

    def _stop(self, query_id: str, run: _Run) -> None:
        driver = self._pools.find(run.pool)
        if driver is None:
            # `driver_ended` is on its way.
            return
        if run.stop_by is None:
            # Without a driver to hear it, `driver_ended` comes and does the same.
            driver.send(StopQuery(query_id=query_id))
            run.stop_by = time.monotonic() + self._settings.stop_timeout_ms / 1000
        elif time.monotonic() >= run.stop_by:
            # Spark cannot end it. The pool's other queries pay with a restart from their checkpoints.
            driver.kill(
                f"the driver was killed: the query {query_id} had not ended {self._settings.stop_timeout_ms} ms after the request to stop"
            )

    async def _failed(
        self, query: Query, record: _Record, domain: ErrorDomain, message: str, *, sqlstate: str | None = None
    ) -> None:
        if (
            domain is not ErrorDomain.EXTERNAL
            and not query.is_settled
            and await self._go_back(query, message)
        ):
            return
        record.failures += 1
        decision = on_failure(domain, record.failures, self._settings)
        record.not_before = time.monotonic() + decision.delay_ms / 1000
        again = decision.state is QueryState.RESTARTING
        log.warning("query_failed", query_id=query.id, domain=domain.value, sqlstate=sqlstate, restart=again)
        restarts = query.restarts + 1 if again else None
        await self._becomes(query, decision.state, message, sqlstate=sqlstate, restarts=restarts)

    async def _go_back(self, query: Query, reason: str) -> bool:
        """Return a query that was replaced and has not finished a batch since to its version before, if that is possible."""
        go_back = partial(self._catalog.versions.go_back, query, reason, self._checkpoints.exists)
        if not await self._write(go_back):
            return False
        log.warning("query_went_back", query_id=query.id, version=query.version, reason=reason)
        self.wake()
        return True

    async def _becomes(
        self,
        query: Query,
        state: QueryState,
        message: str | None = None,
        *,
        sqlstate: str | None = None,
        restarts: int | None = None,
    ) -> None:
        if not may_follow(query.actual_state, state):
            log.error(
                "unexpected_transition",
                query_id=query.id,
                state=query.actual_state.value,
                following=state.value,
            )
        await self._write(
            partial(
                self._catalog.record_query_state,
                query.id,
                state,
                message=message,
                sqlstate=sqlstate,
                restarts=restarts,
                generation=query.generation,
            )
        )
        self._on_state(query, state, sqlstate)
        log.info("query_state", query_id=query.id, state=state.value, pool=query.compute_pool)

    async def _write(self, write: Callable[[], T]) -> T:
        """Write to the catalog. While its database does not answer, nothing is decided and no message is lost; queries run on."""
        while True:
            try:
                return await asyncio.to_thread(write)
            except ExternalError:
                await asyncio.sleep(CATALOG_RETRY_S)


def _described(query: Query) -> dict[str, str | int | float]:
    """Return the attributes of the spans of a run."""
    return {
        "headrace.query.kind": query.kind.name,
        "headrace.query.version": query.version,
        "headrace.query.generation": query.generation,
    }


def _is_end_of(message: QueryEnded, run: _Run) -> bool:
    """True if `message` concerns `run`: a driver answers StopQuery of an unknown query with generation 0.

    Such an answer may arrive late: after the query ended by itself, when its next run has already begun.
    """
    return message.generation == run.generation or (message.generation == 0 and run.stopping)
