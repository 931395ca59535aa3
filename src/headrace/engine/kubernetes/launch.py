"""A driver that runs as a pod, from its start to its end."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog

from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.engine.driver_port import DriverPort
from headrace.engine.handshake import Handshake, HandshakeLaunch
from headrace.engine.kubernetes import kept as keeping
from headrace.engine.kubernetes.api import KubernetesApi
from headrace.engine.kubernetes.kept import KeptPod, KeptPods, mount, pod_digest
from headrace.engine.kubernetes.pods import (
    BUCKET_FILE,
    CREDENTIALS,
    SPARK_SECRET_FILE,
    WORK,
    Manifest,
    PodOptions,
    driver_pod,
    driver_secret,
    exit_of,
    labels,
    pod_name,
    trouble_of,
)
from headrace.engine.kubernetes.removal import remove
from headrace.engine.launch import driver_options, last_failure, log_file, rotate_log
from headrace.engine.pool_properties import login
from headrace.engine.protocol import CERTIFICATE_FILE, TOKEN_FILE
from headrace.engine.sizes import Resources

log = structlog.get_logger()

POLL_S = 2.0
SCHEDULE_TIMEOUT_S = 300.0
"""A cluster that adds nodes by itself needs minutes for one."""
READY_TIMEOUT_S = 900.0
_GONE_CODE = 1


class PodLaunch(HandshakeLaunch):
    """A pod of a driver; the members are those of `engine.launch.Launch`.

    The pod of an earlier driver of the pool is gone before this one is created: its name is the same. With `kept`, the driver outlives its
    server, and one of an earlier server is taken over.
    """

    def __init__(
        self,
        pool: str,
        settings: Settings,
        given: Resources,
        port: DriverPort | None,
        *,
        catalog: str,
        pool_id: str = "",
        kept: KeptPods | None = None,
    ) -> None:
        self._pool = pool
        self._settings = settings
        self._given = given
        self._server_port = port
        self._catalog = catalog
        self._pool_id = pool_id
        self._kept = kept
        self._epoch = 0
        self._name = pod_name(catalog, pool)
        self.log = log_file(settings, pool)
        self._api: KubernetesApi
        self._exited: asyncio.Future[int]
        self._stalled: asyncio.Future[str]
        self._watching: asyncio.Task[None] | None = None
        self._starts = True
        self._is_created = False
        self._uid: str | None = None
        self._log_start = 0
        self._reason: str | None = None
        self._executors: str | None = None

    async def start(self, *, warm_up: bool) -> None:
        """Wait for the driver of an earlier server, or create a pod and its secret. Raises HeadraceError, and then leaves nothing new."""
        loop, port = asyncio.get_running_loop(), self._port()
        self._exited, self._stalled = loop.create_future(), loop.create_future()
        pod = self._kept.returning(self._pool_id, self._given) if self._kept is not None else None
        if self._kept is not None:
            self._epoch = await asyncio.to_thread(self._kept.claim, self._pool_id)
        self._api = await asyncio.to_thread(KubernetesApi, self._given.place.master, self._settings)
        if pod is not None:
            self._await_return(port, pod)
        else:
            await self._start_anew(port, warm_up)
        self._watching = asyncio.create_task(self._watch(), name=f"pod {self._name}")

    async def wait(self) -> int:
        """Return the exit code of the driver when it has ended."""
        return await asyncio.shield(self._exited)

    async def stalled(self) -> str:
        """Return why the driver does not start, or does not follow this server, in bounded time."""
        if self.returns:
            return await asyncio.shield(self._handshake.failed)
        try:
            return await asyncio.shield(self._stalled)
        finally:
            self._starts = False

    async def end(self) -> None:
        """End the pod, and return when it is gone, or after a minute: the next start waits for it again. A driver that follows a later
        server is not ended."""
        is_watched = self._watching is not None and not self._exited.done()
        await self._close()
        if not self._handshake.is_refused:
            if is_watched:
                await self._keep_log()
            try:
                if self._is_created:
                    await remove(self._api, self._name, self._uid)
            except HeadraceError as error:
                log.warning("pod_not_removed", pod=self._name, reason=error.message)
            if self._kept is not None:
                await asyncio.to_thread(self._kept.forget, self._pool_id, self._epoch)
        await asyncio.to_thread(self._api.close)

    async def leave(self) -> None:
        """Close the connection: the driver waits for the next server, if it outlives this one; otherwise end it."""
        if self._kept is None:
            await self.end()
            return
        await self._close()
        await asyncio.to_thread(self._api.close)
        log.info("driver_left", pool=self._pool, pod=self._name, waits_s=self._settings.driver_orphan_s)

    def failure(self) -> str | None:
        """Return the reason of the end: the driver's own, or that of Kubernetes."""
        own = last_failure(self.log, self._log_start)
        if own is not None and self._executors is not None:
            return f"{own} Kubernetes reports: {self._executors}"
        return own or self._reason

    def _await_return(self, port: DriverPort, pod: KeptPod) -> None:
        self.returns, self._starts = True, False
        self._is_created, self._uid = True, pod.uid
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        self._handshake = Handshake(self._pool, pod.token, epoch=self._epoch, returns=True)
        self._handshake.fail_after(keeping.RETURN_TIMEOUT_S)
        port.expect(self._handshake)
        log.info("driver_awaited", pool=self._pool, pod=self._name, epoch=self._epoch)

    async def _start_anew(self, port: DriverPort, warm_up: bool) -> None:
        self._handshake = Handshake(self._pool, secrets.token_urlsafe(32))
        port.expect(self._handshake)
        try:
            await remove(self._api, self._name, None)
            await asyncio.to_thread(self._create, port, warm_up)
        except BaseException:
            await asyncio.shield(self.end())
            raise
        log.info("driver_started", pool=self._pool, pod=self._name)

    async def _close(self) -> None:
        """Close the connection, and look at the pod no more."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        self._port().forget(self._handshake)
        self._handshake.close()

    def _port(self) -> DriverPort:
        """Return the server's port. Raises UserError 3D021 without it: the operator's settings have changed since CREATE."""
        if self._server_port is None:
            raise _missing("HEADRACE_DRIVER_PORT")
        return self._server_port

    def _options(self) -> PodOptions:
        settings = self._settings
        if settings.kubernetes_image is None:
            raise _missing("HEADRACE_KUBERNETES_IMAGE")
        claim, folder = (None, None) if self._given.place.is_remote else self._volume()
        return PodOptions(
            namespace=self._api.namespace,
            pod=self._name,
            # Of this run: that of the earlier one is deleted some time after its pod.
            secret=f"{self._name}-{secrets.token_hex(3)}",
            image=settings.kubernetes_image,
            service_account=settings.kubernetes_service_account,
            claim=claim,
            folder=folder,
            labels=labels(self._catalog, self._name),
        )

    def _volume(self) -> tuple[str, str]:
        """Return the claim of the volume of checkpoints, and the folder at which it is mounted."""
        claim, folder = self._settings.kubernetes_claim, mount(self._settings, self._given)
        if claim is None or folder is None:
            raise _missing("HEADRACE_KUBERNETES_CLAIM")
        return claim, str(folder)

    def _create(self, port: DriverPort, warm_up: bool) -> None:
        settings, options = self._settings, self._options()
        values = driver_options(self._pool, settings, self._given, work_dir=Path(WORK), warm_up=warm_up)
        values["pods"] = options.model_dump()
        if self._kept is not None:
            values["outlive"] = {"epoch": self._epoch, "orphan_s": settings.driver_orphan_s}
        arguments = [
            *("--server", str(settings.driver_server)),
            *("--credentials", str(CREDENTIALS)),
            *("--options", json.dumps(values)),
        ]
        files = {
            TOKEN_FILE: self._handshake.token,
            CERTIFICATE_FILE: port.identity.certificate,
            # The driver shares it with its executors, and with nobody else.
            SPARK_SECRET_FILE: secrets.token_urlsafe(32),
        }
        if self._given.place.is_remote:
            files[BUCKET_FILE] = json.dumps(login(settings).variables())
        pod = driver_pod(
            options,
            arguments=arguments,
            heap_mb=self._given.heap_mb,
            owner=self._owner(),
            secret_files=files,
        )
        # The pod waits for its secret, which belongs to the pod: nothing outlives it.
        self._is_created = True
        self._uid = self._api.create_pod(pod)
        if self._uid is None:
            self._is_created = False
            raise ExternalError(
                SqlState.REMOTE_UNAVAILABLE,
                f"another server has created the pod {self._name}",
                hint="Only one server may use a catalog: the other one leads.",
            )
        self._api.create_secret(driver_secret(options, files, self._uid))
        if self._kept is not None:
            token = self._handshake.token
            digest = pod_digest(token, settings, self._given)
            kept = KeptPod(uid=self._uid, token=token, digest=digest, identity=port.identity)
            self._kept.keep(self._pool_id, self._epoch, kept)

    def _owner(self) -> Manifest | None:
        """Return a reference to the object with which Kubernetes deletes the driver: the server's pod, or its controller if the driver
        outlives that pod."""
        if self._settings.kubernetes_owner is None or not self._api.is_own_namespace:
            return None
        name, _, uid = self._settings.kubernetes_owner.partition("/")
        controller = self._api.controller(name, uid) if self._kept is not None else None
        return controller or {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}

    async def _watch(self) -> None:
        """Look at the pods until the driver ends."""
        started = time.monotonic()
        while not self._exited.done():
            await asyncio.sleep(POLL_S)
            try:
                pod = await asyncio.to_thread(self._api.pod, self._name)
                is_gone = pod is None or pod.metadata.uid != self._uid
                ended = (_GONE_CODE, f"the pod {self._name} was deleted") if is_gone else exit_of(pod)
                if ended is not None:
                    await self._keep_log()
                    _, self._reason = ended
                    self._exited.set_result(ended[0])
                    return
                if self._starts:
                    await self._look_at_executors()
            except HeadraceError as error:
                log.warning("pod_unknown", pod=self._name, reason=error.message)
                continue
            self._judge(pod, time.monotonic() - started)

    def _judge(self, pod: Any, waited_s: float) -> None:
        """Decide whether a driver that starts ever will."""
        if not self._starts or self._stalled.done():
            return
        trouble = trouble_of(pod)
        if trouble is not None and (trouble.is_final or waited_s > SCHEDULE_TIMEOUT_S):
            self._stalled.set_result(trouble.reason)
        elif waited_s > READY_TIMEOUT_S:
            problem = trouble.reason if trouble is not None else self._executors
            after = f"the driver in the pod {self._name} was not ready after {READY_TIMEOUT_S:.0f} s"
            self._stalled.set_result(f"{after}: {problem}" if problem else after)

    async def _look_at_executors(self) -> None:
        selector = f"headrace.io/driver={self._name},app.kubernetes.io/component=executor"
        for pod in await asyncio.to_thread(self._api.pods, selector):
            trouble, ended = trouble_of(pod), exit_of(pod)
            reason = trouble.reason if trouble is not None else ended[1] if ended is not None else None
            if reason is not None:
                self._executors = reason
                return

    async def _keep_log(self) -> None:
        with suppress(HeadraceError, OSError):
            text = await asyncio.to_thread(self._api.log, self._name)
            rotate_log(self.log)
            with self.log.open("a", encoding="utf-8") as out:
                self._log_start = out.tell()
                out.write(text)


def _missing(setting: str) -> UserError:
    return UserError(
        SqlState.MISSING_PARAMETER,
        f"the server is not set up for compute pools on Kubernetes: {setting} is missing",
        hint="The operator sets what docs/growing.md describes, and restarts the server.",
    )
