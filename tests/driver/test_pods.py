"""A pool of pods from its start to its end: a real driver connects by TLS, and Spark creates a real executor. Both are processes here."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness.folders import logs_below
from harness.patience import PATIENCE_S
from headrace.core.settings import Settings
from headrace.engine.driver_port import DriverPort, PortIdentity
from headrace.engine.kubernetes.launch import PodLaunch
from headrace.engine.kubernetes.removal import GONE_TIMEOUT_S
from headrace.engine.pool_properties import Cluster, Place
from headrace.engine.pools import DriverProcess, PoolState
from headrace.engine.sizes import Resources
from tests.driver.kubelet import Api, Kubelet, assert_secrets_are_nowhere, wait_for_none

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(params=["kubernetes_api", pytest.param("namespace", marks=pytest.mark.prove)])
def api(request: pytest.FixtureRequest) -> Api:
    """The stand-in for the API of Kubernetes, and for `make prove` a real one."""
    api: Api = request.getfixturevalue(request.param)
    return api


async def test_a_pool_of_pods_starts_and_leaves_nothing(api: Api, tmp_path: Path) -> None:
    mount, port = tmp_path / "mount", DriverPort("127.0.0.1", 0)
    mount.mkdir()
    port.open(PortIdentity.create())
    settings = Settings(
        data_dir=tmp_path / "data",
        driver_port=0,
        driver_server=f"127.0.0.1:{port.port}",
        kubernetes_image="headrace:1",
        kubernetes_config=api.kubeconfig(tmp_path, server_name=None),
        kubernetes_service_account=api.driver_account,
        kubernetes_claim="shared",
        checkpoint_folders=(str(mount),),
    )
    given = Resources(1024, Place(f"k8s://{api.url}", str(mount), Cluster(1, 1, "512m")), worker_python=True)
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
    with Kubelet(api, tmp_path / "pods") as kubelet:
        pool.start()
        async with asyncio.timeout(PATIENCE_S):
            # Before a driver is ready, tasks on its executor have seen the folder of checkpoints and run Python.
            while pool.state is not PoolState.RUNNING and not reasons:
                await asyncio.sleep(0.05)
        assert pool.state is PoolState.RUNNING, f"{reasons}\n{kubelet.logs()}"
        processes = kubelet.living()
        assert len(processes) == 2  # driver and executor
        assert_secrets_are_nowhere(api, tmp_path / "pods")
        await pool.stop()
        assert [name for name in api.objects["pods"] if "-exec-" not in name] == []
        await asyncio.to_thread(wait_for_none, processes)
        texts = [log.read_text(errors="replace") for log in logs_below(tmp_path / "pods")]
        assert not [text for text in texts if "is forbidden" in text], "the role of drivers suffices"
        async with asyncio.timeout(PATIENCE_S):
            while api.objects != {"pods": {}, "secrets": {}}:
                await asyncio.sleep(0.05)
    await port.close()
    assert reasons == []
