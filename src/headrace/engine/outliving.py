"""A driver that outlives its server, from its start, or from the moment when the next server takes it over, to its end (docs/adr/0096)."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import structlog

from headrace import __version__
from headrace.catalog.pool_drivers import PoolDrivers
from headrace.core.errors import ExternalError, HeadraceError
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.engine.driver_folder import LEASE_MARGIN_S, DriverFolder, KeptDriver
from headrace.engine.handshake import HANDSHAKE_TIMEOUT_S, Handshake, HandshakeLaunch, read_token
from headrace.engine.launch import (
    KILL_TIMEOUT_S,
    SOCKET_PATH_MAX,
    driver_options,
    driver_secrets,
    environment,
    last_failure,
    log_file,
    rotate_log,
    stalled,
)
from headrace.engine.sizes import Resources
from headrace.runtime.guard import guarded

log = structlog.get_logger()

RETURN_TIMEOUT_S = 30.0
"""How long a driver may take to follow the next server. It tries four times a second; a machine may be slow."""
START_TIMEOUT_S = 600.0
"""How long the guard waits for a new driver to connect, on a machine however slow."""
_POLL_S = 0.25
_JAVA = ("HEADRACE_JAVA_HOME", "HEADRACE_JAVA_OPTIONS")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def outlives_s(settings: Settings, given: Resources) -> int:
    """Return for how many seconds a driver with these resources waits for its next server; 0 if it ends with its server."""
    # With a lease, the drivers of a server that no longer leads end.
    if not given.target.is_cluster or settings.lease_file is not None:
        return 0
    return settings.driver_orphan_s


def bound_s(seconds: int) -> int:
    """Return for how long a driver may live after its server at most, if it waits so many seconds for the next one."""
    return seconds + round(LEASE_MARGIN_S) + 5


def drivers_folder(settings: Settings) -> Path:
    """Return the folder with the folders of all drivers that outlive their server."""
    return settings.data_dir.resolve() / "drivers"


def place(settings: Settings) -> str:
    """Return the identity of the machine's present start and of the data directory. In the same place, the lock of a driver's folder shows
    if the driver lives; in another one, nobody can know. Raises OSError."""
    folder = drivers_folder(settings)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    mark = folder / "id"
    if not mark.exists():
        mark.write_text(str(uuid.uuid4()))
    boot = f"{socket.gethostname()} {psutil.boot_time():.0f}"
    if sys.platform == "linux":
        boot = _BOOT_ID.read_text().strip()
    return f"{boot} {mark.read_text()}"


def digest(token: str, settings: Settings, given: Resources, place: object = None) -> str:
    """Return a digest of the version, the options and the secrets with which a driver runs: a server with others starts another driver.
    `place` are facts about a pod; a process has the variables of its server for Java instead."""
    options = driver_options("", settings, given, work_dir=Path(), warm_up=False)
    place = place or {name: os.environ.get(name) for name in _JAVA}
    facts = json.dumps([__version__, options, place, driver_secrets(settings, given)], sort_keys=True)
    return hmac.new(token.encode(), facts.encode(), hashlib.sha256).hexdigest()


def kept_driver(folder: DriverFolder, settings: Settings, given: Resources) -> KeptDriver | None:
    """Return the driver of an earlier server that lives and that this server may take over; None if there is none."""
    try:
        kept = folder.kept() if folder.is_held() else None
        same = kept is not None and hmac.compare_digest(kept.digest, digest(folder.token, settings, given))
    except OSError:
        return None
    return kept if same else None


class OutlivingLaunch(HandshakeLaunch):
    """A process whose members are those of `launch.Launch`; `leave` lets it run on."""

    def __init__(
        self,
        pool: str,
        pool_id: str,
        settings: Settings,
        given: Resources,
        command: Sequence[str],
        drivers: PoolDrivers,
    ) -> None:
        self._pool = pool
        self._pool_id = pool_id
        self._settings = settings
        self._given = given
        self._command = tuple(command)
        self._drivers = drivers
        self._folder = DriverFolder(drivers_folder(settings) / pool_id)
        self._digest = ""
        self._pid = self._epoch = self._log_start = 0
        self._socket = Path()
        self._process: subprocess.Popen[bytes] | None = None
        self._server: asyncio.Server | None = None
        self._admitting: set[asyncio.Task[None]] = set()
        self.log = log_file(settings, pool)

    async def start(self, *, warm_up: bool) -> None:
        """Wait for the driver of an earlier server, or start one. Raises OSError or HeadraceError, and then nothing new runs."""
        kept = kept_driver(self._folder, self._settings, self._given)
        if kept is None and self._folder.is_held():
            raise ExternalError(
                SqlState.COMPUTE_POOL_NOT_READY,
                f"an earlier driver of the compute pool {self._pool!r} has not ended yet",
                hint="It ends by itself. The next start waits for it.",
            )
        self._epoch = await asyncio.to_thread(
            self._drivers.claim,
            self._pool_id,
            place(self._settings),
            socket.gethostname(),
            bound_s(outlives_s(self._settings, self._given)),
            after=kept.epoch if kept is not None else 0,
        )
        if kept is not None:
            await self._await_return(kept)
            return
        try:
            await self._start_anew(warm_up)
        except BaseException:
            await asyncio.shield(self.end())
            raise

    async def wait(self) -> int:
        """Return the exit code when the process has ended; 1 if an earlier server has started it."""
        while self._process is None and self._folder.is_held():
            await asyncio.sleep(_POLL_S)
        while self._process is not None and self._process.poll() is None:
            await asyncio.sleep(_POLL_S)
        return self._process.returncode if self._process is not None else 1

    async def stalled(self) -> str:
        """Return why the driver does not become ready, or does not follow this server."""
        if self.returns:
            return await asyncio.shield(self._handshake.failed)
        return await stalled(self._pid, self._given, self.log)

    async def end(self) -> None:
        """End the process and everything that it started, and remove its files except for the log. A driver that follows a later server is
        not ended."""
        await self._close()
        if self._handshake.is_refused:
            return
        if self._pid and not await self._folder.end(self._pid, grace_s=KILL_TIMEOUT_S + 1):
            log.error("driver_not_ended", pool=self._pool, pid=self._pid)
            return
        if self._process is not None:
            await asyncio.to_thread(self._process.wait)
        self._remove_socket()
        await asyncio.to_thread(self._folder.remove)
        try:
            await asyncio.to_thread(self._drivers.release, self._pool_id, self._epoch)
        except HeadraceError as error:
            # On this machine, the lock shows that it has ended.
            log.warning("driver_not_released", pool=self._pool, reason=error.message)

    async def leave(self) -> None:
        """Close the connection: the driver waits for the next server."""
        await self._close()
        if self._process is not None:
            threading.Thread(target=self._process.wait, name=f"left-{self._pid}", daemon=True).start()
        log.info("driver_left", pool=self._pool, pid=self._pid, waits_s=self._settings.driver_orphan_s)

    def failure(self) -> str | None:
        """Return this process's own error from the end of its log."""
        return last_failure(self.log, self._log_start)

    async def _await_return(self, kept: KeptDriver) -> None:
        """Listen where the driver looks for a server."""
        self.returns = True
        self._pid, self._socket = kept.pid, kept.socket
        self._handshake = Handshake(self._pool, self._folder.token, epoch=self._epoch, returns=True)
        self._folder.keep(kept.model_copy(update={"epoch": self._epoch}))
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        self._handshake.fail_after(RETURN_TIMEOUT_S)
        log.info("driver_awaited", pool=self._pool, pid=kept.pid, epoch=self._epoch)
        try:
            await self._listen()
        except OSError as error:
            # Such as a folder for temporary files that was cleaned up: the driver is ended, since it finds no server.
            self._handshake.fail(
                f"cannot listen where the driver of the earlier server looks for one: {error}"
            )

    async def _start_anew(self, warm_up: bool) -> None:
        self._handshake = Handshake(self._pool, secrets.token_urlsafe(32))
        self._folder.create(self._handshake.token)
        self._digest = digest(self._handshake.token, self._settings, self._given)
        self._socket = self._socket_path()
        await self._listen()
        # Until the driver renews it. It has no queries before.
        self._folder.renew(START_TIMEOUT_S)
        rotate_log(self.log)
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        self._process = await asyncio.to_thread(self._spawn, warm_up)
        self._pid = self._process.pid
        self._folder.keep(
            KeptDriver(pid=self._pid, socket=self._socket, digest=self._digest, epoch=self._epoch)
        )
        log.info("driver_started", pool=self._pool, pid=self._pid, epoch=self._epoch)

    def _spawn(self, warm_up: bool) -> subprocess.Popen[bytes]:
        settings = self._settings
        options: dict[str, Any] = driver_options(
            self._pool, settings, self._given, work_dir=self._folder.work, warm_up=warm_up
        )
        options["outlive"] = {
            "folder": str(self._folder.path),
            "epoch": self._epoch,
            "orphan_s": settings.driver_orphan_s,
        }
        command = [*self._command, "--socket", str(self._socket), "--options", json.dumps(options)]
        self._folder.work.mkdir(mode=0o700)
        lock = self._folder.hold()
        try:
            with self.log.open("ab") as out:
                return subprocess.Popen(
                    guarded(command, grace_s=KILL_TIMEOUT_S, lease=self._folder.lease, outlives=True),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                    env=environment(settings, self._given),
                    pass_fds=[lock],
                )
        finally:
            os.close(lock)

    def _socket_path(self) -> Path:
        """Return a path of a socket, short enough, in a folder that only this user may enter and that stays for the next server."""
        path = self._folder.path / "s"
        if len(os.fsencode(path)) > SOCKET_PATH_MAX:
            path = Path(tempfile.mkdtemp(prefix="headrace-")) / "s"
        return path

    async def _listen(self) -> None:
        self._socket.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._on_connection, path=self._socket)

    def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._admit(reader, writer), name=f"driver of {self._pool} connects")
        self._admitting.add(task)
        task.add_done_callback(self._admitting.discard)

    async def _admit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Accept a connection if it is the driver's; otherwise close it."""
        try:
            async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
                if not self._handshake.knows(await read_token(reader)):
                    raise ValueError("the connection is not that of the driver")
                await self._handshake.admit(reader, writer)
        except (OSError, EOFError, ValueError, TimeoutError) as error:
            log.warning("driver_refused", pool=self._pool, reason=str(error) or type(error).__name__)
            writer.close()
            return
        except asyncio.CancelledError:
            writer.close()
            raise

    async def _close(self) -> None:
        """Close the socket and the connection."""
        if self._server is not None:
            self._server.close()
        for task in self._admitting:
            task.cancel()
        await asyncio.gather(*self._admitting, return_exceptions=True)
        self._handshake.close()

    def _remove_socket(self) -> None:
        if self._socket != Path() and self._socket.parent != self._folder.path:
            with suppress(OSError):
                self._socket.unlink(missing_ok=True)
                self._socket.parent.rmdir()
