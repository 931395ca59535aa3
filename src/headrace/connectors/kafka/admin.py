"""The control-plane half of the Kafka store type."""

from __future__ import annotations

import asyncio
import base64
import logging
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its types name them elsewhere
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)

from headrace.connectors.base import Capabilities, EntityDescription, PrintedRecord
from headrace.connectors.kafka import options
from headrace.connectors.kafka.client import client_options
from headrace.connectors.kafka.connection import REQUEST_TIMEOUT_S, connect
from headrace.connectors.kafka.failures import of_client
from headrace.core.errors import ExternalError, UserError
from headrace.core.properties import PropertyReader, PropertySpec, Specs
from headrace.core.resultset import Cell
from headrace.core.sqlstate import SqlState

logger = logging.getLogger(__name__)


class KafkaConnector:
    """Kafka through librdkafka. See `connectors.base.Connector` for what each method promises."""

    type: ClassVar[str] = "kafka"
    label: ClassVar[str] = "Kafka"
    capabilities: ClassVar[Capabilities] = Capabilities(
        streaming_source=True,
        append_sink=True,
        upsert_sink=True,
        exactly_once_sink=True,
        real_time=True,
        creates_entities=True,
        prints=True,
    )
    properties: ClassVar[Specs] = options.PROPERTIES
    layout: ClassVar[Mapping[str, PropertySpec[int]]] = options.LAYOUT
    # What nobody has mended yet must not expire, whatever the age of its records.
    dead_letter_properties: ClassVar[Mapping[str, str]] = {
        options.PARTITIONS.name: "1",
        f"{options.TOPIC_CONFIGS.name}retention.ms": "-1",
    }

    def store_properties(self, reader: PropertyReader) -> dict[str, str]:
        return options.store_properties(reader)

    def source_options(self, reader: PropertyReader) -> dict[str, str]:
        return options.consumer_options(reader)

    def sink_options(self, reader: PropertyReader) -> dict[str, str]:
        return options.producer_options(reader)

    def test(self, properties: Mapping[str, str]) -> None:
        with _classified(properties):
            connect(properties)

    def list_entities(self, properties: Mapping[str, str]) -> list[str]:
        with _classified(properties):
            _admin, cluster = connect(properties)
        return sorted(name for name in cluster.topics if not name.startswith("__"))

    def describe_entity(self, properties: Mapping[str, str], entity: str) -> EntityDescription:
        with _classified(properties, entity):
            admin, cluster = connect(properties)
            if entity not in cluster.topics:
                raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
            topic = cluster.topics[entity]
            if topic.error is not None:
                raise KafkaException(topic.error)
            resource = ConfigResource(ResourceType.TOPIC, entity)
            described = admin.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S)
            configs = described[resource].result()
        own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        changed = {name: str(entry.value) for name, entry in configs.items() if entry.source == own}
        replicas = len(next(iter(topic.partitions.values())).replicas) if topic.partitions else 0
        layout = {"partitions": len(topic.partitions), "replicas": replicas}
        return EntityDescription(entity, layout, changed)

    def create_entity(
        self, properties: Mapping[str, str], entity: str, reader: PropertyReader
    ) -> EntityDescription:
        topic = NewTopic(
            options.topic_name(entity),
            num_partitions=reader.take(options.PARTITIONS) or 1,
            replication_factor=reader.take(options.REPLICAS) or -1,
            config=reader.take_all(options.TOPIC_CONFIGS),
        )
        with _classified(properties, entity):
            admin, _cluster = connect(properties)
            admin.create_topics([topic], request_timeout=REQUEST_TIMEOUT_S)[entity].result()
        return self._created(properties, entity)

    def drop_entity(self, properties: Mapping[str, str], entity: str) -> None:
        with _classified(properties, entity):
            admin, _cluster = connect(properties)
            admin.delete_topics([entity], request_timeout=REQUEST_TIMEOUT_S)[entity].result()

    def insert(self, properties: Mapping[str, str], entity: str, *, key: bytes | None, value: bytes) -> None:
        self.describe_entity(properties, entity)
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                failures.append(error)

        with _classified(properties, entity):
            producer = Producer(
                {**client_options(properties), "message.timeout.ms": int(REQUEST_TIMEOUT_S * 1000)}
            )
            producer.produce(entity, key=key, value=value, on_delivery=delivered)
            producer.flush(REQUEST_TIMEOUT_S + 1)
            if failures:
                raise KafkaException(failures[0])

    async def print_entity(
        self, properties: Mapping[str, str], entity: str, *, from_beginning: bool
    ) -> AsyncIterator[PrintedRecord]:
        description = await asyncio.to_thread(self.describe_entity, properties, entity)
        consumer = Consumer(
            {
                **client_options(properties),
                "group.id": f"headrace-print-{uuid.uuid4()}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        await asyncio.to_thread(_assign, consumer, properties, description, from_beginning)
        return self._consumed(consumer, properties)

    async def _consumed(
        self, consumer: Consumer, properties: Mapping[str, str]
    ) -> AsyncIterator[PrintedRecord]:
        try:
            while True:
                with _classified(properties):
                    messages = await asyncio.to_thread(consumer.consume, 500, 0.1)
                    for message in messages:
                        yield _printed(message)
        finally:
            await asyncio.to_thread(consumer.close)

    def _created(self, properties: Mapping[str, str], entity: str) -> EntityDescription:
        # A broker's metadata follows its controller by some milliseconds.
        for _ in range(50):
            try:
                return self.describe_entity(properties, entity)
            except UserError as error:
                if error.state is not SqlState.ENTITY_NOT_FOUND:
                    raise
        return self.describe_entity(properties, entity)


def _assign(
    consumer: Consumer, properties: Mapping[str, str], description: EntityDescription, from_beginning: bool
) -> None:
    partitions = []
    for number in range(description.layout["partitions"]):
        partition = TopicPartition(description.name, number)
        with _classified(properties, description.name):
            low, high = consumer.get_watermark_offsets(partition, timeout=REQUEST_TIMEOUT_S)
        partition.offset = low if from_beginning else high
        partitions.append(partition)
    consumer.assign(partitions)


@contextmanager
def _classified(properties: Mapping[str, str], entity: str | None = None) -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        told = of_client(error, uris=properties["uris"], topic=entity)
        if isinstance(told, ExternalError):
            # For the operator: a user is not told what it is that does not answer as Kafka.
            reason: KafkaError = error.args[0]
            logger.warning("Kafka at %s: %s %s", properties["uris"], reason.name(), reason.str())
        raise told from None


def _printed(message: Message) -> PrintedRecord:
    problem = message.error()
    if problem is not None:
        raise KafkaException(problem)
    _, timestamp = message.timestamp()
    metadata = f"partition {message.partition()}, offset {message.offset()}, timestamp {timestamp}"
    return PrintedRecord(_text(message.key()), _text(message.value()), metadata)


def _text(data: bytes | None) -> Cell:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return base64.b64encode(data).decode()
