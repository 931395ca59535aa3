"""The server process: one over each data directory, from lock to clean end."""

from __future__ import annotations

import asyncio
import fcntl
import gc
import importlib
import os
import resource
import signal
import socket
import ssl
import sys
import time
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
import uvicorn

from headrace.catalog.lease import Lease
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.server import tracing
from headrace.server.connections import Connections
from headrace.server.sharing import check_settings

if TYPE_CHECKING:
    from fastapi import FastAPI

    from headrace.runtime.kafka_broker import KafkaBroker

log = structlog.get_logger()

CLAIM_INTERVAL_S = 0.5
LEASE_INTERVAL_S = 0.25
TOKEN_FILE = "token"  # noqa: S105 - a file's name
SOCKETS_END_S = 2
FILES_MAX = 65_536
BROKER_BACKOFF_S = 1.0
BROKER_BACKOFF_MAX_S = 60.0
BROKER_STABLE_S = 10.0
"""A broker that ran for so long has started well: its end is a first failure again."""
SWITCH_INTERVAL_S = 0.001
"""After that a thread that computes (a wide statement being planned) makes way for the event loop; Python's own 5 ms add up."""
PING_INTERVAL_S = 20.0
PING_TIMEOUT_S = 300.0
"""Long, because the Go client answers no pings while its reader is busy with the rows that it has."""


async def serve(settings: Settings, *, kafka_port: int | None) -> None:
    """Serve until SIGTERM or SIGINT. `kafka_port` None starts no broker, 0 one on a free port.

    Prints `headrace ready URL` on standard output once requests are answered. Raises HeadraceError when it cannot start.
    """
    stop = _StopSignals()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    # Everything below the data directory is for this user alone.
    os.umask(0o077)
    allow_files()
    tls = _tls(settings)
    check_settings(settings, kafka_port=kafka_port)
    with _exclusive(settings.data_dir), ExitStack() as listeners:
        listener = listeners.enter_context(_listening(settings.host, settings.port, "--port"))
        postgres = (
            listeners.enter_context(
                _listening(settings.host, settings.postgres_port, "HEADRACE_POSTGRES_PORT")
            )
            if settings.postgres_port is not None
            else None
        )
        lease = None
        if settings.shared_dir is not None:
            lease = await _lead(settings, listener, tls, stop)
            if lease is None:
                return
        async with AsyncExitStack() as life:
            # The broker's JVM and our own imports take seconds each: side by side.
            broker = asyncio.create_task(_enter_broker(life, settings.data_dir / "kafka", kafka_port))
            try:
                wiring = await asyncio.to_thread(importlib.import_module, "headrace.server.wiring")
            finally:
                address = await broker
            wired = wiring.build(settings, broker=address, lease=lease)
            life.callback(wired.catalog.close)
            if lease is not None:
                life.callback(asyncio.create_task(_end_with(lease), name="lease").cancel)
            life.push_async_callback(asyncio.to_thread, await asyncio.to_thread(tracing.start))
            # The loaded catalog stays in memory: without the freeze, each full collection scans it, which takes 0.25 s at 10,000 relations.
            gc.freeze()
            life.callback(gc.unfreeze)
            token = settings.token.get_secret_value() if settings.token else None
            created = wired.catalog.ensure_administrator(token)
            if created is not None:
                _keep_token(settings.data_dir / TOKEN_FILE, created)
            elif token is not None:
                _forget_token(settings.data_dir / TOKEN_FILE, token)
            await life.enter_async_context(wired.audit_kept)
            life.push_async_callback(wired.engine.stop)
            await wired.engine.start()
            wired.engine.views.warm_up()  # the first snapshot SELECT finds a worker
            open_connections = Connections()
            if postgres is not None:
                await life.enter_async_context(wired.postgres.listening(postgres, tls, open_connections))
                wired.postgres.announce(f"{_reached(settings.host)}:{postgres.getsockname()[1]}")
            server = _Server(wired.app, tls, f"ready {_url(settings, listener)}", open_connections)
            stop.attach(server)
            await server.serve(sockets=[listener])


async def _lead(
    settings: Settings, listener: socket.socket, tls: ssl.SSLContext | None, stop: _StopSignals
) -> Lease | None:
    """Stand by until no other server leads, and return the lease of this one; None if the server is to end before."""
    assert settings.catalog_url is not None  # noqa: S101 - `check_settings`
    lease = Lease(
        settings.catalog_url.get_secret_value(),
        address=_address(settings, listener),
        file=settings.lease_file,
    )
    leads = False
    try:
        while not (leads := await asyncio.to_thread(_claimed, lease)):
            standby = await asyncio.to_thread(importlib.import_module, "headrace.server.standby")
            try:
                async with standby.standing_by(settings, lease) as app:
                    server = _Server(app, tls, f"standby {_url(settings, listener)}", Connections())
                    stop.attach(server)
                    claiming = asyncio.create_task(_claim(lease, server), name="claim")
                    # The listener stays open for the server that leads.
                    await server.serve(sockets=[listener.dup()])
                    leads = await claiming
                    stop.attach(None)
                    if leads or stop.is_requested:
                        break
            except ExternalError as error:
                log.warning("cannot_stand_by", reason=error.message)
                await asyncio.sleep(CLAIM_INTERVAL_S)
        if stop.is_requested:
            return None
        return lease
    finally:
        if stop.is_requested or not leads:
            lease.release()


def _claimed(lease: Lease) -> bool:
    if not lease.try_claim():
        return False
    lease.keep()
    return True


async def _claim(lease: Lease, server: _Server) -> bool:
    """Claim the lease until this server leads, and end the server that stands by; False if that ends before."""
    try:
        while not server.should_exit:
            if await asyncio.to_thread(_claimed, lease):
                return True
            await asyncio.sleep(CLAIM_INTERVAL_S)
        return False
    finally:
        # After an error too, which `_lead` then raises.
        server.should_exit = True


async def _end_with(lease: Lease) -> None:
    """End this process when its lease is over: another server may lead, and all that this one would still write is refused."""
    while not lease.is_lost and time.monotonic() < lease.deadline:
        await asyncio.sleep(LEASE_INTERVAL_S)
    log.error("lease_over", is_lost=lease.is_lost, leader=lease.leader and lease.leader.address)
    print("headrace: another server leads, or may lead: this server ends", file=sys.stderr, flush=True)  # noqa: T201
    os._exit(1)


class _Server(uvicorn.Server):
    """uvicorn, saying that it is ready in our words."""

    def __init__(
        self, app: FastAPI, tls: ssl.SSLContext | None, greeting: str, open_connections: Connections
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                **open_connections.options(tls),
                ws_ping_interval=PING_INTERVAL_S,
                ws_ping_timeout=PING_TIMEOUT_S,
                # Deflating small frames costs more than it saves on any network that a broker is close to.
                ws_per_message_deflate=False,
                # A client sends only one small frame on a stream.
                ws_max_size=64 * 1024,
                log_config=None,
                access_log=False,
                server_header=False,
                # The sender of X-Forwarded-… headers cannot be verified; the setting HEADRACE_PUBLIC_URL replaces them.
                proxy_headers=False,
                timeout_graceful_shutdown=SOCKETS_END_S,
            )
        )
        self._greeting = greeting

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals alone: uvicorn would raise them again once it is done, before the engine is stopped."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then print the address."""
        await super().startup(sockets)
        if self.started:
            print(f"headrace {self._greeting}", flush=True)  # noqa: T201 - what whoever started us waits for
            state, _, url = self._greeting.partition(" ")
            log.info(state, url=url, pid=os.getpid())


def allow_files() -> None:
    """Raise the limit of open files as far as this user may: 1024, a usual default, is too low for many connections and the catalog."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = FILES_MAX if most == resource.RLIM_INFINITY else min(FILES_MAX, most)
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (max(limit, resource.getrlimit(resource.RLIMIT_NOFILE)[0]), most)
    )


class _StopSignals:
    """SIGTERM and SIGINT: the first ends the server in order, a second one while it ends closes sockets at once."""

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self._server: _Server | None = None
        self.is_requested = False
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)

    def attach(self, server: _Server | None) -> None:
        """Forward the end to this server from now on, no longer to its start; None ends that."""
        self._server = server

    def _stop(self) -> None:
        self.is_requested = True
        if self._server is None:
            if self._task is not None:
                self._task.cancel()
        elif self._server.should_exit:
            self._server.force_exit = True
        else:
            self._server.should_exit = True


@contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    """Hold the data directory, made if need be: two servers over one catalog would run every query twice."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = (folder / "lock").open("a+b")
    except OSError as error:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"cannot use the data directory {folder}: {error.strerror}",
            hint="Choose a folder that the server's user can write to with --data-dir.",
        ) from None
    with held as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                SqlState.CONFIGURATION_LIMIT_EXCEEDED,
                f"another server is running on {folder}",
                hint="Stop the other server first, or choose another folder with --data-dir.",
            ) from None
        yield


@contextmanager
def _listening(host: str, port: int, setting: str) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise ExternalError(
                SqlState.REMOTE_UNAVAILABLE,
                f"cannot listen on {host} port {port}: {error.strerror}",
                hint=f"Choose another port with {setting}; 0 selects a free one.",
            ) from None
        yield listener


def _tls(settings: Settings) -> ssl.SSLContext | None:
    """Return the server's certificate and key, if it has any; raise UserError 3D008 if they cannot be used, before the server starts."""
    if settings.tls_cert is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key, password=lambda: "")
    except OSError as error:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"cannot use the certificate {settings.tls_cert}: {error.strerror or error}",
            hint=(
                "HEADRACE_TLS_CERT and HEADRACE_TLS_KEY must name PEM files of the same key pair; the key "
                "must have no passphrase."
            ),
        ) from None
    return context


def _url(settings: Settings, listener: socket.socket) -> str:
    """Return the server's address on this machine."""
    scheme = "https" if settings.tls_cert else "http"
    return f"{scheme}://{_reached(settings.host)}:{listener.getsockname()[1]}"


def _address(settings: Settings, listener: socket.socket) -> str:
    """Return the server's address for clients on other machines, as far as the settings name it."""
    if settings.public_url is not None:
        return settings.public_url
    if settings.host not in ("0.0.0.0", "::"):  # noqa: S104
        return _url(settings, listener)
    return f"{'https' if settings.tls_cert else 'http'}://{socket.getfqdn()}:{listener.getsockname()[1]}"


def _reached(host: str) -> str:
    """Return the host at which a listener is reached on this machine."""
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104


def _keep_token(file: Path, token: str) -> None:
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        os.fchmod(out.fileno(), 0o600)
        out.write(token + "\n")
    print(f"headrace: created a token for the user admin in {file}", file=sys.stderr, flush=True)  # noqa: T201


def _forget_token(file: Path, token: str) -> None:
    """Delete the file of a token that was created at an earlier start and is no longer valid."""
    if file.is_file() and file.read_text(encoding="utf-8").strip() != token:
        file.unlink()


async def _enter_broker(life: AsyncExitStack, folder: Path, port: int | None) -> str | None:
    if port is None:
        return None
    return (await life.enter_async_context(kafka_broker(folder, port))).bootstrap


@asynccontextmanager
async def kafka_broker(folder: Path, port: int) -> AsyncIterator[KafkaBroker]:
    """Yield a broker over `folder`. If the broker dies, it is restarted with the same data."""
    from headrace.runtime.kafka_broker import KafkaBroker

    broker = KafkaBroker(folder, port=port)
    await asyncio.to_thread(broker.start)
    print(f"headrace: Kafka broker at {broker.bootstrap}", file=sys.stderr, flush=True)  # noqa: T201
    keeping = asyncio.create_task(_keep_running(broker), name="kafka-broker")
    try:
        yield broker
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await asyncio.to_thread(broker.stop)


async def _keep_running(broker: KafkaBroker) -> None:
    delay_s, started = BROKER_BACKOFF_S, time.monotonic()
    while True:
        await asyncio.sleep(1)
        if broker.running:
            continue
        if time.monotonic() - started > BROKER_STABLE_S:
            delay_s = BROKER_BACKOFF_S
        log.warning("kafka_broker_ended", address=broker.bootstrap, log=str(broker.log), restart_in_s=delay_s)
        await asyncio.sleep(delay_s)
        delay_s = min(2 * delay_s, BROKER_BACKOFF_MAX_S)
        try:
            await asyncio.to_thread(broker.start)
            log.info("kafka_broker_started", address=broker.bootstrap)
        except HeadraceError as error:
            log.warning("kafka_broker_not_started", reason=error.message)
        started = time.monotonic()
