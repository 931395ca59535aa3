"""A plain Kafka client: topics, records in, committed records out."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its types name them elsewhere
    AdminClient,
    NewPartitions,
    NewTopic,
)

from headrace.testing.patience import Patience
from headrace.testing.script import ExpectationError

Pair = tuple[str | None, str | None]
_NOT_YET = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError._TRANSPORT)
_VISIBLE_S = 5.0
_INTERNAL = "__"


@dataclass(frozen=True)
class Topics:
    """Client of the broker at `bootstrap`, plaintext."""

    bootstrap: str
    patience: Patience

    def create(self, topic: str, *, partitions: int = 1, settings: Mapping[str, str] | None = None) -> None:
        """Create a topic that keeps records of any age, with topic `settings`, and wait until it is visible."""
        admin = self.admin()
        config = {"retention.ms": "-1", **(settings or {})}
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=config)
        admin.create_topics([new])[topic].result()
        self.patience.until(
            lambda: _error(admin, topic, self.patience.seconds) is None, f"the topic {topic} is visible"
        )

    def grow(self, topic: str, *, partitions: int) -> None:
        """Increase the number of a topic's partitions, and return when they exist."""
        admin = self.admin()
        admin.create_partitions([NewPartitions(topic, partitions)])[topic].result()
        self.patience.until(
            lambda: (
                len(admin.list_topics(topic, timeout=self.patience.seconds).topics[topic].partitions)
                == partitions
            ),
            f"the new partitions of {topic}",
        )

    def names(self) -> set[str]:
        """Return the names of all topics but the broker's own."""
        topics = self.admin().list_topics(timeout=self.patience.seconds).topics
        return {name for name in topics if not name.startswith(_INTERNAL)}

    def drop(self, topics: Iterable[str]) -> None:
        """Delete topics with their records, and wait until they are gone."""
        dropped = list(topics)
        if not dropped:
            return
        admin = self.admin()  # kept: without its client a deletion is not carried out
        for deletion in admin.delete_topics(dropped).values():
            deletion.result()
        self.patience.until(
            lambda: all(_is_unknown(_error(admin, topic, self.patience.seconds)) for topic in dropped),
            f"the topics {', '.join(dropped)} are gone",
        )

    def produce(
        self,
        topic: str,
        records: Iterable[Pair],
        *,
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> None:
        """Write (key, value) pairs in order; a value of None is a tombstone. Raise ExpectationError if the topic does not exist."""
        self._require(topic)
        failures: list[object] = []
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5})
        options: dict[str, Any] = {} if partition is None else {"partition": partition}
        options |= {} if timestamp is None else {"timestamp": timestamp}
        for key, value in records:
            while True:
                try:
                    producer.produce(
                        topic,
                        value=None if value is None else value.encode(),
                        key=None if key is None else key.encode(),
                        on_delivery=lambda error, _message: failures.append(error) if error else None,
                        **options,
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
        producer.flush(self.patience.seconds)
        if failures:
            raise ExpectationError(f"cannot write to the topic {topic}: {failures[0]}")

    def _require(self, topic: str) -> None:
        admin, deadline = self.admin(), time.monotonic() + _VISIBLE_S
        while _error(admin, topic, self.patience.seconds) is not None:
            if time.monotonic() > deadline:
                raise ExpectationError(f"the topic {topic} does not exist: create it with $ entity {topic}")
            time.sleep(0.1)

    def consume(self, topic: str, *, isolation: str = "read_committed") -> list[Pair]:
        """Return all records of the topic up to its present end, by partition; bytes of a key that are no text as `\\xff`."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": str(uuid.uuid4()),
                "enable.auto.commit": False,
                "isolation.level": isolation,
                "enable.partition.eof": True,
            }
        )
        try:
            metadata = consumer.list_topics(topic, timeout=self.patience.seconds).topics[topic]
            if _is_unknown(metadata.error):
                raise ExpectationError(f"the topic {topic} does not exist")
            open_partitions: set[int | None] = set(metadata.partitions)
            places = [TopicPartition(topic, number, OFFSET_BEGINNING) for number in metadata.partitions]
            # The broker reports the end of a partition only when nothing more comes. In a topic that is being written, a record behind the
            # end shows that the end was reached.
            ends = {place.partition: self._end(consumer, place) for place in places}
            consumer.assign(places)
            records: list[Pair] = []
            deadline = time.monotonic() + self.patience.seconds
            while open_partitions and time.monotonic() < deadline:
                for message in consumer.consume(5000, 0.5):
                    partition, offset = message.partition(), message.offset()
                    if message.error() is not None or partition is None or offset is None:
                        open_partitions.discard(partition)
                        continue
                    if offset >= ends[partition]:
                        open_partitions.discard(partition)
                    key, value = message.key(), message.value()
                    records.append(
                        (
                            key.decode(errors="backslashreplace") if key else None,
                            value.decode() if value is not None else None,
                        )
                    )
            return records
        finally:
            consumer.close()

    def admin(self) -> AdminClient:
        """Return a client for topics."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def _end(self, consumer: Consumer, place: TopicPartition) -> int:
        """Return the end of a partition. Retry while a broker that just started does not lead the partition yet."""
        deadline = time.monotonic() + self.patience.seconds
        while True:
            try:
                _, end = consumer.get_watermark_offsets(place, timeout=self.patience.seconds)
            except KafkaException as error:
                if error.args[0].code() not in _NOT_YET or time.monotonic() > deadline:
                    raise
                time.sleep(0.3)
            else:
                return int(end)


def _error(admin: AdminClient, topic: str, seconds: float) -> KafkaError | None:
    """Return the broker's error for a topic, by a request for this topic alone: a broker of many tests has thousands."""
    return admin.list_topics(topic, timeout=seconds).topics[topic].error


def _is_unknown(error: KafkaError | None) -> bool:
    return error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
