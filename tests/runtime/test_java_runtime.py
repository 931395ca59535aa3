"""Spark itself on the Java and the jars that the runtime hands out."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.patience import PATIENCE_S
from headrace.core.errors import InternalError
from headrace.runtime.spark_jvm import class_archive, spark_jvm

pytestmark = pytest.mark.spark

# A process of its own: the suite's shared session has its Java already.
_USES_THEM = """
import os
import sys
from pyspark.sql import SparkSession
from headrace.runtime.java import SPARK_OPTIONS
from headrace.runtime.spark_jvm import spark_jvm

builder = (
    SparkSession.builder.appName("runtime").master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    .config("spark.sql.warehouse.dir", sys.argv[1])
)
# With this option a JVM ends that cannot use the archive of classes.
with spark_jvm(memory_mb=512, options=["-Xshare:on"]):
    session = builder.getOrCreate()
print("ids", [row.id for row in session.range(3).collect()])
print("java", session._jvm.System.getProperty("java.version"))
kafka = session.read.format("kafka").options(**{"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "a"})
print("kafka", kafka.load().columns)
wanted = session._jvm.org.apache.spark.launcher.JavaModuleOptions.defaultModuleOptionArray()
print("options differ by", set(wanted) ^ set(SPARK_OPTIONS))
from headrace.connectors.class_path import add_jars
for _ in range(2):
    found = session._jvm.org.apache.spark.util.Utils.classIsLoadable("org.apache.iceberg.spark.SparkCatalog")
    print("iceberg", found)
    add_jars(session, "iceberg")
files = session._jvm.io.headrace.iceberg.StoreFiles
print("nobody", dict(files.apply({}, {"client.region": "eu-west-1"}).properties()))
told = {"s3.endpoint": "http://10.0.0.1", "client.factory": "any.Class", "s3.access-key-id": "a", "s3.secret-access-key": "b"}
print("vended", sorted(files.apply({"s3.path-style-access": "true"}, told).properties()))
print("own", files.apply({"s3.access-key-id": "own", "s3.secret-access-key": "b"}, told).properties()["s3.access-key-id"])
settings = session._jvm.org.apache.iceberg.rest.responses.ConfigResponse.builder()
for name in ("uri", "oauth2-server-uri", "rest.auth.type", "prefix"):
    settings = settings.withOverride(name, "http://10.0.0.1").withDefault(name, "http://10.0.0.1")
believed = session._jvm.io.headrace.iceberg.CatalogAnswers.believed(settings.build())
print("believed", sorted(believed.overrides()), sorted(believed.defaults()))
print("inherited", [name for name in os.environ if "GATEWAY" in name])
session.stop()
"""


def test_spark_runs_on_the_java_and_with_the_jars_of_the_runtime(tmp_path: Path) -> None:
    assert class_archive().is_file(), "make archive makes it"
    result = subprocess.run(
        [sys.executable, "-c", _USES_THEM, str(tmp_path)],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    assert "ids [0, 1, 2]" in result.stdout
    assert "java 21." in result.stdout
    assert "options differ by set()" in result.stdout
    assert "inherited []" in result.stdout
    # The jars of a store type come when they are asked for, and not before.
    assert "iceberg False\niceberg True\n" in result.stdout
    # A catalog says no more of where files are than keys, where the store has none, and the region.
    assert re.search(r"nobody .*AnonymousCredentialsProvider", result.stdout)
    assert "vended ['s3.access-key-id', 's3.path-style-access', 's3.secret-access-key']\n" in result.stdout
    assert "own own\n" in result.stdout
    assert "believed ['prefix'] ['prefix']\n" in result.stdout
    assert "kafka ['key', 'value', 'topic', 'partition', 'offset'" in result.stdout


def test_a_jvm_that_does_not_come_up_is_an_error_and_says_why(capfd: pytest.CaptureFixture[str]) -> None:
    with (
        pytest.raises(InternalError, match="exit code 1 while it started"),
        spark_jvm(memory_mb=64, options=["-Xms1g"]),
    ):
        pass
    assert "heap" in capfd.readouterr().out
    assert "PYSPARK_GATEWAY_PORT" not in os.environ
