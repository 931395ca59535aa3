"""A Spark session inside the tests' own process.

pyspark starts one JVM per process and keeps it after a session's end, with the class path and the memory of the
first session. So every session of the suite starts here, whichever suite comes first.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from headrace.runtime.spark_jvm import spark_jvm

_STATE_STORE = "org.apache.spark.sql.execution.streaming.state.headrace.CountedStateStoreProvider"


def start_spark(local_dir: Path) -> SparkSession:
    """A session with the extension, on the Java that Headrace uses."""
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.sql.extensions": "io.headrace.spark.HeadraceExtensions",
        "spark.sql.streaming.streamingQueryListeners": "org.apache.spark.sql.headrace.EarlyWatermarks",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.caseSensitive": "true",
        "spark.sql.legacy.timeParserPolicy": "CORRECTED",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.streaming.stateStore.providerClass": _STATE_STORE,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(local_dir),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    builder = SparkSession.builder.appName("headrace tests").master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with nullcontext() if SparkContext._gateway else spark_jvm(memory_mb=1024):
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


@contextmanager
def spark_session(local_dir: Path) -> Iterator[SparkSession]:
    """`start_spark`, with an end: its queries are stopped first."""
    session = start_spark(local_dir)
    try:
        yield session
        for query in session.streams.active:
            query.stop()
    finally:
        session.stop()
