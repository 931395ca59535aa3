"""A Kafka store's properties: what is accepted, and what a hostile one meets."""

from __future__ import annotations

import pytest

from headrace.connectors.kafka import options
from headrace.connectors.kafka.options import consumer_options, topic_name
from headrace.core.errors import UserError
from headrace.core.properties import PropertyReader, Scope, masked, of_scope, stored
from headrace.core.sqlstate import SqlState


def store_properties(given: dict[str, str]) -> dict[str, str]:
    return options.store_properties(PropertyReader(stored(given), options.STORE, what="a Kafka store"))


def test_properties_become_canonical_text() -> None:
    found = store_properties({"uris": " b1:9092, [::1]:9093 ", "tls.disabled": "true"})
    assert found == {
        "uris": "b1:9092,[::1]:9093",
        "kafka.sasl.hash_function": "NONE",
        "tls.disabled": "TRUE",
        "tls.verify_server_hostname": "TRUE",
    }


def test_the_other_spelling_of_authentication_means_the_same() -> None:
    given = {
        "uris": "b:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "u",
        "sasl.password": "p",
    }
    found = store_properties(given)
    assert (found["kafka.sasl.hash_function"], found["tls.disabled"]) == ("SHA512", "FALSE")
    assert masked(found, options.STORE)["kafka.sasl.password"] == "****"


@pytest.mark.parametrize(
    "properties",
    [
        {"uris": "http://169.254.169.254/latest"},
        {"uris": "b:0"},
        {"uris": "b:99999"},
        {"uris": "b:1;ssl.truststore.location=/etc/passwd"},
        {"uris": "b:1", "kafka.sasl.hash_function": "KERBEROS"},
        {"uris": "b:1", "kafka.sasl.username": "u"},
        {"uris": "b:1", "kafka.sasl.hash_function": "PLAIN"},
        {"uris": "b:1", "sasl.jaas.config": "evil"},
        {"uris": "b:1", "tls.ca_cert_file": "/etc/passwd"},
        {"uris": "b:1", "tls.disabled": "perhaps"},
    ],
)
def test_a_bad_property_is_refused_and_named(properties: dict[str, str]) -> None:
    with pytest.raises(UserError) as failure:
        store_properties(properties)
    assert failure.value.state is SqlState.INVALID_PARAMETER


def test_a_password_is_in_no_error() -> None:
    with pytest.raises(UserError) as failure:
        store_properties(
            {"uris": "bad", "kafka.sasl.password": "hunter2", "kafka.sasl.hash_function": "PLAIN"}
        )
    assert "hunter2" not in failure.value.text()


def test_client_properties_pass_only_from_the_list() -> None:
    specs = of_scope(options.PROPERTIES, Scope.SOURCE)
    given = PropertyReader(stored({"kafka.consumer.fetch.min.bytes": "1"}), specs, what="a source")
    assert consumer_options(given) == {"fetch.min.bytes": "1"}
    with pytest.raises(UserError):
        PropertyReader(stored({"kafka.consumer.interceptor.classes": "x"}), specs, what="a source")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "x" * 250])
def test_an_illegal_topic_name_is_refused(name: str) -> None:
    with pytest.raises(UserError):
        topic_name(name)


def test_a_layout_reads_both_spellings() -> None:
    specs = of_scope(options.PROPERTIES, Scope.ENTITY)
    given = {"kafka.partitions": "3", "topic.replicas": "0", "kafka.topic.retention.ms": "5"}
    reader = PropertyReader(stored(given), specs, what="an entity")
    assert reader.take(options.PARTITIONS) == 3
    assert reader.take_all(options.TOPIC_CONFIGS) == {"retention.ms": "5"}
    with pytest.raises(UserError):
        reader.take(options.REPLICAS)
