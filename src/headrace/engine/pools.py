"""The process of a compute pool: started, spoken to, watched, started again, ended."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any

import psutil
import structlog

from headrace.core.settings import SECRETS, Settings
from headrace.engine.lifecycle import backoff_ms, driver_failures
from headrace.engine.protocol import (
    DRIVER_FAILED,
    DRIVER_REFUSED,
    FRAME_BYTES_MAX,
    FRAME_HEADER,
    Message,
    QueryProgress,
    Ready,
    Rows,
    Shutdown,
    decode_message,
    encode_frame,
)
from headrace.engine.sizes import Resources
from headrace.runtime.guard import guarded

log = structlog.get_logger()

DRIVER_COMMAND = (sys.executable, "-m", "headrace.engine.driver")
MESSAGE_BYTES_MAX = 16 * 1024 * 1024
SOCKET_PATH_MAX = 100
"""Unix sockets' paths are cut off by the kernel: at 108 bytes on Linux, 104 on macOS."""
LOG_BYTES_MAX = 16 * 1024 * 1024
READY_IDLE_S = 60.0
READY_IDLE_CPU_S = 0.5
"""A driver that is not ready and has used less processor time than this in READY_IDLE_S does not start.

A limit by the clock alone would end every start on a machine that is slow enough.
"""
STOP_TIMEOUT_S = 15.0
KILL_TIMEOUT_S = 5.0
REMOVE_TIMEOUT_S = 5.0


class PoolState(Enum):
    """State of a compute pool's process; the values are those of the system relations."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    ERRORED = "errored"


class Connection:
    """The socket of one run of a pool's driver. Each run has its own sequences, so an Ack is sent only on the connection of its request."""

    def __init__(self, pool: str, writer: asyncio.StreamWriter) -> None:
        self.pool = pool
        self._writer = writer

    def send(self, message: Message, payload: bytes = b"") -> bool:
        """Give the driver a message; False when that run of it is over."""
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
    be warm before it takes queries.
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
    ) -> None:
        self.pool = pool
        self._folder = settings.data_dir.resolve()
        self._file_name = re.sub(r"[^A-Za-z0-9_-]", "_", pool)
        self.state = PoolState.STOPPED
        self.message: str | None = None
        self._settings = settings
        self._given = given
        self._on_message = on_message
        self._on_death = on_death
        self._command = tuple(command)
        self._warm_up = warm_up
        self._life: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._ready_at = 0.0
        self._worked = False
        self.refused = False
        """True while the process is not tried again, since it cannot start with the server's settings."""
        self._stopping = False
        self._killed = asyncio.Event()
        self._kill_reason = ""
        self._connection: Connection | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._log_start = 0

    @property
    def ready(self) -> bool:
        """True if queries are accepted now."""
        return self._ready.is_set() and not self._stopping

    async def wait_ready(self) -> None:
        """Return once queries are accepted."""
        await self._ready.wait()

    def start(self) -> None:
        """Begin; returns before the process runs."""
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

    async def stop(self) -> None:
        """End the process for good: by a message, then SIGTERM, then SIGKILL."""
        self._stopping = True
        self.state, self.message = PoolState.STOPPING, None
        if self._life is not None:
            # A driver that is not ready yet does not listen.
            if self._ready.is_set() and self.send(Shutdown()):
                await asyncio.wait({self._life}, timeout=STOP_TIMEOUT_S)
            # Not cancelled but asked, so that it ends and removes whatever there still is.
            self._end_run("the server is being stopped")
            await asyncio.wait({self._life}, timeout=2 * KILL_TIMEOUT_S + REMOVE_TIMEOUT_S)
            self._life.cancel()
            await asyncio.gather(self._life, return_exceptions=True)
            self._life = None
        self._ready.clear()
        self.state, self.message = PoolState.STOPPED, None

    def _end_run(self, reason: str) -> None:
        self._kill_reason = reason
        self._killed.set()

    async def _live(self) -> None:
        failures = 0
        while True:
            self._worked = self.refused = False
            try:
                reason = await self._run()
            except OSError as error:
                reason = f"the driver process could not be started: {error}"
            up_s = time.monotonic() - self._ready_at if self._ready.is_set() else 0.0
            self._ready.clear()
            if self._stopping:
                return
            self._killed.clear()
            failures = driver_failures(failures, up_s, worked=self._worked)
            # Settings stay as they are until the server ends: another try would end likewise.
            delay_ms = None if self.refused else backoff_ms(failures, self._settings)
            if self.refused:
                reason = f"{reason} STOP and START COMPUTE_POOL to try again, or restart the server."
            self.state, self.message = PoolState.ERRORED, reason
            log.warning("driver_ended", pool=self.pool, reason=reason, restart_in_ms=delay_ms)
            self._on_death(self, reason)
            with suppress(TimeoutError):
                async with asyncio.timeout(None if delay_ms is None else delay_ms / 1000):
                    # Nothing runs that could be killed: it is `stop`.
                    await self._killed.wait()
                    return
            self.state = PoolState.STARTING

    async def _run(self) -> str:
        """Run one process from start to end; return why it ended."""
        folder = self._socket_folder()
        scratch = Path(tempfile.mkdtemp(prefix=f"{self._file_name}-", dir=_made(self._folder / "work")))
        connected: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
        connected = asyncio.get_running_loop().create_future()

        def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if connected.done():
                writer.close()
            else:
                connected.set_result((reader, writer))

        server = await asyncio.start_unix_server(on_connection, path=folder / "s")
        try:
            process = await self._spawn(folder / "s", scratch)
            try:
                return await self._watch(process, connected)
            finally:
                await asyncio.shield(self._end(process))
        finally:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            server.close()
            shutil.rmtree(folder, ignore_errors=True)
            await asyncio.shield(asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True))

    async def _spawn(self, path: Path, scratch: Path) -> asyncio.subprocess.Process:
        settings = self._settings
        options = {
            "pool": self.pool,
            "work_dir": str(scratch),
            "spark_master": self._given.master,
            "driver_memory_mb": self._given.heap_mb,
            "shuffle_partitions": settings.shuffle_partitions,
            "small_batch_records": settings.small_batch_records,
            "warm_up": self._warm_up(),
        }
        command = [*self._command, "--socket", str(path), "--options", json.dumps(options)]
        with self._log_file().open("ab") as out:
            self._log_start = out.tell()
            self._process = await asyncio.create_subprocess_exec(
                *guarded(command, grace_s=KILL_TIMEOUT_S),
                # Never written to: the guard ends the driver when this end closes, be it by our own death.
                stdin=asyncio.subprocess.PIPE,
                stdout=out,
                stderr=out,
                start_new_session=True,
                env=self._environment(),
            )
        log.info("driver_started", pool=self.pool, pid=self._process.pid)
        return self._process

    def _environment(self) -> dict[str, str]:
        """Return our environment without secrets, but with a cluster's, since a command line can be read by everybody."""
        inherited = {name: value for name, value in os.environ.items() if name not in SECRETS}
        secret = self._settings.spark_secret
        return inherited | ({"HEADRACE_SPARK_SECRET": secret.get_secret_value()} if secret else {})

    async def _watch(
        self,
        process: asyncio.subprocess.Process,
        connected: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]],
    ) -> str:
        exited = asyncio.create_task(process.wait())
        serving = asyncio.create_task(self._serve(connected))
        becoming_ready = asyncio.create_task(self._ready.wait())
        killed = asyncio.create_task(self._killed.wait())
        tasks: set[asyncio.Task[Any]] = {exited, serving, becoming_ready, killed}
        try:
            done = await _first_of(tasks, process.pid)
            if not done:
                return f"the driver was not ready, and had done nothing for {READY_IDLE_S:.0f} s; see {self._log_file().name}"
            if done == {becoming_ready}:
                await asyncio.wait(tasks - done, return_when=asyncio.FIRST_COMPLETED)
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
                self._failure()
                or f"the driver process ended with code {exited.result()}; see {self._log_file().name}"
            )
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(
        self, connected: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
    ) -> None:
        """Read messages until the connection ends."""
        reader, writer = await connected
        connection = self._connection = Connection(self.pool, writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                message, payload = await read_frame(reader)
                if isinstance(message, Ready):
                    self.state, self.message = PoolState.RUNNING, None
                    self._ready_at = time.monotonic()
                    self._ready.set()
                    log.info(
                        "driver_ready", pool=self.pool, start_ms=message.start_ms, spark=message.spark_version
                    )
                elif isinstance(message, QueryProgress | Rows):
                    self._worked = True
                self._on_message(connection, message, payload)

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        """End the process and everything that it started."""
        self._process = None
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.terminate()
            with suppress(TimeoutError):
                async with asyncio.timeout(KILL_TIMEOUT_S + 1):
                    await process.wait()
        # The group is the guard's own session: a JVM that outlived its driver is in it.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        if process.stdin is not None:
            process.stdin.close()

    def _socket_folder(self) -> Path:
        """Return a new folder that only this user may enter, with a path short enough for a socket in it."""
        run = _made(self._folder / "run")
        folder = Path(tempfile.mkdtemp(prefix="d-", dir=run))
        if len(os.fsencode(folder / "s")) > SOCKET_PATH_MAX:
            folder.rmdir()
            folder = Path(tempfile.mkdtemp(prefix="headrace-"))
        return folder

    def _log_file(self) -> Path:
        """Return the driver's log file; a large one of earlier runs is renamed once."""
        path = _made(self._folder / "logs") / f"driver-{self._file_name}.log"
        if self._process is None and path.exists() and path.stat().st_size > LOG_BYTES_MAX:
            path.replace(path.with_suffix(".log.1"))
        return path

    def _failure(self) -> str | None:
        """Return this run's own error from the end of its log."""
        with suppress(OSError), self._log_file().open("rb") as log_file:
            log_file.seek(max(self._log_start, log_file.seek(0, os.SEEK_END) - 4096))
            lines = log_file.read().decode(errors="replace").splitlines()
            return next(
                (line.partition(DRIVER_FAILED)[2] for line in reversed(lines) if DRIVER_FAILED in line), None
            )
        return None


async def _first_of(tasks: set[asyncio.Task[Any]], pid: int) -> set[asyncio.Task[Any]]:
    """Return the tasks that are done first; none if the process `pid` and its descendants stand still before."""
    used_s = 0.0
    while True:
        done, _ = await asyncio.wait(tasks, timeout=READY_IDLE_S, return_when=asyncio.FIRST_COMPLETED)
        before_s, used_s = used_s, _processor_s(pid)
        if done or used_s - before_s < READY_IDLE_CPU_S:
            return done


def _processor_s(pid: int) -> float:
    """Return the processor time that a process and its descendants have used, in seconds."""
    seconds = 0.0
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for each in [process, *process.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                times = each.cpu_times()
                seconds += times.user + times.system
    return seconds


async def read_frame(reader: asyncio.StreamReader) -> tuple[Message, bytes]:
    """Return the next message and its payload. Raises IncompleteReadError at the end and ValueError for a malformed frame."""
    body_length, payload_length = FRAME_HEADER.unpack(await reader.readexactly(FRAME_HEADER.size))
    if body_length > MESSAGE_BYTES_MAX or payload_length > FRAME_BYTES_MAX:
        raise ValueError(
            f"expected a frame of at most {FRAME_BYTES_MAX} bytes, found {body_length} + {payload_length}"
        )
    message = decode_message(await reader.readexactly(body_length))
    return message, await reader.readexactly(payload_length)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder
