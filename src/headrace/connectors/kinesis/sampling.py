"""Sample of a stream's records, for the inference of columns."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.connectors.kinesis.aggregation import unpacked
from headrace.connectors.kinesis.reader import BEGINNING, Stream, shard_id
from headrace.connectors.sampling import RECORDS_MAX, Collection

_RECENT_S = 600
_REQUESTS_MAX = 5
"""A response may be empty although records follow: a shard is read to its end, but not for ever."""
_SHARDS_MAX = 100


def sampled(stream: Stream, *, from_start: bool) -> tuple[bytes, ...]:
    """Return values of records of each shard: of the last minutes, or the oldest ones if there are none. Raises botocore's errors.

    Kinesis cannot return the last records of a shard by their number.
    """
    shards = [shard.number for shard in stream.shards()][-_SHARDS_MAX:]
    now_ms = int(stream.now().split()[1])
    recent = {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": now_ms / 1000 - _RECENT_S}
    oldest = {"ShardIteratorType": BEGINNING}
    for start in (oldest,) if from_start else (recent, oldest):
        collection = Collection()
        for number in shards:
            _read(stream, number, start, collection, max(1, RECORDS_MAX // len(shards)))
        if collection.records:
            return tuple(collection.records)
    return ()


def _read(
    stream: Stream, number: int, start: Mapping[str, object], collection: Collection, share: int
) -> None:
    client = stream.client
    answer = client.get_shard_iterator(**stream.address, ShardId=shard_id(number), **start)
    iterator: str | None = answer["ShardIterator"]
    left = share
    for _ in range(_REQUESTS_MAX):
        if iterator is None or left <= 0 or collection.is_complete:
            return
        answer = client.get_records(ShardIterator=iterator, Limit=left)
        for whole in answer["Records"]:
            for record in unpacked(whole):
                collection.add(record["Data"])
        left -= len(answer["Records"])
        if not answer.get("MillisBehindLatest"):
            return
        iterator = answer.get("NextShardIterator")
