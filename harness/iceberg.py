"""Iceberg's REST catalog over a stand-in for S3, and Glue in the same stand-in, all on loopback.

This module combines the catalog's classes over py4j, since its own main would listen at every address. Its content is in memory.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from py4j.java_gateway import GatewayParameters, JavaGateway
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

from harness.kinesis import ACCESS_KEY, REGION, SECRET_KEY, MotoServer
from harness.patience import PATIENCE_S, until
from headrace.runtime.extension import group_jars, pyspark_folder
from headrace.runtime.guard import guarded
from headrace.runtime.jars import ICEBERG, jars
from headrace.runtime.java import java_command

BUCKET = "lake"
_GROUP = "iceberg-catalog"
_OF_SPARK = (
    "hadoop-client-",
    "py4j-",
    "log4j-",
    "slf4j-api",
    "commons-",
    "woodstox-core",
    "stax2-api",
    "jackson-core-2",
    "jackson-annotations-2",
    "jackson-databind-2",
    "avro-1",
    "RoaringBitmap",
    "aircompressor",
)
_GRACE_S = 5


class Lake:
    """A bucket, a REST catalog with its tables in it, and Glue; a context manager."""

    def __init__(self) -> None:
        self.aws = MotoServer()
        self.catalog = ""
        self.key = ACCESS_KEY
        self.keys = f"'aws.region' = '{REGION}', 'aws.access_key_id' = '{ACCESS_KEY}', 'aws.secret_access_key' = '{SECRET_KEY}'"
        self._resources = ExitStack()

    def __enter__(self) -> Self:
        group_jars(ICEBERG)  # compiled here, where nobody waits for an answer
        with ExitStack() as started:
            started.enter_context(self.aws)
            self.aws.client("s3").create_bucket(Bucket=BUCKET)
            self.catalog = _serve(self._java(started).jvm, self.aws.uri)
            self._resources = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    def rest(self, name: str) -> str:
        """CREATE STORE of the REST catalog."""
        return (
            f"CREATE STORE {name} WITH ('type' = ICEBERG_REST, 'uris' = '{self.catalog}', 'tls.disabled' = TRUE, "
            f"'iceberg.s3.endpoint' = '{self.aws.uri}', {self.keys});"
        )

    def glue(self, name: str) -> str:
        """CREATE STORE of Glue."""
        return (
            f"CREATE STORE {name} WITH ('type' = ICEBERG_GLUE, 'uris' = '{self.aws.uri}', 'tls.disabled' = TRUE, "
            f"'iceberg.warehouse.default_path' = 's3://{BUCKET}/glue', {self.keys});"
        )

    def table(self, name: str, *, glue: bool = False) -> Table:
        """A table, `namespace.table`, as PyIceberg sees it now."""
        return self.tables(glue=glue).load_table(tuple(name.split(".")))

    def tables(self, *, glue: bool = False) -> Catalog:
        """Return the catalog as PyIceberg sees it."""
        where = (
            {"type": "glue", "glue.endpoint": self.aws.uri} if glue else {"type": "rest", "uri": self.catalog}
        )
        keys = {"access-key-id": ACCESS_KEY, "secret-access-key": SECRET_KEY, "region": REGION}
        of_service = {f"{service}.{key}": text for service in ("s3", "glue") for key, text in keys.items()}
        return load_catalog("lake", **where, **of_service, **{"s3.endpoint": self.aws.uri})

    def rows(self, name: str, *, glue: bool = False) -> list[dict[str, Any]]:
        """Return a table's present content, read by PyIceberg."""
        return self.snapshot(name, glue=glue)[1]

    def snapshot(self, name: str, *, glue: bool = False) -> tuple[int | None, list[dict[str, Any]]]:
        """The id of a table's newest snapshot, None before the first, and its rows."""
        table = self.table(name, glue=glue)
        newest = table.current_snapshot()
        return newest.snapshot_id if newest else None, table.scan().to_arrow().to_pylist()

    def _java(self, started: ExitStack) -> JavaGateway:
        spark = pyspark_folder() / "jars"
        own = [path for path in sorted(spark.glob("*.jar")) if path.name.startswith(_OF_SPARK)]
        # Iceberg for Spark has all of Iceberg under other names, and none of AWS's.
        aws = [path for path in jars(ICEBERG) if not path.name.startswith("iceberg-")]
        class_path = os.pathsep.join(map(str, [*jars(_GROUP), *aws, *own]))
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", class_path]
        command = [str(java_command()), *options, "py4j.GatewayServer", "0"]
        # In a file: the catalog logs each refused request, and would block at a pipe without a reader.
        log = Path(started.enter_context(TemporaryDirectory()), "catalog.log")
        with log.open("wb") as out:
            process = subprocess.Popen(
                guarded(command, grace_s=_GRACE_S), stdin=subprocess.PIPE, stdout=out, stderr=out
            )
        started.callback(_end, process)
        until(lambda: process.poll() is not None or b"\n" in log.read_bytes(), "the catalog's JVM to start")
        port, _, _ = log.read_text().partition("\n")
        assert port.isdigit(), log.read_text()
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=int(port)))
        started.callback(gateway.close)
        return gateway


def _serve(java: Any, s3: str) -> str:
    """A catalog with its files in the bucket; its address."""
    settings = {
        "uri": "jdbc:h2:mem:lake;DB_CLOSE_DELAY=-1;DATABASE_TO_LOWER=TRUE",
        "jdbc.schema-version": "V1",
        "jdbc.strict-mode": "true",
        "warehouse": f"s3://{BUCKET}/rest",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3.endpoint": s3,
        "s3.path-style-access": "true",
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
        "client.region": REGION,
        "http-client.type": "urlconnection",
    }
    properties = java.java.util.HashMap()
    for name, text in settings.items():
        properties.put(name, text)
    catalog = java.org.apache.iceberg.jdbc.JdbcCatalog()
    catalog.initialize("lake", properties)
    adapter = java.org.apache.iceberg.rest.RESTCatalogAdapter(catalog)
    servlets = java.org.eclipse.jetty.ee10.servlet
    context = servlets.ServletContextHandler()
    context.addServlet(servlets.ServletHolder(java.org.apache.iceberg.rest.RESTCatalogServlet(adapter)), "/*")
    server = java.org.eclipse.jetty.server.Server(java.java.net.InetSocketAddress("127.0.0.1", 0))
    server.setHandler(context)
    server.start()
    return f"http://127.0.0.1:{server.getConnectors()[0].getLocalPort()}"


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.wait(PATIENCE_S)
