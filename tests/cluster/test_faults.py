"""Six kinds of exactly-once queries in one pool of two workers, while a process, the master or a disk fails: no row is lost or doubled, and
the queries continue."""

from __future__ import annotations

import random
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from harness.kafka import KafkaClient
from harness.outliving import OutlivingServer
from harness.patience import until
from harness.spark_cluster import SparkCluster
from headrace.runtime.ports import free_port
from headrace.testing.door import RestDoor
from headrace.testing.runner import StatementError
from tests.cluster.workload import ClusterWorkload

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.faults,
    pytest.mark.xdist_group("tests/cluster"),
]

AFTERWARDS = 400


@dataclass(frozen=True)
class Scene:
    """Everything that a fault may strike."""

    cluster: SparkCluster
    server: OutlivingServer
    door: RestDoor
    workload: ClusterWorkload
    random_source: random.Random

    def facts(self, query: str) -> dict[str, str]:
        """DESCRIBE QUERY by name."""
        return {str(row[0]): row[1] or "" for row in self.door.execute(f"DESCRIBE QUERY {query};")}

    def states(self) -> dict[str, str]:
        """State and message of each query."""
        every = {query: self.facts(query) for query in self.workload.queries}
        return {
            query: f"{facts['state']} {facts['sqlstate']} {facts['message']}"
            for query, facts in every.items()
        }

    def pool(self, name: str = "far") -> tuple[str | None, str | None]:
        """Executors and error of a pool."""
        pool = "FROM deltastream.sys.compute_pools WHERE name"
        ((executors, error),) = self.door.execute(f"SELECT executors, error_messages {pool} = '{name}';")
        return executors, error

    def is_whole(self) -> bool:
        """True if all queries run on two executors."""
        running = all(state.startswith("running") for state in self.states().values())
        return running and self.pool()[0] == "2"

    def until_whole(self) -> None:
        """All queries run on two executors."""
        until(self.is_whole, lambda: f"{self.states()} {self.pool()}\n{self.server.driver_logs()}")


@pytest.fixture(scope="module")
def server(cluster: SparkCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OutlivingServer]:
    folder = tmp_path_factory.mktemp("faults")
    (folder / "mount").mkdir()
    environment = {
        "HEADRACE_SPARK_SECRET": cluster.secret,
        "HEADRACE_WORKER_PYTHON": cluster.environment["HEADRACE_WORKER_PYTHON"],
        "HEADRACE_CHECKPOINT_FOLDERS": str(folder / "mount"),
        "HEADRACE_RESTART_BACKOFF_MAX_MS": "4000",
        "HEADRACE_DRIVER_ORPHAN_S": "3600",
    }
    process = OutlivingServer(folder / "data", environment=environment).start()
    yield process
    process.stop()


@pytest.fixture(scope="module")
def door(server: OutlivingServer, cluster: SparkCluster, kafka: KafkaClient) -> Iterator[RestDoor]:
    """A session that uses a pool of two executors, with a short limit for heartbeats."""
    door = RestDoor(server)
    mount = server.data_dir.parent / "mount"
    door.execute(
        f"STOP COMPUTE_POOL default_pool; CREATE COMPUTE_POOL far WITH ('compute_pool.master' = '{cluster.master}', "
        "'compute_pool.executors' = 2, 'compute_pool.executor.memory' = '512m', "
        "'compute_pool.spark.network.timeout' = '30s', 'compute_pool.spark.executor.heartbeatInterval' = '3s', "
        f"'compute_pool.checkpoints' = 'file:{mount}'); "
        "USE COMPUTE_POOL far; CREATE DATABASE faults; USE DATABASE faults; "
        f"CREATE STORE broker WITH ('type' = KAFKA, 'uris' = '{kafka.bootstrap}', 'tls.disabled' = TRUE); USE STORE broker;"
    )
    yield door
    door.close()


@pytest.fixture(scope="module")
def workload(kafka: KafkaClient, door: RestDoor) -> ClusterWorkload:
    """Queries that run through all faults."""
    workload = ClusterWorkload(kafka, door, uuid.uuid4().hex[:8])
    workload.start()
    return workload


@pytest.fixture
def scene(
    cluster: SparkCluster,
    server: OutlivingServer,
    door: RestDoor,
    workload: ClusterWorkload,
    random_source: random.Random,
) -> Scene:
    return Scene(cluster, server, door, workload, random_source)


def kill_executor(scene: Scene) -> None:
    scene.random_source.choice(scene.cluster.executors()).kill()


def kill_worker(scene: Scene) -> None:
    """The other worker continues alone until a worker is back."""
    number = scene.random_source.randrange(2)
    scene.cluster.kill_worker(number)
    written = scene.workload.written()
    until(lambda: scene.workload.written() > written, lambda: f"output of one worker: {scene.states()}")
    scene.cluster.start_worker(number)


def kill_driver(scene: Scene) -> None:
    scene.server.kill_driver()


def kill_server(scene: Scene) -> None:
    """The queries continue without a server, and the next one takes their driver over."""
    before = scene.server.driver_pids()
    scene.server.leave(signal.SIGKILL)
    written = scene.workload.written()
    until(lambda: scene.workload.written() > written, "output without a server")
    scene.server.start()
    until(lambda: all(state.startswith("running") for state in scene.states().values()), scene.server.log)
    assert scene.server.driver_pids() == before


def kill_server_and_driver(scene: Scene) -> None:
    """Only catalog and checkpoints are left to the next server."""
    scene.server.leave(signal.SIGKILL)
    scene.server.kill_driver()
    scene.server.start()


def kill_master(scene: Scene) -> None:
    """Queries continue without a master. The next one ends executors that it does not know, and the driver notices."""
    before = scene.server.driver_pids()
    scene.cluster.kill_master()
    written = scene.workload.written()
    until(lambda: scene.workload.written() > written, lambda: f"output without a master: {scene.states()}")
    scene.cluster.start_master()
    until(lambda: scene.server.driver_pids() not in ([], before), scene.server.driver_logs)
    assert (
        "no longer knows the application of the compute pool: it was started again"
        in scene.server.driver_logs()
    )


def kill_master_and_driver(scene: Scene) -> None:
    """A driver cannot start before the master is back."""
    scene.cluster.kill_master()
    scene.server.kill_driver()
    until(lambda: "does not answer" in str(scene.pool()[1]), lambda: f"the error of the pool: {scene.pool()}")
    scene.cluster.start_master()


def fill_disk(scene: Scene) -> None:
    """Files of a worker cannot grow: queries fail with its name until they can."""
    number = scene.random_source.randrange(2)
    scene.cluster.fill_disk(number, full=True)
    try:
        expected = f"no space is left on a disk that the worker at {scene.cluster.workers[number]} uses"
        until(
            lambda: any(expected in state for state in scene.states().values()), lambda: str(scene.states())
        )
    finally:
        scene.cluster.fill_disk(number, full=False)


def stop_worker(scene: Scene) -> None:
    """A worker and its executors stop for longer than heartbeats may be late, and then continue beside those that replaced them."""
    number = scene.random_source.randrange(2)
    stopped = scene.cluster.processes(number)
    for process in stopped:
        process.suspend()
    try:
        until(lambda: scene.pool()[0] != "2", lambda: f"the executor is given up: {scene.pool()}")
        written = scene.workload.written()
        until(lambda: scene.workload.written() > written, lambda: f"output of one worker: {scene.states()}")
    finally:
        for process in stopped:
            process.resume()


FAULTS = [
    kill_worker,
    kill_executor,
    kill_driver,
    kill_server,
    kill_server_and_driver,
    kill_master,
    kill_master_and_driver,
    fill_disk,
    stop_worker,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_nothing_is_lost_or_doubled_by_six_kinds_of_queries(
    scene: Scene, fault: Callable[[Scene], None]
) -> None:
    scene.until_whole()
    before = scene.workload.written()

    def strike() -> None:
        until(lambda: scene.workload.written() > before, "the queries are at work")
        time.sleep(scene.random_source.uniform(0.2, 2.0))
        fault(scene)

    scene.workload.producer.produce_during(strike)
    scene.workload.producer.produce(AFTERWARDS, meanwhile=lambda: None)
    scene.workload.until_exact()
    scene.until_whole()


def test_statements_that_fail_leave_running_queries_alone(scene: Scene) -> None:
    """Each error comes within the time that it takes on an idle cluster, and no query restarts."""
    scene.until_whole()
    before = {query: scene.facts(query)["restarts"] for query in scene.workload.queries}

    def refuse() -> None:
        gone = f"spark://127.0.0.1:{free_port()}"
        for statement, error in (
            (
                f"CREATE COMPUTE_POOL lost WITH ('compute_pool.master' = '{gone}')",
                "57015: the Spark master does not answer",
            ),
            (
                f"UPDATE COMPUTE_POOL far WITH ('compute_pool.master' = '{gone}')",
                "3E004: the compute pool .far. runs",
            ),
            ("DROP COMPUTE_POOL far", "2BP01"),
        ):
            with pytest.raises(StatementError, match=error):
                scene.door.execute(statement)
        scene.door.execute(
            f"CREATE COMPUTE_POOL large WITH ('compute_pool.master' = '{scene.cluster.master}', 'compute_pool.executors' = 9)"
        )
        until(lambda: "room for 2 executors" in str(scene.pool("large")[1]), lambda: str(scene.pool("large")))
        scene.door.execute("DROP COMPUTE_POOL large")

    scene.workload.producer.produce_during(refuse)
    scene.workload.until_exact()
    assert {query: scene.facts(query)["restarts"] for query in scene.workload.queries} == before
    assert scene.is_whole(), scene.states()
