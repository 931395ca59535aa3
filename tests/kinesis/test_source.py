"""The streaming source as Spark uses it, without Spark: over reshards, kills, and a Kinesis that throttles."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from harness.kinesis import KinesisClient
from harness.kinesis.front import KinesisFront, Message, PassOn, refusing
from harness.patience import PATIENCE_S, until
from headrace.connectors.carried_errors import carried
from headrace.connectors.kinesis.reader import BEGINNING
from headrace.connectors.kinesis.spark.stream import StreamSource
from headrace.core.errors import ExternalError
from tests.kinesis.conftest import Store

Offset = dict[str, Any]
Row = dict[str, Any]
RECORDS = 240


def source(store: Store, stream: str) -> StreamSource:
    return StreamSource(
        {"entity": stream, "properties": store, "began": BEGINNING, "records_per_batch": None}
    )


def rows_of(batches: Iterator[Any]) -> list[Row]:
    return [row for batch in batches for row in batch.to_pylist()]


def place(row: Row) -> tuple[int, str]:
    return row["split"], row["metadata"]["sequence_number"]


def test_each_record_comes_once_and_in_order_over_reshards_and_kills(
    kinesis: KinesisClient, store: Store, seed: str
) -> None:
    """A batch that was started before a kill is repeated by a worker that only has its offsets."""
    kinesis.create(stream := f"reshards_{seed}", shards=2)
    chance = random.Random(seed)
    written = 0
    received: list[Row] = []
    reading = source(store, stream)
    offset: Offset = reading.initialOffset()

    def reshard() -> None:
        open_shards = [
            shard
            for shard in kinesis.shards(stream)
            if "EndingSequenceNumber" not in shard["SequenceNumberRange"]
        ]
        open_shards.sort(key=lambda shard: int(shard["HashKeyRange"]["StartingHashKey"]))
        if len(open_shards) > 3:
            at = chance.randrange(len(open_shards) - 1)
            kinesis.merge(stream, open_shards[at]["ShardId"], open_shards[at + 1]["ShardId"])
        else:
            kinesis.split(stream, chance.choice(open_shards)["ShardId"])

    def are_all_read() -> bool:
        nonlocal written, reading, offset
        if written < RECORDS:
            kinesis.put(stream, [(f"k{n % 7}", str(n)) for n in range(written, written + 40)])
            written += 40
            if written % 80 == 0:
                reshard()
        given, end = reading.read(offset)
        rows, end = rows_of(given), json.loads(json.dumps(end))
        if end != offset and chance.random() < 0.5:
            reading = source(store, stream)
            again = rows_of(reading.readBetweenOffsets(offset, end))
            assert sorted(map(place, again)) == sorted(map(place, rows))
        received.extend(rows)
        offset = end
        return written == RECORDS == len(received)

    until(are_all_read, lambda: f"{RECORDS} records, found {len(received)}")
    assert len(kinesis.shards(stream)) > 4
    assert sorted(int(row["value"]) for row in received) == list(range(RECORDS))
    for key in range(7):
        numbers = [int(row["value"]) for row in received if row["key"] == f"k{key}".encode()]
        assert numbers == sorted(numbers)


def test_a_batch_waits_while_kinesis_throttles(kinesis: KinesisClient, store: Store, seed: str) -> None:
    """An empty batch would move the watermark on without the shard."""
    kinesis.create(stream := f"throttled_{seed}")
    kinesis.put(stream, [("k", "1"), ("k", "2")])
    throttling = refusing("GetRecords", "ProvisionedThroughputExceededException")
    refused = 0

    def counted(operation: str, request: Message, pass_on: PassOn) -> tuple[int, Message]:
        nonlocal refused
        refused += operation == "GetRecords"
        return throttling(operation, request, pass_on)

    with KinesisFront(kinesis.server.uri) as front:
        reading = source(store | {"uris": front.uri()}, stream)
        _, offset = reading.read(reading.initialOffset())
        front.answer = counted
        received: list[Row] = []
        batch = threading.Thread(
            target=lambda: received.extend(rows_of(reading.read(offset)[0])), daemon=True
        )
        batch.start()
        until(lambda: refused >= 4, "four requests are refused")
        assert batch.is_alive()
        front.pass_on()
        batch.join(PATIENCE_S)
        assert [row["value"] for row in received] == [b"1", b"2"]


def test_what_the_store_refuses_reaches_the_driver(kinesis: KinesisClient, store: Store, seed: str) -> None:
    kinesis.create(stream := f"refused_{seed}")
    with KinesisFront(kinesis.server.uri) as front:
        reading = source(store | {"uris": front.uri()}, stream)
        _, offset = reading.read(reading.initialOffset())
        front.refuse("GetRecords", "AccessDeniedException")
        with pytest.raises(RuntimeError) as caught:
            reading.read(offset)
        error = carried(str(caught.value))
        assert isinstance(error, ExternalError)
        assert "a right is missing: GetRecords is refused" in error.text()
