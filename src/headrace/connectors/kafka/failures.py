"""Errors of Kafka's clients, with cause, sentence and hint: one table for both clients.

librdkafka reports codes with names, Java's clients report exceptions with class names inside a text. Permanent refusals of a broker
(a record, a setting) are user errors; temporary failures (a broker away, a quota, too few replicas) are external errors.
"""

from __future__ import annotations

import re

from confluent_kafka import KafkaError, KafkaException

from headrace.connectors.reaction import Reaction
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.sqlstate import SqlState

_UNREACHABLE_STATE = SqlState.REMOTE_UNAVAILABLE
_RECORD_STATE = SqlState.DATA_EXCEPTION
_FOR_ITS_AUTHORS = re.compile(
    r"/(bootstrap|\d+): |ipv[46]#| \(after \d+ms in state \w+\)|error:[0-9A-F]+:SSL routines::|, verify that ssl\..*"
)
_FORBIDDEN = re.compile(r"Not authorized to access topics: \[([^\]]+)\]")
# The client rejects the broker's certificate, or the broker rejects the client's and reports that after the handshake.
_UNVERIFIED = re.compile(r"certificate|verify", re.IGNORECASE)
_REFUSED_CERTIFICATE = re.compile(r"\balert\b.*(certificate|unknown ca)", re.IGNORECASE)


_MISSING_TOPIC = Reaction(
    r"UnknownTopicOrPartition|UNKNOWN_TOPIC_OR_PART|_UNKNOWN_TOPIC|_UNKNOWN_PARTITION|not present in metadata"
    r"|UNKNOWN_TOPIC_ID|UnknownTopicId",
    UserError,
    SqlState.ENTITY_NOT_FOUND,
    "the topic does not exist",
    "LIST ENTITIES lists the topics; CREATE ENTITY creates one.",
)
_UNREACHABLE = Reaction(
    r"org\.apache\.kafka\.common\.errors\.(Timeout|Disconnect|Network|Retriable)\w*|_ALL_BROKERS_DOWN|_TIMED_OUT"
    r"|_TRANSPORT|_RESOLVE|_BAD_MSG|\b_SSL\b|No resolvable bootstrap|Failed to (create new|construct) Kafka\w*",
    ExternalError,
    _UNREACHABLE_STATE,
    "the Kafka broker does not answer",
    "Check 'uris', the network, and that 'tls.disabled' and 'kafka.sasl.hash_function' are what the listener expects.",
)
_UNAUTHENTICATED = Reaction(
    r"SaslAuthentication|SASL_AUTHENTICATION|UnsupportedSaslMechanism|UNSUPPORTED_SASL_MECHANISM|_AUTHENTICATION",
    ExternalError,
    _UNREACHABLE_STATE,
    "authentication: the Kafka broker refused the store's user",
    "Check 'kafka.sasl.hash_function' and the credentials that it requires.",
    detail=True,
)
_UNTRUSTED = Reaction(
    r"SslAuthentication",
    ExternalError,
    _UNREACHABLE_STATE,
    "TLS: there is no safe connection to the Kafka broker",
    "Check 'tls.ca_cert_file' (the authorities to trust), the host names in 'uris', and, if the broker requires "
    "a client's certificate 'tls.client.cert_file'.",
    detail=True,
)
# The first match counts: a broker's error about a record comes before the time-outs that follow from it.
_KINDS = (
    _MISSING_TOPIC,
    Reaction(
        r"TOPIC_ALREADY_EXISTS|TopicExistsException",
        UserError,
        SqlState.DUPLICATE_ENTITY,
        "the topic already exists",
        "Choose another name.",
    ),
    Reaction(
        r"PolicyViolation|POLICY_VIOLATION",
        UserError,
        SqlState.INVALID_PARAMETER,
        "a policy of the Kafka broker forbids this",
        "Ask the broker's operator which partitions, replicas and topic settings the policy allows.",
        detail=True,
    ),
    Reaction(
        r"INVALID_CONFIG|INVALID_PARTITIONS|INVALID_REPLICATION_FACTOR|INVALID_TOPIC_EXCEPTION|InvalidTopicException",
        UserError,
        SqlState.INVALID_PARAMETER,
        "the Kafka broker refused the topic",
        "Check its name, its partitions, its replicas (no more than there are brokers) and 'kafka.topic.…'.",
        detail=True,
    ),
    Reaction(
        r"max\.request\.size configuration",
        UserError,
        _RECORD_STATE,
        "a record is larger than the Kafka client sends",
        "Raise 'kafka.producer.max.request.size' of the sink, and max.message.bytes of its topic; or select less.",
    ),
    Reaction(
        r"RecordTooLarge|RecordBatchTooLarge|MSG_SIZE_TOO_LARGE|RECORD_LIST_TOO_LARGE",
        UserError,
        _RECORD_STATE,
        "a record is larger than the Kafka broker takes",
        "The limit is the topic's max.message.bytes, or the broker's message.max.bytes: raise it, or select less.",
    ),
    Reaction(
        r"accept message without key",
        UserError,
        _RECORD_STATE,
        "the topic is compacted, and such a topic takes no record without a key",
        "Set a key with PARTITION BY or 'key.columns', or change the topic's cleanup.policy.",
    ),
    Reaction(
        r"InvalidRecordException|\bINVALID_RECORD\b|InvalidTimestampException|\bINVALID_TIMESTAMP\b",
        UserError,
        _RECORD_STATE,
        "the Kafka broker refused a record as not valid for its topic",
        "Check the topic's settings: cleanup.policy (a compacted topic needs keys) and message.timestamp.*.",
    ),
    Reaction(
        r"TransactionalIdAuthorization|TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        ExternalError,
        _UNREACHABLE_STATE,
        "the store's user may not use transactions",
        "An exactly-once sink needs WRITE on transactional ids and READ on groups with the prefix 'headrace-'.",
    ),
    Reaction(
        r"\w+AuthorizationException|\w+_AUTHORIZATION_FAILED",
        ExternalError,
        _UNREACHABLE_STATE,
        "authorization: the Kafka broker refused the store's user, who lacks a right",
        "Sources need READ and DESCRIBE on their topics, sinks WRITE; new topics CREATE on the cluster.",
        detail=True,
    ),
    _UNAUTHENTICATED,
    _UNTRUSTED,
    Reaction(
        r"\bLoginException|OAuth token not set",
        ExternalError,
        _UNREACHABLE_STATE,
        "authentication: there is no token to log in to the Kafka broker with",
        "A continuous query retries automatically. Check that the token endpoint, or AWS, answers and accepts the client or role.",
    ),
    Reaction(
        r"ThrottlingQuotaExceeded|THROTTLING_QUOTA_EXCEEDED",
        ExternalError,
        _UNREACHABLE_STATE,
        "the Kafka broker's quota for the store's user is used up",
        "A continuous query retries automatically; who runs the broker can raise the quota.",
    ),
    Reaction(
        r"NotEnoughReplicas|NOT_ENOUGH_REPLICAS",
        ExternalError,
        _UNREACHABLE_STATE,
        "too few replicas of the topic are in sync to take a record",
        "A continuous query retries automatically. min.insync.replicas exceeds the brokers that are up, or the topic's replicas.",
    ),
    Reaction(
        r"KafkaStorageException|KAFKA_STORAGE_ERROR",
        ExternalError,
        _UNREACHABLE_STATE,
        "the Kafka broker cannot write to its disk",
        "A continuous query retries automatically; check the broker's log and its disk.",
    ),
    Reaction(
        r"UnsupportedVersionException|UNSUPPORTED_VERSION|_UNSUPPORTED_FEATURE",
        ExternalError,
        _UNREACHABLE_STATE,
        "the Kafka broker does not know a request that is needed",
        "Use Apache Kafka 2.5 or later, or a broker that supports the same requests.",
    ),
    Reaction(
        r"ProducerFenced|InvalidProducerEpoch|\b_FENCED\b|PRODUCER_FENCED|INVALID_PRODUCER_EPOCH",
        ExternalError,
        _UNREACHABLE_STATE,
        "another run of this query has taken over its Kafka transactions",
        "This run ends; nothing is written twice.",
    ),
    # Not the store's fault, which would be tried again: they do not come back.
    Reaction(
        r"OffsetOutOfRange|KAFKA_DATA_LOSS|data loss|Some data may have been lost|offset was changed"
        r"|is not available in Kafka",
        UserError,
        SqlState.DATA_EXCEPTION,
        "records were removed from the topic before the query read them",
        "They expired, or the topic was dropped and created again. "
        "Terminate the query and create it again to continue from the records that remain.",
    ),
    Reaction(
        r"you must specify all TopicPartitions",
        ExternalError,
        _UNREACHABLE_STATE,
        "topics or partitions were added while the query started to read",
        "A continuous query retries automatically.",
    ),
    _UNREACHABLE,
)


def classify(text: str) -> HeadraceError | None:
    """Return the broker's error in the text of an exception (Java's or librdkafka's); None for any other text."""
    kind = _kind(text)
    if kind is None:
        return None
    forbidden = _FORBIDDEN.search(text)
    return kind.as_error(f"topics {forbidden[1]}" if forbidden else "")


def of_client(error: KafkaException, *, uris: str | None = None, topic: str | None = None) -> HeadraceError:
    """Return librdkafka's error. `uris` are the addresses in the store's property, `topic` is the requested topic."""
    reason: KafkaError = error.args[0]
    kind = _kind_of(reason)
    if kind is None:
        return ExternalError(
            _UNREACHABLE_STATE,
            f"Kafka reported {reason.name()}: {reason.str()}",
            hint="Check that the broker is up and that the store's properties are right.",
        )
    if kind is _MISSING_TOPIC and topic is not None:
        return missing_topic(topic)
    if kind is _UNREACHABLE and uris is not None:
        return ExternalError(kind.state, f"{uris} did not answer as Kafka", hint=kind.hint)
    return kind.as_error(_in_short(reason))


def is_final(reason: KafkaError) -> bool:
    """True if a Kafka or TLS server refuses the request permanently: a retry changes nothing."""
    return _kind_of(reason) in (_UNAUTHENTICATED, _UNTRUSTED)


def is_silence(reason: KafkaError) -> bool:
    """True if no Kafka broker has responded."""
    return _kind_of(reason) is _UNREACHABLE


def missing_topic(topic: str) -> UserError:
    """Return 3D007, with the topic's name."""
    return UserError(_MISSING_TOPIC.state, f"the topic {topic!r} does not exist", hint=_MISSING_TOPIC.hint)


def _kind_of(reason: KafkaError) -> Reaction | None:
    # librdkafka has the same code for an untrusted certificate and for a server without TLS.
    if reason.code() == KafkaError._SSL and _UNVERIFIED.search(reason.str()):
        return _UNTRUSTED
    if reason.code() == KafkaError._TRANSPORT and _REFUSED_CERTIFICATE.search(reason.str()):
        return _UNTRUSTED
    return _kind(reason.name())


def _kind(text: str) -> Reaction | None:
    return next((kind for kind in _KINDS if re.search(kind.pattern, text)), None)


def _in_short(reason: KafkaError) -> str:
    """Return librdkafka's message without details for its authors, and without its own names of brokers."""
    return _FOR_ITS_AUTHORS.sub(lambda match: ": " if match[0].startswith("/") else "", reason.str())
