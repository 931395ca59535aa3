"""Drivers in pods that outlive their server: what the catalog records of each, and which the next server takes over (docs/adr/0103)."""

from __future__ import annotations

import asyncio
import hmac
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import structlog
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headrace.catalog.pool_drivers import PoolDrivers
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.engine.driver_port import PortIdentity
from headrace.engine.kubernetes import removal
from headrace.engine.kubernetes.api import KubernetesApi
from headrace.engine.kubernetes.pods import drivers_selector, exit_of
from headrace.engine.outliving import digest, outlives_s
from headrace.engine.pool_properties import is_kubernetes
from headrace.engine.sizes import Resources

log = structlog.get_logger()

RETURN_TIMEOUT_S = 90.0
"""How long a driver may take to follow the next server. The name of the server resolves to its earlier pod for up to half a minute, and an
attempt to connect to that one takes ten seconds."""
_PLACE = "kubernetes"


class KeptPod(BaseModel):
    """A driver's pod as its server has created it: its uid, its token, a digest of its version, options and secrets, and the port that it
    trusts."""

    model_config = ConfigDict(frozen=True)

    uid: str
    token: str = Field(repr=False)
    digest: str
    identity: PortIdentity


class KeptPods:
    """The pods that an earlier server has left, by the ids of their pools, and the records for the next server."""

    def __init__(self, drivers: PoolDrivers, settings: Settings, catalog: str) -> None:
        self._drivers = drivers
        self._settings = settings
        self._catalog = catalog
        self._kept: dict[str, KeptPod] = {}
        self._until = 0.0
        self._epochs: dict[str, int] = {}
        self._others: list[tuple[str, str]] = []

    def load(self) -> PortIdentity | None:
        """Read the records, and return the identity of the port that their drivers trust; None if there are none. Blocks."""
        self._until = time.monotonic() + RETURN_TIMEOUT_S
        for pool_id, (epoch, text) in self._drivers.kept().items():
            try:
                self._kept[pool_id] = KeptPod.model_validate_json(text)
            except ValidationError:
                log.warning("pod_record_unreadable", pool_id=pool_id)
            self._epochs[pool_id] = epoch
        return next((pod.identity for pod in self._kept.values()), None)

    async def find(self, pools: Mapping[str, Resources], identity: PortIdentity) -> list[str]:
        """Return the ids of the pools, of those that are to run, whose drivers live and may be taken over."""
        self._kept = {
            pool_id: pod
            for pool_id, pod in self._kept.items()
            if pool_id in pools and pod.identity == identity and self.returning(pool_id, pools[pool_id])
        }
        try:
            api = await asyncio.to_thread(KubernetesApi, None, self._settings)
        except HeadraceError as error:
            # Nor can a pod be awaited.
            log.warning("pods_unknown", reason=error.message)
            self._kept.clear()
            return []
        try:
            pods = await asyncio.to_thread(api.pods, drivers_selector(self._catalog))
        except HeadraceError as error:
            # Drivers connect by themselves, if they live.
            log.warning("pods_unknown", reason=error.message)
        else:
            living = {pod.metadata.uid for pod in pods if _lives(pod)}
            self._kept = {pool_id: pod for pool_id, pod in self._kept.items() if pod.uid in living}
            kept = {pod.uid for pod in self._kept.values()}
            metadata = [pod.metadata for pod in pods]
            self._others = [(each.name, each.uid) for each in metadata if each.uid not in kept]
        finally:
            await asyncio.to_thread(api.close)
        for pool_id in self._epochs.keys() - self._kept.keys():
            # Its key is of no use any more.
            await asyncio.to_thread(self.forget, pool_id, self._epochs[pool_id])
        return list(self._kept)

    async def end_others(self) -> None:
        """End all other pods of drivers of the catalog that `find` has seen: of pools that were dropped or stopped, and of those that would
        start otherwise now. It takes a minute at most."""
        if not self._others:
            return
        api = await asyncio.to_thread(KubernetesApi, None, self._settings)
        deadline = time.monotonic() + removal.GONE_TIMEOUT_S
        try:
            for name, uid in self._others:
                log.info("driver_not_taken_over", pod=name)
                with _logged(name):
                    await asyncio.to_thread(api.delete_pod, name, uid)
            for name, uid in self._others:
                with _logged(name):
                    await removal.remove(api, name, uid, timeout_s=deadline - time.monotonic())
        finally:
            await asyncio.to_thread(api.close)

    def returning(self, pool_id: str, given: Resources) -> KeptPod | None:
        """Return the pod of a pool that an earlier server has left, while it is to be awaited; None if this server would start another
        one."""
        kept = self._kept.get(pool_id)
        if kept is None or time.monotonic() > self._until:
            return None
        if not is_kubernetes(given.place.master) or not outlives_s(self._settings, given):
            return None
        present = pod_digest(kept.token, self._settings, given)
        return kept if hmac.compare_digest(kept.digest, present) else None

    def claim(self, pool_id: str) -> int:
        """Return the next epoch of a pool's driver. Raises UserError 3D023 if the pool was dropped. Blocks."""
        # Nobody waits for a pod because of its record: the API shows whether it exists.
        return self._drivers.claim(pool_id, _PLACE, socket.gethostname(), 0)

    def keep(self, pool_id: str, epoch: int, pod: KeptPod) -> None:
        """Record a pod for the next server. Blocks."""
        self._drivers.keep(pool_id, epoch, pod.model_dump_json())

    def forget(self, pool_id: str, epoch: int) -> None:
        """Remove the record of a pod that has ended, unless a later server has another one. Blocks."""
        self._kept.pop(pool_id, None)
        try:
            self._drivers.release(pool_id, epoch)
        except HeadraceError as error:
            # The API shows that it has ended.
            log.warning("driver_not_released", pool_id=pool_id, reason=error.message)


@contextmanager
def _logged(pod: str) -> Iterator[None]:
    """Log an error of a pod that is to end, and continue with the next one."""
    try:
        yield
    except HeadraceError as error:
        log.error("driver_not_ended", pod=pod, reason=error.message)


def pod_digest(token: str, settings: Settings, given: Resources) -> str:
    """Return the digest of a driver in a pod: a server with others starts another driver."""
    return digest(
        token,
        settings,
        given,
        [
            *(settings.kubernetes_image, settings.kubernetes_namespace, settings.kubernetes_service_account),
            *(settings.kubernetes_claim, str(mount(settings, given)), settings.driver_server),
        ],
    )


def mount(settings: Settings, given: Resources) -> Path | None:
    """Return the folder at which a pod mounts the volume of checkpoints; None if they are in S3."""
    folder = given.place.checkpoints
    if given.place.is_remote or folder is None:
        return None
    return next(
        (root for root in settings.checkpoint_mounts if Path(folder).is_relative_to(root)), Path(folder)
    )


def _lives(pod: Any) -> bool:
    """True if the driver in a pod may still run queries; one that has not started yet has none."""
    return pod.metadata.deletion_timestamp is None and pod.status.phase == "Running" and exit_of(pod) is None
