"""The Spark session of a driver, set for streaming with little latency, and how it is warmed up.

The settings' reasons are measurements: see docs/adr/0008-real-time-mode.md.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.connectors.registry import STORE_TYPES
from headrace.core.errors import UserError
from headrace.core.schema import Column
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT, VARCHAR
from headrace.engine.driver import bucket, cluster, kubernetes, python_worker
from headrace.engine.driver.builder import connector_module
from headrace.engine.driver.jvm import jvm
from headrace.engine.driver.options import DriverOptions
from headrace.engine.driver.proto_files import ProtoFiles
from headrace.formats.base import DecodeSpec, EncodeSpec
from headrace.formats.json import Json
from headrace.formats.spark import decode, encode
from headrace.runtime.extension import extension_jar
from headrace.runtime.jars import SPARK, jars
from headrace.runtime.spark_jvm import CLIENT_JAVA_OPTIONS, spark_jvm

_CHECKPOINT_FILES = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
_STATE_STORE = "org.apache.spark.sql.execution.streaming.state.headrace.CountedStateStoreProvider"
_LOCAL_FILES = "io.headrace.spark.NioLocalFileSystem"
_EXTENSIONS = "io.headrace.spark.HeadraceExtensions"
_EARLY_WATERMARKS = "org.apache.spark.sql.headrace.EarlyWatermarks"
_BATCH_LISTENER = "org.apache.spark.sql.headrace.BatchListener"
_SERIALIZER = "io.headrace.spark.HadoopSettingsSerializer"
_BATCHES_PER_SNAPSHOT = 100
"""Batches between two snapshots of state.

A snapshot flushes RocksDB and starts a process; a restart replays the changelogs since the last snapshot.
"""
_REPEATING_LOGGERS = (
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution",
    "org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2Exec",
)
_NOISY_LOGGERS = (
    "org.apache.spark.scheduler.DAGScheduler",
    "org.apache.spark.scheduler.FairSchedulableBuilder",
)
_WARM_BATCHES = 2
_WARM_UP_S = 60
_SECRET_VARIABLE = "HEADRACE_SPARK_SECRET"  # noqa: S105 - a variable's name
_AUTHENTICATED = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.network.crypto.authEngineVersion": "2",
    "spark.network.crypto.saslFallback": "false",
}
"""Spark's ports require the secret of each peer, and encrypt the traffic."""
_CLUSTER = {
    # Shuffled rows and tasks, which contain the secrets of stores, would otherwise lie on a worker's disk as they are.
    "spark.io.encryption.enabled": "true",
    # Two attempts at a task at the same time would fence each other's transactions.
    "spark.speculation": "false",
    "spark.executor.extraJavaOptions": " ".join(["-Duser.timezone=UTC", *CLIENT_JAVA_OPTIONS]),
}
"""Settings of a cluster's executors, which are other processes than the driver."""
_REDACTED = "(?i)secret|password|passwd|token|credential|jaas|sasl|ssl|access[.]?key"


class _DriverContext(SparkContext):
    """A Spark context whose JVM side is `DriverContext.scala`."""

    def _initialize_context(self, jconf: JavaObject) -> JavaObject:
        return self._jvm.org.apache.spark.headrace.DriverContext.start(jconf)  # type: ignore[union-attr]


def start_session(
    options: DriverOptions,
    *,
    jvm_ended: Callable[[int], None] | None = None,
    inherited: Sequence[int] = (),
) -> SparkSession:
    """Start a JVM and return a session in it; `await_executors` waits for the executors of a cluster. `jvm_ended` is called if the JVM ends
    by itself, and `inherited` are file descriptors that it keeps open: see `runtime.spark_jvm`.

    Raises HeadraceErrors of `runtime` when Java or a jar is missing.
    """
    work_dir, host = options.work_dir.resolve(), cluster.address(options)
    for folder in ("local", "warehouse", "tmp"):
        (work_dir / folder).mkdir(parents=True, exist_ok=True)
    # Executors in Kubernetes have the image of this pod.
    worker_python = options.worker_python if options.pods is None else sys.executable
    python_settings = python_worker.write_executables(work_dir, worker_python)
    os.environ.update(
        PYSPARK_DRIVER_PYTHON=sys.executable,
        SPARK_LOCAL_IP=host,
        SPARK_LOCAL_DIRS=str(work_dir / "local"),
        TZ="UTC",
        HEADRACE_DRIVER_PID=str(os.getpid()),
    )
    time.tzset()
    # pyspark prints every analysis error with its trace; the server receives the error over the socket.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    master = options.spark_master if options.pods is None else kubernetes.master()
    conf = SparkConf().setAppName(f"headrace {options.pool}").setMaster(master)
    is_local = options.spark_master.startswith("local")
    settings = {
        **_settings(options, work_dir),
        **({} if is_local else python_settings),
        **{"spark.driver.host": host, "spark.driver.bindAddress": host},
        **(kubernetes.settings(options.pods, work_dir) if options.pods is not None else {}),
        **cluster.settings(options),
        **bucket.settings(options),
        **options.spark_options,
        **_authentication(options),
    }
    conf.setAll(list(settings.items()))
    os.chdir(work_dir)
    temporary = work_dir / "tmp"
    folders = [f"-Djava.io.tmpdir={temporary}", f"-Dderby.system.home={temporary}"]
    java_options = [*folders, *options.java_options.split()]
    jvm_jars = bucket.class_path(options)
    with spark_jvm(
        memory_mb=options.driver_memory_mb,
        options=java_options,
        jars=jvm_jars,
        ended=jvm_ended,
        inherited=inherited,
    ):
        if not is_local and options.pods is None:
            cluster.check_master(conf, options)
        session = SparkSession(_DriverContext(conf=conf))
    session.sparkContext.setLogLevel("WARN")
    _quiet(session)
    bucket.log_in(session, options)
    jvm(session).io.headrace.spark.HadoopSettings.forgetOrigins(session._jsc.hadoopConfiguration())
    _start_callback_server(session)
    return session


def await_executors(session: SparkSession, options: DriverOptions) -> None:
    """Wait for the executors of a cluster, and check them. Raises as `cluster.check_executors`."""
    if not options.spark_master.startswith("local"):
        cluster.check_executors(session, options)


def throw_away_rows(session: SparkSession) -> DataFrame:
    """Load what the plan of a first query needs, and return a throw-away stream through the decoder and the encoder for `warm_up`.

    It runs no task, so that executors may start meanwhile.
    """
    java = jvm(session)
    for name in (name for module in _store_types() for name in module.CLASSES):
        java.java.lang.Class.forName(
            name, True, java.java.lang.Thread.currentThread().getContextClassLoader()
        )
    columns = (Column("n", BIGINT), Column("text", VARCHAR))
    records = (
        session.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", "100")
        .load()
        .selectExpr(
            "CAST(NULL AS BINARY) AS key",
            """CAST(concat('{"n":', value, ',"text":"x"}') AS BINARY) AS value""",
            "timestamp",
            "'warm' AS entity",
            "0 AS split",
            "value AS sequence",
            "named_struct('offset', value) AS metadata",
        )
    )
    rows = decode(records, DecodeSpec(columns, Json()))
    rows.createOrReplaceTempView("warm")
    rows = session.sql("SELECT n, upper(text) AS text FROM warm WHERE n >= 0")
    return encode(rows, EncodeSpec(columns, Json()))


def warm_up(rows: DataFrame, work_dir: Path) -> None:
    """Load and compile what the tasks of a first query need, with the rows of `throw_away_rows`."""

    def take(batch: DataFrame, epoch: int) -> None:
        # Later batches do nothing, so that the stop does not interrupt one: Spark waits in vain for a batch that it interrupts.
        if epoch < _WARM_BATCHES:
            batch.toArrow()

    checkpoint = str(work_dir / "tmp" / "warm")
    query = rows.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint).start()
    deadline = time.monotonic() + _WARM_UP_S
    while _batches(query) < _WARM_BATCHES and query.isActive and time.monotonic() < deadline:
        time.sleep(0.05)
    try:
        query.stop()
    except Exception:
        # On a very busy machine Spark waits in vain. The stream ends by itself, and a cold driver is better than none.
        logging.getLogger(__name__).warning("the warm-up has not ended in time", exc_info=True)
    rows.sparkSession.catalog.dropTempView("warm")


def _batches(query: StreamingQuery) -> int:
    """Return how many batches have ended."""
    return query.lastProgress.batchId + 1 if query.lastProgress is not None else 0


def _authentication(options: DriverOptions) -> dict[str, str]:
    """Return the options of authentication: Spark generates a secret for a driver with local executors; a cluster shares one."""
    # Removed from the environment, which every process that this one starts inherits.
    secret = os.environ.pop(_SECRET_VARIABLE, None)
    if options.pods is not None:
        return {**_AUTHENTICATED, **kubernetes.authentication()}
    if re.match(r"local$|local\[|yarn$", options.spark_master):
        return _AUTHENTICATED
    if not secret:
        raise UserError(
            SqlState.MISSING_PARAMETER,
            f"expected the secret of the Spark cluster {options.spark_master}, found none",
            hint=(
                f"Set {_SECRET_VARIABLE} to the value of spark.authenticate.secret on its masters and "
                "workers."
            ),
        )
    return {**_AUTHENTICATED, "spark.authenticate.secret": secret}


def _start_callback_server(session: SparkSession) -> None:
    """Start Python's end of `foreachBatch` as pyspark does, but with a token required of callers."""
    gateway: Any = session.sparkContext._gateway
    token = secrets.token_urlsafe(32)
    gateway.callback_server_parameters.auth_token = token
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    server = JavaObject("GATEWAY_SERVER", gateway._gateway_client)
    port = gateway._callback_server.port
    jvm(session).io.headrace.spark.PythonCallbacks.authenticate(server, port, token)
    jvm(session).io.headrace.spark.SchemaRegistry.readBy(ProtoFiles())


def _quiet(session: SparkSession) -> None:
    """Silence Spark's logger of failures: the trace is logged once, by us and without secrets."""
    logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)
    levels = jvm(session).org.apache.logging.log4j.Level
    configurator = jvm(session).org.apache.logging.log4j.core.config.Configurator
    for name in _REPEATING_LOGGERS:
        configurator.setLevel(name, levels.OFF)
    for name in (*_NOISY_LOGGERS, *(name for module in _store_types() for name in module.NOISY_LOGGERS)):
        configurator.setLevel(name, levels.ERROR)


def _store_types() -> list[Any]:
    return list({connector_module(name) for name in STORE_TYPES})


def _settings(options: DriverOptions, work_dir: Path) -> dict[str, str]:
    # Local executors run in the driver's JVM, which has these jars. Other executors receive them from the driver, after they have
    # created their serializer.
    own = (
        {"spark.serializer": _SERIALIZER}
        if options.spark_master.startswith("local")
        else {
            "spark.jars": ",".join(map(str, [*jars(SPARK), extension_jar(), *bucket.class_path(options)])),
            **_CLUSTER,
        }
    )
    return {
        **own,
        "spark.sql.extensions": _EXTENSIONS,
        "spark.sql.streaming.streamingQueryListeners": _EARLY_WATERMARKS,
        "spark.extraListeners": _BATCH_LISTENER,
        # A reused shuffle does not pass on the watermark, and the operator behind it would never emit a row.
        "spark.sql.exchange.reuse": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Spark keeps the page's data although the page is off: by default a thousand batches' plans and a hundred thousand tasks.
        "spark.ui.retainedJobs": "10",
        "spark.ui.retainedStages": "10",
        "spark.ui.retainedTasks": "100",
        "spark.sql.ui.retainedExecutions": "10",
        "spark.local.dir": str(work_dir / "local"),
        "spark.sql.warehouse.dir": str(work_dir / "warehouse"),
        "spark.sql.artifact.isolation.enabled": "false",
        "spark.sql.catalogImplementation": "in-memory",
        # Otherwise Spark replaces `${env:NAME}` in a user's text or name by a variable of this process, which may be a secret.
        "spark.sql.variable.substitute": "false",
        "spark.redaction.regex": _REDACTED,
        # The queries of a pool share the JVM: a long batch of one must not delay the small batches of the others.
        "spark.scheduler.mode": "FAIR",
        "spark.cleaner.referenceTracking.cleanCheckpoints": "false",
        # Headrace resolves zones and names itself, before Spark receives a plan.
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.caseSensitive": "true",
        "spark.sql.legacy.timeParserPolicy": "CORRECTED",
        # Planning again in a batch costs more than it gains for a small one, and the number of state partitions must not change.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(options.shuffle_partitions),
        "spark.headrace.smallBatchRecords": str(options.small_batch_records),
        "spark.sql.optimizer.enableJsonExpressionOptimization": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
        "spark.sql.lightweightPlanChangeValidation": "false",
        # Checkpoints without checksums and without a `chmod` process per file: a quarter of a small batch (ADR 8).
        "spark.hadoop.fs.file.impl": _LOCAL_FILES,
        "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINT_FILES,
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        "spark.sql.streaming.stateStore.providerClass": _STATE_STORE,
        # A batch writes only its changes; Spark's maintenance thread uploads a snapshot of the whole state now and then (ADR 8).
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.stateStore.minDeltasForSnapshot": str(_BATCHES_PER_SNAPSHOT),
        # A repeated batch whose output is written is not computed again: its state was committed before its output was (ADR 68).
        "spark.sql.streaming.stateStore.commitValidation.enabled": "false",
        "spark.sql.streaming.multipleWatermarkPolicy": "min",
        # A window closes when its watermark comes, without waiting for the next record.
        "spark.sql.streaming.noDataMicroBatches.enabled": "true",
        "spark.sql.streaming.metricsEnabled": "true",
        "spark.sql.streaming.stopTimeout": "20000",
    }
