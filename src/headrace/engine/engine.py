"""The composition: pools' processes, continuous and interactive queries, views."""

from __future__ import annotations

import asyncio
import datetime
import shutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import structlog

from headrace.catalog.catalog import Catalog
from headrace.catalog.objects import (
    ComputePool,
    Language,
    PoolIntent,
    Query,
    QueryState,
    RelationKind,
    StoreFacts,
)
from headrace.connectors.checkpoint_store import CheckpointStore, LocalFolder, store_at
from headrace.connectors.egress import Egress
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.resultset import ResultColumn
from headrace.core.settings import Settings
from headrace.core.signals import Signal
from headrace.engine import openlineage
from headrace.engine.alerts import Alerts
from headrace.engine.backups import Backup, Backups
from headrace.engine.checkpoint_copy import Border, Continuation, copy_failure, place_parts
from headrace.engine.checkpoints import Checkpoints, copy_checkpoints, remove_checkpoints
from headrace.engine.copies import Copies
from headrace.engine.drivers import Drivers, usable_pool
from headrace.engine.findings import Finding
from headrace.engine.functions.runtime import FunctionRuntime
from headrace.engine.interactive import InteractiveQueries
from headrace.engine.launch import DRIVER_COMMAND
from headrace.engine.live_queries import LiveQueries
from headrace.engine.metrics import QueryMetrics
from headrace.engine.metrics_history import MetricsHistory, PoolSample, TaskHour
from headrace.engine.pool_properties import login
from headrace.engine.pool_usage import PoolUsage
from headrace.engine.pools import Connection, DriverProcess
from headrace.engine.protocol import (
    Ack,
    ApplyView,
    CheckpointCopied,
    Message,
    PoolSlots,
    PoolTasks,
    QueryEnded,
    QueryProgress,
    QueryStarted,
    QueryWaits,
    Ready,
    Resumed,
    Rows,
    TaskTime,
)
from headrace.engine.results import ResultChannel
from headrace.engine.savepoints import Manifest, Savepoints
from headrace.engine.sizes import memory_mb, pool_resources, refuse_beyond_memory
from headrace.engine.store_health import StoreHealth
from headrace.engine.supervisor import Supervisor
from headrace.engine.view_copies import ViewCopies
from headrace.engine.views.lost import create_lost
from headrace.engine.views.opening import open_views
from headrace.engine.views.readers import Readers
from headrace.engine.views.store import PURGE_INTERVAL_S
from headrace.planner.branches import Rebuild
from headrace.planner.physical import SparkPlan
from headrace.planner.placement import placed_on

log = structlog.get_logger()
T = TypeVar("T")

EXPIRY_INTERVAL_S = 60.0
BUCKETS_RETRY_S = 60.0
VIEW_RETRY_S = 2.0
"""Between two tries of a write while the store of views is away."""


class Engine:
    """Runs the queries of one server. Used from one event loop; `views` from any thread."""

    def __init__(
        self, catalog: Catalog, settings: Settings, *, driver_command: Sequence[str] = DRIVER_COMMAND
    ) -> None:
        self.functions = FunctionRuntime(settings, catalog.function_file)
        self.progressed = Signal()
        """The signal of each new progress of a continuous query: its metrics and findings may be others."""
        self.views = open_views(settings, owner=catalog.organization().id)
        self._catalog = catalog
        self._settings = settings
        self._checkpoints = Checkpoints(
            settings.durable_dir / "checkpoints", self._shared_stores, self._has_workers
        )
        self._drivers = Drivers(
            catalog,
            settings,
            command=driver_command,
            on_message=self._handle,
            on_death=self._driver_ended,
            is_read=lambda driver: self._interactive.uses(driver),
            on_stop=lambda driver, reason: self._interactive.driver_stopped(driver, reason),
            on_gone=self.wake,
        )
        self._lineage = openlineage.LineageEvents(catalog) if openlineage.is_requested() else None
        self.store_health = StoreHealth(
            catalog, Egress(settings.egress_allowed), interval_s=settings.store_test_interval_s
        )
        self._supervisor = Supervisor(
            catalog,
            settings,
            self._drivers,
            self._checkpoints,
            self.functions,
            self.store_health,
            *([self._lineage.changed] if self._lineage is not None else []),
        )
        self._usage = PoolUsage(self._supervisor.knows)
        self._copies = Copies(self._checkpoints, self._supervisor.driver_of)
        self._view_copies = ViewCopies(self._copies, self.views, self.is_with_driver)
        self._backups = Backups(settings.data_dir.resolve(), catalog, self._copies, self.views)
        self._savepoints = Savepoints(settings.durable_dir / "savepoints", self._buckets)
        self.history = MetricsHistory(
            settings.data_dir.resolve() / "metrics.sqlite", hours=settings.metrics_hours
        )
        self.alerts = Alerts(
            catalog,
            Egress(settings.egress_allowed),
            self.findings,
            settings.durable_dir / "alerts.json",
        )
        self._interactive = InteractiveQueries(
            catalog, settings, self._drivers, self._checkpoints, self.functions
        )
        self.live_queries = LiveQueries()
        self.pushed = {"live_queries": self.live_queries.changed, "stores": self.store_health.changed}
        """Signals of changes that are not in the catalog, by the system relations whose rows change."""
        self._applying: set[asyncio.Task[None]] = set()
        self._readers = Readers(self.views.readers)
        self._stopping = asyncio.Event()
        self._chores: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start; returns before any driver runs. Pools that are to run start theirs at once, so that they are warm when needed."""
        await asyncio.to_thread(self._clean_up)
        if self._lineage is not None:
            self._lineage.start()
        self._warn_of_memory()
        await self._drivers.start()
        self._supervisor.start()
        self._chores = [asyncio.create_task(self._purge_always(), name="purge views")]
        self._chores.append(asyncio.create_task(self.alerts.run(), name="alerts"))
        self._chores.append(asyncio.create_task(self._expire_always(), name="expire savepoints"))
        self._chores.append(asyncio.create_task(self._clean_up_buckets(), name="clean up buckets"))
        if self._settings.store_test_interval_s:
            self._chores.append(asyncio.create_task(self.store_health.run(), name="test stores"))
        if self._settings.metrics_interval_s:
            self._chores.append(asyncio.create_task(self._sample_always(), name="keep metrics"))

    def _warn_of_memory(self) -> None:
        """Warn if the heaps exceed the machine's memory: a new pool is refused then, but the settings may have changed since."""
        pools = self._catalog.compute_pools()
        running = [pool for pool in pools if pool.desired_state is PoolIntent.RUNNING]
        for pool in running[:1]:
            try:
                refuse_beyond_memory(pool, running, self._settings, memory_mb())
            except UserError as error:
                log.warning("pools_beyond_memory", reason=error.message, hint=error.hint)

    async def stop(self) -> None:
        """End all processes in order, except for drivers that outlive the server. The desired states of the queries stay in the catalog, so
        that the next start continues them."""
        self._stopping.set()
        for chore in self._chores:
            chore.cancel()
        await asyncio.gather(*self._chores, return_exceptions=True)
        await self._supervisor.stop()
        await self._interactive.stop()
        await self._drivers.stop()
        await asyncio.gather(*self._applying, return_exceptions=True)
        await asyncio.to_thread(self.views.close)
        await asyncio.to_thread(self.functions.close)
        if self._lineage is not None:
            await asyncio.to_thread(self._lineage.stop)

    def wake(self) -> None:
        """Wake the supervisor after a write to the catalog that concerns queries."""
        self._supervisor.wake()

    async def forget(self, query_ids: Collection[str]) -> None:
        """Delete the checkpoints of terminated queries that can never be restarted: their sink was dropped."""
        self._usage.forget(query_ids)
        for query_id in query_ids:
            self._supervisor.forget(query_id)
            try:
                await asyncio.to_thread(self._checkpoints.remove, query_id)
            except HeadraceError as error:
                log.warning("checkpoint_not_removed", query=query_id, reason=error.message)

    async def copy_checkpoints(
        self, queries: Collection[Query], before: ComputePool, after: ComputePool
    ) -> None:
        """Copy the checkpoints of queries that do not run to the place that their pool is to have. Raises as `copy_checkpoints`."""
        stores = self._checkpoint_store(before), self._checkpoint_store(after)
        beside = self._settings.durable_dir / "checkpoints"
        await asyncio.to_thread(copy_checkpoints, [query.id for query in queries], *stores, beside)

    async def remove_checkpoints(self, queries: Collection[Query], pool: ComputePool) -> None:
        """Remove the checkpoints of queries from the folder that their pool had."""
        store = self._checkpoint_store(pool)
        await asyncio.to_thread(remove_checkpoints, [query.id for query in queries], store)

    def _checkpoint_store(self, pool: ComputePool) -> CheckpointStore:
        """Return the place of a pool's checkpoints: the server's, or one of this catalog's own in the place that the pool names."""
        shared = pool_resources(pool, self._settings).place.checkpoints
        if shared is None:
            return LocalFolder(self._settings.durable_dir / "checkpoints")
        return store_at(shared, login(self._settings)).at(self._catalog.organization().id)

    def _shared_stores(self) -> dict[str, CheckpointStore]:
        """Return the places of checkpoints of the pools that do not use the server's."""
        return {
            pool.name: self._checkpoint_store(pool)
            for pool in self._catalog.compute_pools()
            if pool_resources(pool, self._settings).place.checkpoints is not None
        }

    def _has_workers(self, name: str) -> bool:
        """True if the tasks of a pool run on other machines."""
        pool = self._catalog.compute_pool(name)
        return pool is not None and pool_resources(pool, self._settings).target.is_cluster

    def _buckets(self) -> list[CheckpointStore]:
        """Return the places in S3 that have savepoints of the queries of their pools."""
        return [store for store in self._shared_stores().values() if not isinstance(store, LocalFolder)]

    async def take_savepoint(
        self, identifier: str, query: Query, facts: Mapping[str, Any], *, hold: bool = False
    ) -> Manifest:
        """Copy the checkpoint of a query and the rows of its views, between two batches if it runs, into the savepoint of that id, with
        `facts` about the query. With `hold` the query begins no batch afterwards, since it is to be stopped, or released.

        Raises UserError 3E003, 57014 and XX001, and ExternalError 53000, as `ViewCopies.copy` and `copy_failure` do.
        """
        loop = asyncio.get_running_loop()

        def copy(target: Path) -> Border:
            return asyncio.run_coroutine_threadsafe(
                self._view_copies.copy(query, target, hold=hold), loop
            ).result()

        store = self._shared_stores().get(query.compute_pool)
        bucket = None if isinstance(store, LocalFolder) else store
        try:
            return await asyncio.to_thread(self._savepoints.take, identifier, facts, copy, bucket)
        except BaseException:
            if query.should_run:
                self.release(query)
            raise

    def release(self, query: Query) -> None:
        """Let a query that `take_savepoint` holds continue."""
        self._copies.release(query)

    async def savepoint_manifest(self, identifier: str) -> Manifest:
        """Return the manifest of a savepoint in the folder of savepoints. Raises UserError 3D024, 0A000 and XX001, as
        `Savepoints.manifest` does."""
        return await asyncio.to_thread(self._savepoints.manifest, identifier)

    def is_with_driver(self, query_id: str) -> bool:
        """Return True if a continuous query was sent to a driver and has not ended there."""
        return self._supervisor.driver_of(query_id) is not None

    def is_interrupted(self, query: Query) -> bool:
        """Return True if a query that has ended was stopped during a batch."""
        return self._copies.is_interrupted(query)

    def checkpoint_places(self, used: Collection[str]) -> list[str]:
        """Return the addresses of the places that contain the checkpoints of all compute pools; those in `used` have queries."""
        return self._checkpoints.places(used)

    def has_checkpoint(self, query: Query) -> bool:
        """Return True if the checkpoint of a query, in its present incarnation, is there."""
        return self._checkpoints.exists(query)

    async def drop_savepoint(self, identifier: str) -> None:
        """Delete the files of a savepoint."""
        await asyncio.to_thread(self._remove_savepoint, identifier)

    def _remove_savepoint(self, identifier: str) -> None:
        try:
            self._savepoints.remove(identifier)
        except HeadraceError as error:
            log.warning("savepoint_not_removed", id=identifier, reason=error.message)

    async def take_backup(self) -> Backup:
        """Write a backup of the data directory while the queries run. Raises as `Backups.take` and `Savepoints.fetch` do."""
        for savepoint in self._catalog.savepoints.all():
            await asyncio.to_thread(self._savepoints.fetch, savepoint.id)
        return await self._backups.take()

    async def continue_from_savepoint(
        self, identifier: str, query_id: str, pool: str, continuation: Continuation
    ) -> None:
        """Let a new query of a pool, with new views, continue from a savepoint. Raises UserError 3D024, 0A000, XX001 and ExternalError
        53000, as `Savepoints.restore` and `ViewCopies.fill` do."""
        checkpoint = self._checkpoints.new(query_id, pool)
        await asyncio.to_thread(self._savepoints.restore, identifier, checkpoint, continuation)
        await self._view_copies.fill(self._savepoints.copy_of(identifier), continuation.views)

    async def continue_from_query(
        self, earlier: Query, query_id: str, pool: str, continuation: Continuation
    ) -> None:
        """Let a new query of a pool, with new views, continue from the checkpoint of a query that has ended. Raises UserError 0A000, 3E003,
        XX001; ExternalError 53000."""
        checkpoint = self._checkpoints.new(query_id, pool)
        copy = self._checkpoints.copy_path(checkpoint, query_id)
        try:
            await self._view_copies.copy(earlier, copy)
            await asyncio.to_thread(place_parts, copy, checkpoint, continuation)
            await self._view_copies.fill(copy, continuation.views)
        except OSError as error:
            raise copy_failure(error) from error
        finally:
            await asyncio.to_thread(shutil.rmtree, copy, ignore_errors=True)

    def replacing(self, query_id: str) -> asyncio.Lock:
        """Return the lock of a query within which a new version is stored: two versions with the same number would have the same
        checkpoint."""
        return self._copies.exclusive(query_id)

    def saving(self, query_id: str) -> asyncio.Lock:
        """Return the lock of a query within which a savepoint is taken and stored: the end of another copy would release the query."""
        return self._copies.exclusive(query_id)

    async def start_anew(self, successor: Query) -> None:
        """Remove what a server that was killed has left in the place of the checkpoint of a version that is not stored yet."""
        await asyncio.to_thread(self._checkpoints.store(successor).remove)

    async def continue_partly(self, query: Query, successor: Query, rebuild: Rebuild) -> float:
        """Write the checkpoint of a new version of a query that continues partly from the present one. The query starts no batch
        afterwards, until `abandon_partly`. Returns the monotonic time until which the version can be stored. Raises as
        `Copies.continue_partly`, and ExternalError 53000."""
        try:
            return await self._copies.continue_partly(query, successor, rebuild)
        except OSError as error:
            raise copy_failure(error) from error

    async def abandon_partly(self, query: Query, successor: Query) -> None:
        """Remove the checkpoint of a version that was not stored, and let the query continue."""
        await self._copies.abandon_partly(query, successor)

    async def run_interactive(
        self, plan: SparkPlan, columns: tuple[ResultColumn, ...], *, compute_pool: str, user: str
    ) -> ResultChannel:
        """Run `plan` for one reader, of `user`.

        Raises UserError for too many (53000), an unknown pool (3D023), one that was stopped (3E004) or that cannot run the plan (0A000), or
        a missing store (3D006).
        """
        plan = placed_on(
            plan, pool_resources(usable_pool(self._catalog, compute_pool), self._settings).target
        )
        await asyncio.to_thread(self.functions.prepare, plan.functions, plan.target)
        # Last, without another await after it: a process that is being suspended accepts no query.
        await self._drivers.settled(compute_pool)
        return self._interactive.run(plan, columns, pool=compute_pool, user=user)

    async def read_views(self, user: str, read: Callable[[], T]) -> T:
        """Call `read`, which queries the views, in one of their readers. A user has all of these but one at a time. If the caller is
        cancelled, the query ends within a second."""
        return await self._readers.read(user, read)

    def progress(self, query_id: str) -> QueryMetrics | None:
        """Return the metrics of a continuous query: its last batch, with sums since the server started; None before the first."""
        metrics = self._supervisor.metrics(query_id)
        return metrics and metrics.with_tasks(self._usage.total(query_id))

    def notice(self, query_id: str) -> str | None:
        """Return the warning about a running continuous query; None if it is in order."""
        return self._supervisor.notice(query_id)

    def findings(self, query: Query) -> list[Finding]:
        """Return the findings about a continuous query: why it has no output, or will have a problem."""
        return self._supervisor.findings(query)

    def finding_since(self, query_id: str, code: str) -> datetime.datetime | None:
        """Return when the batches of a query first had a finding that they still have; None for a finding about its state."""
        return self._supervisor.finding_since(query_id, code)

    def silent_store(self, name: str) -> str | None:
        """Return the error of a store that does not answer continuous queries; None if no query waits for it."""
        return self._supervisor.silent_store(name)

    def store_problem(self, store: StoreFacts) -> str | None:
        """Return why a store is away: a query's message, or that of the last test; None for a store that answers."""
        return self.silent_store(store.name) or self.store_health.problem(store)

    def pool_state(self, name: str) -> tuple[str, str | None]:
        """Return `starting`, `running`, `stopping`, `stopped`, `suspended` or `errored`, and the error."""
        return self._drivers.state(name)

    def has_process(self, pool: str) -> bool:
        """True if the process of a pool runs, starts or ends."""
        return self._drivers.find(pool) is not None

    def pool_slots(self, name: str) -> PoolSlots | None:
        """Return the slots of a pool on a cluster; None while no driver runs there."""
        return self._drivers.slots(name)

    def rouse_pool(self, name: str) -> None:
        """Start a pool that was changed, or that must run without a query."""
        self._drivers.rouse(name)
        self.wake()

    def _handle(self, connection: Connection, message: Message, payload: bytes) -> None:
        try:
            self._dispatch(connection, message, payload)
        except Exception:
            # What goes wrong with one query must not cost the pool its connection, and with it all others.
            log.exception("message_not_handled", pool=connection.pool, type=message.type)

    def _dispatch(self, connection: Connection, message: Message, payload: bytes) -> None:
        match message:
            case Ready():
                self._supervisor.wake()
            case Resumed():
                self._supervisor.driver_taken_over(connection.pool, message.queries)
            case QueryStarted():
                if self._interactive.knows(message.query_id):
                    self._interactive.query_started(message.query_id)
                else:
                    self._supervisor.query_started(message)
            case QueryEnded():
                if self._interactive.knows(message.query_id):
                    self._interactive.query_ended(message)
                else:
                    self._supervisor.query_ended(message)
            case QueryWaits():
                self._supervisor.query_waits(message)
            case QueryProgress():
                self._supervisor.query_progress(message)
                self.progressed.notify()
            case PoolTasks():
                self._usage.add(connection.pool, message.queries)
            case CheckpointCopied():
                self._copies.copied(message)
            case Rows():
                self._interactive.rows(message, payload, connection)
            case ApplyView():
                task = asyncio.create_task(self._apply(message, payload, connection))
                self._applying.add(task)
                task.add_done_callback(self._applying.discard)
            case _:
                log.warning("unexpected_message", pool=connection.pool, type=message.type)

    async def _apply(self, message: ApplyView, payload: bytes, connection: Connection) -> None:
        error: str | None = None
        applied = True
        try:
            applied = await self._apply_when_it_is_there(message, payload, connection)
        except HeadraceError as failure:
            error = failure.text()
        except Exception as failure:
            # Unanswered, the query would wait for ever.
            log.exception("view_not_applied", query_id=message.query_id, view=message.view)
            error = f"the view could not be written: {failure}"
        connection.send(Ack(sequence=message.sequence, error=error, stop=not applied))

    async def _apply_when_it_is_there(
        self, message: ApplyView, payload: bytes, connection: Connection
    ) -> bool:
        """Apply rows, asking again while the store of views is away and the query waits in its batch; False if the query ended
        meanwhile."""
        waits = False
        while True:
            try:
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(self.views.writer, self.views.apply, message, payload)
                break
            except ExternalError as failure:
                log.warning("view_store_away", query_id=message.query_id, reason=failure.message)
                if self._stopping.is_set() or connection.closed:
                    return False
                waits = True
                self._supervisor.waits_for(message.query_id, failure)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), VIEW_RETRY_S)
        if waits:
            self._supervisor.waits_for(message.query_id, None)
        return True

    async def _purge_always(self) -> None:
        while True:
            await asyncio.sleep(PURGE_INTERVAL_S)
            try:
                await asyncio.get_running_loop().run_in_executor(self.views.writer, self.views.purge)
            except Exception:
                log.exception("views_not_purged")

    async def _expire_always(self) -> None:
        while True:
            try:
                await asyncio.to_thread(self.drop_expired_savepoints, datetime.datetime.now(datetime.UTC))
            except Exception:
                log.exception("savepoints_not_expired")
            await asyncio.sleep(EXPIRY_INTERVAL_S)

    def drop_expired_savepoints(self, now: datetime.datetime) -> None:
        """Drop the savepoints that have expired, with their files. Blocks."""
        for savepoint in self._catalog.savepoints.all():
            if savepoint.expires_at is not None and savepoint.expires_at <= now:
                self._catalog.drop(savepoint)
                self._remove_savepoint(savepoint.id)
                log.info("savepoint_expired", name=savepoint.name, id=savepoint.id)

    async def _clean_up_buckets(self) -> None:
        while not await asyncio.to_thread(self._checkpoints.remove_remote_interactive):
            await asyncio.sleep(BUCKETS_RETRY_S)

    async def _sample_always(self) -> None:
        interval_s, before = self._settings.metrics_interval_s, time.monotonic()
        while True:
            await asyncio.sleep(interval_s)
            now = time.monotonic()
            # A pause of the machine is no time that a pool had its slots.
            length_s, before = min(now - before, 2 * interval_s), now
            try:
                await self._sample(time.time(), length_s)
            except Exception:
                log.exception("metrics_not_kept")

    async def _sample(self, now: float, length_s: float) -> None:
        metrics = {
            query_id: sample.with_tasks(self._usage.total(query_id))
            for query_id, sample in self._supervisor.all_metrics().items()
        }
        tasks = self._usage.take()
        ids = {pool.name: pool.id for pool in self._catalog.compute_pools()}
        hours = [
            TaskHour.at(now, query_id, ids[pool], spent)
            for pool, queries in tasks.items()
            for query_id, spent in queries.items()
            if query_id and pool in ids
        ]
        await asyncio.to_thread(self.history.add, now, metrics, self._pool_samples(length_s, tasks), hours)

    def _pool_samples(self, length_s: float, tasks: Mapping[str, Mapping[str, TaskTime]]) -> list[PoolSample]:
        """Return the slots of each pool whose process runs, if they are known, and the time for which `tasks` occupied them; those that run
        a task at this moment are known of a cluster only."""
        samples = []
        for pool in self._catalog.compute_pools():
            busy_ms = sum(spent.slot_ms for spent in tasks.get(pool.name, {}).values())
            on_cluster = self.pool_slots(pool.name)
            if on_cluster is not None:
                samples.append(PoolSample(pool.id, length_s, on_cluster.slots, on_cluster.used, busy_ms))
                continue
            target = pool_resources(pool, self._settings).target
            if self.has_process(pool.name) and not target.is_cluster and target.slots is not None:
                samples.append(PoolSample(pool.id, length_s, target.slots, None, busy_ms))
        return samples

    def _driver_ended(self, driver: DriverProcess, reason: str) -> None:
        self._interactive.driver_ended(driver, reason)
        self._supervisor.driver_ended(driver.pool, reason)
        self._copies.driver_ended(driver)

    def _clean_up(self) -> None:
        """Set aside the files that a killed server has left."""
        relations = self._catalog.relations()
        ids = {relation.name: relation.id for relation in relations}
        self._checkpoints.retain(
            {
                query.id
                for query in self._catalog.queries()
                if query.actual_state is not QueryState.TERMINATED
                or all(ids.get(sink) in query.uses for sink in query.sinks)
            },
            days=self._settings.aside_days,
        )
        self._savepoints.clean_up()
        if any(function.language is Language.JAVA for function in self._catalog.functions()):
            try:
                self.functions.warm_up()
            except HeadraceError as error:
                # The queries that call one report it when they start.
                log.warning("functions_not_ready", reason=error.message)
        for name in ("run", "work", "views.tmp"):
            shutil.rmtree(self._settings.data_dir / name, ignore_errors=True)
        views = {relation.id for relation in relations if relation.kind is RelationKind.MATERIALIZED_VIEW}
        try:
            if self._settings.adopt_data_dir:
                create_lost(self._catalog, self.views)
            self.views.retain(views, days=self._settings.aside_days)
        except ExternalError as error:
            # The next start does it.
            log.warning("view_store_away", reason=error.message)
