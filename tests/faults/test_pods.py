"""A pool on Kubernetes from CREATE to DROP, over the death of the server: driver and executor are real, their pods are processes here."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.kafka import KafkaClient
from harness.patience import until
from harness.process import HeadraceProcess
from harness.s3 import S3Client
from headrace.runtime.ports import free_port
from headrace.testing.door import RestDoor
from tests.driver.kubelet import Kubelet, assert_secrets_are_nowhere, wait_for_none
from tests.faults.workload import GROUPS, WindowsOnly, streaming
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
        # A key of its own, which the stand-in does not check: the shared one is on the command lines of other stand-ins.
        settings = {**s3.checkpoints(prefix), "HEADRACE_CHECKPOINT_S3_SECRET_ACCESS_KEY": f"pods/of+{seed}"}
        return Place(f"s3://{s3.bucket}/{prefix}", settings, lambda: s3.keys(prefix))
    mount = tmp_path / "mount"
    mount.mkdir()
    settings = {"HEADRACE_KUBERNETES_CLAIM": "shared", "HEADRACE_CHECKPOINT_FOLDERS": str(mount)}
    return Place(f"file:{mount}", settings, lambda: list(map(str, mount.rglob("*"))))


def server_of_pods(api: StandInApi, place: Place, folder: Path) -> HeadraceProcess:
    """Return a server, not started, whose pools are pods of `api`."""
    port = free_port()
    environment = {
        "HEADRACE_DRIVER_PORT": str(port),
        "HEADRACE_DRIVER_SERVER": f"127.0.0.1:{port}",
        "HEADRACE_KUBERNETES_IMAGE": "headrace:1",
        "HEADRACE_KUBERNETES_CONFIG": str(api.kubeconfig(folder, server_name=None)),
        "HEADRACE_DRIVER_MEMORY_MB": "1024",
        "HEADRACE_DRIVER_ORPHAN_S": "3600",
    }
    return HeadraceProcess(folder / "data", environment={**environment, **place.settings})


def setup(api: StandInApi, place: Place, kafka: KafkaClient, executors: str = "") -> str:
    """Return the statements that create a pool of pods with properties of its executors, a database and a store, and use them."""
    return (
        f"STOP COMPUTE_POOL default_pool; CREATE COMPUTE_POOL far WITH ('compute_pool.master' = 'k8s://{api.url}', {executors}"
        f"'compute_pool.executor.memory' = '512m', 'compute_pool.checkpoints' = '{place.uri}'); "
        "USE COMPUTE_POOL far; CREATE DATABASE d; USE DATABASE d; "
        f"CREATE STORE k WITH ('type' = KAFKA, 'uris' = '{kafka.bootstrap}', 'tls.disabled' = TRUE); USE STORE k; "
    )


def test_a_pool_of_pods_runs_a_query_and_leaves_nothing(
    kubernetes_api: StandInApi, kafka: KafkaClient, place: Place, tmp_path: Path, seed: str
) -> None:
    server = server_of_pods(kubernetes_api, place, tmp_path)
    with Kubelet(kubernetes_api, tmp_path / "pods") as kubelet, server:
        door = RestDoor(server)
        door.execute(
            setup(kubernetes_api, place, kafka)
            + f"CREATE STREAM clicks (page VARCHAR) WITH ('topic' = 'clicks_{seed}', 'topic.partitions' = 1, "
            "'topic.replicas' = 1, 'value.format' = JSON); "
            "CREATE FUNCTION shout(page VARCHAR) RETURNS VARCHAR LANGUAGE PYTHON AS 'def shout(page): return page.upper()'; "
            # The executor starts the process of the function, from a file that the server has sent through the driver.
            f"CREATE CHANGELOG counts WITH ('topic' = 'counts_{seed}') AS SELECT shout(page) AS page, COUNT(*) AS n FROM clicks "
            "WITH ('starting.position' = 'earliest') GROUP BY shout(page)"
        )

        def counted() -> int:
            values = [json.loads(value or "{}") for _, value in kafka.consume(f"counts_{seed}")]
            assert {row["page"] for row in values} <= {"A"}
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
        kafka.produce(f"clicks_{seed}", [(None, '{"page":"a"}')] * 2)
        counts(5)
        server.start()
        kafka.produce(f"clicks_{seed}", [(None, '{"page":"a"}')] * 2)
        counts(7)
        assert kubelet.living() == first, "the next server has taken driver and executor over"

        # A server with another image ends the driver, and the next one continues from the checkpoint.
        server.kill()
        server.start(HEADRACE_KUBERNETES_IMAGE="headrace:2")
        kafka.produce(f"clicks_{seed}", [(None, '{"page":"a"}')] * 2)
        counts(9)
        second = kubelet.living()
        assert len(second) == 2
        assert not set(first) & set(second)
        door.execute("DROP COMPUTE_POOL far CASCADE")
        assert not [name for name in kubernetes_api.objects["pods"] if "-exec-" not in name]
        assert kubernetes_api.objects["secrets"] == {}
        wait_for_none(second)
        until(lambda: kubernetes_api.objects["pods"] == {}, lambda: str(list(kubernetes_api.objects["pods"])))
        door.close()


@pytest.mark.parametrize("place", ["volume"], indirect=True)
def test_the_next_server_takes_the_pod_over_and_each_window_is_written_once(
    kubernetes_api: StandInApi, kafka: KafkaClient, place: Place, tmp_path: Path, seed: str
) -> None:
    """The server is killed, and ended in order to start with another setting."""
    server = server_of_pods(kubernetes_api, place, tmp_path)
    with Kubelet(kubernetes_api, tmp_path / "pods") as kubelet, server:
        door = RestDoor(server)
        door.execute(setup(kubernetes_api, place, kafka))
        workload = WindowsOnly(kafka, door, seed)
        workload.start()
        with streaming(workload.producer):
            until(lambda: workload.written() >= GROUPS, lambda: f"{server.log()}\n{kubelet.logs()}")
            door.close()
            processes, pods = kubelet.living(), set(kubernetes_api.objects["pods"])
            assert len(processes) == len(pods) == 2  # driver and executor
            for end, setting in ((server.kill, "1000"), (server.stop, "400")):
                end()
                workload.until_more("without a server")
                server.start(HEADRACE_RECONCILE_INTERVAL_MS=setting)
                door = RestDoor(server)
                batches = "SELECT query_id FROM deltastream.sys.query_metrics"
                until(lambda: door.execute(batches), server.log)  # noqa: B023 - called in this round
                assert door.execute("SELECT current_state, message FROM deltastream.sys.queries") == [
                    ["running", None]
                ]
                door.close()
                workload.until_more("with the next server")
                assert (kubelet.living(), set(kubernetes_api.objects["pods"])) == (processes, pods)
        workload.until_exact()
        assert_secrets_are_nowhere(kubernetes_api, tmp_path / "data", tmp_path / "pods")
        door = RestDoor(server)
        door.execute("USE DATABASE d; STOP COMPUTE_POOL far")
        wait_for_none(processes)
        until(lambda: kubernetes_api.objects["pods"] == {}, lambda: str(list(kubernetes_api.objects["pods"])))
        assert kubernetes_api.objects["secrets"] == {}
        door.close()


@pytest.mark.parametrize("place", ["volume"], indirect=True)
def test_executors_of_pods_follow_the_load(
    kubernetes_api: StandInApi, kafka: KafkaClient, place: Place, tmp_path: Path, seed: str
) -> None:
    """1, 2 and 1 executors: a second one under load, and one at a trickle. Nothing is lost or doubled."""
    server = server_of_pods(kubernetes_api, place, tmp_path)
    clicks, hashed = f"clicks_{seed}", f"hashed_{seed}"
    produced = 0

    def produce(rows: int) -> None:
        nonlocal produced
        for partition in range(2):
            values = [(None, json.dumps({"n": produced + n})) for n in range(rows)]
            kafka.produce(clicks, values, partition=partition)
            produced += rows

    def results() -> list[int]:
        return sorted(json.loads(value or "{}")["n"] for _, value in kafka.consume(hashed))

    def executors() -> list[str]:
        return [
            name
            for name, pod in list(kubernetes_api.objects["pods"].items())
            if "-exec-" in name and pod.get("status", {}).get("phase") == "Running"
        ]

    with Kubelet(kubernetes_api, tmp_path / "pods") as kubelet, server:
        door = RestDoor(server)

        def state() -> str:
            return f"executors {executors()}, {len(results())} of {produced} rows\n{server.log()}\n{kubelet.logs()}"

        door.execute(
            setup(kubernetes_api, place, kafka, "'compute_pool.executors.max' = 2, ")
            + f"CREATE STREAM clicks (n BIGINT) WITH ('topic' = '{clicks}', 'topic.partitions' = 2, "
            "'topic.replicas' = 1, 'value.format' = JSON); "
            # A row takes about a millisecond.
            f"CREATE STREAM hashed WITH ('topic' = '{hashed}', 'delivery.guarantee' = exactly_once) AS SELECT n FROM clicks "
            "WITH ('starting.position' = 'earliest') WHERE SHA256(REPEAT(CAST(n AS VARCHAR), 100000)) <> ''"
        )

        def is_grown() -> bool:
            if produced - len(results()) < 10_000:
                produce(5000)
            return len(executors()) == 2

        def is_shrunk() -> bool:
            produce(1)
            return len(executors()) == 1

        until(is_grown, state)
        first, second = sorted(executors())
        until(is_shrunk, state)
        assert executors() == [first], f"the newest, {second}, ends first"
        until(lambda: len(results()) >= produced, state)
        assert results() == list(range(produced))
        door.close()
