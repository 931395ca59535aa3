"""A driver on a cluster whose master was killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.patience import PATIENCE_S
from harness.spark_cluster import SparkCluster
from headrace.testing.processes import running_after
from tests.driver.control import DriverControl

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.faults,
    pytest.mark.xdist_group("tests/cluster"),
]


def test_a_driver_ends_with_the_reason_when_its_master_was_started_again(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    """The new master ends the executors, which it does not know, and starts no others."""
    driver = DriverControl(
        tmp_path,
        environment={"HEADRACE_SPARK_SECRET": cluster.secret},
        spark_master=cluster.master,
        warm_up=False,
        cluster={"executors": 1, "cores": 1, "memory": "512m"},
    )
    processes = driver.processes()
    try:
        (executor,) = cluster.executors()
        cluster.kill_master()
        cluster.start_master()
        executor.wait(PATIENCE_S)
        assert driver.process.wait(PATIENCE_S) == 1
        log = (tmp_path / "driver.log").read_text()
        assert not running_after(processes, PATIENCE_S), "the JVM runs on"
        assert f"the Spark master {cluster.master} no longer knows the application of the compute pool" in log
    finally:
        driver.close()
        running_after(processes, PATIENCE_S)
