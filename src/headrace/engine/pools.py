"""The process of a compute pool: started, spoken to, watched, started again, ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any

import structlog

from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.core.wording import counted
from headrace.engine.launch import DRIVER_COMMAND, KILL_TIMEOUT_S, DriverLaunch, Launch, read_frame
from headrace.engine.lifecycle import backoff_ms, driver_failures
from headrace.engine.pool_properties import is_kubernetes
from headrace.engine.protocol import (
    DRIVER_REFUSED,
    Message,
    PoolSlots,
    QueryProgress,
    Ready,
    Resumed,
    Rows,
    Shutdown,
    encode_frame,
)
from headrace.engine.sizes import Resources

log = structlog.get_logger()

STOP_TIMEOUT_S = 15.0
REMOVE_TIMEOUT_S = 5.0


class PoolState(Enum):
    """State of a compute pool's process; the values are those of the system relations."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    SUSPENDED = "suspended"
    """No process, until a statement needs the pool."""
    ERRORED = "errored"


class Connection:
    """The socket of one run of a pool's driver. Each run has its own sequences, so an Ack is sent only on the connection of its request."""

    def __init__(self, pool: str, writer: asyncio.StreamWriter) -> None:
        self.pool = pool
        self._writer = writer

    def send(self, message: Message, payload: bytes = b"") -> bool:
        """Send a message to the driver; return False if that run of it has ended."""
        if self._writer.is_closing():
            return False
        self._writer.write(encode_frame(message, payload))
        return True

    @property
    def closed(self) -> bool:
        """True if that run of the driver is over."""
        return self._writer.is_closing()

    def close(self) -> None:
        """End it."""
        self._writer.close()


class DriverProcess:
    """A pool's driver, kept alive from `start` to `stop`.

    `on_message` gets every message and its payload in order, `Ready` included; `on_death` gets the reason when the process has ended
    though `stop` was not called, after which it is started again with back-off, unless it has refused the server's settings. `given` is
    what each run of it gets, and `command` what to run in place of the real driver. `warm_up` says of each new process whether it should
    be warm before it takes queries. `standby` returns a process that is warm already, None if there is none. `new_launch` returns each
    new run, if it is not one that ends with the server, and `end_timeout_s` is how long one may take to end. A run that is ready `outlives`
    the server, or does not; `returns` is true while the driver of an earlier server lives and may be taken over.
    """

    def __init__(
        self,
        pool: str,
        settings: Settings,
        given: Resources,
        *,
        on_message: Callable[[Connection, Message, bytes], None],
        on_death: Callable[[DriverProcess, str], None],
        command: Sequence[str] = DRIVER_COMMAND,
        warm_up: Callable[[], bool] = lambda: True,
        standby: Callable[[], DriverLaunch | None] = lambda: None,
        new_launch: Callable[[], Launch] | None = None,
        end_timeout_s: float = 2 * KILL_TIMEOUT_S + REMOVE_TIMEOUT_S,
        outlives: bool = False,
        returns: Callable[[], bool] = lambda: False,
    ) -> None:
        self.pool = pool
        self.state = PoolState.STOPPED
        self.message: str | None = None
        self.slots: PoolSlots | None = None
        """Slots on a cluster, as the driver that runs has last reported them."""
        self._settings = settings
        self._given = given
        self._on_message = on_message
        self._on_death = on_death
        self._new_launch = new_launch or (lambda: DriverLaunch(pool, settings, given, command))
        self._end_timeout_s = end_timeout_s
        self._warm_up = warm_up
        self._standby = standby
        self._outlives = outlives
        self._returns = returns
        self.is_returning = returns()
        """True while the driver of an earlier server is awaited, with queries that run."""
        self._life: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._ready_at = 0.0
        self._worked = False
        self.refused = False
        """True while the process is not tried again, since it cannot start with the server's settings."""
        self._stopping = self._leaving = False
        self._killed = asyncio.Event()
        self._kill_reason = ""
        self._connection: Connection | None = None

    @property
    def ready(self) -> bool:
        """True if queries are accepted now."""
        return self._ready.is_set() and not self._stopping

    @property
    def awaited(self) -> str | None:
        """The executors or the driver for which the pool waits while it starts; None if it does not start."""
        place = self._given.place
        if self.state is not PoolState.STARTING:
            return None
        if place.cluster is None:
            return "executors of a cluster" if self._given.target.is_cluster else "its driver to start"
        cluster = place.cluster
        count = "an executor" if cluster.executors == 1 else f"{cluster.executors} executors"
        return f"{count} with {counted(cluster.cores, 'core')} and {cluster.memory} each on {place.master}"

    def sees(self, folder: Path) -> bool:
        """True if the driver has the server's folder: a pod has only what is mounted there."""
        place = self._given.place
        if not is_kubernetes(place.master):
            return True
        mounts = () if place.is_remote else self._settings.checkpoint_mounts
        return any(folder.is_relative_to(root) for root in mounts)

    async def wait_ready(self) -> None:
        """Return once queries are accepted."""
        await self._ready.wait()

    def start(self) -> None:
        """Start; returns before the process runs."""
        if self._life is None:
            self.state = PoolState.STARTING
            self._life = asyncio.create_task(self._live(), name=f"pool-{self.pool}")

    def send(self, message: Message, payload: bytes = b"") -> bool:
        """Send a message to the driver; return False if no driver is connected."""
        return self._connection is not None and self._connection.send(message, payload)

    def kill(self, reason: str) -> None:
        """Kill this run of the process, which does not respond to requests; `on_death` gets `reason`, and the next run starts."""
        if self.ready:
            self._end_run(reason)

    async def stop(self, *, leave: bool = False) -> None:
        """End the process for good: by a message, then SIGTERM, then SIGKILL. With `leave`, one that outlives the server runs on."""
        # A driver that is not ready yet has no queries.
        self._leaving = leave and self._outlives and (self.ready or self.is_returning)
        self._stopping = True
        self.state, self.message = PoolState.STOPPING, None
        if self._life is not None:
            # A driver that is not ready yet does not listen.
            if not self._leaving and self._ready.is_set() and self.send(Shutdown()):
                await asyncio.wait({self._life}, timeout=STOP_TIMEOUT_S)
            # Not cancelled but asked, so that it ends and removes whatever there still is.
            self._end_run("the server is being stopped")
            await asyncio.wait({self._life}, timeout=self._end_timeout_s)
            self._life.cancel()
            await asyncio.gather(self._life, return_exceptions=True)
            self._life = None
        self._ready.clear()
        self.state, self.message = PoolState.STOPPED, None

    def _end_run(self, reason: str) -> None:
        self._kill_reason = reason
        self._killed.set()

    async def _live(self) -> None:
        failures, launch = 0, self._standby()
        while True:
            self._worked = self.refused = False
            try:
                reason = await self._run(launch)
            except OSError as error:
                reason = f"the driver process could not be started: {error}"
            except HeadraceError as error:
                reason = f"{error.message}. {error.hint}" if error.hint else error.message
            self.is_returning = self._returns()
            up_s = time.monotonic() - self._ready_at if self._ready.is_set() else 0.0
            self._ready.clear()
            if self._stopping:
                return
            self._killed.clear()
            failures = driver_failures(failures, up_s, worked=self._worked)
            launch = None if self.refused else self._standby()
            # Settings stay as they are until the server ends: another try would end likewise. A process on standby has passed it.
            is_first = launch is not None and failures == 1
            delay_ms = None if self.refused else 0 if is_first else backoff_ms(failures, self._settings)
            if self.refused:
                reason = f"{reason} STOP and START COMPUTE_POOL to try again, or restart the server."
            self.state, self.message = PoolState.ERRORED, reason
            log.warning("driver_ended", pool=self.pool, reason=reason, restart_in_ms=delay_ms)
            self._on_death(self, reason)
            with suppress(TimeoutError):
                async with asyncio.timeout(None if delay_ms is None else delay_ms / 1000):
                    # Nothing runs that could be killed: it is `stop`.
                    await self._killed.wait()
                    if launch is not None:
                        await launch.end()
                    return
            self.state = PoolState.STARTING

    async def _run(self, warm: DriverLaunch | None) -> str:
        """Run one process from start to end, the `warm` one if there is one; return why it ended."""
        launch: Launch
        if warm is not None:
            warm.take_over(self.pool)
            launch = warm
        else:
            launch = self._new_launch()
            await launch.start(warm_up=self._warm_up())
            self.is_returning = launch.returns
        try:
            return await self._watch(launch)
        finally:
            self.slots = None
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            await asyncio.shield(launch.leave() if self._leaving else launch.end())

    async def _watch(self, launch: Launch) -> str:
        exited = asyncio.create_task(launch.wait())
        serving = asyncio.create_task(self._serve(launch))
        becoming_ready = asyncio.create_task(self._ready.wait())
        killed = asyncio.create_task(self._killed.wait())
        stalled = asyncio.create_task(launch.stalled())
        tasks: set[asyncio.Task[Any]] = {exited, serving, becoming_ready, killed, stalled}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if done == {stalled}:
                return stalled.result()
            if done == {becoming_ready}:
                stalled.cancel()
                await asyncio.wait({exited, serving, killed}, return_when=asyncio.FIRST_COMPLETED)
            if killed.done() and not exited.done():
                return self._kill_reason
            if not exited.done():
                await asyncio.wait({exited}, timeout=KILL_TIMEOUT_S)
            if serving.done() and not serving.cancelled() and (error := serving.exception()) is not None:
                return f"the driver's connection failed: {error}"
            if not exited.done():
                return "the driver closed its connection"
            self.refused = exited.result() == DRIVER_REFUSED
            return (
                launch.failure()
                or f"the driver process ended with code {exited.result()}; see {launch.log.name}"
            )
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, launch: Launch) -> None:
        """Read messages until the connection ends."""
        reader, writer = await launch.connected
        connection = self._connection = Connection(self.pool, writer)
        if launch.ready is not None:
            self._handle(connection, launch.ready, b"")
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                self._handle(connection, *await read_frame(reader))

    def _handle(self, connection: Connection, message: Message, payload: bytes) -> None:
        if isinstance(message, PoolSlots):
            self.slots = message
            return
        if isinstance(message, Ready | Resumed):
            self.state, self.message = PoolState.RUNNING, None
            self._ready_at = time.monotonic()
            self._ready.set()
            self.is_returning = False
            if isinstance(message, Ready):
                log.info(
                    "driver_ready", pool=self.pool, start_ms=message.start_ms, spark=message.spark_version
                )
            else:
                log.info("driver_taken_over", pool=self.pool, pid=message.pid, queries=len(message.queries))
        elif isinstance(message, QueryProgress | Rows):
            self._worked = True
        self._on_message(connection, message, payload)
