"""A server of Headrace as far as its launcher of pods needs it, without the server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from harness.kubernetes import Namespace
from harness.kubernetes.namespace import files_of
from harness.patience import PATIENCE_S
from headrace.core.settings import Settings
from headrace.engine.driver.connections import Stream, connect_securely
from headrace.engine.driver_port import DriverPort, PortIdentity
from headrace.engine.kubernetes import removal
from headrace.engine.kubernetes.kept import KeptPod, KeptPods
from headrace.engine.kubernetes.launch import PodLaunch
from headrace.engine.kubernetes.pods import pod_name
from headrace.engine.pool_properties import Cluster, Place
from headrace.engine.pools import DriverProcess
from headrace.engine.protocol import Ready
from headrace.engine.sizes import Resources
from tests.unit.deploy.chart import PODS, manifests, server_pod
from tests.unit.engine.kubernetes_api import Manifest, StandInApi

CATALOG, POOL = "a3f1", "Far reports"
NAME = pod_name(CATALOG, POOL)
READY = Ready(pid=1, spark_version="4", start_ms=2)


def container(**state: Any) -> dict[str, Any]:
    """Return the status of a container as the API has it."""
    return {
        **{"name": "driver", "image": "headrace:1", "imageID": "", "ready": False, "restartCount": 0},
        "state": state,
    }


class Cloud:
    """A server's port and settings, and the API."""

    def __init__(self, api: StandInApi | Namespace, folder: Path) -> None:
        self.folder = folder
        self.api = api
        pod = server_pod(manifests(PODS, namespace=api.name), api.stateful_set_uid)
        owner = api.create_pod(pod)["metadata"]
        self.owner = owner["uid"]
        self.master = f"k8s://{self.api.url}"
        self.port = DriverPort("127.0.0.1", 0)
        self.port.open(PortIdentity.create())
        self.settings = Settings(
            data_dir=folder / "data",
            driver_port=0,
            driver_server=f"127.0.0.1:{self.port.port}",
            kubernetes_image="headrace:1",
            kubernetes_config=self.api.kubeconfig(folder),
            kubernetes_claim="shared",
            kubernetes_service_account=api.driver_account,
            kubernetes_owner=f"{owner['name']}/{owner['uid']}",
            checkpoint_folders=("/mnt/headrace",),
            restart_backoff_ms=60_000,
        )
        self.given = Resources(
            2000, Place(self.master, "/mnt/headrace/far", Cluster(2, 1, "1g")), worker_python=True
        )
        self.ended: list[str] = []
        self.launches: list[PodLaunch] = []

    def launch(self, kept: KeptPods | None = None) -> PodLaunch:
        launch = PodLaunch(
            POOL, self.settings, self.given, self.port, catalog=CATALOG, pool_id="p", kept=kept
        )
        self.launches.append(launch)
        return launch

    def pool(self) -> DriverProcess:
        return DriverProcess(
            POOL,
            self.settings,
            self.given,
            on_message=lambda *_: None,
            on_death=lambda _, reason: self.ended.append(reason),
            new_launch=self.launch,
            end_timeout_s=removal.GONE_TIMEOUT_S,
        )

    def pods(self) -> dict[str, Manifest]:
        """Return all pods but that of the server."""
        return {
            name: pod
            for name, pod in self.api.objects["pods"].items()
            if pod["metadata"]["uid"] != self.owner
        }

    async def secret(self) -> dict[str, str]:
        """Return the files of the driver's secret when it exists."""
        await until(lambda: self.api.objects["secrets"])
        [secret] = self.api.objects["secrets"].values()
        return files_of(secret)

    async def assert_nothing_is_left(self) -> None:
        """Assert that the pod is gone; Kubernetes then deletes its secret."""
        assert self.pods() == {}
        await until(lambda: self.api.objects["secrets"] == {})

    async def connect(self) -> Stream:
        """Do what the driver in the pod does: connect by the files of its volume."""
        folder = self.folder / "mounted"
        folder.mkdir(exist_ok=True)
        for name, text in (await self.secret()).items():
            (folder / name).write_text(text)
        arguments = self.api.objects["pods"][NAME]["spec"]["containers"][0]["args"]
        address = arguments[arguments.index("--server") + 1]
        return await asyncio.to_thread(connect_securely, address, folder)


class Kept(KeptPods):
    """Records that a test reads, without a catalog."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(None, settings, CATALOG)  # type: ignore[arg-type]
        self.records: dict[str, KeptPod] = {}

    def claim(self, _pool_id: str) -> int:
        return 7

    def keep(self, pool_id: str, epoch: int, pod: KeptPod) -> None:
        assert epoch == 7
        self.records[pool_id] = pod

    def forget(self, pool_id: str, epoch: int) -> None:
        assert epoch == 7
        del self.records[pool_id]


async def until(condition: Any) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)
