"""A driver whose tasks run on a Spark cluster: its settings, and the checks of its start, each with a cause and a remedy."""

from __future__ import annotations

import ipaddress
import re
import socket
import sys
import threading
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from headrace import __version__
from headrace.core.errors import ExternalError, UserError
from headrace.core.sqlstate import SqlState
from headrace.core.wording import counted
from headrace.engine.driver import bucket, kubernetes, python_worker
from headrace.engine.driver.jvm import jvm
from headrace.engine.driver.options import DriverOptions
from headrace.engine.pool_properties import Cluster, milliseconds
from headrace.engine.protocol import PoolSlots

_PODS_TIMEOUT_MS = 300_000
"""A cluster that adds nodes by itself needs minutes for one."""
_TIMEOUT_INTERVAL_MS = 60_000
"""The interval at which Spark looks for executors without heartbeats by default, which must not exceed the time that they may be late."""
_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_AUTHENTICATION = (
    "SaslException",
    "authentication",
    "challenge",
    "AEADBadTag",
    "GeneralSecurity",
    "SecurityException",
)
_CLOSED = "Outbox is stopped"
"""A message that waited for a connection which the master closed: which of this error and those above comes is a race."""
_RUNS = " runs Spark "
"""Part of a problem of `Cluster.problems` that is a version."""
_SAME_SPARK = (
    "Start the cluster with the version of Spark that this release of Headrace has: see docs/growing.md."
)
_OTHER_VERSION = ("InvalidClassException", "ClassNotFoundException", "serialVersionUID", "ClassCastException")


def address(options: DriverOptions) -> str:
    """Return the address at which the driver listens: of a cluster's, the IP address of HEADRACE_DRIVER_HOST, so that a name need not be
    known to the workers.

    Raises UserError 3D008 if it is not one of this machine, or if other machines cannot reach it.
    """
    if options.spark_master.startswith("local"):
        return "127.0.0.1"
    if options.pods is not None:
        return kubernetes.address()
    host = options.driver_host
    try:
        own = socket.gethostbyname(host)
        with socket.socket() as probe:
            probe.bind((own, 0))
    except OSError as error:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"the address {host} of HEADRACE_DRIVER_HOST does not belong to this machine: {error.strerror or error}",
            hint="Set it to an address of this machine that the workers of the cluster reach.",
        ) from error
    elsewhere = [master for master in _hosts(options.spark_master) if not _is_loopback(master)]
    if ipaddress.ip_address(own).is_loopback and elsewhere:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"the workers of a cluster at {elsewhere[0]} cannot reach the driver at {host}",
            hint="Set HEADRACE_DRIVER_HOST to an address of this machine that they reach, and restart the server.",
        )
    return own


def settings(options: DriverOptions) -> dict[str, str]:
    """Return Spark's settings of a pool's executors; none for a pool that takes what the cluster has."""
    cluster = options.cluster
    if cluster is None:
        return {}
    count = (
        {"spark.executor.instances": str(cluster.executors)}
        if options.pods is not None
        else {"spark.cores.max": str(cluster.slots)}
    )
    elastic = {**_ELASTIC, **({} if options.pods is not None else _fewest_first(cluster))}
    return {
        **count,
        "spark.executor.cores": str(cluster.cores),
        "spark.executor.memory": cluster.memory,
        **(elastic if cluster.executors_max is not None else {}),
        **_watching(cluster),
        **dict(cluster.settings),
    }


def _watching(cluster: Cluster) -> dict[str, str]:
    """Return the setting with which Spark looks for executors without heartbeats often enough: it does not start otherwise."""
    timeout_ms = milliseconds(dict(cluster.settings).get("spark.network.timeout", "120s"))
    # Spark rounds the limit to seconds.
    is_short = timeout_ms < _TIMEOUT_INTERVAL_MS
    return {"spark.network.timeoutInterval": f"{timeout_ms // 1000}s"} if is_short else {}


_ELASTIC = {
    # An executor that is to end runs its tasks to their end. Its shuffled rows are computed again rather than copied.
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "false",
    # Tasks with state prefer the executor that has it. With the default of 3 s, those of small batches would wait for it for ever, and
    # other executors would get none.
    "spark.locality.wait": "100ms",
}
"""Spark's settings of a pool whose number of executors follows the load."""


def _fewest_first(cluster: Cluster) -> dict[str, str]:
    """Return the settings with which an application on a standalone cluster starts with the fewest executors: Spark's dynamic allocation,
    without which it gets all of its cores at once. It is ended before the first job, and `elastic` sets the number."""
    return {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "false",
        "spark.executor.instances": str(cluster.executors),
        "spark.dynamicAllocation.minExecutors": str(cluster.executors),
        "spark.dynamicAllocation.maxExecutors": str(cluster.most),
    }


def check_master(conf: SparkConf, options: DriverOptions) -> None:
    """Raise ExternalError 57015 if no master answers, or if it does not accept the secret; 53000 if the workers have no room at all."""
    cluster = options.cluster
    SparkContext._ensure_initialized()
    java: Any = SparkContext._jvm
    cores, memory_mb = (cluster.cores, _mebibytes(cluster.memory)) if cluster is not None else (1, 1024)
    settings = SparkConf(_jvm=java)
    settings.setAll(conf.getAll())
    try:
        room = java.org.apache.spark.deploy.headrace.Cluster.room(settings._jconf, cores, memory_mb)
    except Py4JError as error:
        raise unanswered(options.spark_master, str(error)) from None
    needed = cluster.executors if cluster is not None else 1
    if room < needed:
        raise ExternalError(
            SqlState.CONFIGURATION_LIMIT_EXCEEDED,
            f"the workers of {options.spark_master} have room for {counted(room, 'executor')} with {counted(cores, 'core')} and "
            f"{memory_mb} MiB each, expected {needed}",
            hint="Start more workers, or UPDATE the pool with fewer or smaller executors.",
        )


def check_executors(session: SparkSession, options: DriverOptions) -> None:
    """Raise ExternalError 53000 if the executors do not come; 57015 if they run no tasks, have another version of Spark, do not share
    the folder of the checkpoints, or have another Python than HEADRACE_WORKER_PYTHON promises."""
    cluster, java = options.cluster, jvm(session).org.apache.spark.deploy.headrace.Cluster
    context: Any = session.sparkContext._jsc.sc()
    needed = cluster.executors if cluster is not None else 1
    if cluster is not None and cluster.executors_max is not None:
        java.endAllocation(context)
    timeout_ms = _PODS_TIMEOUT_MS if options.pods is not None else options.executors_timeout_ms
    executors = java.awaitExecutors(context, needed, timeout_ms)
    if executors < needed and options.pods is not None:
        raise ExternalError(
            SqlState.CONFIGURATION_LIMIT_EXCEEDED,
            f"{executors} of {counted(needed, 'executor')} started in {timeout_ms // 1000} s",
            hint="Look at the pods of the namespace with the label app.kubernetes.io/component=executor.",
        )
    if executors < needed:
        raise _too_few(executors, needed, options, has_ended=context.isStopped())
    slots = executors * cluster.cores if cluster is not None else executors
    if options.checkpoints is None or bucket.is_used(options):
        _check_tasks("", slots, session, options)
    else:
        _check_folder(Path(options.checkpoints), slots, session, options)
    if options.worker_python is not None:
        _check_python(slots, session, options)


def _too_few(executors: int, needed: int, options: DriverOptions, *, has_ended: bool) -> ExternalError:
    """Return the error of executors that do not come; `has_ended`: the master gave up, since they ended at once again and again."""
    needs = (
        f"They need the driver's version of Spark, a whole JDK, and a connection to the driver at {options.driver_host}, the value of "
        "HEADRACE_DRIVER_HOST, which each worker must reach."
    )
    if has_ended:
        return ExternalError(
            SqlState.REMOTE_UNAVAILABLE,
            f"the executors that {options.spark_master} starts end at once",
            hint=f"The work folders of the workers contain their errors. {needs}",
        )
    return ExternalError(
        SqlState.CONFIGURATION_LIMIT_EXCEEDED,
        f"{options.spark_master} started {executors} of {counted(needed, 'executor')} in {options.executors_timeout_ms // 1000} s",
        hint="Other applications use its slots, or the executors end at their start: the work folders of the workers contain their "
        f"errors. {needs}",
    )


def _check_folder(folder: Path, slots: int, session: SparkSession, options: DriverOptions) -> None:
    token = folder / f".shared-{uuid.uuid4().hex}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        token.write_text(uuid.uuid4().hex)
        problems = _check_tasks(str(token), slots, session, options)
    except OSError as error:
        problems = [f"the server cannot write there: {error.strerror or error}"]
    finally:
        for path in folder.glob(f"{token.name}*"):
            with suppress(OSError):
                path.unlink()
    if problems:
        raise ExternalError(
            SqlState.REMOTE_UNAVAILABLE,
            f"the folder of checkpoints {folder} cannot be used on {options.spark_master}: {'; '.join(problems[:3])}",
            hint="Mount one folder under this path on the server and on all workers, writable for both, or name another one with "
            "'compute_pool.checkpoints'.",
        )


def _check_tasks(token: str, slots: int, session: SparkSession, options: DriverOptions) -> list[str]:
    """Run tasks on all executors, and return what is wrong there with the folder of the file `token`; with an empty name, nothing.

    Raises ExternalError 57015 if no task runs, or if an executor has another version of Spark.
    """
    java, context = jvm(session).org.apache.spark.deploy.headrace.Cluster, session.sparkContext._jsc.sc()
    try:
        problems = list(java.problems(context, token, slots, options.tasks_timeout_ms))
    except Py4JError as error:
        raise ExternalError(
            SqlState.REMOTE_UNAVAILABLE,
            f"the executors of {options.spark_master} ran no task: {_cause(str(error))}",
            hint="Workers need the driver's version of Spark, and a connection to the address of HEADRACE_DRIVER_HOST.",
        ) from None
    if versions := [problem for problem in problems if _RUNS in problem]:
        raise ExternalError(
            SqlState.REMOTE_UNAVAILABLE,
            f"the workers of {options.spark_master} have another version of Spark: {'; '.join(versions[:3])}",
            hint=_SAME_SPARK,
        )
    return problems


def _check_python(slots: int, session: SparkSession, options: DriverOptions) -> None:
    answers: list[tuple[str, str]] = []
    failures: list[str] = []

    def ask() -> None:
        try:
            tasks = session.sparkContext.parallelize(range(4 * slots), 4 * slots)
            answers.extend(tasks.mapPartitions(python_worker.versions).collect())
        except Exception as error:  # noqa: BLE001 - the text is all that Spark has
            failures.append(python_problem(str(error)))

    asking = threading.Thread(target=ask, name="worker-python", daemon=True)
    asking.start()
    asking.join(options.tasks_timeout_ms / 1000)
    if asking.is_alive():
        session.sparkContext.cancelAllJobs()
        failures.append(f"it has not answered in {options.tasks_timeout_ms // 1000} s")
    failures += sorted(
        {
            f"the worker at {host} has Headrace {version}, expected {__version__}"
            for host, version in answers
            if version != __version__
        }
    )
    if failures:
        raise ExternalError(
            SqlState.REMOTE_UNAVAILABLE,
            f"the Python {options.worker_python} on the workers of {options.spark_master} cannot be used: {'; '.join(failures[:3])}",
            hint=f"Install headrace=={__version__} for Python {_PYTHON} under this path on all workers, or set HEADRACE_WORKER_PYTHON to "
            "the path of such a Python, and restart the server. Without the setting, tasks on a cluster run no Python.",
        )


def python_problem(trace: str) -> str:
    """Return what is wrong with the Python of the workers, by the text of the error of a task."""
    if "PYTHON_VERSION_MISMATCH" in trace:
        return f"it is another version of Python than the server's {_PYTHON}"
    if "No module named 'headrace" in trace:
        return "it does not have the package headrace"
    missing = re.search(rf"{python_worker.NAME}: .*not found|No such file or directory", trace)
    return "it does not exist on a worker" if missing else _cause(trace)


def slots(session: SparkSession, options: DriverOptions, requested: int | None) -> PoolSlots | None:
    """Return the executors of now and the `requested` ones, the slots, and the slots that run a task; None if the application has ended."""
    context: Any = session.sparkContext._jsc.sc()
    if context.isStopped():
        return None
    java = jvm(session).org.apache.spark.deploy.headrace.Cluster
    executors = java.executors(context)
    cores = options.cluster.cores if options.cluster is not None else 1
    used = java.runningTasks(context)
    return PoolSlots(executors=executors, slots=executors * cores, used=used, requested=requested)


def is_forgotten(session: SparkSession) -> bool:
    """True if the master answers and does not know the application of the pool. May wait for a master that does not answer."""
    context: Any = session.sparkContext._jsc.sc()
    return bool(jvm(session).org.apache.spark.deploy.headrace.Cluster.isForgotten(context))


def unanswered(master: str, trace: str) -> ExternalError:
    """Return the error of a master that did not answer, by the trace of the JVM."""
    correction = (
        "Set HEADRACE_SPARK_SECRET to spark.authenticate.secret of the cluster, and restart the server."
    )
    if any(word in trace for word in _AUTHENTICATION):
        reason, hint = "does not accept the secret", correction
    elif _CLOSED in trace:
        reason, hint = "closes the connection, as it does if the secret differs", correction
    elif any(word in trace for word in _OTHER_VERSION):
        reason, hint = "has another version of Spark", _SAME_SPARK
    else:
        reason = f"does not answer: {_cause(trace)}"
        hint = "Start the master, or correct 'compute_pool.master'."
    return ExternalError(SqlState.REMOTE_UNAVAILABLE, f"the Spark master {master} {reason}", hint=hint)


def _cause(trace: str) -> str:
    """Return the innermost cause in a trace of the JVM."""
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    causes = [
        line.removeprefix("Caused by:").strip()
        for line in lines
        if line.startswith(("Caused by:", "java.", "org.", ": "))
    ]
    return (causes[-1] if causes else lines[0] if lines else "no reason").removeprefix(": ")[:300]


def _mebibytes(memory: str) -> int:
    return int(memory[:-1]) * (1024 if memory.endswith("g") else 1)


def _hosts(master: str) -> list[str]:
    return [part.rpartition(":")[0] for part in master.removeprefix("spark://").split(",")]


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(socket.gethostbyname(host)).is_loopback
    except OSError:
        return False
