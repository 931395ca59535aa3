"""A plain Kafka client for tests: topics, records in, committed records out."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from harness.patience import PATIENCE_S, until

Pair = tuple[str | None, str | None]
_NOT_YET = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError._TRANSPORT)


@dataclass(frozen=True)
class KafkaClient:
    """Speaks to the broker at `bootstrap`, plaintext."""

    bootstrap: str

    def create(self, topic: str, *, partitions: int = 1, settings: Mapping[str, str] | None = None) -> None:
        """Create a topic that keeps records of any age, with topic `settings`, and wait until it is visible."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        config = {"retention.ms": "-1", **(settings or {})}
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=config)
        admin.create_topics([new])[topic].result()
        until(lambda: topic in admin.list_topics(timeout=PATIENCE_S).topics, f"the topic {topic} is visible")

    def recreate(self, topic: str) -> None:
        """Delete a topic and create another topic of the same name."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.delete_topics([topic])[topic].result()
        until(lambda: topic not in admin.list_topics(timeout=PATIENCE_S).topics, f"the topic {topic} is gone")
        self.create(topic)

    def grow(self, topic: str, *, partitions: int) -> None:
        """Increase the number of a topic's partitions, and return when they exist."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_partitions([NewPartitions(topic, partitions)])[topic].result()
        until(
            lambda: len(admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions) == partitions,
            f"the new partitions of {topic}",
        )

    def produce(
        self,
        topic: str,
        records: Iterable[Pair],
        *,
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> None:
        """Write (key, value) pairs in order; a value of None is a tombstone."""
        failures: list[object] = []
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5})
        place = {} if partition is None else {"partition": partition}
        when = {} if timestamp is None else {"timestamp": timestamp}
        for key, value in records:
            while True:
                try:
                    producer.produce(
                        topic,
                        value=None if value is None else value.encode(),
                        key=None if key is None else key.encode(),
                        on_delivery=lambda error, _message: failures.append(error) if error else None,
                        **place,
                        **when,
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
        producer.flush(PATIENCE_S)
        assert not failures, failures

    def ends(self, topic: str) -> dict[str, int]:
        """Partition to the offset of its next record."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": str(uuid.uuid4())})
        try:
            numbers = consumer.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
            places = [TopicPartition(topic, number) for number in numbers]
            return {
                str(place.partition): consumer.get_watermark_offsets(place, timeout=PATIENCE_S)[1]
                for place in places
            }
        finally:
            consumer.close()

    def consume(self, topic: str, *, isolation: str = "read_committed") -> list[Pair]:
        """All records of the topic from its beginning to its present end, by partition; bytes of a key that are no text as `\\xff`."""
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
            metadata = consumer.list_topics(topic, timeout=PATIENCE_S).topics[topic]
            open_partitions = set(metadata.partitions)
            places = [TopicPartition(topic, number, OFFSET_BEGINNING) for number in open_partitions]
            # The broker reports the end of a partition only when nothing more comes. In a topic that is being written, a record behind the
            # end shows that the end was reached.
            ends = {place.partition: _end(consumer, place) for place in places}
            consumer.assign(places)
            records: list[Pair] = []
            deadline = time.monotonic() + PATIENCE_S
            while open_partitions and time.monotonic() < deadline:
                for message in consumer.consume(5000, 0.5):
                    if message.error() is not None:
                        open_partitions.discard(message.partition())
                        continue
                    if message.offset() >= ends[message.partition()]:
                        open_partitions.discard(message.partition())
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


def _end(consumer: Consumer, place: TopicPartition) -> int:
    """Return the end of a partition. Retry while a broker that just started does not lead the partition yet."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            _, end = consumer.get_watermark_offsets(place, timeout=PATIENCE_S)
        except KafkaException as error:
            if error.args[0].code() not in _NOT_YET or time.monotonic() > deadline:
                raise
            time.sleep(0.3)
        else:
            return int(end)


def brokers_of(folder: Path) -> list[psutil.Process]:
    """The processes of brokers that keep their data in `folder`."""
    return [
        process
        for process in psutil.process_iter(["name", "cmdline"])
        if process.info["name"] == "java" and str(folder) in " ".join(process.info["cmdline"] or [])
    ]
