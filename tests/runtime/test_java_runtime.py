"""Spark itself on the Java and the jars that the runtime hands out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.runtime.jars import jars
from headrace.runtime.java import java_home
from tests.harness.patience import PATIENCE_S

pytestmark = pytest.mark.spark

# A process of its own: the suite's shared session has its Java already.
_USES_THEM = """
import sys
from pyspark.sql import SparkSession
from pyspark.sql.avro.functions import from_avro, to_avro

session = (
    SparkSession.builder.master("local[1]")
    .config("spark.jars", sys.argv[1]).config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    .config("spark.sql.warehouse.dir", sys.argv[2])
    .getOrCreate()
)
encoded = session.range(3).select(to_avro("id").alias("bytes"))
decoded = encoded.select(from_avro("bytes", '"long"').alias("id"))
print("ids", [row.id for row in decoded.collect()])
print("java", session._jvm.System.getProperty("java.version"))
kafka = session.read.format("kafka").options(**{"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "a"})
print("kafka", kafka.load().columns)
session.stop()
"""


def test_spark_runs_on_the_java_and_with_the_jars_of_the_runtime(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", _USES_THEM, ",".join(map(str, jars("spark"))), str(tmp_path)],
        env={**os.environ, "JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    assert "ids [0, 1, 2]" in result.stdout
    assert "java 21." in result.stdout
    assert "kafka ['key', 'value', 'topic', 'partition', 'offset'" in result.stdout
