"""The client against a real registry, behind a front with credentials and TLS, and against servers that are not registries."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from harness.apicurio import Registry, register
from harness.registry_front import Answer, RegistryFront, basic
from harness.secured_kafka import Authority
from headrace.connectors.egress import Egress
from headrace.connectors.schema_registry.client import (
    ANSWER_BYTES_MAX,
    Reference,
    RegisteredSchema,
    RegistryClient,
)
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.schema import Column
from headrace.core.sqlstate import SqlState
from headrace.core.types import parse_type
from headrace.formats.avro_schema import columns_of, record_schema

USER, PASSWORD = "anna", "p:ä?s"


def record(kind: str, name: str = "R") -> str:
    fields = [{"name": "a", "type": kind}]
    return json.dumps({"type": "record", "name": name, "fields": fields}, separators=(",", ":"))


def client(*urls: str, egress: Egress | None = None, **properties: str) -> RegistryClient:
    named = {name.replace("__", "."): text for name, text in properties.items()}
    return RegistryClient({"uris": ",".join(urls), **named}, egress or Egress())


def failure(action: Callable[[], Any], kind: type[HeadraceError] = ExternalError) -> HeadraceError:
    with pytest.raises(kind) as caught:
        action()
    assert caught.value.hint
    if kind is ExternalError:
        assert caught.value.state is SqlState.REMOTE_UNAVAILABLE
    return caught.value


def test_schemas_are_registered_found_and_compared(registry: Registry, seed: str) -> None:
    asked, subject = client(registry.url), f"a/b {seed}-value"
    assert asked.latest(subject) is None
    assert asked.compatibility(subject, record("int"), "AVRO") == []
    first = asked.register(subject, record("int"), "AVRO")
    assert asked.register(subject, record("int"), "AVRO") == first
    assert asked.latest(subject) == RegisteredSchema(first, "AVRO", record("int"))
    assert asked.compatibility(subject, record("long"), "AVRO") == []
    second = asked.register(subject, record("long"), "AVRO")
    assert asked.latest(subject) == asked.by_id(second)
    assert asked.by_id(first).text == record("int")
    assert asked.compatibility(subject, record("string"), "AVRO")
    refused = failure(lambda: asked.register(subject, record("string"), "AVRO"), UserError)
    assert refused.state is SqlState.INVALID_RELATION_DEFINITION
    assert "STRING" in refused.message
    assert "io.apicurio" not in refused.message


def test_references_come_before_what_refers_to_them(registry: Registry, seed: str) -> None:
    asked = client(registry.url)
    cents, money, order = (f"{name}{seed}" for name in ("Cents", "Money", "Order"))
    asked.register(cents, record("long", cents), "AVRO")
    asked.register(money, record(cents, money), "AVRO", [Reference(cents, cents, 1)])
    schema = asked.by_id(
        asked.register(
            order, record(money, order), "AVRO", [Reference(money, money, 1), Reference(cents, cents, 1)]
        )
    )
    texts = asked.resolved(schema)
    assert texts == (record("long", cents), record(cents, money))
    assert [str(column.type) for column in columns_of(schema.text, texts)] == ["STRUCT<a STRUCT<a BIGINT>>"]


def test_protobuf_has_its_type(registry: Registry, seed: str) -> None:
    text = f'syntax = "proto3";\nmessage M{seed} {{ int64 a = 1; }}\n'
    asked = client(registry.url)
    assert asked.by_id(asked.register(f"p{seed}", text, "PROTOBUF")).type == "PROTOBUF"


def test_the_schemas_that_we_write_are_avro(registry: Registry, seed: str) -> None:
    columns = [
        Column("a", parse_type("STRUCT<b ARRAY<STRUCT<c DECIMAL(12, 3)>>, d MAP<VARCHAR, STRUCT<c DATE>>>")),
        Column("b", parse_type("STRUCT<c TIMESTAMP(3)>"), nullable=False),
    ]
    asked, text = client(registry.url), record_schema(columns, f"topic-{seed}")
    schema = asked.by_id(asked.register(f"t{seed}", text, "AVRO"))
    assert columns_of(schema.text) == tuple(columns)


def test_what_the_registry_does_not_know_is_said(registry: Registry, seed: str) -> None:
    asked = client(registry.url)
    for action in (lambda: asked.by_id(999_999_999), lambda: asked.by_version(f"none{seed}", 1)):
        assert failure(action, UserError).state is SqlState.DESCRIPTOR_NOT_FOUND


def test_schemas_that_were_seen_outlive_the_registry(registry: Registry, seed: str) -> None:
    identifier = register(registry.url, f"s{seed}", record("int"))
    with RegistryFront(registry.url) as front:
        asked = client(front.url())
        seen = asked.by_id(identifier)
        assert asked.by_id(identifier) is seen
        assert front.paths == [f"/schemas/ids/{identifier}"]
    assert asked.by_id(identifier) is seen
    assert "TCP" in failure(lambda: asked.latest(f"s{seed}")).message


def test_the_first_address_that_answers_is_used(registry: Registry) -> None:
    client("http://127.0.0.1:1", registry.url).test()


def test_credentials_are_shown_and_a_refusal_is_reported(registry: Registry) -> None:
    user = {"confluent__username": USER, "confluent__password": PASSWORD}
    with RegistryFront(registry.url, authorization=basic(USER, PASSWORD)) as front:
        client(front.url(), **user).test()
        client(front.url(), confluent_cloud__key=USER, confluent_cloud__secret=PASSWORD).test()
        for wrong in ({}, {**user, "confluent__password": "hunter2"}, {"confluent__token": "hunter2"}):
            refused = failure(client(front.url(), **wrong).test)
            assert "authentication" in refused.message
            assert "hunter2" not in refused.text()
    with RegistryFront(registry.url, authorization="Bearer t0ken") as front:
        client(front.url(), confluent__token="t0ken").test()


def test_certificates_are_checked_against_the_name_that_was_given(tmp_path: Path) -> None:
    authority = Authority()
    certificate = tmp_path / "certificate.pem"
    certificate.write_bytes(authority.key_and_certificate("localhost"))
    trusted = {"tls__ca_cert_file": authority.pem}
    with RegistryFront(answer=types, certificate=certificate) as front:
        client(front.url("localhost"), **trusted).test()
        client(front.url(), **trusted, tls__verify_server_hostname="FALSE").test()
        for asked in (
            client(front.url("localhost")),
            client(front.url("localhost"), tls__ca_cert_file=Authority().pem),
            client(front.url(), **trusted),
        ):
            assert "TLS" in failure(asked.test).message
    with RegistryFront(answer=types) as plain:
        refused = failure(client(plain.url().replace("http:", "https:")).test)
        assert "TLS: " in refused.message


def test_a_certificate_is_shown_where_one_is_asked_for(tmp_path: Path) -> None:
    authority = Authority()
    certificate = tmp_path / "certificate.pem"
    certificate.write_bytes(authority.key_and_certificate("localhost"))
    pem = authority.key_and_certificate("anna").decode()
    end = pem.index("-----BEGIN CERTIFICATE-----")
    trusted = {"tls__ca_cert_file": authority.pem}
    own = {"tls__client__key_file": pem[:end], "tls__client__cert_file": pem[end:]}
    with RegistryFront(answer=types, certificate=certificate, clients=authority.pem) as front:
        client(front.url("localhost"), **trusted, **own).test()
        refused = failure(client(front.url("localhost"), **trusted).test)
        assert "TLS" in refused.message


def types(_path: str) -> Answer:
    return 200, {}, b'["AVRO"]'


def redirect(_path: str) -> Answer:
    return 302, {"Location": "http://169.254.169.254/latest/meta-data"}, b""


def page(_path: str) -> Answer:
    return 200, {}, b"<html>secret of another server</html>"


def endless(_path: str) -> Answer:
    return 200, {}, b"[" + b" " * ANSWER_BYTES_MAX


def broken(_path: str) -> Answer:
    return 500, {}, b"secret of another server"


@pytest.mark.parametrize(
    ("answer", "words"),
    [(redirect, "HTTP status 302"), (page, "not JSON"), (endless, "more than"), (broken, "HTTP 500")],
)
def test_what_is_no_registry_is_told_nothing_of(answer: Callable[[str], Answer], words: str) -> None:
    with RegistryFront(answer=answer) as front:
        refused = failure(client(front.url()).test)
        assert words in refused.message
        assert "secret" not in refused.text()
        assert len(front.paths) == 1


def test_a_server_without_http_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"

        def talk() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"220 mail ready\r\n")

        thread = Thread(target=talk)
        thread.start()
        assert "HTTP" in failure(client(url).test).message
        thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        {"id": 1},
        {"id": "x", "schema": "{}"},
        {"id": 1, "schema": "{}", "schemaType": "XSD"},
        {"id": 1, "schema": "{}", "references": [{"name": "r"}]},
        [],
    ],
)
def test_an_answer_that_is_no_schema_is_refused(answer: Any) -> None:
    with RegistryFront(answer=lambda _path: (200, {}, json.dumps(answer).encode())) as front:
        assert (
            "did not answer as a schema registry" in failure(lambda: client(front.url()).latest("s")).message
        )


def test_references_that_go_round_end() -> None:
    one = {"id": 1, "schema": "{}", "references": [{"name": "r", "subject": "r", "version": 1}]}
    with RegistryFront(answer=lambda _path: (200, {}, json.dumps(one).encode())) as front:
        asked = client(front.url())
        assert asked.resolved(asked.by_id(1)) == ("{}",)
