"""Every port of a cluster's processes refuses who has no credentials, and the secret of the cluster is where it must be only."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path

import httpx
import psutil
import pytest

from harness.patience import PATIENCE_S, until
from harness.spark_cluster import SparkCluster
from harness.strangers import REFUSALS, STRANGERS, reply_to
from headrace.testing.processes import running_after
from tests.driver.control import DriverControl

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.xdist_group("tests/cluster")]

KNOWN = {
    "page": 3,  # of the master and of each worker
    "rpc": 3,  # likewise
    "executor": 2,  # blocks, of each executor
    "driver": 3,  # py4j; RPC; blocks
}


@pytest.mark.faults
def test_every_port_is_known_and_refuses_strangers(cluster: SparkCluster, tmp_path: Path) -> None:
    driver = DriverControl(
        tmp_path, environment=cluster.environment, spark_master=cluster.master, warm_up=False
    )
    try:
        until(lambda: len(_listeners(cluster, driver)) == sum(KNOWN.values()), "the executors are up")
        listeners = _listeners(cluster, driver)
        assert Counter(role for role, *_ in listeners) == KNOWN, listeners
        assert all(host.startswith("127.0.0.") for _, host, _ in listeners), listeners
        for role, host, port in listeners:
            for stranger in STRANGERS:
                text = reply_to((host, port), stranger(port))
                refused = any(refusal in text for refusal in REFUSALS)
                if role == "page":
                    refused = text.startswith((b"HTTP/1.1 403", b"HTTP/1.1 400"))
                assert not text or refused, (
                    f"a port of the {role} answers {stranger.__name__}: {text[:500]!r}"
                )
        command_lines = [" ".join(process.cmdline()) for process in _processes(cluster, driver)]
        assert not [line for line in command_lines if cluster.secret in line]
    finally:
        processes = driver.processes()
        driver.close()
        running_after(processes, PATIENCE_S)
    assert cluster.secret not in cluster.logs() + driver.log()


def _listeners(cluster: SparkCluster, driver: DriverControl) -> list[tuple[str, str, int]]:
    """(role, host, port) of every TCP port on which a process of the cluster, or the driver's JVM, listens."""
    listeners = []
    executors = {process.pid for process in cluster.executors()}
    masters = {cluster.pid(name) for name in ("master", "worker-0", "worker-1")}
    for process in _processes(cluster, driver):
        with suppress(psutil.Error):
            for connection in process.net_connections("tcp"):
                if connection.status != psutil.CONN_LISTEN:
                    continue
                host, port = connection.laddr.ip.removeprefix("::ffff:"), connection.laddr.port
                role = "executor" if process.pid in executors else "driver"
                if process.pid in masters:
                    role = "page" if _is_page(host, port) else "rpc"
                listeners.append((role, host, port))
    return listeners


def _is_page(host: str, port: int) -> bool:
    try:
        return httpx.get(f"http://{host}:{port}/", timeout=PATIENCE_S).status_code == 403
    except httpx.HTTPError:
        return False


def _processes(cluster: SparkCluster, driver: DriverControl) -> list[psutil.Process]:
    masters = [psutil.Process(cluster.pid(name)) for name in ("master", "worker-0", "worker-1")]
    jvms = [process for process in driver.processes() if process.name() == "java"]
    return [*masters, *cluster.executors(), *jvms]
