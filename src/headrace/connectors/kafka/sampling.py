"""Sample of a topic's records, for the inference of columns."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from headrace.connectors.kafka.client import client_options
from headrace.connectors.kafka.connection import REQUEST_TIMEOUT_S
from headrace.connectors.sampling import BYTES_MAX, RECORDS_MAX, Collection


def sampled(store: Mapping[str, str], topic: str, partitions: int, *, from_start: bool) -> tuple[bytes, ...]:
    """Return values of the newest records of each partition, or of the oldest ones. Raises KafkaException."""
    consumer = Consumer(
        {
            **client_options(store),
            "group.id": f"headrace-sample-{uuid.uuid4()}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "queued.max.messages.kbytes": BYTES_MAX >> 10,
        }
    )
    try:
        return _read(consumer, _places(consumer, topic, partitions, from_start=from_start))
    finally:
        consumer.close()


def _places(consumer: Consumer, topic: str, partitions: int, *, from_start: bool) -> list[TopicPartition]:
    share = max(1, RECORDS_MAX // partitions)
    places = []
    for number in range(min(partitions, RECORDS_MAX)):
        place = TopicPartition(topic, number)
        low, high = consumer.get_watermark_offsets(place, timeout=REQUEST_TIMEOUT_S)
        place.offset = low if from_start else max(low, high - share)
        if place.offset < high:
            places.append(place)
    return places


def _read(consumer: Consumer, places: list[TopicPartition]) -> tuple[bytes, ...]:
    collection = Collection()
    waiting = {place.partition for place in places}
    share = {place.partition: max(1, RECORDS_MAX // len(places)) for place in places}
    consumer.assign(places)
    while waiting and not collection.is_complete:
        for message in consumer.consume(500, 0.1):
            partition = message.partition() or 0
            error = message.error()
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                waiting.discard(partition)
            elif share[partition] > 0:
                share[partition] -= 1
                collection.add(message.value())
                if share[partition] == 0:
                    waiting.discard(partition)
    return tuple(collection.records)
