"""The control-plane half of the Kafka store type."""

from __future__ import annotations

import asyncio
import base64
import re
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
from headrace.connectors.kafka import options as kafka_options
from headrace.connectors.kafka.client import client_options
from headrace.connectors.kafka.connection import REQUEST_TIMEOUT_S, connect
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.resultset import Cell
from headrace.core.sqlstate import SqlState

_UNREACHABLE = {
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._RESOLVE,
    KafkaError._BAD_MSG,
    KafkaError._MSG_TIMED_OUT,
}
_FOR_ITS_AUTHORS = re.compile(
    r"/(bootstrap|\d+): |ipv[46]#| \(after \d+ms in state \w+\)|error:[0-9A-F]+:SSL routines::|, verify that ssl\..*"
)
_REFUSED = {
    KafkaError._AUTHENTICATION,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
}


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

    def store_properties(self, properties: Mapping[str, str]) -> dict[str, str]:
        return kafka_options.store_properties(properties)

    def public_properties(self, properties: Mapping[str, str]) -> dict[str, str]:
        return kafka_options.public_properties(properties)

    def source_options(self, properties: Mapping[str, str]) -> dict[str, str]:
        return kafka_options.allowed(properties, "kafka.consumer.", kafka_options.CONSUMER_PROPERTIES)

    def sink_options(self, properties: Mapping[str, str]) -> dict[str, str]:
        return kafka_options.allowed(properties, "kafka.producer.", kafka_options.PRODUCER_PROPERTIES)

    def test(self, properties: Mapping[str, str]) -> None:
        with self._classified():
            connect(properties)

    def list_entities(self, properties: Mapping[str, str]) -> list[str]:
        with self._classified():
            _admin, cluster = connect(properties)
        return sorted(name for name in cluster.topics if not name.startswith("__"))

    def describe_entity(self, properties: Mapping[str, str], entity: str) -> EntityDescription:
        with self._classified():
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
        return EntityDescription(entity, len(topic.partitions), replicas, changed)

    def create_entity(
        self, properties: Mapping[str, str], entity: str, *, options: Mapping[str, str]
    ) -> EntityDescription:
        partitions, replicas, configs = kafka_options.topic_layout(options)
        topic = NewTopic(
            kafka_options.topic_name(entity),
            num_partitions=partitions or 1,
            replication_factor=replicas if replicas else -1,
            config=configs,
        )
        with self._classified():
            admin, _cluster = connect(properties)
            admin.create_topics([topic], request_timeout=REQUEST_TIMEOUT_S)[entity].result()
        return self._created(properties, entity)

    def drop_entity(self, properties: Mapping[str, str], entity: str) -> None:
        with self._classified():
            admin, _cluster = connect(properties)
            admin.delete_topics([entity], request_timeout=REQUEST_TIMEOUT_S)[entity].result()

    def insert(self, properties: Mapping[str, str], entity: str, *, key: bytes | None, value: bytes) -> None:
        self.describe_entity(properties, entity)
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                failures.append(error)

        with self._classified():
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
        await asyncio.to_thread(self._assign, consumer, description, from_beginning)
        return self._consumed(consumer)

    async def _consumed(self, consumer: Consumer) -> AsyncIterator[PrintedRecord]:
        try:
            while True:
                with self._classified():
                    messages = await asyncio.to_thread(consumer.consume, 500, 0.1)
                    for message in messages:
                        yield _printed(message)
        finally:
            await asyncio.to_thread(consumer.close)

    def classify(self, error: Exception) -> HeadraceError:
        if isinstance(error, HeadraceError):
            return error
        if not isinstance(error, KafkaException):
            return ExternalError(
                SqlState.REMOTE_UNAVAILABLE, f"the Kafka client failed: {type(error).__name__}"
            )
        kafka_error: KafkaError = error.args[0]
        code = kafka_error.code()
        reason = _reason(kafka_error)
        if code == KafkaError._SSL:
            return ExternalError(
                SqlState.REMOTE_UNAVAILABLE,
                f"there is no safe connection to the Kafka broker: {reason}",
                hint="Check 'tls.ca_cert_file', which says whose certificates to trust, and the host names in 'uris'.",
            )
        if code in _UNREACHABLE:
            return ExternalError(
                SqlState.REMOTE_UNAVAILABLE,
                f"no Kafka broker answered: {reason}",
                hint="Check 'uris', and that 'tls.disabled' and 'kafka.sasl.hash_function' are what the listener expects.",
            )
        if code in _REFUSED:
            return ExternalError(
                SqlState.REMOTE_UNAVAILABLE,
                f"the Kafka broker refused: {reason}",
                hint="Check 'kafka.sasl.username', 'kafka.sasl.password' and the rights that they give.",
            )
        if code in (
            KafkaError.UNKNOWN_TOPIC_OR_PART,
            KafkaError._UNKNOWN_TOPIC,
            KafkaError._UNKNOWN_PARTITION,
        ):
            return UserError(
                SqlState.ENTITY_NOT_FOUND,
                "the topic does not exist",
                hint="LIST ENTITIES shows those that do; CREATE ENTITY makes one.",
            )
        if code == KafkaError.TOPIC_ALREADY_EXISTS:
            return UserError(SqlState.DUPLICATE_ENTITY, "the topic already exists")
        if code in (
            KafkaError.INVALID_CONFIG,
            KafkaError.INVALID_PARTITIONS,
            KafkaError.INVALID_REPLICATION_FACTOR,
        ):
            return UserError(
                SqlState.INVALID_PARAMETER, f"the Kafka broker refused the topic: {kafka_error.str()}"
            )
        if code == KafkaError.MSG_SIZE_TOO_LARGE:
            return ExternalError(
                SqlState.REMOTE_UNAVAILABLE,
                "the record is larger than the Kafka broker takes",
                hint="The limit is the topic's max.message.bytes, or the broker's message.max.bytes.",
            )
        return ExternalError(
            SqlState.REMOTE_UNAVAILABLE, f"Kafka reported {kafka_error.name()}: {kafka_error.str()}"
        )

    def _assign(self, consumer: Consumer, description: EntityDescription, from_beginning: bool) -> None:
        partitions = []
        for number in range(description.partitions):
            partition = TopicPartition(description.name, number)
            with self._classified():
                low, high = consumer.get_watermark_offsets(partition, timeout=REQUEST_TIMEOUT_S)
            partition.offset = low if from_beginning else high
            partitions.append(partition)
        consumer.assign(partitions)

    def _created(self, properties: Mapping[str, str], entity: str) -> EntityDescription:
        # A broker's metadata follows its controller by some milliseconds.
        for _ in range(50):
            try:
                return self.describe_entity(properties, entity)
            except UserError as error:
                if error.state is not SqlState.ENTITY_NOT_FOUND:
                    raise
        return self.describe_entity(properties, entity)

    @contextmanager
    def _classified(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            raise self.classify(error) from None


def _reason(error: KafkaError) -> str:
    """librdkafka's words without what only its authors read, and without the names of its own options."""
    if error.code() == KafkaError._ALL_BROKERS_DOWN:
        return "every connection was closed"
    return _FOR_ITS_AUTHORS.sub(_shortened, error.str())


def _shortened(match: re.Match[str]) -> str:
    return ": " if match[0].startswith("/") else ""


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
