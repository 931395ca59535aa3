"""Warm driver processes that wait for the next pool which starts, or whose driver has died. ADR 66."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress

import structlog

from headrace.core.settings import Settings
from headrace.engine.launch import DriverLaunch, read_frame
from headrace.engine.lifecycle import backoff_ms, driver_failures
from headrace.engine.protocol import DRIVER_REFUSED, Ready
from headrace.engine.sizes import Resources

log = structlog.get_logger()

DELAY_S = 20.0
"""After a start, and after a process was taken: the queries that start then need the processor more."""


class Standby:
    """Idle process with the resources of a small pool, kept from `start` to `stop`. Used from one event loop."""

    def __init__(self, number: int, settings: Settings, given: Resources, command: Sequence[str]) -> None:
        # Not the name of the log of a pool.
        self._name = f"standby-{number}"
        self._settings = settings
        self._given = given
        self._command = command
        self._life: asyncio.Task[None] | None = None
        self._warm: DriverLaunch | None = None
        self._taken = asyncio.Event()

    def start(self) -> None:
        """Start; returns before the process runs."""
        self._life = asyncio.create_task(self._live(), name=self._name)

    async def stop(self) -> None:
        """End the process for good."""
        if self._life is not None:
            self._life.cancel()
            await asyncio.gather(self._life, return_exceptions=True)
            self._life = None

    def take(self, given: Resources) -> DriverLaunch | None:
        """Return the process if it is warm and has these resources, for the caller to run and to end; None otherwise."""
        launch = self._warm
        if launch is None or given != self._given or launch.process.returncode is not None:
            return None
        self._warm = None
        self._taken.set()
        log.info("standby_taken", pid=launch.process.pid)
        return launch

    async def _live(self) -> None:
        failures = 0
        delay_s = DELAY_S
        while True:
            await asyncio.sleep(delay_s)
            launch = DriverLaunch(self._name, self._settings, self._given, self._command, log_name=self._name)
            started = time.monotonic()
            try:
                await launch.start(warm_up=True)
            except OSError as error:
                log.warning("standby_ended", reason=str(error))
            else:
                if await self._keep(launch):
                    failures, delay_s = 0, DELAY_S
                    continue
                log.warning("standby_ended", reason=launch.failure(), code=launch.process.returncode)
                if launch.process.returncode == DRIVER_REFUSED:
                    # The pools report the reason.
                    return
            failures = driver_failures(failures, time.monotonic() - started, worked=False)
            delay_s = backoff_ms(failures, self._settings) / 1000

    async def _keep(self, launch: DriverLaunch) -> bool:
        """Keep a process until it is taken; return False if it ended before."""
        self._taken.clear()
        exited = asyncio.create_task(launch.process.wait())
        taken = asyncio.create_task(self._taken.wait())
        warming = asyncio.create_task(self._wait_ready(launch))
        try:
            await asyncio.wait({exited, taken, warming}, return_when=asyncio.FIRST_COMPLETED)
            if warming.done() and not exited.done():
                await asyncio.wait({exited, taken}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._warm = None
            for task in (exited, taken, warming):
                task.cancel()
            await asyncio.gather(exited, taken, warming, return_exceptions=True)
            if not self._taken.is_set():
                await asyncio.shield(launch.end())
        return self._taken.is_set()

    async def _wait_ready(self, launch: DriverLaunch) -> None:
        """Offer the process once it is warm."""
        reader, _ = await launch.connected
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            message, _ = await read_frame(reader)
            if isinstance(message, Ready):
                launch.ready = message
                self._warm = launch
                log.info("standby_ready", pid=launch.process.pid, start_ms=message.start_ms)
