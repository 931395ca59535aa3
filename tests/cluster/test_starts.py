"""A driver that cannot work on a cluster ends when it starts, within bounded time, and its error has the cause and what to do."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

from harness.patience import PATIENCE_S
from harness.spark_cluster import SparkCluster
from headrace.engine.pool_properties import Cluster
from headrace.engine.protocol import DRIVER_FAILED
from headrace.runtime.ports import free_port
from headrace.testing.processes import running_after
from tests.driver.control import DriverControl

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.faults,
    pytest.mark.xdist_group("tests/cluster"),
]


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python of the same version without packages."""
    folder = tmp_path_factory.mktemp("python")
    venv.create(folder, with_pip=False, symlinks=True)
    return str(folder / "bin" / "python")


@pytest.fixture(scope="module")
def other_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python that reports another version."""
    folder = tmp_path_factory.mktemp("python")
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "sitecustomize.py").write_text(
        "import collections, sys\n"
        "version = collections.namedtuple('version_info', 'major minor micro releaselevel serial')\n"
        "sys.version_info = version(3, 99, 0, 'final', 0)\n"
    )
    return str(folder / "bin" / "python")


@pytest.fixture(scope="module")
def other_spark(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A class path with which an executor reports another version of Spark."""
    folder = tmp_path_factory.mktemp("spark")
    (folder / "spark-version-info.properties").write_text("version=4.0.9\nrevision=0\n")
    return str(folder)


@pytest.mark.parametrize(
    ("options", "cause", "remedy"),
    [
        ({"spark_master": "spark://127.0.0.1:{free}"}, "does not answer", "Start the master"),
        (
            {"cluster": Cluster(executors=3, cores=1, memory="512m")},
            "have room for 2 executors with 1 core and 512 MiB each, expected 3",
            "Start more workers",
        ),
        (
            {"cluster": Cluster(executors=1, cores=1, memory="4g")},
            "have room for 0 executors with 1 core and 4096 MiB each, expected 1",
            "Start more workers",
        ),
        ({"worker_python": "/nowhere/python"}, "it does not exist on a worker", "Install headrace=="),
        ({"worker_python": "{bare}"}, "it does not have the package headrace", "Install headrace=="),
        (
            {"driver_host": "192.0.2.7"},
            "the address 192.0.2.7 of HEADRACE_DRIVER_HOST does not belong to this machine",
            "Set it to an address of this machine",
        ),
        (
            {"worker_python": "{other_python}"},
            "it is another version of Python than the server's",
            "Install headrace==",
        ),
        *(
            (
                {"spark_options": {"spark.executor.extraClassPath": "{other_spark}"}, **checkpoints},
                "have another version of Spark: the worker at 127.0.0.",
                "Start the cluster with the version of Spark that this release of Headrace has",
            )
            for checkpoints in ({"checkpoints": "{folder}"}, {})
        ),
        # Another folder in each process, as a path that is not a shared mount.
        ({"checkpoints": "/proc/self/cwd/mount"}, "does not see the file", "Mount one folder"),
    ],
    ids=[
        "master",
        "executors",
        "memory",
        "no Python",
        "Python without Headrace",
        "driver's host",
        "another Python",
        "another Spark",
        "another Spark without a folder to check",
        "folder that is not shared",
    ],
)
def test_a_start_that_must_fail_says_why(
    cluster: SparkCluster,
    tmp_path: Path,
    bare_python: str,
    other_python: str,
    other_spark: str,
    options: dict[str, Any],
    cause: str,
    remedy: str,
) -> None:
    names = {
        "free": free_port(),
        "bare": bare_python,
        "other_python": other_python,
        "other_spark": other_spark,
        "folder": tmp_path,
    }

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: filled(each) for name, each in value.items()}
        return value.format(**names) if isinstance(value, str) else value

    error = _failed(cluster, tmp_path, filled(options))
    assert cause in error, error
    assert remedy in error, error
    assert cluster.secret not in error


def test_a_pool_for_which_no_slot_is_free_says_so_and_leaves_the_others_alone(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    first = DriverControl(
        tmp_path / "first",
        environment={"HEADRACE_SPARK_SECRET": cluster.secret},
        spark_master=cluster.master,
        warm_up=False,
        cluster={"executors": 2, "cores": 1, "memory": "512m"},
    )
    try:
        executors = {each.pid for each in cluster.executors()}
        second = {"cluster": Cluster(executors=1, cores=1, memory="512m"), "executors_timeout_ms": 5_000}
        error = _failed(cluster, tmp_path, second)
        assert "started 0 of 1 executor in 5 s" in error, error
        assert "Other applications use its slots" in error, error
        assert first.process.poll() is None
        assert len(executors) == 2
        assert {each.pid for each in cluster.executors()} == executors
    finally:
        processes = first.processes()
        first.close()
        running_after(processes, PATIENCE_S)


def test_a_host_name_that_the_workers_do_not_know_is_resolved_by_the_driver(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    hosts = tmp_path / "hosts"
    hosts.touch()
    driver = DriverControl(
        tmp_path / "driver",
        environment={"HEADRACE_SPARK_SECRET": cluster.secret},
        spark_master=cluster.master,
        driver_host=socket.gethostname(),
        # A JVM with this file resolves no name.
        spark_options={"spark.executor.extraJavaOptions": f"-Djdk.net.hosts.file={hosts}"},
        warm_up=False,
        cluster={"executors": 1, "cores": 1, "memory": "512m"},
    )
    try:
        (executor,) = cluster.executors()
        assert f"-Djdk.net.hosts.file={hosts}" in executor.cmdline()
    finally:
        processes = driver.processes()
        driver.close()
        running_after(processes, PATIENCE_S)


def test_a_driver_with_another_secret_is_refused_by_the_master(cluster: SparkCluster, tmp_path: Path) -> None:
    secret = "another-secret"
    error = _failed(cluster, tmp_path, {}, secret=secret)
    assert "the secret" in error, error
    assert "HEADRACE_SPARK_SECRET" in error, error
    assert secret not in error
    assert cluster.secret not in error


def _failed(
    cluster: SparkCluster, folder: Path, options: dict[str, Any], *, secret: str | None = None
) -> str:
    """Return the error of a driver, which ends by itself."""
    given = {
        "work_dir": str(folder / "work"),
        "driver_memory_mb": 512,
        "spark_master": cluster.master,
        "warm_up": False,
        "tasks_timeout_ms": int(PATIENCE_S * 1000),
        **options,
    }
    path = folder / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(1)
        command = [sys.executable, "-m", "headrace.engine.driver", "--socket", str(path), "--options"]
        ended = subprocess.run(
            [*command, json.dumps(given, default=vars)],
            env={**os.environ, "HEADRACE_SPARK_SECRET": secret or cluster.secret},
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert ended.returncode, ended.stderr[-4000:]
    return next(
        line.partition(DRIVER_FAILED)[2] for line in ended.stderr.splitlines() if DRIVER_FAILED in line
    )
