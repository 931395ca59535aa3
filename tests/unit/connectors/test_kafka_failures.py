"""Errors of Kafka's clients for users: state, cause, sentence and hint."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.connectors.kafka.failures import classify, is_final, is_silence, of_client

JAVA = "org.apache.kafka.common.errors."


@pytest.mark.parametrize(
    ("text", "state", "domain", "message"),
    [
        ("UnknownTopicOrPartitionException", "3D007", "user", "does not exist"),
        ("RecordTooLargeException: The request included a message larger", "22000", "user", "larger than the Kafka broker"),
        (
            "RecordTooLargeException: The message is 5 bytes when serialized which is larger than 4, which is the value of "
            "the max.request.size configuration.",
            "22000", "user", "larger than the Kafka client sends",
        ),
        ("PolicyViolationException: no", "3D008", "user", "policy"),
        ("InvalidTimestampException: out of range", "22000", "user", "refused a record"),
        ("ThrottlingQuotaExceededException", "57015", "external", "quota"),
        ("NotEnoughReplicasException", "57015", "external", "too few replicas"),
        ("NotEnoughReplicasAfterAppendException", "57015", "external", "too few replicas"),
        ("TopicAuthorizationException", "57015", "external", "who lacks a right"),
        ("TransactionalIdAuthorizationException", "57015", "external", "transactions"),
        ("SaslAuthenticationException", "57015", "external", "refused the store's user"),
        ("KafkaStorageException", "57015", "external", "disk"),
        (
            "KafkaException: Failed to construct kafka consumer\nCaused by: javax.security.auth.login.LoginException: An internal "
            "error occurred while retrieving token from callback handler",
            "57015", "external", "no token",
        ),
        ("UnsupportedVersionException", "57015", "external", "does not know a request"),
        ("TimeoutException: Expiring 1 record(s)", "57015", "external", "does not answer"),
    ],
)  # fmt: skip
def test_an_exception_of_javas_clients(text: str, state: str, domain: str, message: str) -> None:
    failure = classify(f"org.apache.spark.SparkException: Job aborted\nCaused by: {JAVA}{text}")
    assert failure is not None
    assert (failure.state.value, failure.domain.value) == (state, domain)
    assert message in failure.message
    assert failure.hint


def test_a_topic_that_may_not_be_read_is_named() -> None:
    failure = classify(
        f"Caused by: {JAVA}TopicAuthorizationException: Not authorized to access topics: [orders_us]"
    )
    assert failure is not None
    assert failure.message.endswith("who lacks a right: topics orders_us")


def test_a_record_without_a_key_is_distinguished_from_other_invalid_records() -> None:
    refused = "org.apache.kafka.common.InvalidRecordException: "
    keyless = classify(f"{refused}Compacted topic cannot accept message without key in topic partition t-0.")
    assert keyless is not None
    assert "compacted" in keyless.message
    other = classify(f"{refused}One or more records have been rejected")
    assert other is not None
    assert "not valid for its topic" in other.message


def test_what_is_not_kafkas_says_nothing() -> None:
    assert classify("java.lang.ArithmeticException: / by zero; security.protocol = SASL_SSL") is None


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (KafkaError._TRANSPORT, "a:1/bootstrap: Connect to ipv4#10.0.0.1:1 failed: Connection refused"),
        (KafkaError._BAD_MSG, "a:1/bootstrap: Receive failed: Invalid response size 1213486160"),
        (KafkaError._RESOLVE, "a:1/bootstrap: Failed to resolve 'a:1': Name or service not known"),
        (KafkaError._SSL, "ssl://a:1/bootstrap: SSL handshake failed: wrong version number"),
        (KafkaError._TIMED_OUT, "Failed to get metadata: Local: Timed out"),
    ],
)
def test_every_server_other_than_kafka_causes_the_same_error(code: int, words: str) -> None:
    error = KafkaError(code, words)
    failure = of_client(KafkaException(error), uris="a:1")
    assert failure.text() == (
        "a:1 did not answer as Kafka\nHint: Check 'uris', the network, and that 'tls.disabled' and "
        "'kafka.sasl.hash_function' are what the listener expects."
    )
    assert is_silence(error)
    assert not is_final(error)


def test_refusals_of_a_broker_are_reported() -> None:
    password = KafkaError(
        KafkaError._AUTHENTICATION,
        "ssl://a:1/bootstrap: SASL authentication failed: no (after 3ms in state AUTH)",
    )
    assert of_client(KafkaException(password), uris="a:1").message.startswith(
        "authentication: the Kafka broker refused the store's user: "
    )
    certificate = KafkaError(
        KafkaError._SSL,
        "ssl://a:1/bootstrap: SSL handshake failed: certificate verify failed, verify that ssl.ca.location",
    )
    failure = of_client(KafkaException(certificate), uris="a:1")
    assert "TLS: there is no safe connection" in failure.message
    assert "ssl.ca" not in failure.message
    assert "'tls.ca_cert_file'" in (failure.hint or "")
    assert is_final(password)
    assert is_final(certificate)
