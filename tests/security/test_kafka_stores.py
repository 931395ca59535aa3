"""A store over TLS with a user, the default of a store: through librdkafka, and through Java's clients in Spark."""

from __future__ import annotations

import re
import time

import pytest
from confluent_kafka.admin import AclOperation, AdminClient, ResourceType

from harness.authority import Authority
from harness.issuer import CLIENT as CLIENT_ID
from harness.issuer import SCOPE, SECRET, Issuer
from harness.kafka import KafkaClient
from harness.patience import PATIENCE_S, until
from harness.secured_kafka import CLIENT, NOBODY, PASSWORD, USER, SecuredBroker
from headrace.testing.door import RestDoor
from headrace.testing.runner import StatementError

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

MECHANISMS = ("PLAIN", "SHA256", "SHA512")


def store(
    name: str,
    broker: SecuredBroker,
    ca: str,
    mechanism: str = "SHA512",
    password: str = PASSWORD,
    user: str = USER,
) -> str:
    """CREATE STORE."""
    return (
        f"CREATE STORE {name} WITH ('type' = KAFKA, 'uris' = '{broker.secured}', 'tls.ca_cert_file' = '{ca}', "
        f"'kafka.sasl.hash_function' = {mechanism}, 'kafka.sasl.username' = '{user}', "
        f"'kafka.sasl.password' = '{password}');"
    )


def mutual_store(name: str, broker: SecuredBroker, authority: Authority, vouching: Authority) -> str:
    """CREATE STORE of the other type, with a certificate that `vouching` has signed."""
    key, begin, certificate = vouching.key_and_certificate(CLIENT).decode().partition("-----BEGIN CERT")
    return (
        f"CREATE STORE {name} WITH ('type' = CONFLUENT_KAFKA, 'uris' = '{broker.mutual}', "
        f"'tls.ca_cert_file' = '{authority.pem}', 'tls.client.cert_file' = '{begin}{certificate}', "
        f"'tls.client.key_file' = '{key}');"
    )


def token_store(name: str, broker: SecuredBroker, ca: str, issuer: Issuer, secret: str = SECRET) -> str:
    """CREATE STORE, in the other spelling."""
    quoted = secret.replace("'", "''")
    return (
        f"CREATE STORE {name} WITH ('type' = KAFKA, 'uris' = '{broker.tokened}', 'tls.ca_cert_file' = '{ca}', "
        f"'security.protocol' = SASL_SSL, 'sasl.mechanism' = OAUTHBEARER, 'sasl.oauthbearer.client.id' = '{CLIENT_ID}', "
        f"'sasl.oauthbearer.client.secret' = '{quoted}', 'sasl.oauthbearer.scope' = '{SCOPE}', "
        f"'sasl.oauthbearer.token.endpoint.url' = '{issuer.url}', 'sasl.oauthbearer.extensions' = 'logicalCluster={name}');"
    )


@pytest.mark.parametrize("way", [*MECHANISMS, "mutual TLS", "token"])
def test_records_go_through_a_secured_store(
    way: str, broker: SecuredBroker, issuer: Issuer, authority: Authority, door: RestDoor, seed: str
) -> None:
    match way:
        case "mutual TLS":
            created = mutual_store(f"s{seed}", broker, authority, authority)
        case "token":
            created = token_store(f"s{seed}", broker, authority.pem, issuer)
        case _:
            created = store(f"s{seed}", broker, authority.pem, way)
    door.execute(
        f"CREATE DATABASE d{seed}; USE DATABASE d{seed}; {created} USE STORE s{seed}; "
        f"CREATE STREAM a (x BIGINT) WITH ('topic' = 'a_{seed}', 'topic.partitions' = 1, 'topic.replicas' = 1, "
        " 'value.format' = JSON);"
        + "".join(
            f"CREATE STREAM {guarantee} WITH ('topic' = '{guarantee}_{seed}', 'delivery.guarantee' = '{guarantee}') "
            "AS SELECT x + 1 AS y FROM a WITH ('starting.position' = 'earliest');"
            for guarantee in ("at_least_once", "exactly_once")
        )
        + f"INSERT INTO ENTITY a_{seed} VALUE('{{\"x\": 1}}');"
    )
    topics = {f"at_least_once_{seed}", f"exactly_once_{seed}"}
    kafka = KafkaClient(broker.bootstrap)
    until(lambda: all(kafka.consume(topic) == [(None, '{"y":2}')] for topic in topics), "both results")
    printed = door.stream(f"PRINT ENTITY a_{seed} WITH ('from_beginning');", count=1, when_live=lambda: None)
    assert [row.cells[1] for row in printed] == ['{"x": 1}']
    for row in door.execute("LIST QUERIES;"):
        if row[3] == "running":
            door.execute(f"TERMINATE QUERY {row[0]};")


def test_a_query_outlives_its_tokens(
    broker: SecuredBroker, issuer: Issuer, authority: Authority, door: RestDoor, seed: str
) -> None:
    issuer.lifetime_s = 6
    kafka = KafkaClient(broker.bootstrap)
    kafka.create(f"a_{seed}")
    try:
        door.execute(
            f"CREATE DATABASE d{seed}; USE DATABASE d{seed}; {token_store(f's{seed}', broker, authority.pem, issuer)} "
            f"USE STORE s{seed}; CREATE STREAM a (x BIGINT) WITH ('topic' = 'a_{seed}', 'value.format' = JSON);"
            f"CREATE STREAM b WITH ('topic' = 'b_{seed}') AS SELECT x FROM a WITH ('starting.position' = 'earliest') "
            f"QUERY WITH ('query.name' = 'b_{seed}');"
        )
        kafka.produce(f"a_{seed}", [(None, '{"x": 1}')])
        until(lambda: kafka.consume(f"b_{seed}"), "the first record")
        used, began = issuer.asked, time.monotonic()
        until(
            lambda: issuer.asked >= used + 2 and time.monotonic() > began + issuer.lifetime_s,
            "the tokens to be others",
        )
        kafka.produce(f"a_{seed}", [(None, '{"x": 2}')])
        until(lambda: (None, '{"x":2}') in kafka.consume(f"b_{seed}"), "the second record")
        door.execute(f"TERMINATE QUERY b_{seed};")
    finally:
        issuer.lifetime_s = 3600


def test_to_look_for_a_topic_does_not_make_it(
    broker: SecuredBroker, authority: Authority, door: RestDoor, seed: str
) -> None:
    """The broker would create it: neither a wrong name, nor reading on from a deleted topic may cause that."""
    topic = f"gone_{seed}"
    door.execute(
        f"CREATE DATABASE d{seed}; USE DATABASE d{seed}; {store(f's{seed}', broker, authority.pem)} USE STORE s{seed};"
    )
    for statement in (
        f"CREATE STREAM a (x BIGINT) WITH ('topic' = '{topic}', 'value.format' = JSON);",
        f"DESCRIBE ENTITY {topic};",
        f"INSERT INTO ENTITY {topic} VALUE('{{}}');",
        f"PRINT ENTITY {topic};",
    ):
        with pytest.raises(StatementError) as caught:
            door.execute(statement)
        assert caught.value.sqlstate in ("3D007", "3D008", "3D021")
    kafka = KafkaClient(broker.bootstrap)
    kafka.create(topic)
    door.execute(
        f"CREATE STREAM a (x BIGINT) WITH ('topic' = '{topic}', 'value.format' = JSON); CREATE STREAM b AS "
        f"SELECT x FROM a WITH ('starting.position' = 'earliest') QUERY WITH ('query.name' = 'b_{seed}');"
    )
    kafka.produce(topic, [(None, '{"x": 1}')])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    until(lambda: kafka.consume("b"), "the first record")
    admin.delete_topics([topic])[topic].result(PATIENCE_S)
    until(lambda: dict(door.execute(f"DESCRIBE QUERY b_{seed};"))["state"] == "errored", "the query ends")
    assert topic not in admin.list_topics(timeout=PATIENCE_S).topics
    door.execute(f"TERMINATE QUERY b_{seed};")


def test_refusals_of_a_secured_broker_are_reported_without_secrets(
    broker: SecuredBroker, issuer: Issuer, authority: Authority, door: RestDoor, seed: str
) -> None:
    stranger = Authority().pem
    plaintext = (
        f"CREATE STORE s{seed} WITH ('type' = KAFKA, 'uris' = '{broker.secured}', 'tls.disabled' = TRUE);"
    )
    for statement, reason in (
        (
            store(f"s{seed}", broker, authority.pem, password="hunter2"),
            "authentication: .*: .*invalid credentials",
        ),
        (
            store(f"s{seed}", broker, stranger),
            r"TLS: .*certificate could not be verified at line 1, column \d+\n.*'tls.ca_cert_file'",
        ),
        (
            plaintext,
            r"accepts connections and does not answer as Kafka at line 1, column \d+\n.*'tls.disabled'",
        ),
        (
            mutual_store(f"s{seed}", broker, authority, Authority()),
            r"TLS: .*certificate.* at line 1, column \d+\n.*'tls.client.cert_file'",
        ),
        (
            token_store(f"s{seed}", broker, authority.pem, issuer, secret="hunter2"),
            "authentication: the token endpoint .* gives no token: invalid_client",
        ),
    ):
        with pytest.raises(StatementError) as caught:
            door.execute(statement)
        assert caught.value.sqlstate == "57015"
        assert re.search(reason, caught.value.message), caught.value.message
        assert "hunter2" not in caught.value.message


def test_a_broker_of_another_name_is_refused_unless_names_are_not_checked(
    authority: Authority, door: RestDoor, seed: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("misnamed")
    with SecuredBroker(folder, authority, host="elsewhere.example") as broker:
        with pytest.raises(StatementError) as caught:
            door.execute(store(f"s{seed}", broker, authority.pem))
        assert caught.value.sqlstate == "57015"
        unchecked = store(f"s{seed}", broker, authority.pem)
        door.execute(unchecked.replace(");", ", 'tls.verify_server_hostname' = FALSE);"))


def test_a_missing_right_is_distinguished_from_a_missing_topic(
    broker: SecuredBroker, authority: Authority, door: RestDoor, seed: str
) -> None:
    """A user without rights on a topic, and a user who may only read it: the errors of store, entity and query."""
    KafkaClient(broker.bootstrap).create(f"t_{seed}")
    door.execute(
        f"CREATE DATABASE d{seed}; USE DATABASE d{seed}; "
        f"{store(f's{seed}', broker, authority.pem, 'PLAIN', user=NOBODY)} USE STORE s{seed};"
    )
    topic = f"WITH ('topic' = 't_{seed}', 'value.format' = JSON)"
    several = topic.replace("t_", "u_*; t_")
    for statement in (
        f"DESCRIBE ENTITY t_{seed};",
        f"CREATE STREAM a (x BIGINT) {topic};",
        f"CREATE STREAM a (x BIGINT) {several};",
    ):
        with pytest.raises(StatementError, match=r"authorization: .*lacks a right") as caught:
            door.execute(statement)
        assert caught.value.sqlstate == "57015"
    broker.allow(NOBODY, ResourceType.TOPIC, f"t_{seed}", AclOperation.READ)
    broker.allow(NOBODY, ResourceType.GROUP, "*", AclOperation.READ)
    assert door.execute(f"DESCRIBE ENTITY t_{seed};")
    door.execute(f"CREATE STREAM a (x BIGINT) {topic};")
    with pytest.raises(StatementError, match="authorization: "):
        door.execute(f"INSERT INTO ENTITY t_{seed} VALUE('{{}}');")
    rows = door.stream(
        "SELECT x FROM a WITH ('starting.position' = 'earliest');",
        count=1,
        when_live=lambda: KafkaClient(broker.bootstrap).produce(f"t_{seed}", [(None, '{"x": 7}')]),
    )
    assert [row.cells for row in rows] == [("7",)]
