"""A store's properties as options of the two Kafka clients."""

from __future__ import annotations

from headrace.connectors.kafka.client import client_options, secrets, spark_options

PLAIN = {"uris": "a:9092", "tls.disabled": "TRUE"}
SASL = {
    "uris": "a:9092",
    "kafka.sasl.hash_function": "SHA512",
    "kafka.sasl.username": "me",
    "kafka.sasl.password": 'x" required; evil="\\',
}


def test_a_store_without_tls_and_user_is_plaintext() -> None:
    assert spark_options(PLAIN) == {
        "kafka.bootstrap.servers": "a:9092",
        "kafka.security.protocol": "PLAINTEXT",
    }
    assert client_options(PLAIN)["security.protocol"] == "PLAINTEXT"


def test_tls_is_on_unless_it_is_switched_off() -> None:
    assert spark_options({"uris": "a:1"})["kafka.security.protocol"] == "SSL"
    assert spark_options(SASL)["kafka.security.protocol"] == "SASL_SSL"


def test_a_password_cannot_break_out_of_the_jaas_text() -> None:
    jaas = spark_options(SASL)["kafka.sasl.jaas.config"]
    assert jaas.startswith("org.apache.kafka.common.security.scram.ScramLoginModule required ")
    assert jaas.endswith('password="x\\" required; evil=\\"\\\\";')
    assert client_options(SASL)["sasl.password"] == SASL["kafka.sasl.password"]


def test_an_authority_and_an_unchecked_host_name_reach_both_clients() -> None:
    store = {**SASL, "tls.ca_cert_file": "-----BEGIN CERTIFICATE-----", "tls.verify_server_hostname": "FALSE"}
    assert spark_options(store)["kafka.ssl.truststore.certificates"] == store["tls.ca_cert_file"]
    assert spark_options(store)["kafka.ssl.endpoint.identification.algorithm"] == ""
    assert client_options(store)["ssl.ca.pem"] == store["tls.ca_cert_file"]
    assert client_options(store)["ssl.endpoint.identification.algorithm"] == "none"


def test_the_secrets_of_a_store_are_known_in_every_form() -> None:
    assert secrets(PLAIN) == ()
    assert SASL["kafka.sasl.password"] in secrets(SASL)
    assert 'x\\" required; evil=\\"\\\\' in secrets(SASL)
