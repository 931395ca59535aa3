"""The driver half of the Kafka store type. `connectors.streaming` describes the contract of each function."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headrace.connectors.kafka.client import secrets
from headrace.connectors.kafka.connection import REQUEST_TIMEOUT_S, connect, describe_topic, identify, probe
from headrace.connectors.kafka.failures import classify, missing_topic, of_client
from headrace.connectors.kafka.options import STARTING_OFFSETS, starting_offsets
from headrace.connectors.kafka.patterns import java_pattern, pattern
from headrace.connectors.kafka.spark.tokens import java_options
from headrace.connectors.kafka.spark.transactions import (
    BucketedOutput,
    TransactionalOutput,
    bucket_count,
    is_local,
)
from headrace.connectors.streaming import SinkRequest, SourceRequest
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState

__all__ = [
    "CLASSES",
    "NOISY_LOGGERS",
    "classify",
    "identify",
    "probe",
    "secrets",
    "side_topic",
    "sink",
    "source",
    "splits",
    "write",
]

CLASSES = (
    "org.apache.spark.sql.kafka010.KafkaFromFirstRecords",
    "org.apache.spark.sql.kafka010.KafkaSourceProvider",
    "org.apache.spark.sql.kafka010.KafkaMicroBatchStream",
    "org.apache.spark.sql.kafka010.consumer.KafkaDataConsumer",
    "org.apache.spark.sql.kafka010.KafkaStreamingWrite",
    "org.apache.kafka.clients.consumer.KafkaConsumer",
    "org.apache.kafka.clients.producer.KafkaProducer",
    "org.apache.kafka.clients.admin.KafkaAdminClient",
)
_SOURCE = "org.apache.spark.sql.kafka010.KafkaFromFirstRecords"
NOISY_LOGGERS = ("org.apache.spark.sql.kafka010.KafkaDataConsumer", "org.apache.kafka.clients")

RECORDS = (
    "key",
    "value",
    "timestamp",
    "topic AS entity",
    "partition AS split",
    "offset AS sequence",
    "named_struct('topic', topic, 'partition', partition, 'offset', offset, 'timestamp_type', "
    "CASE timestampType WHEN 0 THEN 'CreateTime' WHEN 1 THEN 'LogAppendTime' END) AS metadata",
)

_FETCH_WAIT_MS = "1"
"""Of a micro-batch, which reads what is known to be there. Kafka's client asks for more as soon as it hands over its last records, and a
broker answers a connection's requests in turn: whatever is asked next waits behind that one, by Kafka's default for half a second."""

_BEGINNING: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_END: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]


def splits(request: SourceRequest) -> dict[str, list[int]]:
    """Raises UserError 3D007 for a missing topic, ExternalError 57015 for a broker that does not answer."""
    return _partitions(request)[1]


def source(session: SparkSession, request: SourceRequest) -> DataFrame:
    """Return committed records of the request's topics. Lost data (expired before it was read) fails the query; a partition
    that is new to a running query is read from its start."""
    reader = (
        session.readStream.format(_SOURCE)
        .options(**java_options(session, request.properties))
        .option(*_subscription(request))
        .options(
            includeHeaders=str(request.headers).lower(),
            failOnDataLoss="true",
        )
    )
    # Aborted transactions are never read.
    reader = reader.option("kafka.isolation.level", "read_committed")
    # A reader's request must not create a dropped topic again, empty.
    reader = reader.option("kafka.allow.auto.create.topics", "false")
    if request.records_per_batch is not None:
        reader = reader.option("kafka.fetch.max.wait.ms", _FETCH_WAIT_MS)
    for name, value in request.options.items():
        if name != STARTING_OFFSETS.name:
            reader = reader.option(f"kafka.{name}", value)
    # Spark ignores it where the checkpoint has offsets.
    reader = reader.option("startingOffsets", _starting_offsets(request))
    if request.records_per_batch is not None:
        reader = reader.option("maxOffsetsPerTrigger", str(request.records_per_batch))
    return reader.load().selectExpr(*RECORDS, *(["headers"] if request.headers else []))


def sink(records: DataFrame, request: SinkRequest) -> DataStreamWriter | Callable[[DataFrame, int], None]:
    """Return a writer of records (key, value, perhaps headers) into a topic: Spark's own sink, or our transactions."""
    options = _output_options(records.sparkSession, request)
    if request.guarantee == "exactly_once":
        buckets = bucket_count(records, request.checkpoint)
        return _transactional(records.sparkSession, request, options, buckets)
    return records.writeStream.format("kafka").options(**options)


def write(session: SparkSession, request: SinkRequest) -> Callable[[DataFrame, int], None]:
    """Return a writer as `sink` does, batch by batch."""
    options = _output_options(session, request)
    if request.guarantee == "exactly_once":
        return _transactional(session, request, options, buckets=1)
    return lambda batch, _epoch: batch.write.format("kafka").options(**options).save()


def _output_options(session: SparkSession, request: SinkRequest) -> dict[str, str]:
    """Return the options of Spark's sink. Raises UserError 3D007 for a missing topic."""
    topic = request.entity[0]
    _connect(request.properties, topic)
    own = {f"kafka.{name}": value for name, value in request.options.items()}
    return java_options(session, request.properties) | own | {"topic": topic}


def _transactional(
    session: SparkSession, request: SinkRequest, options: Mapping[str, str], buckets: int
) -> Callable[[DataFrame, int], None]:
    client_options = {
        name.removeprefix("kafka."): value for name, value in options.items() if name.startswith("kafka.")
    }
    writer: dict[str, Any] = {
        "query_id": request.query_id,
        "topic": request.entity[0],
        "options": client_options,
        "checkpoint": request.checkpoint,
    }
    if buckets > 1 or not is_local(session):
        return BucketedOutput(session, **writer, buckets=buckets).write
    output = TransactionalOutput(session, **writer)
    request.resources.callback(output.close)
    return output.write


def side_topic(session: SparkSession, request: SinkRequest) -> str:
    """Return the name by which tasks send records to the topic; it ends with the query."""
    topic = request.entity[0]
    _connect(request.properties, topic)
    java: Any = session._jvm
    options = java.java.util.HashMap()
    for name, value in java_options(session, request.properties).items():
        options.put(name.removeprefix("kafka."), value)
    for name, value in request.options.items():
        options.put(name, value)
    opened = str(uuid.uuid4())
    side_topics = java.io.headrace.spark.SideTopic
    side_topics.open(opened, topic, request.query_id, options)
    request.resources.callback(side_topics.close, opened)
    return opened


def _starting_offsets(request: SourceRequest) -> str:
    """Return explicit offsets, so that "latest" is the time of the start and not of the first batch.

    The broker is always contacted here, since Spark would search for a missing broker or topic for minutes.
    """
    admin, present = _partitions(request)
    explicit = starting_offsets(request.options)
    if request.starting_position == "earliest" and not explicit:
        return "earliest"
    spec = _BEGINNING if request.starting_position == "earliest" else _END
    if request.starting_position == "timestamp":
        spec = OffsetSpec.for_timestamp(request.starting_timestamp_ms or 0)
    partitions = [TopicPartition(topic, number) for topic, numbers in present.items() for number in numbers]
    offsets = _offsets(admin, partitions, spec)
    beyond = [place for place in partitions if offsets[place] < 0]
    if beyond:  # nothing that late: from the end
        offsets |= _offsets(admin, beyond, _END)
    if explicit:  # of one topic
        _check(explicit, request.entity[0], admin, partitions)
    begins: dict[str, dict[str, int]] = {topic: {} for topic in present}
    for place in sorted(partitions):
        begins[place.topic][str(place.partition)] = explicit.get(place.partition, offsets[place])
    return json.dumps(begins)


def _check(
    explicit: Mapping[int, int], topic: str, admin: AdminClient, partitions: list[TopicPartition]
) -> None:
    """Raise UserError 3D008 for an offset outside of its partition, for which Spark would report lost data."""
    explicit_places = [place for place in partitions if place.partition in explicit]
    first, end = _offsets(admin, explicit_places, _BEGINNING), _offsets(admin, explicit_places, _END)
    if len(explicit_places) < len(explicit):
        numbers = {place.partition for place in partitions}
        wrong = f"the topic {topic!r} has no partition {min(explicit.keys() - numbers)}"
    else:
        ranges = {place: (first[place], end[place]) for place in explicit_places}
        outside = [
            f"partition {place.partition} of the topic {topic!r} has the offsets {low} to {high}, found {explicit[place.partition]}"
            for place, (low, high) in ranges.items()
            if not low <= explicit[place.partition] <= high
        ]
        if not outside:
            return
        wrong = outside[0]
    raise UserError(
        SqlState.INVALID_PARAMETER,
        f"'{STARTING_OFFSETS.name}': {wrong}",
        hint="Use offsets that the topic contains, or the last offset plus one to read new records only.",
    )


def _offsets(
    admin: AdminClient, partitions: list[TopicPartition], spec: OffsetSpec
) -> dict[TopicPartition, int]:
    futures = admin.list_offsets(
        dict.fromkeys(partitions, spec),
        isolation_level=IsolationLevel.READ_COMMITTED,
        request_timeout=REQUEST_TIMEOUT_S,
    )
    try:
        return {place: future.result().offset for place, future in futures.items()}
    except KafkaException as error:
        raise of_client(error) from None


def _subscription(request: SourceRequest) -> tuple[str, str]:
    """Return Spark's option of the topics; by a pattern it finds new ones with every batch."""
    topic = request.entity[0]
    return (
        ("subscribe", topic) if pattern(request.entity) is None else ("subscribePattern", java_pattern(topic))
    )


def _partitions(request: SourceRequest) -> tuple[AdminClient, dict[str, list[int]]]:
    """Return a client, and the present partitions of each topic.

    Raises UserError 3D007 for a missing one, and for none.
    """
    several = pattern(request.entity)
    if several is None:
        admin, numbers = _connect(request.properties, request.entity[0])
        return admin, {request.entity[0]: numbers}
    try:
        admin, cluster = connect(request.properties)
    except KafkaException as error:
        raise of_client(error, uris=request.properties["uris"]) from None
    for (name,) in several.names:
        if name not in cluster.topics:
            _connect(request.properties, name)  # which says why
    partitions = {
        name: sorted(topic.partitions) for name, topic in cluster.topics.items() if several.matches((name,))
    }
    if not partitions:
        raise missing_topic(request.entity[0])
    return admin, partitions


def _connect(properties: Mapping[str, str], topic: str) -> tuple[AdminClient, list[int]]:
    """Return a client, and the numbers of the topic's partitions."""
    try:
        admin, _cluster = connect(properties)
        description = describe_topic(admin, topic)
    except KafkaException as error:
        raise of_client(error, uris=properties["uris"], topic=topic) from None
    return admin, sorted(partition.id for partition in description.partitions)
