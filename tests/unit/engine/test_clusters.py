"""Errors of a driver that starts on a cluster: each cause with its remedy."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.core.errors import ExternalError, UserError
from headrace.core.sqlstate import SqlState
from headrace.engine.driver import cluster
from headrace.engine.driver.cluster import address, check_executors, python_problem, unanswered
from headrace.engine.driver.options import DriverOptions
from headrace.engine.pool_properties import Cluster

MASTER = "spark://192.0.2.1:7077"


@pytest.mark.parametrize(
    ("host", "cause"),
    [
        ("192.0.2.7", "the address 192.0.2.7 of HEADRACE_DRIVER_HOST does not belong to this machine"),
        ("driver.invalid", "the address driver.invalid of HEADRACE_DRIVER_HOST does not belong"),
        ("127.0.0.1", "the workers of a cluster at 192.0.2.1 cannot reach the driver at 127.0.0.1"),
        ("localhost", "the workers of a cluster at 192.0.2.1 cannot reach the driver at localhost"),
    ],
)
def test_a_drivers_address_must_be_one_that_workers_reach(host: str, cause: str) -> None:
    with pytest.raises(UserError) as refused:
        address(DriverOptions(work_dir=Path(), spark_master=MASTER, driver_host=host))
    assert refused.value.state is SqlState.INVALID_PARAMETER
    assert cause in refused.value.message
    assert "HEADRACE_DRIVER_HOST" in refused.value.text()


def test_workers_receive_the_ip_address_of_a_host_name() -> None:
    options = DriverOptions(work_dir=Path(), spark_master="spark://127.0.0.1:7077", driver_host="localhost")
    assert address(options) == "127.0.0.1"


def test_drivers_with_tasks_on_this_machine_stay_on_loopback() -> None:
    for master, host in (("local[2]", "192.0.2.7"), ("spark://127.0.0.1:7077", "127.0.0.1")):
        assert address(DriverOptions(work_dir=Path(), spark_master=master, driver_host=host)) == "127.0.0.1"


@pytest.mark.parametrize(
    ("trace", "cause", "remedy"),
    [
        ("Caused by: javax.crypto.AEADBadTagException: Tag mismatch", "secret", "HEADRACE_SPARK_SECRET"),
        ("SparkException: Message is dropped because Outbox is stopped.", "secret", "HEADRACE_SPARK_SECRET"),
        (
            "Caused by: java.io.InvalidClassException: x; local class",
            "another version of Spark",
            "growing.md",
        ),
        (
            "java.io.IOException: Failed\nCaused by: java.net.ConnectException: refused",
            "does not answer: java.net.ConnectException: refused",
            "Start the master",
        ),
    ],
)
def test_a_master_that_does_not_answer_is_reported_with_the_cause(
    trace: str, cause: str, remedy: str
) -> None:
    error = unanswered(MASTER, trace)
    assert MASTER in error.message
    assert cause in error.message
    assert remedy in (error.hint or "")


@pytest.mark.parametrize(
    ("trace", "problem"),
    [
        ("PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker 3.12", "another version of Python"),
        ("ModuleNotFoundError: No module named 'headrace'", "it does not have the package headrace"),
        ("./python-worker: 2: exec: /opt/python: not found", "it does not exist on a worker"),
        ("Caused by: java.io.IOException: disk full", "java.io.IOException: disk full"),
    ],
)
def test_a_python_that_workers_lack_is_reported_with_the_cause(trace: str, problem: str) -> None:
    assert problem in python_problem(trace)


@pytest.mark.parametrize(
    ("timeout", "interval"), [("30s", "30s"), ("1500ms", "1s"), ("60s", None), ("2m", None), (None, None)]
)
def test_a_short_limit_for_heartbeats_is_looked_at_as_often(
    timeout: str | None, interval: str | None
) -> None:
    own = (("spark.network.timeout", timeout),) if timeout is not None else ()
    given = cluster.settings(
        DriverOptions(work_dir=Path(), spark_master=MASTER, cluster=Cluster(1, 1, "1g", own))
    )
    assert given.get("spark.network.timeout") == timeout
    assert given.get("spark.network.timeoutInterval") == interval


@pytest.mark.parametrize(
    ("answers", "state", "cause", "remedy"),
    [
        (
            {"executors": 1},
            SqlState.CONFIGURATION_LIMIT_EXCEEDED,
            "spark://192.0.2.1:7077 started 1 of 2 executors in 120 s",
            "Other applications use its slots",
        ),
        (
            {"executors": 0, "is_stopped": True},
            SqlState.REMOTE_UNAVAILABLE,
            "the executors that spark://192.0.2.1:7077 starts end at once",
            "a connection to the driver at 192.0.2.7, the value of HEADRACE_DRIVER_HOST, which each worker must reach",
        ),
        *(
            (
                {"problems": ["the worker at w1 runs Spark 3.5.1, expected 4.1.4"], "checkpoints": place},
                SqlState.REMOTE_UNAVAILABLE,
                "have another version of Spark: the worker at w1 runs Spark 3.5.1, expected 4.1.4",
                "Start the cluster with the version of Spark",
            )
            for place in ("{folder}", "s3://streams/headrace", None)
        ),
        *(
            (
                {"problems": [problem]},
                SqlState.REMOTE_UNAVAILABLE,
                f"cannot be used on spark://192.0.2.1:7077: {problem}",
                "Mount one",
            )
            for problem in (
                "the worker at w1 does not see the file .shared-1",
                "the worker at w1 sees another folder there",
                "the server does not see what the worker at w1 writes",
                "the worker at w1 cannot use it: java.nio.file.AccessDeniedException",
            )
        ),
    ],
)
def test_executors_that_cannot_work_are_reported_with_the_cause(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    answers: dict[str, Any],
    state: SqlState,
    cause: str,
    remedy: str,
) -> None:
    java = SimpleNamespace(
        awaitExecutors=lambda *_: answers.get("executors", 2), problems=lambda *_: answers["problems"]
    )
    spark = SimpleNamespace(deploy=SimpleNamespace(headrace=SimpleNamespace(Cluster=java)))
    packages = SimpleNamespace(apache=SimpleNamespace(spark=spark))
    monkeypatch.setattr(cluster, "jvm", lambda _session: SimpleNamespace(org=packages))
    context = SimpleNamespace(isStopped=lambda: answers.get("is_stopped", False))
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: context)))
    place = answers.get("checkpoints", "{folder}")
    options = DriverOptions(
        work_dir=tmp_path,
        spark_master=MASTER,
        driver_host="192.0.2.7",
        cluster=Cluster(2, 1, "1g"),
        checkpoints=place and place.format(folder=tmp_path),
    )
    with pytest.raises(ExternalError) as failed:
        check_executors(session, options)
    assert failed.value.state is state
    assert cause in failed.value.message
    assert remedy in (failed.value.hint or "")
    assert not list(tmp_path.iterdir())
