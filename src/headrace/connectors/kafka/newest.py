"""The newest records of a topic, and the ends of its partitions."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Iterable, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its types name them elsewhere
    AdminClient,
    OffsetSpec,
    TopicDescription,
)

from headrace.connectors.base import PartitionDescription
from headrace.connectors.kafka.client import client_options
from headrace.connectors.kafka.connection import REQUEST_TIMEOUT_S

BYTES_MAX = 32 << 20
"""Of the records that wait to be printed: older ones are left out."""
_GROWTH = 8


def newest_records(
    store: Mapping[str, str], topic: str, partitions: Iterable[int], count: int
) -> list[Message]:
    """Return the newest committed records of some partitions, at most `count`, by time. Raises KafkaException.

    Offsets may be missing, of deleted records and of the marks of transactions. If the last `count` offsets of a partition contain fewer
    records, more offsets are read.
    """
    consumer = Consumer(
        {
            **client_options(store),
            "group.id": f"headrace-print-{uuid.uuid4()}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "queued.max.messages.kbytes": BYTES_MAX >> 10,
        }
    )
    try:
        newest = [
            message for number in partitions for message in _of_partition(consumer, topic, number, count)
        ]
    finally:
        consumer.close()
    newest.sort(key=lambda message: (message.timestamp()[1], message.partition(), message.offset()))
    kept: deque[Message] = deque()
    size = 0
    for message in reversed(newest[-count:]):
        size += _size(message)
        if size > BYTES_MAX and kept:
            break
        kept.appendleft(message)
    return list(kept)


def _of_partition(consumer: Consumer, topic: str, number: int, count: int) -> list[Message]:
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=REQUEST_TIMEOUT_S)
    distance = count
    while True:
        first = max(low, high - distance)
        records = _read(consumer, TopicPartition(topic, number, first), high, count)
        if len(records) >= count or first == low:
            return records
        distance *= _GROWTH


def _read(consumer: Consumer, place: TopicPartition, end: int, count: int) -> list[Message]:
    """Return the last records between a place and an end, or the end of what is committed."""
    records: deque[Message] = deque(maxlen=count)
    size = 0
    is_read = place.offset >= end
    if not is_read:
        consumer.assign([place])
    while not is_read:
        for message in consumer.consume(500, 0.1):
            error = message.error()
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                is_read = True
                break
            offset = message.offset() or 0
            if offset < end:
                size += _size(message) - (_size(records[0]) if len(records) == count else 0)
                records.append(message)
            while size > BYTES_MAX and len(records) > 1:
                size -= _size(records.popleft())
            is_read = is_read or offset >= end - 1
    return list(records)


def _size(message: Message) -> int:
    return len(message.value() or b"") + len(message.key() or b"")


def described_partitions(admin: AdminClient, topic: TopicDescription) -> list[PartitionDescription]:
    """Return the partitions with their first and next offsets, leaders and replicas. Raises KafkaException."""
    places = [TopicPartition(topic.name, part.id) for part in topic.partitions]
    starts, ends = (
        admin.list_offsets(dict.fromkeys(places, spec), request_timeout=REQUEST_TIMEOUT_S)
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest())  # type: ignore[no-untyped-call]
    )
    described = []
    for part, place in zip(topic.partitions, places, strict=True):
        low, high = starts[place].result().offset, ends[place].result().offset
        details = {
            "leader": getattr(
                part.leader, "id", None
            ),  # None while the broker elects a leader, whatever its type says
            "replicas": [node.id for node in part.replicas],
            "in_sync": [node.id for node in part.isr],
        }
        described.append(PartitionDescription(part.id, str(low), str(high), high - low, details))
    return sorted(described, key=lambda part: part.number)
