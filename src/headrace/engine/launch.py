"""Processes of drivers, each from its start to its end: its socket, its scratch folder and its log."""

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

import structlog

from headrace.core.settings import SECRETS, Settings
from headrace.engine.pool_properties import login
from headrace.engine.protocol import (
    DRIVER_FAILED,
    FRAME_BYTES_MAX,
    FRAME_HEADER,
    Message,
    Ready,
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
        self.log = _made(self._folder / "logs") / f"{log_name or _log_name(name)}.log"
        self.ready: Ready | None = None
        self.connected: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]

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

    def take_over(self, pool: str) -> None:
        """Let the process belong to another pool: what it logs from now on is in the log of the pool."""
        path = self.log.with_name(f"{_log_name(pool)}.log")
        if path.exists():
            path.replace(path.with_suffix(".log.1"))
        self.log.replace(path)
        self.log, self._name = path, pool

    def failure(self) -> str | None:
        """Return this process's own error from the end of its log."""
        with suppress(OSError), self.log.open("rb") as log_file:
            log_file.seek(max(self._log_start, log_file.seek(0, os.SEEK_END) - 4096))
            lines = log_file.read().decode(errors="replace").splitlines()
            return next(
                (line.partition(DRIVER_FAILED)[2] for line in reversed(lines) if DRIVER_FAILED in line), None
            )
        return None

    def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.connected.done():
            writer.close()
        else:
            self.connected.set_result((reader, writer))

    async def _spawn(self, warm_up: bool) -> asyncio.subprocess.Process:
        settings = self._settings
        options = {
            "pool": self._name,
            "work_dir": str(self._scratch),
            "spark_master": self._given.place.master,
            "driver_host": settings.driver_host,
            "worker_python": settings.worker_python and str(settings.worker_python),
            "cluster": self._given.place.cluster and asdict(self._given.place.cluster),
            "checkpoints": self._given.place.checkpoints or str(settings.durable_dir / "checkpoints"),
            "driver_memory_mb": self._given.heap_mb,
            "shuffle_partitions": settings.shuffle_partitions,
            "small_batch_records": settings.small_batch_records,
            "warm_up": warm_up,
        }
        command = [*self._command, "--socket", str(self._socket / "s"), "--options", json.dumps(options)]
        if self.log.exists() and self.log.stat().st_size > LOG_BYTES_MAX:
            self.log.replace(self.log.with_suffix(".log.1"))
        with self.log.open("ab") as out:
            self._log_start = out.tell()
            process = await asyncio.create_subprocess_exec(
                *guarded(command, grace_s=KILL_TIMEOUT_S, lease=settings.lease_file),
                # Never written to: the guard ends the driver when this end closes, be it by our own death.
                stdin=asyncio.subprocess.PIPE,
                stdout=out,
                stderr=out,
                start_new_session=True,
                env=self._environment(),
            )
        log.info("driver_started", pool=self._name, pid=process.pid)
        return process

    def _environment(self) -> dict[str, str]:
        """Return our environment without secrets, but with those of a cluster and of a bucket of checkpoints, since a command line can be
        read by everybody."""
        inherited = {name: value for name, value in os.environ.items() if name not in SECRETS}
        secret = self._settings.spark_secret
        bucket = login(self._settings).variables() if self._given.place.is_remote else {}
        return inherited | bucket | ({"HEADRACE_SPARK_SECRET": secret.get_secret_value()} if secret else {})

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
