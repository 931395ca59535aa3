"""Streams as a Python data source of Spark: read in a worker of the query, written by its tasks. ADR 19 gives the reasons.

A source's offset is `{"<stream>": {"<shard number>": <place>}}` with the positions of `reader`, and null for a shard that has ended.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    SimpleDataSourceStreamReader,
    WriterCommitMessage,
)

from headrace.connectors.carried_errors import carrying_errors
from headrace.connectors.kinesis.admin import partition_key
from headrace.connectors.kinesis.aggregation import Record, unpacked
from headrace.connectors.kinesis.client import address, kinesis
from headrace.connectors.kinesis.failures import classified
from headrace.connectors.kinesis.reader import (
    ShardReader,
    Stream,
    StreamReader,
    arrival_ms,
    shard_id,
)
from headrace.connectors.kinesis.writer import Entry, StreamWriter
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState

REQUEST = "credentials"
"""The one option: a request as JSON. It holds a store's secrets, and Spark masks an option of that name wherever it shows one."""
_SCHEMA = (
    "key BINARY, value BINARY, timestamp TIMESTAMP, entity STRING, split INT, sequence BIGINT, "
    "metadata STRUCT<stream: STRING, partition_key: STRING, shard_id: STRING, sequence_number: STRING>"
)
_EVERYTHING = 1_000_000
_POLL_S = 0.05

Places = dict[int, str | None]


class KinesisStream(DataSource):
    """A stream, by the request that is its one option."""

    @classmethod
    def name(cls) -> str:
        return "headrace_kinesis"

    def schema(self) -> str:
        return _SCHEMA

    def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:  # noqa: ARG002, N802 - Spark's names
        return StreamSource(json.loads(self.options[REQUEST]))

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: ARG002, N802
        return StreamSink(json.loads(self.options[REQUEST]))


class StreamSource(SimpleDataSourceStreamReader):
    """Reader of the stream `entity` from the position `began`."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        self._entity: str = request["entity"]
        self._began: str = request["began"]
        self._most: int = request["records_per_batch"] or _EVERYTHING
        self._properties: Mapping[str, str] = request["properties"]
        self._given = 0

    # Made where they are used: a reader is sent from process to process before it reads.
    @cached_property
    def _stream(self) -> Stream:
        return Stream(self._properties, self._entity)

    @cached_property
    def _reader(self) -> StreamReader:
        return StreamReader(self._stream)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the empty offset. The first batch has no records: it records the starting places, which must be known after a kill."""
        return self._offset({})

    def read(self, start: dict[str, Any]) -> tuple[Iterator[Any], dict[str, Any]]:
        places = self._places(start)
        with carrying_errors(), classified(self._properties, self._entity):
            if not places:
                return iter([]), self._offset(self._stream.beginnings(self._began))
            records, after = self._reader.read(places, most=self._most)
        if after == places:
            self._reader.wait(_POLL_S)
            return iter([]), start
        # Spark copies the iterator to read it again: only that of a list can be copied.
        return iter(list(self._batches(records))), self._offset(after)

    def readBetweenOffsets(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[Any]:  # noqa: N802
        """Yield the records of a batch that began before the query stopped: the same ones."""
        ends = self._places(end)
        with carrying_errors(), classified(self._properties, self._entity):
            for number, place in self._places(start).items():
                if place is not None and ends.get(number) != place:
                    yield from self._batches({number: self._between(number, place, ends.get(number))})

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: Kinesis keeps no position of ours."""

    def _between(self, number: int, place: str, end: str | None) -> list[Record]:
        reader = ShardReader(self._stream, number, place)
        records: list[Record] = []
        try:
            while not reader.ended and reader.position != end:
                for record in reader.take(_EVERYTHING):
                    if end is not None and int(record["SequenceNumber"]) > int(end):
                        return _complete(records, end)
                    records.append(record)
                reader.wait(_POLL_S)
        finally:
            reader.stop()
        return _complete(records, end)

    def _batches(self, by_shard: Mapping[int, Sequence[Record]]) -> Iterator[pa.RecordBatch]:
        for number, wholes in sorted(by_shard.items()):
            if records := [record for whole in wholes for record in unpacked(whole)]:
                yield _batch(self._entity, number, records, self._given)
                self._given += len(records)

    def _offset(self, places: Places) -> dict[str, Any]:
        return {self._entity: {str(number): place for number, place in places.items()}}

    def _places(self, offset: dict[str, Any]) -> Places:
        return {int(number): place for number, place in offset[self._entity].items()}


def _complete(records: list[Record], end: str | None) -> list[Record]:
    if end is not None and (not records or records[-1]["SequenceNumber"] != end):
        raise UserError(
            SqlState.DATA_EXCEPTION,
            "records were removed from the stream before the query read them",
            hint="They expired. Terminate the query and create it again to continue from the records that remain.",
        )
    return records


def _batch(entity: str, number: int, records: Sequence[Record], first: int) -> pa.RecordBatch:
    """Return `first` is the first record's place among all that the reader gave: sequence numbers of Kinesis are too great for a BIGINT."""
    keys = pa.array([record["PartitionKey"] for record in records], pa.string())
    sequences = [record["SequenceNumber"] for record in records]
    count = len(records)
    stream = pa.repeat(entity, count)
    metadata = pa.StructArray.from_arrays(
        [stream, keys, pa.repeat(shard_id(number), count), pa.array(sequences, pa.string())],
        ["stream", "partition_key", "shard_id", "sequence_number"],
    )
    columns = {
        "key": keys.cast(pa.binary()),
        "value": pa.array([record["Data"] for record in records], pa.binary()),
        "timestamp": pa.array(
            [arrival_ms(record) * 1000 for record in records], pa.timestamp("us", tz="UTC")
        ),
        "entity": stream,
        "split": pa.repeat(pa.scalar(number, pa.int32()), count),
        "sequence": pa.array(range(first, first + count), pa.int64()),
        "metadata": metadata,
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


class StreamSink(DataSourceStreamArrowWriter):
    """Each task puts its records, and ends when the stream has them: at least once."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        self._entity: str = request["entity"]
        self._properties: Mapping[str, str] = request["properties"]

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        with carrying_errors(), classified(self._properties, self._entity):
            # A worker process serves many tasks: it keeps its connections.
            client = _client(json.dumps(self._properties))
            with StreamWriter(client, address(self._properties, self._entity)) as writer:
                for batch in iterator:
                    writer.put(_entries(batch))
        return WriterCommitMessage()


@cache
def _client(properties: str) -> Any:
    return kinesis(json.loads(properties))


def _entries(batch: pa.RecordBatch) -> list[Entry]:
    keys, values = batch.column("key").to_pylist(), batch.column("value").to_pylist()
    return [
        {"PartitionKey": partition_key(key), "Data": value or b""}
        for key, value in zip(keys, values, strict=True)
    ]
