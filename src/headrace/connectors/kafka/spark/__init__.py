"""The driver half of the Kafka store type. See `connectors.streaming` for what each function promises."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headrace.connectors.kafka.client import secrets, spark_options
from headrace.connectors.kafka.connection import REQUEST_TIMEOUT_S, connect
from headrace.connectors.kafka.spark.transactions import TransactionalOutput
from headrace.connectors.streaming import SinkRequest, SourceRequest
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.sqlstate import SqlState

__all__ = ["classify", "partition_counts", "secrets", "sink", "source"]

_END: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]


def partition_counts(request: SourceRequest) -> dict[str, int]:
    """Raises UserError 3D007 for a missing topic, ExternalError 57015 for a broker that does not answer."""
    _admin, numbers = _connect(request.properties, request.entity)
    return {request.entity: len(numbers)}


def source(session: SparkSession, request: SourceRequest) -> DataFrame:
    """Committed records of one topic. Lost data (expired before it was read) fails the query."""
    reader = (
        session.readStream.format("kafka")
        .options(**spark_options(request.properties))
        .options(
            subscribe=request.entity,
            includeHeaders="false",
            failOnDataLoss="true",
        )
    )
    # A store's transactions are respected: what was aborted is never read.
    reader = reader.option("kafka.isolation.level", "read_committed")
    # A topic that is dropped must not come back, empty, because its reader asked for it.
    reader = reader.option("kafka.allow.auto.create.topics", "false")
    for name, value in request.options.items():
        reader = reader.option(f"kafka.{name}", value)
    # Spark ignores it where the checkpoint has offsets.
    reader = reader.option("startingOffsets", _starting_offsets(request))
    if request.records_per_batch is not None:
        reader = reader.option("maxOffsetsPerTrigger", str(request.records_per_batch))
    return reader.load()


def sink(records: DataFrame, request: SinkRequest) -> DataStreamWriter | Callable[[DataFrame, int], None]:
    """Records (key, value) into a topic: Spark's own sink, or our transactions for exactly-once."""
    _connect(request.properties, request.entity)
    options = spark_options(request.properties) | {
        f"kafka.{name}": value for name, value in request.options.items()
    }
    if request.guarantee == "exactly_once":
        output = TransactionalOutput(
            records.sparkSession,
            query_id=request.query_id,
            topic=request.entity,
            options={name.removeprefix("kafka."): value for name, value in options.items()},
            checkpoint=request.checkpoint,
        )
        request.resources.callback(output.close)
        return output.write
    return records.writeStream.format("kafka").options(**options).option("topic", request.entity)


def classify(text: str) -> HeadraceError | None:
    """What the text of an exception (Java's or librdkafka's) says about the broker; None when it says nothing."""
    return next((make(text) for pattern, make in _CLASSES if re.search(pattern, text)), None)


def _starting_offsets(request: SourceRequest) -> str:
    """Explicit offsets, so that "latest" is the moment of the start and not of the first batch some time later.

    The broker is asked in any case: Spark would look for it, or for the topic, for minutes.
    """
    admin, numbers = _connect(request.properties, request.entity)
    if request.starting_position == "earliest":
        return "earliest"
    spec = _END
    if request.starting_position == "timestamp":
        spec = OffsetSpec.for_timestamp(request.starting_timestamp_ms or 0)
    partitions = [TopicPartition(request.entity, number) for number in numbers]
    offsets = {place.partition: offset for place, offset in _offsets(admin, partitions, spec).items()}
    beyond = [place for place in partitions if offsets[place.partition] < 0]
    if beyond:  # nothing that late: from the end
        ends = _offsets(admin, beyond, _END)
        offsets.update({place.partition: offset for place, offset in ends.items()})
    return json.dumps({request.entity: {str(number): offset for number, offset in sorted(offsets.items())}})


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
        raise _client_error(error) from None


def _connect(properties: Mapping[str, str], topic: str) -> tuple[AdminClient, list[int]]:
    """A client, and the numbers of the topic's partitions."""
    try:
        admin, cluster = connect(properties)
    except KafkaException as error:
        raise _client_error(error, topic) from None
    found = cluster.topics.get(topic)
    if found is None or found.error is not None or not found.partitions:
        raise _missing_topic(topic)
    return admin, sorted(found.partitions)


def _client_error(error: KafkaException, topic: str | None = None) -> HeadraceError:
    reason: KafkaError = error.args[0]
    if reason.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
        return _missing_topic(topic)
    return classify(reason.name()) or ExternalError(
        SqlState.REMOTE_UNAVAILABLE,
        f"Kafka reported {reason.name()}",
        hint="Check that the broker is up and that the store's properties are right.",
    )


def _missing_topic(topic: str | None = None) -> UserError:
    return UserError(
        SqlState.ENTITY_NOT_FOUND,
        f"the topic {topic!r} does not exist" if topic else "the topic does not exist",
        hint="LIST ENTITIES shows those that do; CREATE ENTITY makes one.",
    )


def _unreachable(_text: str) -> ExternalError:
    return ExternalError(
        SqlState.REMOTE_UNAVAILABLE,
        "the Kafka broker does not answer",
        hint="Check 'uris', the network, and that the listener speaks what 'tls.disabled' says.",
    )


def _refused(_text: str) -> ExternalError:
    return ExternalError(
        SqlState.REMOTE_UNAVAILABLE,
        "the Kafka broker refused the store's user",
        hint="Check 'kafka.sasl.username', 'kafka.sasl.password' and the rights that they give.",
    )


def _lost(_text: str) -> UserError:
    # Not the store's fault, which would be tried again: they do not come back.
    return UserError(
        SqlState.DATA_EXCEPTION,
        "records that the query had not read yet are gone from the topic",
        hint="They expired, or the topic was made anew. Terminate the query and create it again to go on from what is there.",
    )


def _fenced(_text: str) -> ExternalError:
    return ExternalError(
        SqlState.REMOTE_UNAVAILABLE,
        "another run of this query has taken over its Kafka transactions",
        hint="This run ends; nothing is written twice.",
    )


_CLASSES: tuple[tuple[str, Callable[[str], HeadraceError]], ...] = (
    (
        r"UnknownTopicOrPartition|UNKNOWN_TOPIC_OR_PART|_UNKNOWN_TOPIC|_UNKNOWN_PARTITION|not present in metadata"
        r"|UNKNOWN_TOPIC_ID",
        lambda _text: _missing_topic(),
    ),
    (
        r"SaslAuthentication|SASL_AUTHENTICATION|_AUTHENTICATION|AuthorizationException|AUTHORIZATION_FAILED"
        r"|SslAuthentication",
        _refused,
    ),
    (r"ProducerFenced|InvalidProducerEpoch|\b_FENCED\b|PRODUCER_FENCED|INVALID_PRODUCER_EPOCH", _fenced),
    (
        r"OffsetOutOfRange|KAFKA_DATA_LOSS|data loss|Some data may have been lost|offset was changed|is not available in Kafka",
        _lost,
    ),
    (
        r"org\.apache\.kafka\.common\.errors\.(Timeout|Disconnect|Network|Retriable)\w*|_ALL_BROKERS_DOWN|_TIMED_OUT"
        r"|_TRANSPORT|_RESOLVE|_MSG_TIMED_OUT|No resolvable bootstrap|Failed to (create new|construct) Kafka\w*",
        _unreachable,
    ),
)
