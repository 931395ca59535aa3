"""Aggregated records of a producer: each user record is read separately and once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.kinesis import KinesisClient, package
from harness.patience import until
from headrace.connectors.kinesis.aggregation import unpacked
from headrace.connectors.kinesis.reader import BEGINNING
from headrace.connectors.kinesis.spark.stream import StreamSource
from tests.kinesis.conftest import Store

PACKED = bytes.fromhex(
    # magic · keys "a" and "b" · hash key "0" · records (key 0, "x"), (key 1, hash key 0, "", tag "t") · MD5
    "f3899ac20a01610a01621201301a0508001a01781a0b080110001a0022030a017474fbcee6765d05db2ed5ab19030ff8bb"
)


def record(data: bytes) -> dict[str, Any]:
    return {"Data": data, "PartitionKey": "whole", "SequenceNumber": "17"}


def test_a_package_is_its_records_with_their_own_keys() -> None:
    assert unpacked(record(PACKED)) == [
        {"Data": b"x", "PartitionKey": "a", "SequenceNumber": "17"},
        {"Data": b"", "PartitionKey": "b", "SequenceNumber": "17"},
    ]
    assert unpacked(record(package([]))) == []


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b'{"v": 1}',
        PACKED[:4],
        PACKED[1:],
        PACKED[:-1],
        PACKED[:-1] + bytes([PACKED[-1] ^ 1]),
        package([("k", b"v")], message=b"\x1a\x05\x08\x00"),
        package([("k", b"v")], message=b"\x1a\x05\x08\x00\x1a\x01x"),
    ],
    ids=["empty", "JSON", "magic", "no magic", "cut off", "other digest", "no message", "no such key"],
)
def test_what_is_no_package_stays_as_it_is(data: bytes) -> None:
    assert unpacked(record(data)) == [record(data)]


def test_a_batch_that_is_read_again_has_the_same_records_of_packages(
    kinesis: KinesisClient, store: Store, seed: str
) -> None:
    """A place is that of a whole record: behind it nothing of the package is left, before it nothing of it was read."""
    kinesis.create(stream := f"packed_{seed}")
    parts = [[(f"k{n % 3}", f'{{"v":{n}}}'.encode()) for n in range(at, at + 5)] for at in (0, 5, 10)]
    client = kinesis.server.client()
    for part in parts:
        client.put_record(StreamName=stream, PartitionKey="whole", Data=package(part))
        client.put_record(StreamName=stream, PartitionKey="single", Data=b'{"v":-1}')
    expected = [
        row
        for part in parts
        for row in [*((key.encode(), value) for key, value in part), (b"single", b'{"v":-1}')]
    ]

    def reading() -> StreamSource:
        return StreamSource(
            {"entity": stream, "properties": store, "began": BEGINNING, "records_per_batch": 1}
        )

    received: list[tuple[bytes, bytes]] = []
    offset = reading().initialOffset()

    def are_all_read() -> bool:
        nonlocal offset
        given, end = (source := reading()).read(offset)
        rows = [row for batch in given for row in batch.to_pylist()]
        again = [row for batch in reading().readBetweenOffsets(offset, end) for row in batch.to_pylist()]
        assert again == rows
        assert [row["sequence"] for row in rows] == list(range(len(rows)))
        received.extend((row["key"], row["value"]) for row in rows)
        offset = json.loads(json.dumps(end))
        source._reader.stop()
        return len(received) >= len(expected)

    until(are_all_read, lambda: f"{len(expected)} records, found {received}")
    assert received == expected
