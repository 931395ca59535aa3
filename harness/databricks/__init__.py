"""A stand-in for a Databricks workspace on loopback: a SQL warehouse over Delta tables in a bucket of moto.

The warehouse is Spark's Thrift server with Delta; `front.py` adds a workspace's HTTP, tokens, OAuth, TLS and COPY INTO.
The server itself uses Thrift over TCP, since over HTTP it would listen at every address; clients of the front see no difference. There is
no Unity Catalog: one catalog, `spark_catalog`, without rights.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from databricks import sql

from harness.databricks.front import CLIENT, SECRET, TOKEN, WAREHOUSE, Front
from harness.kinesis import ACCESS_KEY, REGION, SECRET_KEY
from harness.patience import PATIENCE_S, until
from harness.s3 import S3Client
from headrace.runtime.extension import pyspark_folder
from headrace.runtime.guard import guarded
from headrace.runtime.jars import ICEBERG, jars
from headrace.runtime.java import spark_java
from headrace.runtime.ports import free_port

CATALOG = "spark_catalog"
_GROUP = "databricks-warehouse"
_MEMORY_MB = 800


class Workspace:
    """Warehouse with its tables in a bucket; a context manager. `front` records its requests."""

    def __init__(self, folder: Path, bucket: S3Client) -> None:
        self._folder = folder
        self.bucket = bucket
        self._process: subprocess.Popen[bytes] | None = None
        self.front: Front
        self._connection: Any = None

    @property
    def uri(self) -> str:
        """The address for 'uris' of a store with 'tls.disabled'."""
        return "http://127.0.0.1"

    @property
    def keys(self) -> str:
        """The properties of the bucket for CREATE STORE."""
        return (
            f"'databricks.cloud.s3.bucket' = '{self.bucket.bucket}', 'databricks.cloud.region' = 'AWS {REGION}', "
            f"'databricks.cloud.s3.endpoint' = '{self.bucket.server.uri}', "
            f"'aws.access_key_id' = '{ACCESS_KEY}', 'aws.secret_access_key' = '{SECRET_KEY}'"
        )

    def properties(self, **others: str | None) -> dict[str, str]:
        """Return the properties for CREATE STORE; `others` replace the right ones, None omits one."""
        given: dict[str, str | None] = {
            "uris": self.uri,
            "tls.disabled": "TRUE",
            "databricks.warehouse_port": str(self.front.port),
            "databricks.warehouse_id": WAREHOUSE,
            "databricks.app_token": TOKEN,
            "databricks.cloud.s3.bucket": self.bucket.bucket,
            "databricks.cloud.region": f"AWS {REGION}",
            "databricks.cloud.s3.endpoint": self.bucket.server.uri,
            "aws.access_key_id": ACCESS_KEY,
            "aws.secret_access_key": SECRET_KEY,
        }
        given |= {name.replace("__", "."): value for name, value in others.items()}
        return {name: value for name, value in given.items() if value is not None}

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Rows of a statement, by Databricks' own client."""
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            # What gives no rows gives a column without any, at which the client fails.
            reads = statement.startswith(("SELECT", "DESCRIBE", "SHOW"))
            return [tuple(row) for row in cursor.fetchall()] if reads else []

    def commits(self, folder: str) -> list[dict[str, Any]]:
        """Return all actions of a table's Delta log, in order, each a mapping from its name to its content."""
        keys = [key for key in self.bucket.keys(f"{folder}/_delta_log/") if key.endswith(".json")]
        return [json.loads(line) for key in sorted(keys) for line in self.bucket.get(key).splitlines()]

    def __enter__(self) -> Self:
        port = free_port()
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                guarded(self._command(port), grace_s=2),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
            )
        until(lambda: self._answers(port), self._log)
        self.front = Front(self._folder, port, self.bucket)
        self._connection = sql.connect(
            "127.0.0.1",
            self.front.path,
            TOKEN,
            _connection_uri=f"http://127.0.0.1:{self.front.port}{self.front.path}",
            enable_telemetry=False,
            use_cloud_fetch=False,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self.front.close()
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE_S)

    def _answers(self, port: int) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log()
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return True
        return False

    def _log(self) -> str:
        return (self._folder / "server.log").read_text(errors="replace")[-4000:]

    def _command(self, port: int) -> list[str]:
        aws = [path for path in jars(ICEBERG) if not path.name.startswith("iceberg-")]
        class_path = os.pathsep.join(map(str, [*jars(_GROUP), *aws, pyspark_folder() / "jars" / "*"]))
        settings = {
            "spark.master": "local[2]",
            "spark.ui.enabled": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "1",
            "spark.databricks.delta.snapshotPartitions": "1",
            "spark.sql.catalogImplementation": "in-memory",
            "spark.sql.warehouse.dir": f"s3://{self.bucket.bucket}/managed",
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            f"spark.sql.catalog.{CATALOG}": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
            "spark.hadoop.fs.s3a.endpoint": self.bucket.server.uri,
            "spark.hadoop.fs.s3a.endpoint.region": REGION,
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
            "spark.hadoop.fs.s3a.access.key": ACCESS_KEY,
            "spark.hadoop.fs.s3a.secret.key": SECRET_KEY,
        }
        hive = {
            "hive.server2.transport.mode": "binary",
            "hive.server2.thrift.port": str(port),
            "hive.server2.thrift.bind.host": "127.0.0.1",
            "hive.server2.authentication": "NOSASL",
        }
        return [
            *spark_java(_MEMORY_MB),
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Duser.timezone=UTC",
            *(f"-D{name}={text}" for name, text in settings.items()),
            "-cp",
            class_path,
            "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2",
            *(word for name, text in hive.items() for word in ("--hiveconf", f"{name}={text}")),
        ]


__all__ = ["CATALOG", "CLIENT", "SECRET", "TOKEN", "WAREHOUSE", "Front", "Workspace"]
