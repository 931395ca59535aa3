"""A pool of pods from its start to its end: a real driver connects by TLS, and Spark creates a real executor. Both are processes here."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness.patience import PATIENCE_S
from headrace.core.settings import Settings
from headrace.engine.driver_port import DriverPort
from headrace.engine.kubernetes.launch import GONE_TIMEOUT_S, PodLaunch
from headrace.engine.pool_properties import Cluster, Place
from headrace.engine.pools import DriverProcess, PoolState
from headrace.engine.sizes import Resources
from tests.driver.kubelet import Kubelet, assert_secrets_are_nowhere, wait_for_none
from tests.unit.engine.kubernetes_api import StandInApi

pytestmark = [pytest.mark.spark, pytest.mark.slow]


async def test_a_pool_of_pods_starts_and_leaves_nothing(kubernetes_api: StandInApi, tmp_path: Path) -> None:
    mount, port = tmp_path / "mount", DriverPort("127.0.0.1", 0)
    mount.mkdir()
    port.open()
    settings = Settings(
        data_dir=tmp_path / "data",
        driver_port=0,
        driver_server=f"127.0.0.1:{port.port}",
        kubernetes_image="headrace:1",
        kubernetes_config=kubernetes_api.kubeconfig(tmp_path, server_name=None),
        kubernetes_claim="shared",
        checkpoint_folders=(str(mount),),
    )
    given = Resources(
        1024, Place(f"k8s://{kubernetes_api.url}", str(mount), Cluster(1, 1, "512m")), worker_python=True
    )
    reasons: list[str] = []
    pool = DriverProcess(
        "far",
        settings,
        given,
        on_message=lambda *_: None,
        on_death=lambda _, reason: reasons.append(reason),
        warm_up=lambda: False,
        new_launch=lambda: PodLaunch("far", settings, given, port, catalog="c"),
        end_timeout_s=GONE_TIMEOUT_S,
    )
    with Kubelet(kubernetes_api, tmp_path / "pods", kubernetes_api.certificate) as kubelet:
        pool.start()
        async with asyncio.timeout(PATIENCE_S):
            # Before a driver is ready, tasks on its executor have seen the folder of checkpoints and run Python.
            while pool.state is not PoolState.RUNNING and not reasons:
                await asyncio.sleep(0.05)
        assert pool.state is PoolState.RUNNING, f"{reasons}\n{kubelet.logs()}"
        processes = kubelet.living()
        assert len(processes) == 2  # driver and executor
        assert_secrets_are_nowhere(kubernetes_api, tmp_path / "pods")
        await pool.stop()
        assert kubernetes_api.objects["secrets"] == {}
        assert [name for name in kubernetes_api.objects["pods"] if "-exec-" not in name] == []
        await asyncio.to_thread(wait_for_none, processes)
    await port.close()
    assert reasons == []
