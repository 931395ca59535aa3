"""The launcher of pods at a real API: what it reports when the API refuses, and what Kubernetes does with what it leaves.

`tests/unit/engine/test_kubernetes.py` runs there too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kubernetes.config import incluster_config

from harness.kubernetes import KubernetesServer, Namespace
from headrace.core.errors import ExternalError
from headrace.engine.kubernetes import api as requests
from headrace.engine.kubernetes import launch as launching
from headrace.engine.kubernetes import removal
from headrace.engine.kubernetes.api import KubernetesApi
from headrace.engine.pool_properties import IN_CLUSTER
from headrace.engine.pools import PoolState
from headrace.engine.protocol import encode_frame
from tests.unit.deploy.chart import installed
from tests.unit.engine.cloud import NAME, READY, Cloud, Kept, until

pytestmark = pytest.mark.prove


@pytest.fixture
async def cloud(
    namespace: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Cloud]:
    for module in (launching, removal):
        monkeypatch.setattr(module, "POLL_S", 0.01)
    cloud = Cloud(namespace, tmp_path)
    yield cloud
    await cloud.port.close()


async def checked(cloud: Cloud) -> None:
    """Do what CREATE and UPDATE COMPUTE_POOL do."""
    api = await asyncio.to_thread(KubernetesApi, cloud.master, cloud.settings)
    try:
        await asyncio.to_thread(api.check)
    finally:
        await asyncio.to_thread(api.close)


async def refusal(cloud: Cloud) -> str:
    """Return why no pool can be created, which is also why none starts."""
    with pytest.raises(ExternalError) as of_check:
        await checked(cloud)
    with pytest.raises(ExternalError):
        await cloud.launch().start(warm_up=False)
    return of_check.value.message


async def test_the_role_of_the_chart_suffices(cloud: Cloud) -> None:
    await checked(cloud)


async def test_the_service_account_of_the_servers_own_pod_suffices(
    cloud: Cloud, namespace: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`k8s://in-cluster`: the folder that a kubelet mounts, and the variables that it sets."""
    files = {
        "ca.crt": namespace.certificate,
        "namespace": namespace.name,
        "token": namespace.server.token(namespace.name, namespace.account),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setattr(requests, "_NAMESPACE_FILE", tmp_path / "namespace")
    host, _, port = namespace.url.removeprefix("https://").partition(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    cloud.settings = cloud.settings.model_copy(update={"kubernetes_config": None})
    cloud.master = IN_CLUSTER
    await checked(cloud)


async def test_a_server_without_its_role_is_refused(cloud: Cloud, namespace: Namespace) -> None:
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace.name}/rolebindings/{namespace.account}"
    namespace.server.request("DELETE", path)
    assert await refusal(cloud) == f"the server may not create pods in the namespace {namespace.name}"


async def test_another_namespace_is_refused(cloud: Cloud) -> None:
    cloud.settings = cloud.settings.model_copy(update={"kubernetes_namespace": "kube-system"})
    assert await refusal(cloud) == "the server may not create pods in the namespace kube-system"


async def test_a_wrong_token_is_refused(cloud: Cloud, namespace: Namespace) -> None:
    file = namespace.server.kubeconfig(cloud.folder / "wrong", "wrong", namespace.name)
    cloud.settings = cloud.settings.model_copy(update={"kubernetes_config": file})
    assert await refusal(cloud) == "the API of Kubernetes refuses a request (401): Unauthorized"


async def test_a_service_account_that_does_not_exist_is_named(cloud: Cloud) -> None:
    cloud.settings = cloud.settings.model_copy(update={"kubernetes_service_account": "nobody"})
    with pytest.raises(ExternalError, match=r'\(403\): .*serviceaccount "nobody" not found'):
        await cloud.launch().start(warm_up=False)
    assert cloud.pods() == {}


async def test_a_quota_that_is_exceeded_is_named(cloud: Cloud, namespace: Namespace) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "small"},
        "spec": {"hard": {"requests.memory": "5Gi"}},
    }
    namespace.server.create(quota, namespace.name)
    # A controller counts what is there.
    used = {"hard": quota["spec"]["hard"], "used": {"requests.memory": "4Gi"}}  # type: ignore[index]
    path = f"/api/v1/namespaces/{namespace.name}/resourcequotas/small/status"
    namespace.server.request("PATCH", path, {"status": used})
    with pytest.raises(
        ExternalError, match=r"\(403\): .*exceeded quota: small, requested: requests.memory=2800Mi"
    ):
        await cloud.launch().start(warm_up=False)
    assert cloud.pods() == {}


async def test_a_pod_that_something_else_holds_keeps_the_pool_from_starting(
    cloud: Cloud, namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = cloud.launch()
    await first.start(warm_up=False)
    path = f"/api/v1/namespaces/{namespace.name}/pods/{NAME}"
    namespace.server.request("PATCH", path, {"metadata": {"finalizers": ["example.com/held"]}})
    with monkeypatch.context() as patch:
        patch.setattr(removal, "GONE_TIMEOUT_S", 0.02)
        with pytest.raises(ExternalError, match=f"the pod {NAME} does not end"):
            await cloud.launch().start(warm_up=False)
    second = cloud.launch()
    starting = asyncio.create_task(second.start(warm_up=False))
    namespace.server.request("PATCH", path, {"metadata": {"finalizers": None}})
    await starting
    await first.end()
    await second.end()
    await cloud.assert_nothing_is_left()


async def test_the_objects_of_a_dead_server_are_deleted(cloud: Cloud, namespace: Namespace) -> None:
    """The driver belongs to the server's pod, and its secret to the driver."""
    launch = cloud.launch()
    await launch.start(warm_up=False)
    assert len(cloud.pods()) == len(namespace.objects["secrets"]) == 1
    namespace.remove("demo-headrace-0")
    assert await launch.wait() == 1
    assert launch.failure() == f"the pod {NAME} was deleted"
    await until(lambda: namespace.objects == {"pods": {}, "secrets": {}})
    await launch.end()


async def test_a_driver_that_outlives_the_server_is_deleted_with_the_release(
    cloud: Cloud, namespace: Namespace
) -> None:
    launch = cloud.launch(Kept(cloud.settings))
    await launch.start(warm_up=False)
    await launch.leave()
    namespace.remove("demo-headrace-0")
    path = f"/apis/apps/v1/namespaces/{namespace.name}/statefulsets/demo-headrace"
    assert namespace.server.request("GET", path)["metadata"]["uid"] == namespace.stateful_set_uid
    assert NAME in cloud.pods()
    namespace.server.request("DELETE", path)
    await until(lambda: namespace.objects == {"pods": {}, "secrets": {}})


async def test_a_pool_runs_on_while_the_api_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "POLL_S", 0.01)
    with KubernetesServer(tmp_path) as server:
        with installed(server, "away") as namespace:
            cloud = Cloud(namespace, tmp_path)
            pool = cloud.pool()
            pool.start()
            stream = await cloud.connect()
            stream.sendall(encode_frame(READY))
            await until(lambda: pool.state is PoolState.RUNNING)
        await asyncio.to_thread(server.stop)
        assert "does not answer: " in await refusal(cloud)
        assert (pool.state, cloud.ended) == (PoolState.RUNNING, [])
        stream.close()
        await until(lambda: pool.state is PoolState.ERRORED)
        await pool.stop()
    await cloud.port.close()
