"""Two stand-ins for AWS on loopback, and a client for them.

`KinesisServer` is kinesis-mock (npm kinesis-local, in package-lock.json by its hash), which knows resharding, positions by time and
AWS's errors, but is slow. `MotoServer` (PyPI moto) takes ten thousand records a second and assumes roles, but its closed shards never end.
Neither can enhanced fan-out.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import boto3

from harness.guarded_server import GuardedServer
from harness.patience import until
from headrace.runtime.ports import free_port
from headrace.runtime.webpage import install_packages, node_folder

ACCESS_KEY, SECRET_KEY = "AKIASTANDIN000000000", "stand-in/secret+key"
REGION = "us-east-1"
BATCH = 500
_HERE = Path(__file__).parent
_STEPS = ("CREATE_STREAM", "DELETE_STREAM", "SPLIT_SHARD", "MERGE_SHARDS", "UPDATE_SHARD_COUNT")


class StandIn(GuardedServer):
    """Server on loopback, at the same port after `stop` and `start`; a context manager. `environment` adds environment variables."""

    def __init__(self, **environment: str) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="headrace-stand-in-")
        folder = Path(self._temporary.name)
        super().__init__(folder, grace_s=2, cwd=folder)
        self._given = environment

    @property
    def uri(self) -> str:
        """The address for 'uris' of a store."""
        return f"http://127.0.0.1:{self.port}"

    def client(self, service: str = "kinesis") -> Any:
        """boto3's."""
        return boto3.Session(ACCESS_KEY, SECRET_KEY, region_name=REGION).client(
            service, endpoint_url=self.uri
        )

    def store(self, name: str) -> str:
        """CREATE STORE."""
        return (
            f"CREATE STORE {name} WITH ('type' = KINESIS, 'uris' = '{self.uri}', 'tls.disabled' = TRUE, "
            f"'kinesis.access_key_id' = '{ACCESS_KEY}', 'kinesis.secret_access_key' = '{SECRET_KEY}');"
        )

    def start(self) -> Self:
        """Return when the server accepts connections."""
        self.port = self.port or free_port()
        return super().start()

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._temporary.cleanup()

    def _environment(self) -> Mapping[str, str]:
        return self._given


class KinesisServer(StandIn):
    """kinesis-mock, by the Node that builds the web page."""

    def _command(self) -> list[str]:
        install_packages(_HERE)
        main = _HERE / "node_modules" / "kinesis-local" / "main.js"
        return [
            str(node_folder() / "node"),
            "--require",
            str(_HERE / "loopback.cjs"),
            "--max-old-space-size=512",
            str(main),
        ]

    def _environment(self) -> Mapping[str, str]:
        return {
            "KINESIS_MOCK_PLAIN_PORT": str(self.port),
            "KINESIS_MOCK_TLS_PORT": str(free_port()),
            "KINESIS_MOCK_CERT_PATH": str(_HERE / "node_modules" / "kinesis-local" / "server.json"),
            "AWS_REGION": REGION,
            "LOG_LEVEL": "WARN",
            "SHARD_LIMIT": "1000",
            **{f"{step}_DURATION": "50ms" for step in _STEPS},
            **super()._environment(),
        }


class MotoServer(StandIn):
    """moto's server."""

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]


class KinesisClient:
    """Streams, records in, records out: of one stand-in."""

    def __init__(self, server: StandIn) -> None:
        self.server = server
        self.boto = server.client()

    def create(self, stream: str, *, shards: int = 1) -> None:
        """Create a stream and wait until it is active."""
        self.boto.create_stream(StreamName=stream, ShardCount=shards)
        self.active(stream)

    def active(self, stream: str) -> None:
        """Wait until a requested change of a stream is complete."""

        def status() -> str:
            description = self.boto.describe_stream_summary(StreamName=stream)
            return str(description["StreamDescriptionSummary"]["StreamStatus"])

        until(lambda: status() == "ACTIVE", f"{stream} is active")

    def put(self, stream: str, records: Iterable[tuple[str, str]], *, shard: str | None = None) -> None:
        """Write (partition key, text) pairs in order, to one shard if it is named."""
        place = {"ExplicitHashKey": self._hash_key(stream, shard)} if shard is not None else {}
        entries = [{"PartitionKey": key, "Data": value.encode(), **place} for key, value in records]
        for at in range(0, len(entries), BATCH):
            answer = self.boto.put_records(StreamName=stream, Records=entries[at : at + BATCH])
            assert not answer["FailedRecordCount"], answer

    def shards(self, stream: str) -> Sequence[dict[str, Any]]:
        """Return the shards as ListShards does, closed ones too."""
        return list(self.boto.list_shards(StreamName=stream)["Shards"])

    def split(self, stream: str, shard: str) -> None:
        """Split a shard into two halves; returns when it is done."""
        shard_range = self._range(stream, shard)
        middle = (int(shard_range["StartingHashKey"]) + int(shard_range["EndingHashKey"])) // 2
        self.boto.split_shard(StreamName=stream, ShardToSplit=shard, NewStartingHashKey=str(middle))
        self.active(stream)

    def merge(self, stream: str, shard: str, other: str) -> None:
        """Two neighbours; returns when it is done."""
        self.boto.merge_shards(StreamName=stream, ShardToMerge=shard, AdjacentShardToMerge=other)
        self.active(stream)

    def read(self, stream: str) -> list[tuple[str, str]]:
        """(partition key, text) of every record that is there, a shard after the other."""
        records: list[tuple[str, str]] = []
        for shard in self.shards(stream):
            iterator = self.boto.get_shard_iterator(
                StreamName=stream, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
            )["ShardIterator"]
            while iterator:
                answer = self.boto.get_records(ShardIterator=iterator)
                records += [(record["PartitionKey"], record["Data"].decode()) for record in answer["Records"]]
                if not answer["Records"]:
                    break
                iterator = answer.get("NextShardIterator")
        return records

    def _range(self, stream: str, shard: str) -> dict[str, str]:
        return dict(next(one for one in self.shards(stream) if one["ShardId"] == shard)["HashKeyRange"])

    def _hash_key(self, stream: str, shard: str) -> str:
        return self._range(stream, shard)["StartingHashKey"]


def package(records: Sequence[tuple[str, bytes]], *, message: bytes | None = None) -> bytes:
    """Keys and values as the Kinesis Producer Library packs them into one record; or another message in place of them."""
    keys = list(dict.fromkeys(key for key, _ in records))
    if message is None:
        message = b"".join(_field(1, key.encode()) for key in keys) + b"".join(
            _field(3, b"\x08" + _varint(keys.index(key)) + _field(3, value)) for key, value in records
        )
    return b"\xf3\x89\x9a\xc2" + message + hashlib.md5(message, usedforsecurity=False).digest()


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + _varint(number >> 7)
