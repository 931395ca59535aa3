"""A pool on Kubernetes from CREATE to DROP, over the death of the server: driver and executor are real, their pods are processes here."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.kafka import KafkaClient
from harness.patience import until
from harness.ports import free_port
from harness.process import HeadraceProcess
from harness.s3 import S3Client
from headrace.testing.door import RestDoor
from tests.driver.kubelet import Kubelet, assert_secrets_are_nowhere, wait_for_none
from tests.unit.engine.kubernetes_api import StandInApi

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.faults]


@dataclass(frozen=True)
class Place:
    """The address of checkpoints, the settings of a server for it, and the names of its files."""

    uri: str
    settings: dict[str, str]
    files: Callable[[], list[str]]


@pytest.fixture(params=("volume", "bucket"))
def place(request: pytest.FixtureRequest, tmp_path: Path, seed: str) -> Place:
    """The place of checkpoints: a volume that all pods mount, or a bucket."""
    if request.param == "bucket":
        s3: S3Client = request.getfixturevalue("s3")
        prefix = f"pods_{seed}"
        return Place(f"s3://{s3.bucket}/{prefix}", s3.checkpoints(prefix), lambda: s3.keys(prefix))
    mount = tmp_path / "mount"
    mount.mkdir()
    settings = {"HEADRACE_KUBERNETES_CLAIM": "shared", "HEADRACE_CHECKPOINT_FOLDERS": str(mount)}
    return Place(f"file:{mount}", settings, lambda: list(map(str, mount.rglob("*"))))


def test_a_pool_of_pods_runs_a_query_and_leaves_nothing(
    kubernetes_api: StandInApi, kafka: KafkaClient, place: Place, tmp_path: Path, seed: str
) -> None:
    port = free_port()
    server = HeadraceProcess(
        tmp_path / "data",
        environment={
            "HEADRACE_DRIVER_PORT": str(port),
            "HEADRACE_DRIVER_SERVER": f"127.0.0.1:{port}",
            "HEADRACE_KUBERNETES_IMAGE": "headrace:1",
            "HEADRACE_KUBERNETES_CONFIG": str(kubernetes_api.kubeconfig(tmp_path, server_name=None)),
            "HEADRACE_DRIVER_MEMORY_MB": "1024",
            **place.settings,
        },
    )
    with Kubelet(kubernetes_api, tmp_path / "pods", kubernetes_api.certificate) as kubelet, server:
        door = RestDoor(server)
        door.execute(
            f"STOP COMPUTE_POOL default_pool; CREATE COMPUTE_POOL far WITH ('compute_pool.master' = 'k8s://{kubernetes_api.url}', "
            f"'compute_pool.executor.memory' = '512m', 'compute_pool.checkpoints' = '{place.uri}'); "
            "USE COMPUTE_POOL far; CREATE DATABASE d; USE DATABASE d; "
            f"CREATE STORE k WITH ('type' = KAFKA, 'uris' = '{kafka.bootstrap}', 'tls.disabled' = TRUE); USE STORE k; "
            f"CREATE STREAM clicks (page VARCHAR) WITH ('topic' = 'clicks_{seed}', 'topic.partitions' = 1, "
            "'topic.replicas' = 1, 'value.format' = JSON); "
            f"CREATE CHANGELOG counts WITH ('topic' = 'counts_{seed}') AS SELECT page, COUNT(*) AS n FROM clicks "
            "WITH ('starting.position' = 'earliest') GROUP BY page"
        )

        def counted() -> int:
            values = [json.loads(value or "{}") for _, value in kafka.consume(f"counts_{seed}")]
            return max((row["n"] for row in values), default=0)

        def counts(number: int) -> None:
            until(lambda: counted() == number, lambda: f"{server.log()}\n{kubelet.logs()}")

        kafka.produce(f"clicks_{seed}", [(None, '{"page":"a"}')] * 3)
        counts(3)
        # The driver sends these rows to the server.
        rows = door.stream(
            "SELECT page FROM clicks WITH ('starting.position' = 'earliest')", count=3, when_live=lambda: None
        )
        assert len(rows) == 3
        assert [name for name in place.files() if name.endswith((".changelog", ".delta"))], (
            "the state is elsewhere"
        )
        first = kubelet.living()
        assert len(first) == 2  # driver and executor
        assert_secrets_are_nowhere(kubernetes_api, tmp_path / "data", tmp_path / "pods")

        server.kill()
        wait_for_none(first)
        # The restarted server has another certificate, and its driver continues from the checkpoint.
        server.start()
        kafka.produce(f"clicks_{seed}", [(None, '{"page":"a"}')] * 2)
        counts(5)
        second = kubelet.living()
        assert len(second) == 2
        door.execute("DROP COMPUTE_POOL far CASCADE")
        assert not [name for name in kubernetes_api.objects["pods"] if "-exec-" not in name]
        assert kubernetes_api.objects["secrets"] == {}
        wait_for_none(second)
        until(lambda: kubernetes_api.objects["pods"] == {}, lambda: str(list(kubernetes_api.objects["pods"])))
        door.close()
