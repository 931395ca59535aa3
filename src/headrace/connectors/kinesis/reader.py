"""Reader of shards: lists them, and prefetches their records.

A reader's position in a shard is a text: the sequence number of the last record that was taken, or the start position
`TRIM_HORIZON` or `AT_TIMESTAMP <milliseconds>`.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from botocore.exceptions import ClientError

from headrace.connectors.base import PartitionDescription
from headrace.connectors.kinesis.aggregation import Record, unpacked
from headrace.connectors.kinesis.client import address, kinesis
from headrace.connectors.kinesis.failures import is_throttled

BEGINNING = "TRIM_HORIZON"
_TIME = "AT_TIMESTAMP"
# A shard's limits, which all of its readers share: 5 requests and 2 MB a second, 10,000 records a request.
_RECORDS_MAX = 10_000
_REQUEST_S = 0.2
_BYTES_PER_S = 2_000_000
_BACKOFF_S, _BACKOFF_MAX_S = 0.5, 8.0
_FRESH_S = 1.0
"""How old the knowledge may be that a shard has no records: a watermark goes on without those that are empty."""
_LISTED_S = 5.0


@dataclass(frozen=True)
class Shard:
    """A shard, by the number in its id; its parents are the shards that were split or merged into it and still have records."""

    number: int
    parents: tuple[int, ...]
    closed: bool


def shard_id(number: int) -> str:
    """Return AWS's id of a shard."""
    return f"shardId-{number:012d}"


def at_time(milliseconds: int) -> str:
    """Return a position: the first record that arrived then or later."""
    return f"{_TIME} {milliseconds}"


class Stream:
    """A stream of a store. Its methods raise botocore's errors."""

    def __init__(self, store: Mapping[str, str], name: str) -> None:
        self.name = name
        self.client = kinesis(store, connections=50)
        self.address = address(store, name)

    def shards(self) -> list[Shard]:
        """Return the shards whose records have not expired, by number."""
        pages = self.client.get_paginator("list_shards").paginate(**self.address)
        listed = [shard for page in pages for shard in page["Shards"]]
        numbers = {shard["ShardId"]: int(shard["ShardId"].rpartition("-")[2]) for shard in listed}
        return sorted(
            (
                Shard(
                    numbers[shard["ShardId"]],
                    tuple(
                        numbers[parent]
                        for parent in (shard.get("ParentShardId"), shard.get("AdjacentParentShardId"))
                        if parent in numbers
                    ),
                    "EndingSequenceNumber" in shard["SequenceNumberRange"],
                )
                for shard in listed
            ),
            key=lambda shard: shard.number,
        )

    def described_shards(self) -> list[PartitionDescription]:
        """Return the shards with their sequence numbers: only a closed shard has an end. Kinesis does not count records."""
        pages = self.client.get_paginator("list_shards").paginate(**self.address)
        described = [
            PartitionDescription(
                int(shard["ShardId"].rpartition("-")[2]),
                shard["SequenceNumberRange"]["StartingSequenceNumber"],
                shard["SequenceNumberRange"].get("EndingSequenceNumber"),
                details={
                    "hash_keys": [shard["HashKeyRange"][end] for end in ("StartingHashKey", "EndingHashKey")],
                    "parents": [
                        shard[name] for name in ("ParentShardId", "AdjacentParentShardId") if shard.get(name)
                    ],
                },
            )
            for page in pages
            for shard in page["Shards"]
        ]
        return sorted(described, key=lambda shard: shard.number)

    def first_hashes(self) -> dict[int, str]:
        """Return the first hash key of each open shard, by number."""
        pages = self.client.get_paginator("list_shards").paginate(**self.address)
        return {
            int(shard["ShardId"].rpartition("-")[2]): str(shard["HashKeyRange"]["StartingHashKey"])
            for page in pages
            for shard in page["Shards"]
            if "EndingSequenceNumber" not in shard["SequenceNumberRange"]
        }

    def now(self) -> str:
        """Return the position after the present records: the time of this call by the store's clock.

        If this machine's clock agrees, it determines the milliseconds.
        """
        local_s = time.time()
        answer = self.client.describe_stream_summary(**self.address)
        second = parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"]).timestamp()
        agrees = second - 1 <= local_s <= second + 1
        return at_time(int((local_s if agrees else second) * 1000))

    def beginnings(self, position: str, numbers: frozenset[int] | None = None) -> dict[int, str | None]:
        """Return the start positions: of the shards with these numbers, or of the oldest ones. Their children follow at their end."""
        if numbers is not None:
            return dict.fromkeys(sorted(numbers), position)
        return {shard.number: position for shard in self.shards() if not shard.parents}


class ShardReader:
    """Prefetches one response from a shard in a separate thread; the next request starts when the response was taken.

    `position` is the end of the taken records. `arrived` is set when records are available.
    """

    def __init__(
        self, stream: Stream, number: int, position: str, arrived: threading.Event | None = None
    ) -> None:
        self.position = position
        self.ended = False
        self._stream = stream
        self._arrived = arrived or threading.Event()
        self._shard = shard_id(number)
        self._asked = position
        self._records: Sequence[Record] = ()
        self._last = False
        self._answered = -math.inf
        self._failure: Exception | None = None
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=f"kinesis-{self._shard}", daemon=True)
        self._thread.start()

    def take(self, most: int) -> Sequence[Record]:
        """Return the present records, at most `most`; `ended` when the shard has no more. Raises the thread's error.

        Waits where it is not known whether there is anything: at the start, and while Kinesis does not answer.
        """
        with self._changed:
            self._changed.wait_for(self._knows)
            if self._failure is not None:
                raise self._failure
            records, self._records = self._records[:most], self._records[most:]
            if records:
                self.position = records[-1]["SequenceNumber"]
            self.ended = self._last and not self._records
            self._changed.notify_all()
            return records

    def wait(self, seconds: float) -> None:
        """Wait until there is something to take, or the time is up."""
        self._arrived.wait(seconds)
        self._arrived.clear()

    def _knows(self) -> bool:
        fresh = time.monotonic() - self._answered < _FRESH_S
        return bool(self._records or self._last or self._failure or self._stopped or fresh)

    def stop(self) -> None:
        """Stop the thread after its current answer."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _run(self) -> None:
        try:
            self._read()
        except Exception as error:  # noqa: BLE001 - it is raised to who takes
            with self._changed:
                self._failure = error
                self._arrived.set()
                self._changed.notify_all()

    def _read(self) -> None:
        iterator: str | None = self._iterator()
        throttled = 0
        while iterator and not self._stopped:
            began = time.monotonic()
            try:
                answer = self._stream.client.get_records(ShardIterator=iterator, Limit=_RECORDS_MAX)
            except ClientError as error:
                if error.response.get("Error", {}).get("Code") == "ExpiredIteratorException":
                    iterator = self._iterator()
                    continue
                if not is_throttled(error):
                    raise
                throttled += 1
                most = min(_BACKOFF_S * 2**throttled, _BACKOFF_MAX_S)
                self._pause(random.uniform(_BACKOFF_S, most))  # noqa: S311 - readers that were refused together part
                continue
            throttled = 0
            records = answer["Records"]
            iterator = answer.get("NextShardIterator")
            self._give(records, last=iterator is None)
            size = sum(len(record["Data"]) + len(record["PartitionKey"]) for record in records)
            self._pause(began + max(_REQUEST_S, size / _BYTES_PER_S) - time.monotonic())

    def _iterator(self) -> str:
        kind, _, milliseconds = self._asked.partition(" ")
        where: dict[str, Any] = {"ShardIteratorType": kind}
        if milliseconds:
            where["Timestamp"] = int(milliseconds) / 1000
        elif kind != BEGINNING:
            where = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "StartingSequenceNumber": kind}
        answer = self._stream.client.get_shard_iterator(**self._stream.address, ShardId=self._shard, **where)
        return str(answer["ShardIterator"])

    def _give(self, records: Sequence[Record], *, last: bool) -> None:
        with self._changed:
            self._records, self._last, self._answered = records, last, time.monotonic()
            if records:
                self._asked = records[-1]["SequenceNumber"]
            if records or last:
                self._arrived.set()
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._records or self._stopped)

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopped, max(0.0, seconds))


class StreamReader:
    """Reader of a stream's shards, from positions by shard number; None is the position of a shard that has ended."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._arrived = threading.Event()
        self._readers: dict[int, ShardReader] = {}
        self._followed: set[int] = set()
        self._listed = -math.inf

    def read(
        self, places: Mapping[int, str | None], *, most: int
    ) -> tuple[dict[int, Sequence[Record]], dict[int, str | None]]:
        """Return about `most` records after `places`, by shard, and the places after them.

        A shard without records had none a second ago. Its children are read only after the places contain its end.
        """
        records: dict[int, Sequence[Record]] = {}
        after: dict[int, str | None] = dict(places)
        left = most
        for number, reader in self._at(places).items():
            records[number] = batch = reader.take(left)
            left = max(1, left - len(batch))
            after[number] = None if reader.ended else reader.position
        return records, self._followed_by_children(places, after)

    def wait(self, seconds: float) -> None:
        """Wait until a shard has new records, or the time is up."""
        self._arrived.wait(seconds)
        self._arrived.clear()

    def stop(self) -> None:
        """Ends the threads."""
        for reader in self._readers.values():
            reader.stop()
        self._readers = {}

    def _at(self, places: Mapping[int, str | None]) -> dict[int, ShardReader]:
        for number, reader in list(self._readers.items()):
            if places.get(number) != reader.position:
                self._readers.pop(number).stop()
        for number, place in places.items():
            if place is not None and number not in self._readers:
                self._readers[number] = ShardReader(self._stream, number, place, self._arrived)
        return self._readers

    def _followed_by_children(
        self, before: Mapping[int, str | None], after: dict[int, str | None]
    ) -> dict[int, str | None]:
        """Return `after` with the children of shards that have all ended, and without shards that have ended and expired.

        A child is read from its start, unless its parent ended before the time at which reading started.
        """
        ended = {number for number, place in after.items() if place is None}
        newly = any(before[number] is not None for number in ended)
        if not ended - self._followed or not (newly or time.monotonic() - self._listed > _LISTED_S):
            return after
        self._listed = time.monotonic()
        listed = {shard.number: shard for shard in self._stream.shards()}
        places = {number: place for number, place in after.items() if place is not None or number in listed}
        for number, shard in listed.items():
            if number not in after and shard.parents and ended.issuperset(shard.parents):
                began = (before[parent] or "" for parent in shard.parents)
                places[number] = next((place for place in began if place.startswith(_TIME)), BEGINNING)
        self._followed.update(
            parent for number, shard in listed.items() if number in places for parent in shard.parents
        )
        return dict(sorted(places.items()))


def arrival_ms(record: Record) -> int:
    """Return the time when Kinesis received a record."""
    arrived: datetime = record["ApproximateArrivalTimestamp"]
    return round(arrived.timestamp() * 1000)


def of_shards(by_shard: Mapping[int, Sequence[Record]]) -> Iterable[tuple[int, Record]]:
    """Return records with the number of their shard, aggregated ones unpacked."""
    return (
        (number, record)
        for number, records in by_shard.items()
        for whole in records
        for record in unpacked(whole)
    )
