"""The control-plane half of the Kafka store type."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import time
import uuid
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its types name them elsewhere
    AdminClient,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)

from headrace.connectors.base import (
    EntityDescription,
    PartitionDescription,
    PrintedRecord,
    PrintStart,
    RecordSink,
    RecordSource,
    Sample,
    StoreDescriptor,
    no_partition,
)
from headrace.connectors.kafka import options
from headrace.connectors.kafka.client import client_options
from headrace.connectors.kafka.connection import REQUEST_TIMEOUT_S, connect, describe_topic
from headrace.connectors.kafka.failures import of_client
from headrace.connectors.kafka.newest import described_partitions, newest_records
from headrace.connectors.kafka.options import record_place
from headrace.connectors.kafka.patterns import pattern
from headrace.connectors.kafka.sampling import sampled
from headrace.core.errors import ExternalError, UserError
from headrace.core.names import EntityPath
from headrace.core.properties import PropertyReader
from headrace.core.resultset import Cell
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT, INTEGER, VARCHAR, Struct

_CREATED_TIMEOUT_S = 10.0
_CREATED_POLL_S = 0.05

logger = logging.getLogger(__name__)


class KafkaClient:
    """Kafka through librdkafka: the active facets; `connectors.base` describes the contract of each method."""

    def test(self, store: Mapping[str, str]) -> None:
        """Raises ExternalError 57015 when no broker answers."""
        with _classified(store):
            connect(store)

    def list_entities(self, store: Mapping[str, str], within: EntityPath) -> list[tuple[str, bool]]:
        if within:
            return []
        with _classified(store):
            _admin, cluster = connect(store)
        return [(name, True) for name in sorted(cluster.topics) if not name.startswith("__")]

    def describe_entity(self, store: Mapping[str, str], path: EntityPath) -> EntityDescription:
        entity = _name(path)
        with _classified(store, entity):
            admin, _cluster = connect(store)
            topic = describe_topic(admin, entity)
            configs = _configs(admin, entity)
        replicas = len(topic.partitions[0].replicas) if topic.partitions else 0
        layout = {"partitions": len(topic.partitions), "replicas": replicas}
        return EntityDescription(path, layout, configs)

    def create_entity(
        self, store: Mapping[str, str], path: EntityPath, reader: PropertyReader
    ) -> EntityDescription:
        entity = _name(path)
        topic = NewTopic(
            options.topic_name(entity),
            num_partitions=reader.take(options.PARTITIONS) or 1,
            replication_factor=reader.take(options.REPLICAS) or -1,
            config=reader.take_all(options.TOPIC_CONFIGS),
        )
        with _classified(store, entity):
            admin, _cluster = connect(store)
            admin.create_topics([topic], request_timeout=REQUEST_TIMEOUT_S)[entity].result()
        return self.await_entity(store, path)

    def drop_entity(self, store: Mapping[str, str], path: EntityPath) -> None:
        entity = _name(path)
        with _classified(store, entity):
            admin, _cluster = connect(store)
            admin.delete_topics([entity], request_timeout=REQUEST_TIMEOUT_S)[entity].result()

    def insert(
        self,
        store: Mapping[str, str],
        path: EntityPath,
        *,
        key: bytes | None,
        value: bytes,
        options: Mapping[str, str],
    ) -> None:
        entity, partitions = _name(path), self.describe_entity(store, path).layout["partitions"]
        partition, headers = record_place(options)
        if partition >= partitions:
            raise no_partition(partition, range(partitions))
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                failures.append(error)

        with _classified(store, entity):
            producer = Producer(
                {**client_options(store), "message.timeout.ms": int(REQUEST_TIMEOUT_S * 1000)}
            )
            producer.produce(
                entity, key=key, value=value, partition=partition, headers=headers, on_delivery=delivered
            )
            producer.flush(REQUEST_TIMEOUT_S + 1)
            if failures:
                raise KafkaException(failures[0])

    def sample(
        self,
        store: Mapping[str, str],
        path: EntityPath,
        reader: PropertyReader,  # noqa: ARG002
        *,
        from_start: bool,
    ) -> Sample:
        topic = _name(path)
        partitions = self.describe_entity(store, path).layout["partitions"]
        with _classified(store, topic):
            return Sample(sampled(store, topic, partitions, from_start=from_start))

    def list_partitions(self, store: Mapping[str, str], path: EntityPath) -> list[PartitionDescription]:
        entity = _name(path)
        with _classified(store, entity):
            admin, _cluster = connect(store)
            return described_partitions(admin, describe_topic(admin, entity))

    async def print_entity(
        self, store: Mapping[str, str], path: EntityPath, *, start: PrintStart
    ) -> AsyncGenerator[PrintedRecord]:
        description = await asyncio.to_thread(self.describe_entity, store, path)
        if start.newest is not None:
            return _newest(store, description, start, start.newest)
        consumer = Consumer(
            {
                **client_options(store),
                "group.id": f"headrace-print-{uuid.uuid4()}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        await asyncio.to_thread(_assign, consumer, store, description, start)
        return self._consumed(consumer, store)

    async def _consumed(self, consumer: Consumer, store: Mapping[str, str]) -> AsyncGenerator[PrintedRecord]:
        try:
            while True:
                with _classified(store):
                    messages = await asyncio.to_thread(consumer.consume, 500, 0.1)
                    for message in messages:
                        yield _printed(message)
        finally:
            await asyncio.to_thread(consumer.close)

    def await_entity(self, store: Mapping[str, str], path: EntityPath) -> EntityDescription:
        """Describes a topic just made: a broker's metadata follows its controller by some milliseconds, by more where it is busy."""
        deadline = time.monotonic() + _CREATED_TIMEOUT_S
        while True:
            try:
                return self.describe_entity(store, path)
            except UserError as error:
                if error.state is not SqlState.ENTITY_NOT_FOUND or time.monotonic() > deadline:
                    raise
            time.sleep(_CREATED_POLL_S)


def _name(path: EntityPath) -> str:
    if len(path) != 1:
        raise UserError(
            SqlState.SYNTAX_ERROR,
            f"a topic's name has one part, found {len(path)}",
            hint='Put a name that contains dots in double quotes: "a.b".',
        )
    return path[0]


def _topic(reader: PropertyReader, name: str) -> EntityPath:
    return (reader.take(options.TOPIC) or name,)


_CLIENT = KafkaClient()
KAFKA = StoreDescriptor(
    type="kafka",
    label="Kafka",
    properties=options.PROPERTIES,
    read=options.store_properties,
    test=_CLIENT.test,
    path=_topic,
    layout=options.LAYOUT,
    pattern=pattern,
    on_clusters="java",
    tested_unasked=True,
    dataset_namespace=lambda properties: f"kafka://{properties['uris'].partition(',')[0]}",
    record_source=RecordSource(
        metadata=Struct(
            (("topic", VARCHAR), ("partition", INTEGER), ("offset", BIGINT), ("timestamp_type", VARCHAR))
        ),
        options=options.consumer_options,
        real_time=True,
        headers=True,
        movable_positions=True,
    ),
    record_sink=RecordSink(
        options.producer_options,
        upserts=True,
        exactly_once=True,
        real_time=True,
        # Records that nobody has repaired yet must not expire, at any age.
        side_topics={options.PARTITIONS.name: "1", f"{options.TOPIC_CONFIGS.name}retention.ms": "-1"},
        batches=True,
    ),
    entities=_CLIENT,
    partitions=_CLIENT,
    inserter=_CLIENT,
    printer=_CLIENT,
    record_options=options.record_options,
    print_options=options.print_options,
    print_positions=True,
    print_formats=True,
    print_newest=True,
    sampler=_CLIENT,
)
CONFLUENT_KAFKA = replace(KAFKA, type="confluent_kafka", label="ConfluentKafka")
"""Kafka as Confluent runs it: by another name of the dialect, and in nothing else another."""


def _configs(admin: AdminClient, topic: str) -> dict[str, str]:
    """Return the topic's own settings; none if the store's user may not see them."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    described = admin.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S)
    try:
        configs = described[resource].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise
        return {}
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {name: str(entry.value) for name, entry in configs.items() if entry.source == own}


async def _newest(
    store: Mapping[str, str], description: EntityDescription, start: PrintStart, count: int
) -> AsyncGenerator[PrintedRecord]:
    topic, present = _name(description.path), range(description.layout["partitions"])
    start.refuse_missing(present)
    chosen = sorted(start.partitions) if start.partitions is not None else present
    with _classified(store, topic):
        messages = await asyncio.to_thread(newest_records, store, topic, chosen, count)
    for message in messages:
        yield _printed(message)


def _assign(
    consumer: Consumer,
    properties: Mapping[str, str],
    description: EntityDescription,
    start: PrintStart,
) -> None:
    topic = _name(description.path)
    present = range(description.layout["partitions"])
    start.refuse_missing(present)
    chosen = sorted(start.partitions) if start.partitions is not None else present
    partitions = [TopicPartition(topic, number) for number in chosen]
    explicit = options.starting_offsets(start.options)
    with _classified(properties, topic):
        if isinstance(start.at, int):
            positions = [TopicPartition(topic, place.partition, start.at) for place in partitions]
            partitions = consumer.offsets_for_times(positions, timeout=REQUEST_TIMEOUT_S)
        for place in partitions:
            low, high = consumer.get_watermark_offsets(place, timeout=REQUEST_TIMEOUT_S)
            if not isinstance(start.at, int):
                place.offset = low if start.at == "earliest" else high
            elif place.offset < 0:  # nothing that late
                place.offset = high
            place.offset = min(max(explicit.get(place.partition, place.offset), low), high)
    consumer.assign(partitions)


@contextmanager
def _classified(properties: Mapping[str, str], entity: str | None = None) -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        translated = of_client(error, uris=properties["uris"], topic=entity)
        if isinstance(translated, ExternalError):
            # For the operator only: users must not learn which other server answers.
            reason: KafkaError = error.args[0]
            logger.warning("Kafka at %s: %s %s", properties["uris"], reason.name(), reason.str())
        raise translated from None


def _printed(message: Message) -> PrintedRecord:
    problem = message.error()
    if problem is not None:
        raise KafkaException(problem)
    _, timestamp = message.timestamp()
    metadata = f"partition {message.partition()}, offset {message.offset()}, timestamp {timestamp}"
    headers: list[tuple[str, bytes | None]] = message.headers() or []  # type: ignore[assignment]  # its type allows a dict
    return PrintedRecord(
        _text(message.key()),
        _text(message.value()),
        metadata,
        partition=message.partition(),
        offset=str(message.offset()),
        timestamp_ms=timestamp,
        headers=json.dumps({name: _text(value) for name, value in headers}, ensure_ascii=False),
        key_bytes=message.key(),
        value_bytes=message.value(),
    )


def _text(data: bytes | None) -> Cell:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return base64.b64encode(data).decode()
