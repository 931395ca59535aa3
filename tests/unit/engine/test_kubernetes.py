"""Pools on Kubernetes: the launcher against a stand-in for the API, and for `make prove` against a real kube-apiserver."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import kubernetes_validate
import pytest
from pydantic import SecretStr

from harness.kubernetes.namespace import files_of
from headrace.connectors.checkpoint_bucket import Login
from headrace.core.errors import ExternalError, UserError
from headrace.engine.driver import kubernetes as driver_settings
from headrace.engine.driver.options import DriverOptions, Outlive
from headrace.engine.driver_port import PortIdentity
from headrace.engine.kubernetes import launch as launching
from headrace.engine.kubernetes import removal
from headrace.engine.kubernetes.api import KubernetesApi
from headrace.engine.kubernetes.launch import PodLaunch
from headrace.engine.kubernetes.pods import BUCKET_FILE, executor_template, pod_name
from headrace.engine.pool_properties import Cluster, Place, login
from headrace.engine.pools import PoolState
from headrace.engine.protocol import DRIVER_FAILED, Shutdown, decode_message, encode_frame
from headrace.runtime import executor
from headrace.runtime.java import java_runtime
from tests.unit.engine.cloud import CATALOG, NAME, POOL, READY, Cloud, Kept, container, until
from tests.unit.engine.kubernetes_api import TOKEN, VERSION, Manifest, StandInApi


@pytest.fixture
def stand_in() -> Iterator[StandInApi]:
    identity = PortIdentity.create()
    api = StandInApi(identity.context(), identity.certificate)
    api.start()
    yield api
    api.close()


@pytest.fixture(params=["stand_in", pytest.param("namespace", marks=pytest.mark.prove)])
async def cloud(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Cloud]:
    for module in (launching, removal):
        monkeypatch.setattr(module, "POLL_S", 0.01)
    cloud = Cloud(request.getfixturevalue(request.param), tmp_path)
    yield cloud
    await cloud.port.close()


only_the_stand_in = pytest.mark.parametrize("cloud", ["stand_in"], indirect=True)
"""For tests that never ask the API, or that need answers which a real one gives to other requests."""


async def test_a_pool_starts_as_a_pod_and_leaves_nothing(cloud: Cloud) -> None:
    pool = cloud.pool()
    pool.start()
    stream = await cloud.connect()
    stream.sendall(encode_frame(READY))
    await until(lambda: pool.state is PoolState.RUNNING)

    pod = cloud.api.objects["pods"][NAME]
    assert pod["metadata"]["ownerReferences"][0]["uid"] == cloud.owner
    spec, [driver] = pod["spec"], pod["spec"]["containers"]
    assert spec["restartPolicy"] == "Never"
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert driver["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert driver["resources"]["limits"] == {"memory": "2800Mi"}
    mounts = {mount["name"]: mount["mountPath"] for mount in driver["volumeMounts"]}
    assert mounts["checkpoints"] == "/mnt/headrace"
    # Secrets are in the volume only.
    [secret] = cloud.api.objects["secrets"].values()
    [volume] = [each for each in spec["volumes"] if each["name"] == "credentials"]
    assert volume["secret"]["secretName"] == secret["metadata"]["name"]
    assert secret["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]
    files = files_of(secret)
    assert files.keys() == {"token", "server.pem", "spark-secret"}
    assert not any(text in json.dumps(pod) for text in [*files.values(), TOKEN])
    # The driver accepts its options.
    options = DriverOptions.model_validate_json(driver["args"][driver["args"].index("--options") + 1])
    assert options.pods is not None
    assert (options.pods.namespace, options.pods.folder) == (cloud.api.name, "/mnt/headrace")
    assert options.checkpoints == "/mnt/headrace/far"

    ending = asyncio.create_task(pool.stop())
    frame = await asyncio.to_thread(stream.recv, 1024)
    assert isinstance(decode_message(frame[8:]), Shutdown)
    cloud.api.set_status(
        NAME, {"phase": "Succeeded", "containerStatuses": [container(terminated={"exitCode": 0})]}
    )
    stream.close()
    await ending
    await cloud.assert_nothing_is_left()
    assert (pool.state, cloud.ended) == (PoolState.STOPPED, [])


UNSCHEDULABLE = {
    "phase": "Pending",
    "conditions": [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/3 nodes are available: 3 Insufficient memory.",
        }
    ],
}
PULL = container(waiting={"reason": "ImagePullBackOff", "message": "Back-off pulling image"})
CONFIG = container(waiting={"reason": "CreateContainerConfigError", "message": "secret not there"})
KILLED = container(terminated={"exitCode": 137, "reason": "OOMKilled"})


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (UNSCHEDULABLE, f"no node takes the pod {NAME}: 0/3 nodes are available: 3 Insufficient memory."),
        (
            {"phase": "Pending", "containerStatuses": [PULL]},
            f"the image headrace:1 of the pod {NAME} cannot be pulled: ImagePullBackOff: Back-off pulling image",
        ),
        (
            {"phase": "Pending", "containerStatuses": [CONFIG]},
            f"the container of the pod {NAME} cannot be created: CreateContainerConfigError: secret not there",
        ),
        (
            {"phase": "Failed", "containerStatuses": [KILLED]},
            f"Kubernetes ended the pod {NAME}: it used more than 2800Mi of memory",
        ),
        (
            {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."},
            f"Kubernetes ended the pod {NAME}: Evicted: The node was low on resource: memory.",
        ),
    ],
    ids=["unschedulable", "image", "container", "memory", "evicted"],
)
async def test_a_pod_that_does_not_run_is_an_error_of_the_pool(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, status: dict[str, Any], reason: str
) -> None:
    monkeypatch.setattr(launching, "SCHEDULE_TIMEOUT_S", 0.0)
    pool = cloud.pool()
    pool.start()
    await cloud.secret()
    cloud.api.set_status(NAME, status)
    await until(lambda: pool.state is PoolState.ERRORED)
    assert (pool.message, cloud.ended) == (reason, [reason])
    await cloud.assert_nothing_is_left()
    await pool.stop()


async def test_the_drivers_own_reason_and_that_of_its_executors_are_reported(cloud: Cloud) -> None:
    pool = cloud.pool()
    pool.start()
    await cloud.secret()
    options = json.loads(cloud.api.objects["pods"][NAME]["spec"]["containers"][0]["args"][-1])
    template = executor_template(DriverOptions.model_validate(options).pods)  # type: ignore[arg-type]
    cloud.api.create_pod({**template, "metadata": {**template["metadata"], "name": "e-1"}})
    cloud.api.set_status("e-1", UNSCHEDULABLE)
    await until(lambda: cloud.launches[0]._executors)
    cloud.api.bind(NAME)
    cloud.api.logs[NAME] = f"noise\nERROR {DRIVER_FAILED}0 of 2 executors started. Look.\n"
    cloud.api.set_status(
        NAME, {"phase": "Failed", "containerStatuses": [container(terminated={"exitCode": 1})]}
    )
    await until(lambda: pool.state is PoolState.ERRORED)
    assert pool.message is not None
    assert pool.message.startswith(
        "0 of 2 executors started. Look. Kubernetes reports: no node takes the pod e-1"
    )
    assert "noise" in (cloud.folder / "data" / "logs" / "driver-Far_reports.log").read_text()
    await pool.stop()


async def test_a_new_driver_waits_until_the_pod_of_the_earlier_one_is_gone(cloud: Cloud) -> None:
    first = cloud.launch()
    await first.start(warm_up=False)
    cloud.api.bind(NAME)
    second = cloud.launch()
    starting = asyncio.create_task(second.start(warm_up=False))
    await until(lambda: "deletionTimestamp" in cloud.api.objects["pods"][NAME]["metadata"])
    await asyncio.sleep(0.05)
    assert not starting.done()
    uid = cloud.api.objects["pods"][NAME]["metadata"]["uid"]
    cloud.api.remove(NAME)
    await starting
    assert cloud.api.objects["pods"][NAME]["metadata"]["uid"] != uid
    await asyncio.gather(first.end(), second.end())


async def test_a_server_that_another_one_has_replaced_leaves_its_pod(cloud: Cloud) -> None:
    replaced, successor = cloud.launch(), cloud.launch()
    await replaced.start(warm_up=False)
    await successor.start(warm_up=False)
    uid = cloud.api.objects["pods"][NAME]["metadata"]["uid"]
    assert await replaced.wait() == 1
    assert replaced.failure() == f"the pod {NAME} was deleted"
    await replaced.end()
    assert cloud.api.objects["pods"][NAME]["metadata"]["uid"] == uid
    await successor.end()
    await cloud.assert_nothing_is_left()


async def test_a_driver_that_outlives_the_servers_pod_belongs_to_its_controller(cloud: Cloud) -> None:
    kept = Kept(cloud.settings)
    launch = cloud.launch(kept)
    await launch.start(warm_up=False)
    pod = cloud.api.objects["pods"][NAME]
    assert pod["metadata"]["ownerReferences"] == [
        {
            **{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "demo-headrace"},
            "uid": cloud.api.stateful_set_uid,
        }
    ]
    options = DriverOptions.model_validate_json(pod["spec"]["containers"][0]["args"][-1])
    assert options.outlive == Outlive(epoch=7, orphan_s=cloud.settings.driver_orphan_s)
    assert kept.records["p"].uid == pod["metadata"]["uid"]
    assert kept.records["p"].token not in repr(kept.records)
    assert cloud.port.identity.key not in repr(kept.records)
    # In order, the server leaves it. When the pool is stopped, it ends it.
    await launch.leave()
    assert NAME in cloud.pods()
    await launch.end()
    await cloud.assert_nothing_is_left()
    assert kept.records == {}


@only_the_stand_in
async def test_the_controller_of_an_earlier_pod_of_the_server_is_no_owner(cloud: Cloud) -> None:
    cloud.settings = cloud.settings.model_copy(update={"kubernetes_owner": "demo-headrace-0/earlier"})
    launch = cloud.launch(Kept(cloud.settings))
    await launch.start(warm_up=False)
    own_pod = {"apiVersion": "v1", "kind": "Pod", "name": "demo-headrace-0", "uid": "earlier"}
    assert cloud.pods()[NAME]["metadata"]["ownerReferences"] == [own_pod]
    await launch.end()


async def test_a_pod_that_another_server_has_just_created_is_left_alone(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    created: list[Manifest] = []
    create = KubernetesApi.create_pod

    def create_late(api: KubernetesApi, pod: Manifest) -> str | None:
        created.append(cloud.api.create_pod(pod))
        return create(api, pod)

    monkeypatch.setattr(KubernetesApi, "create_pod", create_late)
    with pytest.raises(ExternalError, match=f"another server has created the pod {NAME}"):
        await cloud.launch().start(warm_up=False)
    assert cloud.pods()[NAME]["metadata"]["uid"] == created[0]["metadata"]["uid"]


@only_the_stand_in
async def test_a_pod_in_another_namespace_has_no_owner(cloud: Cloud) -> None:
    cloud.settings = cloud.settings.model_copy(update={"kubernetes_namespace": "elsewhere"})
    launch = cloud.launch()
    await launch.start(warm_up=False)
    assert "ownerReferences" not in cloud.api.objects["pods"][NAME]["metadata"]
    await launch.end()


async def test_a_pod_that_does_not_end_keeps_the_pool_from_starting(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "GONE_TIMEOUT_S", 0.02)
    first = cloud.launch()
    await first.start(warm_up=False)
    cloud.api.bind(NAME)
    with pytest.raises(ExternalError, match="does not end"):
        await cloud.launch().start(warm_up=False)
    cloud.api.remove(NAME)
    await first.end()


async def test_the_api_is_checked_before_a_pool_is_created(stand_in: StandInApi, tmp_path: Path) -> None:
    cloud = Cloud(stand_in, tmp_path)
    api = await asyncio.to_thread(KubernetesApi, cloud.master, cloud.settings)
    await asyncio.to_thread(api.check)
    stand_in.is_allowed = False
    with pytest.raises(ExternalError, match="may not create pods in the namespace data"):
        await asyncio.to_thread(api.check)
    stand_in.refusal = (403, "pods is forbidden")
    with pytest.raises(ExternalError, match=r"refuses a request \(403\): pods is forbidden"):
        await asyncio.to_thread(api.check)
    await cloud.port.close()
    await asyncio.to_thread(stand_in.close)
    with pytest.raises(ExternalError, match="does not answer"):
        await asyncio.to_thread(api.check)


@only_the_stand_in
@pytest.mark.parametrize("master", ["k8s://https://elsewhere.example.com", "k8s://in-cluster"])
def test_the_credentials_reach_no_other_cluster(cloud: Cloud, master: str) -> None:
    with pytest.raises(UserError, match=r"no credentials for k8s://https|cannot use the service account"):
        KubernetesApi(master, cloud.settings)
    without = cloud.settings.model_copy(update={"kubernetes_config": None})
    with pytest.raises(UserError):
        KubernetesApi(cloud.master, without)
    assert isinstance(cloud.api, StandInApi)
    assert cloud.api.requests == ["POST /api/v1/namespaces/data/pods"], "the pod of the server alone"


async def test_the_key_of_the_bucket_is_in_the_secret_of_the_driver_alone(cloud: Cloud) -> None:
    """Pods mount no volume of checkpoints if these are in S3, and the server needs no claim."""
    cloud.settings = cloud.settings.model_copy(
        update={
            **{"kubernetes_claim": None, "checkpoint_folders": ("s3://streams/headrace",)},
            **{"checkpoint_s3_endpoint": "https://s3.example.com", "checkpoint_s3_access_key_id": "AKIA"},
            "checkpoint_s3_secret_access_key": SecretStr("key of the bucket"),
        }
    )
    cloud.given = replace(
        cloud.given, place=Place(cloud.master, "s3://streams/headrace/far", Cluster(2, 1, "1g"))
    )
    pool = cloud.pool()
    pool.start()
    stream = await cloud.connect()
    stream.sendall(encode_frame(READY))
    await until(lambda: pool.state is PoolState.RUNNING)
    pod = cloud.api.objects["pods"][NAME]
    with mock.patch.dict(os.environ):
        driver_settings.read_bucket_login(cloud.folder / "mounted")
        assert Login.of(os.environ) == login(cloud.settings)
    options = DriverOptions.model_validate_json(pod["spec"]["containers"][0]["args"][-1])
    assert options.pods is not None
    driver_settings.settings(options.pods, cloud.folder)
    template = json.loads((cloud.folder / "executor.json").read_text())
    for manifest in (pod, template):
        assert "key of the bucket" not in json.dumps(manifest)
        assert "persistentVolumeClaim" not in json.dumps(manifest)
        assert "mountPath" in json.dumps(manifest)
    mounted = [
        [
            item["key"]
            for volume in each["spec"]["volumes"]
            for item in volume.get("secret", {}).get("items", ())
        ]
        for each in (pod, template)
    ]
    assert mounted == [["token", "server.pem", "spark-secret", BUCKET_FILE], ["spark-secret"]]
    assert not pool.sees(Path("/mnt/headrace/savepoints/s"))
    cloud.api.set_status(
        NAME, {"phase": "Succeeded", "containerStatuses": [container(terminated={"exitCode": 0})]}
    )
    stream.close()
    await pool.stop()
    await cloud.assert_nothing_is_left()


@only_the_stand_in
async def test_settings_that_are_gone_are_named(cloud: Cloud) -> None:
    for field in ("kubernetes_image", "kubernetes_claim"):
        cloud.settings = cloud.settings.model_copy(update={field: None})
        with pytest.raises(UserError, match=f"HEADRACE_{field.upper()} is missing"):
            await cloud.launch().start(warm_up=False)
        cloud.settings = cloud.settings.model_copy(update={field: "x"})
    with pytest.raises(UserError, match="HEADRACE_DRIVER_PORT is missing"):
        await PodLaunch(POOL, cloud.settings, cloud.given, None, catalog=CATALOG).start(warm_up=False)
    await cloud.assert_nothing_is_left()


@only_the_stand_in
def test_a_pod_sees_only_the_volume_of_checkpoints(cloud: Cloud) -> None:
    pool = cloud.pool()
    assert pool.sees(Path("/mnt/headrace/savepoints/s"))
    assert not pool.sees(cloud.folder / "data" / "savepoints")
    cloud.given = replace(cloud.given, place=Place("local[2]"))
    assert cloud.pool().sees(cloud.folder / "data" / "savepoints")


def test_names_of_pods_are_names_of_the_api() -> None:
    names = {pod_name(CATALOG, pool) for pool in ("far", "FAR", "ſ", "-", "x" * 300, "a b")}
    assert len(names) == 6
    for name in names:
        assert len(name) <= 47  # with the number of an executor, Spark's limit is 63
        assert name.replace("-", "").isalnum()
        assert name.startswith("headrace-")


@only_the_stand_in
def test_executors_are_confined_and_have_no_token(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    launch = cloud.launch()
    launch._api = SimpleNamespace(namespace=cloud.api.name)  # type: ignore[assignment]
    options = launch._options()
    settings = driver_settings.settings(options, cloud.folder)
    template = json.loads((cloud.folder / "executor.json").read_text())
    kubernetes_validate.validate(
        {**template, "metadata": {**template["metadata"], "name": "e"}}, VERSION, strict=True
    )
    spec, [executor] = template["spec"], template["spec"]["containers"]
    assert spec["automountServiceAccountToken"] is False
    assert executor["securityContext"]["readOnlyRootFilesystem"] is True
    [volume] = [each for each in spec["volumes"] if each["name"] == "credentials"]
    assert [item["key"] for item in volume["secret"]["items"]] == ["spark-secret"]
    assert settings["spark.kubernetes.driver.pod.name"] == NAME
    # Executors need it before they know the driver's settings: the name without `executor` is the only one that they read then.
    file = "/etc/headrace/driver/spark-secret"
    assert driver_settings.authentication() == {"spark.authenticate.secret.file": file}
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    assert driver_settings.master() == "k8s://https://[fd00::1]:443"


def test_an_executor_becomes_the_jvm_that_spark_describes(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {
        "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.0.0.1:7078",
        "SPARK_EXECUTOR_ID": "1",
        "SPARK_EXECUTOR_CORES": "2",
        "SPARK_APPLICATION_ID": "spark-1",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.2",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_EXECUTOR_POD_NAME": "e-1",
        "SPARK_EXECUTOR_MEMORY": "1024m",
        **{f"SPARK_JAVA_OPT_{number}": f"-Dn={number}" for number in (10, 2)},
    }
    runtime = replace(java_runtime(), modules=frozenset())
    monkeypatch.setattr(executor, "java_runtime", lambda: runtime)
    line = executor.command({**variables, "SPARK_JAVA_OPT_1": "--add-modules=jdk.incubator.vector"})
    assert line[1:5] == ["-Dn=2", "-Dn=10", "-Xms1024m", "-Xmx1024m"]
    assert line[line.index("--hostname") + 1] == "10.0.0.2"
    with pytest.raises(KeyError, match="SPARK_EXECUTOR_ID"):
        executor.command({name: text for name, text in variables.items() if name != "SPARK_EXECUTOR_ID"})


@only_the_stand_in
def test_a_pool_on_another_place_has_other_resources(cloud: Cloud) -> None:
    assert str(cloud.given.target) == "Kubernetes, 2 slots, Python (Spark 4.1)"
    local = replace(cloud.given, place=Place("local[2]"), worker_python=False)
    assert not local.target.is_cluster
