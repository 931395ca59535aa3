"""Engines over one catalog, one after the other, whose pool has a driver that outlives them: a process or a pod."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psutil

from headrace.catalog.objects import PoolIntent
from headrace.engine.driver_folder import DriverFolder
from headrace.engine.engine import Engine
from headrace.engine.kubernetes.kept import KeptPod
from headrace.engine.pool_properties import CHECKPOINTS, EXECUTORS, MASTER
from headrace.runtime.ports import free_port
from headrace.testing.processes import running_after
from tests.driver.kubelet import Kubelet
from tests.unit.engine.conftest import Bench, whole_lines
from tests.unit.engine.kubernetes_api import StandInApi

DRIVER = Path(__file__).with_name("driver.py")
POOL = "far"
STANDALONE = MappingProxyType({MASTER.name: "spark://127.0.0.1:7077", EXECUTORS.name: "1"})


class OutlivingBench(Bench):
    """The pool is on a standalone cluster: its driver is a process. `more` are settings of every engine."""

    def __init__(
        self,
        folder: Path,
        properties: Mapping[str, str] = STANDALONE,
        more: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.properties = dict(properties)
        self.more = dict(more)
        super().__init__(folder)

    def new_engine(self) -> Engine:
        command = (sys.executable, str(DRIVER), "--journal", str(self.journal_file))
        return Engine(self.catalog, self.settings, driver_command=command)

    def stop_default_pool(self) -> None:
        default = self.stored_pool("default_pool")
        self.catalog.update_compute_pool(replace(default, desired_state=PoolIntent.STOPPED))

    async def first_engine(self, **settings: object) -> None:
        """Start the first engine, and its pool."""
        self.settings = self.settings.model_copy(update={"driver_orphan_s": 600, **self.more, **settings})
        self.engine.views.close()
        self.engine = self.new_engine()
        self.stop_default_pool()
        await self.engine.start()
        self.pool(POOL, properties=self.properties)
        await self.until_pool(POOL, "running")

    async def next_engine(self, **settings: object) -> None:
        """Start another engine after one that was stopped."""
        self.settings = self.settings.model_copy(update={**self.more, **settings})
        self.engine = self.new_engine()
        await self.engine.start()

    def is_there(self) -> bool:
        """True if the driver has a place: its folder, or its pod."""
        return self.folder_of_driver.path.exists()

    def token(self) -> str:
        """The token of the driver."""
        return self.folder_of_driver.token

    @property
    def folder_of_driver(self) -> DriverFolder:
        return DriverFolder(self.folder / "drivers" / self.stored_pool(POOL).id)

    def epoch(self) -> int:
        """The epoch of the server that has last commanded the driver."""
        return self.catalog.pool_drivers.all()[self.stored_pool(POOL).id].epoch

    def pids(self) -> list[int]:
        """The drivers that were started."""
        return [line["pid"] for line in self.journal("ready")]

    def logs(self) -> str:
        """The logs of the drivers and of the server."""
        return "".join(path.read_text() for path in (self.folder / "logs").iterdir())

    def batches(self, query_id: str) -> int:
        """The batches that a query has finished."""
        file = self.folder / f"batches-{query_id}"
        return len(whole_lines(file)) if file.exists() else 0

    async def until_batches(self, query_id: str, more: int = 3) -> None:
        """Wait for some more batches."""
        before = self.batches(query_id)
        await self.until(lambda: self.batches(query_id) >= before + more)

    def assert_each_batch_once(self, query_id: str) -> None:
        lines = whole_lines(self.folder / f"batches-{query_id}")
        assert [int(line) for line in lines] == list(range(len(lines)))

    def kill_drivers(self) -> None:
        for pid in self.pids():
            with suppress(ProcessLookupError):
                # The group of its guard.
                os.killpg(os.getpgid(pid), signal.SIGKILL)


class PodBench(OutlivingBench):
    """The pool is on Kubernetes: its driver is a pod."""

    def __init__(self, folder: Path, api: StandInApi, kubelet: Kubelet) -> None:
        self.api = api
        self.kubelet = kubelet
        port = free_port()
        properties = {
            MASTER.name: f"k8s://{api.url}",
            EXECUTORS.name: "1",
            CHECKPOINTS.name: f"file:{folder / 'mount'}",
        }
        more = {
            "driver_port": port,
            "driver_server": f"127.0.0.1:{port}",
            "kubernetes_image": "headrace:1",
            "kubernetes_config": api.kubeconfig(folder, server_name=None),
            "kubernetes_claim": "shared",
            "checkpoint_folders": (str(folder / "mount"),),
        }
        super().__init__(folder, properties, more)

    def is_there(self) -> bool:
        return bool(self.api.objects["pods"] or self.api.objects["secrets"])

    def kept(self) -> KeptPod:
        """The record of the pod."""
        _, text = self.catalog.pool_drivers.kept()[self.stored_pool(POOL).id]
        return KeptPod.model_validate_json(text)

    def token(self) -> str:
        return self.kept().token

    def logs(self) -> str:
        return super().logs() + self.kubelet.logs()


def lives(pid: int) -> bool:
    """True if a process lives."""
    try:
        return bool(running_after([psutil.Process(pid)], 0))
    except psutil.NoSuchProcess:
        return False
