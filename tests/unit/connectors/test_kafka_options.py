"""A Kafka store's properties: accepted values, and errors for hostile values."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from hypothesis import given
from hypothesis import strategies as st

from harness.authority import Authority
from headrace.connectors.kafka import options
from headrace.connectors.kafka.options import consumer_options, producer_options, topic_name
from headrace.connectors.tls import TLS_CLIENT_KEY
from headrace.core.errors import UserError
from headrace.core.properties import PropertyReader, Scope, masked, of_scope, stored
from headrace.core.sqlstate import SqlState


def store_properties(given: dict[str, str]) -> dict[str, str]:
    return options.store_properties(PropertyReader(stored(given), options.STORE, what="a Kafka store"))


def test_properties_become_canonical_text() -> None:
    properties = store_properties({"uris": " b1:9092, [::1]:9093 ", "tls.disabled": "true"})
    assert properties == {
        "uris": "b1:9092,[::1]:9093",
        "kafka.sasl.hash_function": "NONE",
        "tls.disabled": "TRUE",
        "tls.verify_server_hostname": "TRUE",
    }


def test_what_concerns_tls_is_not_checked_without_it() -> None:
    given = {"uris": "b:1", "tls.disabled": "TRUE", "tls.verify_server_hostname": "FALSE"}
    assert store_properties(given)["tls.disabled"] == "TRUE"


def test_the_other_spelling_of_authentication_means_the_same() -> None:
    given = {
        "uris": "b:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "u",
        "sasl.password": "p",
    }
    properties = store_properties(given)
    assert (properties["kafka.sasl.hash_function"], properties["tls.disabled"]) == ("SHA512", "FALSE")
    assert masked(properties, options.STORE, {})["kafka.sasl.password"] == "****"


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


OAUTH = {
    "uris": "b:1",
    "sasl.mechanism": "oauthbearer",
    "sasl.oauthbearer.token.endpoint.url": "https://issuer.example/token",
    "sasl.oauthbearer.client.id": "c",
    "sasl.oauthbearer.client.secret": "s",
}
MSK = {
    "uris": "b:1",
    "kafka.sasl.hash_function": "AWS_MSK_IAM",
    "kafka.msk.aws_region": "us-east-1",
    "kafka.msk.iam_role_arn": "arn:aws:iam::123456789012:role/reader",
}


@pytest.mark.parametrize(
    ("base", "wrong", "reason"),
    [
        (OAUTH, {"sasl.oauthbearer.token.endpoint.url": "http://issuer.example/token"}, "https"),
        (OAUTH, {"sasl.oauthbearer.token.endpoint.url": "file:///etc/passwd"}, "https"),
        (OAUTH, {"sasl.oauthbearer.token.endpoint.url": "https://user:pass@issuer.example"}, "https"),
        (OAUTH, {"sasl.oauthbearer.token.endpoint.url": "https://issuer.example:99999/"}, "https"),
        (OAUTH, {"sasl.oauthbearer.extensions": 'a=b" required; evil="'}, "name=value"),
        (OAUTH, {"sasl.oauthbearer.extensions": "auth=Bearer x"}, "name=value"),
        (OAUTH, {"sasl.username": "u"}, "requires 'kafka.sasl.hash_function' = PLAIN or SHA256 or SHA512"),
        (OAUTH, {"tls.disabled": "TRUE"}, "requires TLS"),
        (MSK, {"kafka.sasl.password": "p"}, "found AWS_MSK_IAM"),
        (MSK, {"kafka.msk.aws_region": "us-east-1.evil.example/"}, "an AWS region"),
        (MSK, {"kafka.msk.iam_role_arn": "arn:aws:s3:::bucket"}, "ARN of an IAM role"),
        (MSK, {"tls.disabled": "TRUE"}, "requires TLS"),
        ({"uris": "b:1"}, {"kafka.msk.aws_region": "us-east-1"}, "found NONE"),
        (
            {"uris": "b:1"},
            {"kafka.sasl.hash_function": "AWS_MSK_IAM"},
            "Specify kafka.msk.aws_region and kafka.msk",
        ),
    ],
)
def test_credentials_go_with_their_mechanism(
    base: dict[str, str], wrong: dict[str, str], reason: str
) -> None:
    if "uris" in base and len(base) > 1:
        assert store_properties(base)["kafka.sasl.hash_function"] in options.TOKEN_MECHANISMS
    with pytest.raises(UserError) as failure:
        store_properties({**base, **wrong})
    assert reason in failure.value.text()


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


# Each has been a way into a client, or would take a decision that is ours: who logs in how, which files, classes and
# addresses are used, what is committed and isolated.
HOSTILE = """
sasl.jaas.config sasl.login.class sasl.login.callback.handler.class sasl.client.callback.handler.class sasl.oauthbearer.token.endpoint.url
sasl.oauthbearer.jwks.endpoint.url sasl.kerberos.service.name ssl.truststore.location ssl.keystore.location ssl.key.location ssl.ca.location
ssl.engine.factory.class ssl.provider ssl.providers ssl.engine.location plugin.library.paths security.providers security.protocol
interceptor.classes metric.reporters auto.include.jmx.reporter key.serializer value.serializer key.deserializer value.deserializer
partitioner.class partition.assignment.strategy config.providers bootstrap.servers client.dns.lookup socks5.proxy.host group.id
group.instance.id client.rack enable.auto.commit auto.offset.reset isolation.level transactional.id transaction.timeout.ms
enable.idempotence acks retries max.in.flight.requests.per.connection allow.auto.create.topics exclude.internal.topics log_level debug
"""
SCOPES = [
    Scope.STORE,
    Scope.SOURCE,
    Scope.SINK,
    Scope.INSERT,
    Scope.VIEW,
    Scope.RELATION,
    Scope.ENTITY,
    Scope.QUERY,
]


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(
    "prefix", ["", "kafka.", "kafka.consumer.", "kafka.producer.", "kafka.kafka.", "spark.kafka."]
)
def test_no_client_setting_passes_but_those_of_the_list(scope: Scope, prefix: str) -> None:
    specs = of_scope(options.PROPERTIES, scope)
    ours = {name for spec in options.STORE for name in (spec.name, *spec.synonyms)}
    for name in HOSTILE.split():
        if prefix + name in ours:
            continue  # typed by us: `test_a_bad_property_is_refused_and_named`
        for spelling in (prefix + name, (prefix + name).upper(), f" {prefix}{name}", f"{prefix}{name}\n"):
            with pytest.raises(UserError) as failure:
                PropertyReader(stored({spelling: "x"}), specs, what="it")
            assert failure.value.state is SqlState.INVALID_PARAMETER


@given(name=st.text(max_size=30), value=st.text(max_size=30), scope=st.sampled_from(SCOPES))
def test_what_is_passed_on_comes_from_the_list(name: str, value: str, scope: Scope) -> None:
    """The clients get settings of the list, and of a topic's, which only its broker reads, regardless of the text after the prefix."""
    listed = {spec.name for spec in (*options.CONSUMER, *options.PRODUCER)}
    for prefix in ("kafka.consumer.", "kafka.producer."):
        try:
            reader = PropertyReader(
                stored({prefix + name: value}), of_scope(options.PROPERTIES, scope), what="it"
            )
        except UserError:
            continue
        passed = {"kafka.consumer.": consumer_options, "kafka.producer.": producer_options}[prefix](reader)
        assert {prefix + key for key in passed} <= listed


KEY = ec.generate_private_key(ec.SECP256R1())
TRADITIONAL = KEY.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()


def pems() -> tuple[str, str]:
    """A certificate and its key."""
    key, begin, certificate = Authority().key_and_certificate("app").decode().partition("-----BEGIN CERT")
    return begin + certificate, key


def test_a_client_certificate_and_its_key_go_together() -> None:
    certificate, key = pems()
    base = {"uris": "b:1", "tls.client.cert_file": certificate}
    assert store_properties({**base, "tls.client.key_file": key})["tls.client.key_file"] == key
    for wrong in (
        base,
        {**base, "tls.client.key_file": TRADITIONAL},
        {**base, "tls.client.key_file": "/etc/ssl/private/key.pem"},
        {**base, "tls.client.key_file": key, "tls.disabled": "TRUE"},
        {"uris": "b:1", "tls.client.cert_file": "/etc/passwd", "tls.client.key_file": key},
    ):
        with pytest.raises(UserError) as failure:
            store_properties(wrong)
        assert failure.value.state is SqlState.INVALID_PARAMETER
        assert "BEGIN" not in failure.value.text()


def test_a_key_is_kept_in_the_form_that_both_clients_read() -> None:
    read = TLS_CLIENT_KEY.type.read
    assert read(TRADITIONAL).startswith("-----BEGIN PRIVATE KEY-----")
    sealed = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x")).decode()
    with pytest.raises(ValueError):
        read(sealed)


def test_a_protocol_must_say_what_the_other_properties_say() -> None:
    assert store_properties({"uris": "b:1", "security.protocol": "plaintext"})["tls.disabled"] == "TRUE"
    for wrong in ({"security.protocol": "SASL_SSL"}, {"security.protocol": "SSL", "tls.disabled": "TRUE"}):
        with pytest.raises(UserError, match=r"security\.protocol"):
            store_properties({"uris": "b:1", **wrong})


def record_options(given: dict[str, str]) -> dict[str, str]:
    specs = of_scope(options.PROPERTIES, Scope.RECORD)
    return options.record_options(PropertyReader(stored(given), specs, what="an entity"))


def test_a_record_has_the_partition_and_headers_of_its_statement() -> None:
    assert options.record_place(record_options({})) == (-1, [])
    taken = record_options({"partition": "3", "headers": '{"a": "\u00e9", "b": null}'})
    assert options.record_place(taken) == (3, [("a", "é"), ("b", None)])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("partition", "-1"),
        ("partition", "2147483648"),
        ("headers", "x"),
        ("headers", "[]"),
        ("headers", '{"a": 1}'),
        ("headers", '{"a": "\\ud800"}'),
        ("headers", "[" * 100_000),
    ],
)
def test_a_place_that_no_record_can_have_is_refused(name: str, value: str) -> None:
    with pytest.raises(UserError) as caught:
        record_options({name: value})
    assert caught.value.state is SqlState.INVALID_PARAMETER
