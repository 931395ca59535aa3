"""Two stand-ins for S3 on loopback, which accept every key, and a client that writes and reads files.

`MotoServer` (PyPI moto) is fast and stores objects in memory. `S3MockServer` (Adobe's S3Mock, Maven) checks the checksums of uploads.
"""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
from pyarrow import json, parquet

from harness import avro_files
from harness.kinesis import ACCESS_KEY, SECRET_KEY, StandIn
from headrace.runtime.jars import jars
from headrace.runtime.java import java_command
from headrace.runtime.ports import free_port

_S3_MOCK = "s3-mock"


class S3MockServer(StandIn):
    """S3Mock, with its objects in a temporary folder."""

    def _command(self) -> list[str]:
        (jar,) = jars(_S3_MOCK)
        java = [
            str(java_command()),
            "-Xmx128m",
            "-XX:TieredStopAtLevel=1",
            f"-Djava.io.tmpdir={self._folder}",
        ]
        ports = (f"--server.port={free_port()}", f"--com.adobe.testing.s3mock.httpPort={self.port}")
        return [*java, "-jar", str(jar), "--server.address=127.0.0.1", *ports]


class S3Client:
    """Client of one bucket of one server."""

    def __init__(self, server: StandIn, bucket: str) -> None:
        self.server = server
        self.bucket = bucket
        self.boto: Any = server.client("s3")
        self.boto.create_bucket(Bucket=bucket)

    @property
    def uri(self) -> str:
        """The address for 'uris' of a store of the bucket."""
        return f"{self.server.uri}/{self.bucket}"

    def store(self, name: str) -> str:
        """CREATE STORE."""
        return (
            f"CREATE STORE {name} WITH ('type' = S3, 'uris' = '{self.uri}', 'tls.disabled' = TRUE, "
            f"'aws.access_key_id' = '{ACCESS_KEY}', 'aws.secret_access_key' = '{SECRET_KEY}');"
        )

    def checkpoints(self, folder: str) -> dict[str, str]:
        """Return the settings of a server whose compute pools may keep their checkpoints in a folder of the bucket."""
        return {
            "HEADRACE_CHECKPOINT_FOLDERS": f"s3://{self.bucket}/{folder}",
            "HEADRACE_CHECKPOINT_S3_ENDPOINT": self.server.uri,
            "HEADRACE_CHECKPOINT_S3_ACCESS_KEY_ID": ACCESS_KEY,
            "HEADRACE_CHECKPOINT_S3_SECRET_ACCESS_KEY": SECRET_KEY,
        }

    def put(self, key: str, data: bytes | str) -> None:
        """Put a file."""
        self.boto.put_object(Bucket=self.bucket, Key=key, Body=data)

    def put_lines(self, key: str, lines: list[str]) -> None:
        """Put a file of lines; for a name that ends in .parquet or .avro, of the rows that they are as JSON."""
        text = "".join(f"{line}\n" for line in lines).encode()
        if key.endswith(".parquet"):
            self.put_parquet(key, json.read_json(io.BytesIO(text)))
        elif key.endswith(".avro"):
            self.put(key, avro_files.written(json.read_json(io.BytesIO(text))))
        else:
            self.put(key, text)

    def put_parquet(self, key: str, table: pa.Table, **how: Any) -> None:
        """Put a Parquet file."""
        buffer = io.BytesIO()
        parquet.write_table(table, buffer, **how)
        self.put(key, buffer.getvalue())

    def get(self, key: str) -> bytes:
        """Return the content of a file."""
        data: bytes = self.boto.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return data

    def keys(self, prefix: str = "") -> list[str]:
        """The names of all files."""
        pages = self.boto.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        return [item["Key"] for page in pages for item in page.get("Contents", ())]
