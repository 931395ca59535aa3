"""The processes of all compute pools, made equal to what the catalog wants: one for each pool that is to run and has something to do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

import structlog

from headrace.catalog.catalog import Catalog
from headrace.catalog.objects import ComputePool, PoolIntent
from headrace.core.errors import ExternalError, UserError
from headrace.core.names import printed
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.engine.driver_folder import DriverFolder
from headrace.engine.driver_port import DriverPort, PortIdentity
from headrace.engine.kubernetes.kept import KeptPods
from headrace.engine.kubernetes.launch import PodLaunch
from headrace.engine.kubernetes.removal import GONE_TIMEOUT_S
from headrace.engine.launch import KILL_TIMEOUT_S, DriverLaunch, Launch
from headrace.engine.lifecycle import PoolStep, pool_step
from headrace.engine.outliving import OutlivingLaunch, drivers_folder, kept_driver, outlives_s, place
from headrace.engine.pool_properties import is_kubernetes
from headrace.engine.pools import STOP_TIMEOUT_S, Connection, DriverProcess, PoolState
from headrace.engine.protocol import Message, PoolSlots
from headrace.engine.sizes import Resources, pool_resources, resources
from headrace.engine.standby import Standby
from headrace.planner.target import Target

log = structlog.get_logger()

MINUTE_S = 60.0


def usable_pool(catalog: Catalog, name: str) -> ComputePool:
    """Return the compute pool of that name; raises UserError 3D023 if it does not exist, 3E004 if it is stopped."""
    pool = catalog.compute_pool(name)
    if pool is None:
        raise UserError(
            SqlState.COMPUTE_POOL_NOT_FOUND,
            f"the compute pool {name!r} does not exist",
            hint="LIST COMPUTE_POOLS shows the existing pools.",
        )
    if pool.desired_state is PoolIntent.STOPPED:
        raise UserError(
            SqlState.COMPUTE_POOL_NOT_READY,
            f"the compute pool {name!r} is stopped",
            hint=f"START COMPUTE_POOL {printed(name)}; starts it, USE COMPUTE_POOL selects another one.",
        )
    return pool


class Drivers:
    """Used from one event loop. `is_read` says whether interactive queries run in a process, `on_stop` gets one that is to end and
    why, before it is asked to; `on_gone` is called when it has ended. The rest is as for `DriverProcess`.
    """

    def __init__(
        self,
        catalog: Catalog,
        settings: Settings,
        *,
        command: Sequence[str],
        on_message: Callable[[Connection, Message, bytes], None],
        on_death: Callable[[DriverProcess, str], None],
        is_read: Callable[[DriverProcess], bool],
        on_stop: Callable[[DriverProcess, str], None],
        on_gone: Callable[[], None],
    ) -> None:
        self._catalog = catalog
        self._settings = settings
        self._command = command
        self._on_message = on_message
        self._on_death = on_death
        self._is_read = is_read
        self._on_stop = on_stop
        self._on_gone = on_gone
        self._port = (
            DriverPort(settings.host, settings.driver_port) if settings.driver_port is not None else None
        )
        self._ending_pods: asyncio.Task[None] | None = None
        self._pods = KeptPods(catalog.pool_drivers, settings, catalog.organization().id)
        self._drivers: dict[str, DriverProcess] = {}
        self._ending: dict[str, asyncio.Task[None]] = {}
        self._idle_since: dict[str, float] = {}
        small = resources("small", settings)
        self._standbys = [
            Standby(number, settings, small, command) for number in range(1, settings.pools_standby + 1)
        ]
        self._elsewhere: dict[str, tuple[str, float]] = {}
        """Pools of which a driver may live on another machine, with its name and the end of that time by the monotonic clock."""
        self._suspended: set[str] = set()
        """Ids of the pools whose process has ended, or ends, because they had no queries."""

    def find(self, name: str) -> DriverProcess | None:
        """Return the process of a compute pool, if there is one."""
        return self._drivers.get(name)

    def ensure(self, name: str) -> DriverProcess:
        """Return the process of a compute pool, started if there was none. Raises UserError as `usable_pool`."""
        pool = usable_pool(self._catalog, name)
        self.rouse(name)
        driver = self._drivers.get(name)
        if driver is None:
            given = pool_resources(pool, self._settings)
            driver = self._drivers[name] = DriverProcess(
                name,
                self._settings,
                given,
                on_message=self._on_message,
                on_death=self._on_death,
                command=self._command,
                warm_up=lambda: not self._has_queries(name),
                **self._kind(pool, given),
            )
            driver.start()
        return driver

    def _kind(self, pool: ComputePool, given: Resources) -> dict[str, Any]:
        """Return the options of a process that is a pod, that outlives the server, or that ends with it."""
        settings = self._settings
        options: dict[str, Any] = {}

        def new_launch() -> Launch:
            self._refuse_elsewhere(pool)
            if is_kubernetes(given.place.master):
                catalog = self._catalog.organization().id
                kept = self._pods if outlives_s(settings, given) else None
                return PodLaunch(
                    pool.name, settings, given, self._port, catalog=catalog, pool_id=pool.id, kept=kept
                )
            if outlives_s(settings, given):
                drivers = self._catalog.pool_drivers
                return OutlivingLaunch(pool.name, pool.id, settings, given, self._command, drivers)
            return DriverLaunch(pool.name, settings, given, self._command)

        if is_kubernetes(given.place.master):
            options["end_timeout_s"] = GONE_TIMEOUT_S + KILL_TIMEOUT_S
            options["outlives"] = outlives_s(settings, given) > 0
            options["returns"] = lambda: self._pods.returning(pool.id, given) is not None
        elif outlives_s(settings, given):
            folder = DriverFolder(drivers_folder(settings) / pool.id)
            options["outlives"] = True
            options["returns"] = lambda: kept_driver(folder, settings, given) is not None
        else:
            options["standby"] = lambda: self._take(pool)
        return options | {"new_launch": new_launch}

    def _refuse_elsewhere(self, pool: ComputePool) -> None:
        """Raise ExternalError 3E004 while a driver of a pool may live that only its earlier server could reach."""
        host, until = self._elsewhere.get(pool.id, ("", 0.0))
        left_s = until - time.monotonic()
        if left_s > 0:
            raise ExternalError(
                SqlState.COMPUTE_POOL_NOT_READY,
                f"a driver of the compute pool {pool.name!r} may still run on {host}, where its server has ended",
                hint=f"The pool starts in {left_s:.0f} s, when that driver has ended.",
            )

    def target(self, name: str) -> Target:
        """Return the target of the plans that run in a pool. Raises UserError as `usable_pool`."""
        return pool_resources(usable_pool(self._catalog, name), self._settings).target

    async def start(self) -> None:
        """Open the port for drivers on other machines, and start the processes on standby. Raises ExternalError 57015 for the port, and
        OSError.

        A pool with a timeout is suspended, also if a server before this one had not suspended it yet: its first query starts it.
        The drivers of an earlier server are awaited, or ended if this one cannot take them over.
        """
        self._suspended = {pool.id for pool in self._catalog.compute_pools() if pool.timeout_min}
        if self._port is not None:
            await self._find_pods(self._port)
        await self._find_drivers()
        for standby in self._standbys:
            standby.start()

    async def _find_drivers(self) -> None:
        """Find the drivers that have outlived an earlier server."""
        present, now = place(self._settings), time.monotonic()
        for pool_id, driver in (await asyncio.to_thread(self._catalog.pool_drivers.all)).items():
            if driver.outlives_s and driver.place != present:
                self._elsewhere[pool_id] = driver.host, now + driver.outlives_s
        pools = {pool.id: pool for pool in self._catalog.compute_pools()}
        folders = [path for path in drivers_folder(self._settings).iterdir() if path.is_dir()]
        await asyncio.gather(
            *(self._find_driver(DriverFolder(path), pools.get(path.name)) for path in folders)
        )

    async def _find_pods(self, port: DriverPort) -> None:
        """Open the port, await the drivers in pods that this server may take over, and end all others, for which a start does not wait."""
        pools = {
            pool.id: pool
            for pool in self._catalog.compute_pools()
            if pool.desired_state is PoolIntent.RUNNING
        }
        given = {pool_id: pool_resources(pool, self._settings) for pool_id, pool in pools.items()}
        identity = await asyncio.to_thread(self._pods.load) or PortIdentity.create()
        returning = await self._pods.find(given, identity)
        # Before, drivers that try to connect would be refused as strangers.
        port.open(identity)
        for pool_id in returning:
            self.ensure(pools[pool_id].name)
        self._ending_pods = asyncio.create_task(self._pods.end_others(), name="end pods")

    async def _find_driver(self, folder: DriverFolder, pool: ComputePool | None) -> None:
        """Await the driver of a folder, or end it if its pool was dropped, is stopped, or would start it otherwise now."""
        if pool is not None and pool.desired_state is PoolIntent.RUNNING:
            given = pool_resources(pool, self._settings)
            if outlives_s(self._settings, given) and kept_driver(folder, self._settings, given):
                self.ensure(pool.name)
                return
        if folder.is_held():
            kept = folder.kept()
            log.info("driver_not_taken_over", folder=folder.path.name, pid=kept and kept.pid)
            if not await folder.end(kept.pid if kept else None, grace_s=STOP_TIMEOUT_S):
                log.error("driver_not_ended", folder=folder.path.name, pid=kept and kept.pid)
                return
        await asyncio.to_thread(folder.remove)

    @property
    def is_awaiting(self) -> bool:
        """True while drivers of an earlier server are awaited, or end: nobody knows yet which queries run."""
        if self._ending_pods is not None and not self._ending_pods.done():
            return True
        return any(driver.is_returning for driver in self._drivers.values())

    def _take(self, pool: ComputePool) -> DriverLaunch | None:
        """Return a warm process with the resources of a pool; None if there is none, or if the pool must wait."""
        if self._elsewhere.get(pool.id, ("", 0.0))[1] > time.monotonic():
            return None
        given = pool_resources(pool, self._settings)
        taken = (standby.take(given) for standby in self._standbys)
        return next((launch for launch in taken if launch is not None), None)

    def rouse(self, name: str) -> None:
        """Start a suspended pool again, with the next `keep` at the latest. The time without queries is measured from now."""
        pool = self._catalog.compute_pool(name)
        if pool is not None and pool.id in self._suspended:
            self._suspended.remove(pool.id)
            log.info("pool_resumed", pool=name)
        self._idle_since[name] = time.monotonic()

    async def settled(self, name: str) -> None:
        """Return when no process of the pool is being ended."""
        while (ending := self._ending.get(name)) is not None:
            await asyncio.wait({ending})

    def keep(self, occupied: Collection[str]) -> None:
        """Start the processes that are missing, and begin to end those that nobody wants; `occupied` are the pools in which
        continuous queries run, or are to run."""
        pools = {pool.name: pool for pool in self._catalog.compute_pools()}
        for name in [*pools, *(name for name in self._drivers if name not in pools)]:
            pool, driver = pools.get(name), self._drivers.get(name)
            if name in self._ending:
                continue
            if driver is None or not driver.ready or name in occupied or self._is_read(driver):
                self._idle_since[name] = time.monotonic()
            step = pool_step(
                pool,
                runs=driver is not None,
                occupied=name in occupied,
                idle_min=(time.monotonic() - self._idle_since[name]) / MINUTE_S,
                suspended=pool is not None and self._is_suspended(pool),
            )
            if step is PoolStep.START:
                self.ensure(name)
            elif driver is not None and step is not PoolStep.NOTHING:
                suspends = pool is not None and step is PoolStep.SUSPEND
                if pool is not None and suspends:
                    self._suspended.add(pool.id)
                self._end(driver, "pool_suspended" if suspends else "pool_stopped")

    async def stop(self) -> None:
        """End them all, except for those that outlive the server."""
        await asyncio.gather(*(standby.stop() for standby in self._standbys))
        await asyncio.gather(*self._ending.values())
        await asyncio.gather(*(driver.stop(leave=True) for driver in self._drivers.values()))
        if self._ending_pods is not None:
            self._ending_pods.cancel()
            await asyncio.gather(self._ending_pods, return_exceptions=True)
        if self._port is not None:
            await self._port.close()

    def _is_suspended(self, pool: ComputePool) -> bool:
        """True if the pool is to run and has no process before a statement needs it."""
        return (
            pool.desired_state is PoolIntent.RUNNING and pool.timeout_min > 0 and pool.id in self._suspended
        )

    def _end(self, driver: DriverProcess, event: str) -> None:
        log.info(event, pool=driver.pool)
        self._on_stop(driver, "it was stopped")
        self._ending[driver.pool] = asyncio.create_task(self._ended(driver), name=f"end-{driver.pool}")

    async def _ended(self, driver: DriverProcess) -> None:
        try:
            await driver.stop()
        finally:
            del self._drivers[driver.pool], self._ending[driver.pool], self._idle_since[driver.pool]
            self._on_gone()

    def state(self, name: str) -> tuple[str, str | None]:
        """Return the state of a pool's process, a value of `PoolState`, and its error."""
        driver, pool = self._drivers.get(name), self._catalog.compute_pool(name)
        if driver is not None:
            return driver.state.value, driver.message
        suspended = pool is not None and self._is_suspended(pool)
        return (PoolState.SUSPENDED if suspended else PoolState.STOPPED).value, None

    def slots(self, name: str) -> PoolSlots | None:
        """Return the slots of a pool on a cluster; None while no driver runs there."""
        driver = self._drivers.get(name)
        return driver.slots if driver else None

    def _has_queries(self, pool: str) -> bool:
        return any(
            query.compute_pool == pool and query.should_run for query in self._catalog.unfinished_queries()
        )
