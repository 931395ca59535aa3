"""The control-plane half of the Kinesis store type. An entity is a stream, and its layout the number of its open shards."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import time
import uuid
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from headrace.connectors.base import (
    EntityDescription,
    PartitionDescription,
    PrintedRecord,
    PrintStart,
    RecordSink,
    RecordSource,
    Sample,
    StoreDescriptor,
    no_partition,
)
from headrace.connectors.kinesis import options
from headrace.connectors.kinesis.aggregation import Record
from headrace.connectors.kinesis.client import address, kinesis
from headrace.connectors.kinesis.failures import classified
from headrace.connectors.kinesis.options import RECORD_SHARD, stream_of
from headrace.connectors.kinesis.reader import (
    BEGINNING,
    Stream,
    StreamReader,
    arrival_ms,
    at_time,
    of_shards,
    shard_id,
)
from headrace.connectors.kinesis.sampling import sampled
from headrace.core.errors import ExternalError, UserError
from headrace.core.names import EntityPath
from headrace.core.properties import PropertyReader
from headrace.core.sqlstate import SqlState
from headrace.core.types import VARCHAR, Struct

# AWS needs half a minute to create a stream.
_CHANGE_TIMEOUT_S = 120.0
_CHANGE_POLL_S = 0.25
_PRINTED_AT_ONCE = 500
_PRINT_POLL_S = 0.2
_KEY_MAX = 256


def test(store: Mapping[str, str]) -> None:
    """Request the name of one stream; an error names the step that failed: name, network, TLS, keys, rights."""
    with classified(store):
        kinesis(store).list_streams(Limit=1)


class KinesisStreams:
    """Streams. `connectors.base` describes the contract of each method."""

    def list_entities(self, store: Mapping[str, str], within: EntityPath) -> list[tuple[str, bool]]:
        if within:
            return []
        with classified(store):
            pages = kinesis(store).get_paginator("list_streams").paginate()
            return [(name, True) for page in pages for name in page["StreamNames"]]

    def describe_entity(self, store: Mapping[str, str], path: EntityPath) -> EntityDescription:
        stream = options.stream_of(path)
        with classified(store, stream):
            summary = _summary(kinesis(store), store, stream)
        configs = {
            "stream.mode": summary.get("StreamModeDetails", {}).get("StreamMode", "PROVISIONED"),
            "retention.hours": str(summary["RetentionPeriodHours"]),
            "encryption": summary.get("EncryptionType", "NONE"),
        }
        return EntityDescription(path, {"shards": summary["OpenShardCount"]}, configs)

    def create_entity(
        self, store: Mapping[str, str], path: EntityPath, reader: PropertyReader
    ) -> EntityDescription:
        stream, shards = options.stream_of(path), reader.take(options.SHARDS) or 1
        with classified(store, stream):
            client = kinesis(store)
            try:
                client.create_stream(StreamName=stream, ShardCount=shards)
            except client.exceptions.ResourceInUseException:
                raise UserError(
                    SqlState.DUPLICATE_ENTITY,
                    f"the stream {stream!r} already exists",
                    hint="Choose another name.",
                ) from None
            _wait(client, store, stream, "ACTIVE")
        return self.describe_entity(store, path)

    def drop_entity(self, store: Mapping[str, str], path: EntityPath) -> None:
        stream = options.stream_of(path)
        with classified(store, stream):
            client = kinesis(store)
            client.delete_stream(**address(store, stream), EnforceConsumerDeletion=True)
            _wait(client, store, stream, None)

    def insert(
        self,
        store: Mapping[str, str],
        path: EntityPath,
        *,
        key: bytes | None,
        value: bytes,
        options: Mapping[str, str],
    ) -> None:
        name, shard = stream_of(path), options.get(RECORD_SHARD.name)
        with classified(store, name):
            place = {"ExplicitHashKey": _first_hash(Stream(store, name), int(shard))} if shard else {}
            kinesis(store).put_record(
                **address(store, name), PartitionKey=partition_key(key), Data=value, **place
            )

    def sample(
        self,
        store: Mapping[str, str],
        path: EntityPath,
        reader: PropertyReader,  # noqa: ARG002
        *,
        from_start: bool,
    ) -> Sample:
        name = options.stream_of(path)
        with classified(store, name):
            return Sample(sampled(Stream(store, name), from_start=from_start))

    def list_partitions(self, store: Mapping[str, str], path: EntityPath) -> list[PartitionDescription]:
        name = options.stream_of(path)
        with classified(store, name):
            return Stream(store, name).described_shards()

    async def print_entity(
        self, store: Mapping[str, str], path: EntityPath, *, start: PrintStart
    ) -> AsyncGenerator[PrintedRecord]:
        name = options.stream_of(path)

        def begin() -> tuple[Stream, str]:
            with classified(store, name):
                stream = Stream(store, name)
                now = stream.now()  # finds a stream that is missing, too
                if start.partitions is not None:
                    start.refuse_missing(shard.number for shard in stream.shards())
                if isinstance(start.at, int):
                    # Kinesis refuses a time in the future.
                    return stream, at_time(min(start.at, int(now.split()[1])))
                return stream, BEGINNING if start.at == "earliest" else now

        return _printed(store, *await asyncio.to_thread(begin), start.partitions)


def _first_hash(stream: Stream, shard: int) -> str:
    hashes = stream.first_hashes()
    if shard not in hashes:
        raise no_partition(shard, sorted(hashes))
    return hashes[shard]


def partition_key(key: bytes | None) -> str:
    """Return the text that selects a record's shard: its key, a digest of a key that Kinesis refuses, a random text without one."""
    if not key:
        return str(uuid.uuid4())
    text = _text(key)
    return text if len(text) <= _KEY_MAX else hashlib.sha256(key).hexdigest()


async def _printed(
    store: Mapping[str, str], stream: Stream, began: str, shards: frozenset[int] | None
) -> AsyncGenerator[PrintedRecord]:
    reader = StreamReader(stream)
    try:
        with classified(store, stream.name):
            places = await asyncio.to_thread(stream.beginnings, began, shards)
            while True:
                records, places = await asyncio.to_thread(reader.read, places, most=_PRINTED_AT_ONCE)
                for shard, record in of_shards(records):
                    yield _shown(shard, record)
                if not any(records.values()):
                    await asyncio.to_thread(reader.wait, _PRINT_POLL_S)
    finally:
        reader.stop()


def _shown(shard: int, record: Record) -> PrintedRecord:
    where = f"shard {shard_id(shard)}, sequence number {record['SequenceNumber']}"
    return PrintedRecord(
        record["PartitionKey"],
        _text(record["Data"]),
        f"{where}, timestamp {arrival_ms(record)}",
        partition=shard,
        offset=record["SequenceNumber"],
        timestamp_ms=arrival_ms(record),
        key_bytes=record["PartitionKey"].encode(),
        value_bytes=record["Data"],
    )


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return base64.b64encode(data).decode()


def _summary(client: Any, store: Mapping[str, str], stream: str) -> dict[str, Any]:
    answer = client.describe_stream_summary(**address(store, stream))
    return dict(answer["StreamDescriptionSummary"])


def _wait(client: Any, store: Mapping[str, str], stream: str, status: str | None) -> None:
    """Wait until the stream has that status; None: until it does not exist."""
    deadline = time.monotonic() + _CHANGE_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            current = _summary(client, store, stream)["StreamStatus"]
        except client.exceptions.ResourceNotFoundException:
            current = None
        if current == status:
            return
        time.sleep(_CHANGE_POLL_S)
    raise ExternalError(
        SqlState.REMOTE_UNAVAILABLE,
        f"the stream {stream!r} was not {status or 'gone'} within {_CHANGE_TIMEOUT_S:.0f} s",
        hint="AWS is still changing the stream: DESCRIBE ENTITY shows its state.",
    )


_streams = KinesisStreams()
KINESIS = StoreDescriptor(
    type="kinesis",
    label="Kinesis",
    properties=options.PROPERTIES,
    read=options.read_store,
    test=test,
    path=options.stream_path,
    layout=options.LAYOUT,
    record_source=RecordSource(
        metadata=Struct(
            tuple((name, VARCHAR) for name in ("stream", "partition_key", "shard_id", "sequence_number"))
        )
    ),
    record_sink=RecordSink(),
    entities=_streams,
    partitions=_streams,
    inserter=_streams,
    record_options=options.record_options,
    printer=_streams,
    print_positions=True,
    print_formats=True,
    sampler=_streams,
    on_clusters="python",
    tested_unasked=True,
)
