"""The Kafka client of tests: the product's own, and what only tests need."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path

import psutil
from confluent_kafka import Consumer, TopicPartition

from harness.patience import PATIENCE, PATIENCE_S
from headrace.testing.patience import Patience
from headrace.testing.topics import Topics


@dataclass(frozen=True)
class KafkaClient(Topics):
    """Client with the patience of a test run."""

    patience: Patience = PATIENCE

    def recreate(self, topic: str) -> None:
        """Delete a topic and create another topic of the same name."""
        self.drop([topic])
        self.create(topic)

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


def brokers_of(folder: Path) -> list[psutil.Process]:
    """The processes of brokers that keep their data in `folder`."""
    return [
        process
        for process in psutil.process_iter(["name", "cmdline"])
        if process.info["name"] == "java" and str(folder) in " ".join(process.info["cmdline"] or [])
    ]
