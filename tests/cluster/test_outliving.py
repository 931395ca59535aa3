"""The server of a driver on a cluster is killed, and ended in order: the next one takes the driver over, and each row is written once."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from harness.folders import logs_below
from harness.kafka import KafkaClient
from harness.outliving import OutlivingServer
from harness.patience import until
from harness.spark_cluster import SparkCluster
from headrace.testing.door import RestDoor
from tests.faults.workload import GROUPS, WindowsOnly, streaming

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.faults,
    pytest.mark.xdist_group("tests/cluster"),
]


def applications(cluster: SparkCluster) -> set[str]:
    """Return the ids of Spark's applications with executors."""
    commands = [executor.cmdline() for executor in cluster.executors()]
    return {command[command.index("--app-id") + 1] for command in commands if "--app-id" in command}


def test_the_next_server_takes_the_driver_over_and_each_window_is_written_once(
    cluster: SparkCluster, kafka: KafkaClient, tmp_path: Path, seed: str
) -> None:
    mount, data = tmp_path / "mount", tmp_path / "data"
    mount.mkdir()
    environment = {
        "HEADRACE_SPARK_SECRET": cluster.secret,
        "HEADRACE_CHECKPOINT_FOLDERS": str(mount),
        "HEADRACE_DRIVER_ORPHAN_S": "3600",
    }
    server = OutlivingServer(data, environment=environment).start()
    try:
        door = RestDoor(server)
        door.execute(
            f"STOP COMPUTE_POOL default_pool; CREATE COMPUTE_POOL far WITH ('compute_pool.master' = '{cluster.master}', "
            f"'compute_pool.executors' = 2, 'compute_pool.executor.memory' = '512m', 'compute_pool.checkpoints' = 'file:{mount}'); "
            "USE COMPUTE_POOL far; CREATE DATABASE faults; USE DATABASE faults; "
            f"CREATE STORE broker WITH ('type' = KAFKA, 'uris' = '{kafka.bootstrap}', 'tls.disabled' = TRUE); USE STORE broker;"
        )
        workload = WindowsOnly(kafka, door, seed)
        workload.start()
        with streaming(workload.producer):
            until(lambda: workload.written() >= GROUPS, lambda: f"a window\n{server.driver_logs()}")
            before = server.driver_pids(), applications(cluster)
            assert len(before[0]) == 1
            assert len(before[1]) == 1
            door.close()
            for number in (signal.SIGKILL, signal.SIGTERM):
                server.leave(number)
                workload.until_more("without a server")
                _take_over(server)
                workload.until_more("with the next server")
                assert (server.driver_pids(), applications(cluster)) == before
        workload.until_exact()
        door = RestDoor(server)
        door.execute("USE DATABASE faults;")
        folder = server.driver_folder()
        token = folder.token
        texts = [path.read_text(errors="replace") for path in logs_below(data)]
        assert not any(token in text for text in texts)
        assert not any(token in str(each.info["cmdline"]) for each in psutil.process_iter(["cmdline"]))

        door.execute(f"TERMINATE QUERY windows_{seed};")
        states = "SELECT current_state FROM deltastream.sys.queries"
        until(lambda: door.execute(states) == [["terminated"]], server.log)
        door.execute("DROP CHANGELOG windows;")
        written = workload.written()
        workload.producer.produce(2000, meanwhile=lambda: None)
        time.sleep(3)
        assert workload.written() == written
        door.execute("STOP COMPUTE_POOL far;")
        until(lambda: not folder.is_held(), "the end of the driver")
        until(lambda: not cluster.executors(), "the end of the executors")
        door.close()
    finally:
        server.stop()


def _take_over(server: OutlivingServer) -> None:
    """Start the server again, and wait until it has heard of a batch of the query."""
    began = time.monotonic()
    server.start()
    started = time.monotonic()
    door = RestDoor(server)
    until(lambda: door.execute("SELECT query_id FROM deltastream.sys.query_metrics"), server.log)
    sys.stdout.write(
        f"the server starts in {started - began:.1f} s, and hears of a batch {time.monotonic() - started:.1f} s after that\n"
    )
    states = door.execute("SELECT current_state, message FROM deltastream.sys.queries")
    assert states == [["running", None]]
    assert "driver_taken_over" in server.log()
    door.close()
