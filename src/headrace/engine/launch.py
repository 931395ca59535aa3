"""Drivers, each from its start to its end. A process on this machine has a socket, a scratch folder and a log."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import psutil
import structlog

from headrace.core.settings import SECRETS, Settings
from headrace.engine.pool_properties import login
from headrace.engine.protocol import (
    DRIVER_FAILED,
    FRAME_BYTES_MAX,
    FRAME_HEADER,
    Message,
    Ready,
    Resumed,
    decode_message,
)
from headrace.engine.sizes import Resources
from headrace.runtime.guard import guarded

log = structlog.get_logger()

DRIVER_COMMAND = (sys.executable, "-m", "headrace.engine.driver")
MESSAGE_BYTES_MAX = 16 * 1024 * 1024
SOCKET_PATH_MAX = 100
"""Unix sockets' paths are cut off by the kernel: at 108 bytes on Linux, 104 on macOS."""
LOG_BYTES_MAX = 16 * 1024 * 1024
KILL_TIMEOUT_S = 5.0
READY_IDLE_S = 60.0
CLUSTER_READY_IDLE_S = 300.0
READY_IDLE_CPU_S = 0.5
"""A driver that is not ready and has used less processor time than this in READY_IDLE_S does not start. On a cluster it waits longer, since
it is idle while executors start, and gives up by itself.

A limit by the clock alone would end every start on a machine that is slow enough.
"""


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Launch(Protocol):
    """A driver: a process on this machine (`DriverLaunch`), or a pod (`kubernetes.launch.PodLaunch`).

    A process on a cluster may outlive its server: `outliving.OutlivingLaunch`.
    """

    log: Path

    @property
    def ready(self) -> Ready | Resumed | None:
        """The message of a driver that was ready before: it was warm, or ran for a server that has ended."""
        ...

    @property
    def connected(self) -> asyncio.Future[Streams]:
        """Its connection, once it has one, from `start` on."""
        ...

    @property
    def returns(self) -> bool:
        """True if the driver of an earlier server is awaited, from `start` on."""
        ...

    async def start(self, *, warm_up: bool) -> None:
        """Start it. Raises OSError or HeadraceError, and then leaves nothing."""
        ...

    async def wait(self) -> int:
        """Return its exit code when it has ended."""
        ...

    async def stalled(self) -> str:
        """Return why it does not start. It is cancelled when the driver is ready."""
        ...

    async def end(self) -> None:
        """End it and everything that it started, and remove what it leaves, except for the log."""
        ...

    async def leave(self) -> None:
        """Leave it to the next server, if it outlives this one; else as `end`."""
        ...

    def failure(self) -> str | None:
        """Return its own error, or that of the system that runs it."""
        ...


class DriverLaunch:
    """A process of a driver. `name` is that of its pool, and `connected` its socket, once it has one.

    `ready` is the message of a process that was warm before a pool took it over.
    """

    def __init__(
        self,
        name: str,
        settings: Settings,
        given: Resources,
        command: Sequence[str],
        *,
        log_name: str | None = None,
    ) -> None:
        self._name = name
        self._settings = settings
        self._given = given
        self._command = tuple(command)
        self._folder = settings.data_dir.resolve()
        self._socket = self._scratch = Path()
        self._server: asyncio.Server | None = None
        self._log_start = 0
        self.log = log_file(settings, name, log_name)
        self.ready: Ready | Resumed | None = None
        self.connected: asyncio.Future[Streams]
        self.returns = False

    async def start(self, *, warm_up: bool) -> None:
        """Start the process. Raises OSError, and then leaves nothing."""
        self.connected = asyncio.get_running_loop().create_future()
        self._socket = self._socket_folder()
        try:
            prefix = f"{_file_name(self._name)}-"
            self._scratch = Path(tempfile.mkdtemp(prefix=prefix, dir=_made(self._folder / "work")))
            self._server = await asyncio.start_unix_server(self._on_connection, path=self._socket / "s")
            self.process = await self._spawn(warm_up)
        except BaseException:
            await asyncio.shield(self._remove())
            raise

    async def wait(self) -> int:
        """Return the exit code of the process when it has ended."""
        return await self.process.wait()

    async def stalled(self) -> str:
        """Return the reason when the process and its descendants have stood still for too long."""
        return await stalled(self.process.pid, self._given, self.log)

    async def end(self) -> None:
        """End the process and everything that it started, and remove its files except for the log."""
        process = self.process
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
        if self.connected.done() and not self.connected.cancelled():
            self.connected.result()[1].close()
        await self._remove()

    async def leave(self) -> None:
        """End the process, which does not outlive its server."""
        await self.end()

    def take_over(self, pool: str) -> None:
        """Let the process belong to another pool: what it logs from now on is in the log of the pool."""
        path = self.log.with_name(f"{_log_name(pool)}.log")
        if path.exists():
            path.replace(path.with_suffix(".log.1"))
        self.log.replace(path)
        self.log, self._name = path, pool

    def failure(self) -> str | None:
        """Return this process's own error from the end of its log."""
        return last_failure(self.log, self._log_start)

    def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.connected.done():
            writer.close()
        else:
            self.connected.set_result((reader, writer))

    async def _spawn(self, warm_up: bool) -> asyncio.subprocess.Process:
        settings = self._settings
        options = driver_options(self._name, settings, self._given, work_dir=self._scratch, warm_up=warm_up)
        command = [*self._command, "--socket", str(self._socket / "s"), "--options", json.dumps(options)]
        rotate_log(self.log)
        with self.log.open("ab") as out:
            self._log_start = out.tell()
            process = await asyncio.create_subprocess_exec(
                *guarded(command, grace_s=KILL_TIMEOUT_S, lease=settings.lease_file),
                # Never written to: the guard ends the driver when this end closes, be it by our own death.
                stdin=asyncio.subprocess.PIPE,
                stdout=out,
                stderr=out,
                start_new_session=True,
                env=environment(settings, self._given),
            )
        log.info("driver_started", pool=self._name, pid=process.pid)
        return process

    def _socket_folder(self) -> Path:
        """Return a new folder that only this user may enter, with a path short enough for a socket in it."""
        folder = Path(tempfile.mkdtemp(prefix="d-", dir=_made(self._folder / "run")))
        if len(os.fsencode(folder / "s")) > SOCKET_PATH_MAX:
            folder.rmdir()
            folder = Path(tempfile.mkdtemp(prefix="headrace-"))
        return folder

    async def _remove(self) -> None:
        if self._server is not None:
            self._server.close()
        shutil.rmtree(self._socket, ignore_errors=True)
        if self._scratch != Path():
            await asyncio.to_thread(shutil.rmtree, self._scratch, ignore_errors=True)


async def stalled(pid: int, given: Resources, file: Path) -> str:
    """Return the reason when a process and its descendants have stood still for too long; `file` is its log."""
    idle_s = CLUSTER_READY_IDLE_S if given.target.is_cluster else READY_IDLE_S
    used_s = 0.0
    while True:
        await asyncio.sleep(idle_s)
        before_s, used_s = used_s, _processor_s(pid)
        if used_s - before_s < READY_IDLE_CPU_S:
            return f"the driver was not ready, and had done nothing for {idle_s:.0f} s; see {file.name}"


def environment(settings: Settings, given: Resources) -> dict[str, str]:
    """Return our environment without secrets, but with `driver_secrets`, since a command line can be read by everybody."""
    inherited = {name: value for name, value in os.environ.items() if name not in SECRETS}
    return inherited | driver_secrets(settings, given)


def driver_secrets(settings: Settings, given: Resources) -> dict[str, str]:
    """Return the variables with the secrets of a cluster and of a bucket of checkpoints."""
    bucket = login(settings).variables() if given.place.is_remote else {}
    secret = settings.spark_secret
    return bucket | ({"HEADRACE_SPARK_SECRET": secret.get_secret_value()} if secret else {})


def driver_options(
    pool: str, settings: Settings, given: Resources, *, work_dir: Path, warm_up: bool
) -> dict[str, Any]:
    """Return the JSON of `driver.options.DriverOptions`."""
    return {
        "pool": pool,
        "work_dir": str(work_dir),
        "spark_master": given.place.master,
        "driver_host": settings.driver_host,
        "worker_python": settings.worker_python and str(settings.worker_python),
        "cluster": given.place.cluster and asdict(given.place.cluster),
        "checkpoints": given.place.checkpoints or str(settings.durable_dir / "checkpoints"),
        "driver_memory_mb": given.heap_mb,
        "shuffle_partitions": settings.shuffle_partitions,
        "small_batch_records": settings.small_batch_records,
        "warm_up": warm_up,
    }


def log_file(settings: Settings, pool: str, name: str | None = None) -> Path:
    """Return the log of a pool's driver, in a folder that exists."""
    return _made(settings.data_dir.resolve() / "logs") / f"{name or _log_name(pool)}.log"


def rotate_log(file: Path) -> None:
    """Move a log that is too long out of the way, in place of the one that was moved before. Raises OSError."""
    if file.exists() and file.stat().st_size > LOG_BYTES_MAX:
        file.replace(file.with_suffix(".log.1"))


def last_failure(file: Path, start: int) -> str | None:
    """Return a driver's own error from the end of its log, whose part of this run begins at `start`; None without one."""
    with suppress(OSError), file.open("rb") as content:
        content.seek(max(start, content.seek(0, os.SEEK_END) - 4096))
        lines = content.read().decode(errors="replace").splitlines()
        return next(
            (line.partition(DRIVER_FAILED)[2] for line in reversed(lines) if DRIVER_FAILED in line), None
        )
    return None


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


def _file_name(pool: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", pool)


def _log_name(pool: str) -> str:
    return f"driver-{_file_name(pool)}"


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder
