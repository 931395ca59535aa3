"""Absence of secrets in every visible place: they are encrypted in the catalog, and in the memory of the processes that need them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress

import httpx
import psutil
import pytest

from harness.authority import Authority
from harness.folders import paths_below
from harness.issuer import SECRET, Issuer
from harness.kafka import KafkaClient
from harness.patience import PATIENCE_S, until
from harness.process import HeadraceProcess
from harness.secured_kafka import CLIENT, PASSWORD, SecuredBroker
from headrace.connectors.registry import STORE_TYPES, connector
from headrace.connectors.schema_registry.options import PROPERTIES as REGISTRY
from headrace.core.properties import Scope, of_scope
from headrace.statements.system import RELATIONS
from headrace.testing.door import RestDoor
from headrace.testing.runner import StatementError
from tests.security.test_kafka_stores import store, token_store

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]


def planted_statements(seed: str) -> Iterator[tuple[str, str]]:
    """Yield for each property that is declared as a secret a statement with a value of its own, and that value."""
    for kind in STORE_TYPES:
        for spec in of_scope(connector(kind).properties, Scope.STORE):
            if spec.secret:
                value = f"planted{kind}{spec.name.replace('.', '')}{seed}"
                yield (
                    f"CREATE STORE s_{kind}_{seed} WITH ('type' = {kind}, 'uris' = '127.0.0.1:1', '{spec.name}' = '{value}');",
                    value,
                )
    for spec in REGISTRY:
        if spec.secret:
            value = f"plantedregistry{spec.name.replace('.', '')}{seed}"
            yield (
                f"CREATE SCHEMA_REGISTRY r_{seed} WITH ('type' = CONFLUENT, 'uris' = 'http://127.0.0.1:1', '{spec.name}' = '{value}');",
                value,
            )


def spellings(secret: str) -> list[bytes]:
    """A secret as it may stand somewhere."""
    return [
        secret.encode(),
        json.dumps(secret)[1:-1].encode(),
        base64.b64encode(secret.encode()).rstrip(b"="),
    ]


def test_secrets_are_nowhere_to_be_seen(
    broker: SecuredBroker,
    issuer: Issuer,
    authority: Authority,
    door: RestDoor,
    headrace_server: HeadraceProcess,
    seed: str,
) -> None:
    secrets = {"the administrator's token": headrace_server.token, "password": PASSWORD, "client": SECRET}
    key, _, certificate = authority.key_and_certificate(CLIENT).decode().partition("-----BEGIN CERT")
    secrets["key"] = key.splitlines()[1]
    said: dict[str, str] = {}

    def run(text: str) -> None:
        try:
            said[text] = json.dumps(door.execute(text))
        except StatementError as error:
            said[text] = str(error)

    for text, value in planted_statements(seed):
        secrets[text] = value
        run(text)
    secrets["object"] = f"plantedobject{seed}"
    run(f"CREATE SECRET o_{seed} WITH ('type' = generic_string, 'secret_string' = '{secrets['object']}');")
    run(f"UPDATE SECRET o_{seed} WITH ('secret_string' = '{secrets['object']}');")
    [[*_, token]] = door.execute(f"CREATE API_TOKEN t_{seed} WITH ('token.role_name' = sysadmin);")
    assert token is not None
    secrets["API token"] = token

    _run_queries(broker, issuer, authority, door, seed, f"-----BEGIN CERT{certificate}", key)
    for relation in RELATIONS.values():
        database = "deltastream" if relation.schema == "sys" else f"d{seed}"
        run(f'SELECT * FROM {database}."{relation.schema}"."{relation.name}";')
    for text in ("LIST STORES", "LIST SECRETS", "LIST QUERIES", "LIST API_TOKENS", "LIST SCHEMA_REGISTRIES"):
        run(f"{text};")
    for name in ("password", "token", "mutual"):
        run(f"DESCRIBE STORE {name}_{seed};")
        run(f"DESCRIBE RELATION d{seed}.public.{name};")
        run(f"EXPLAIN SELECT * FROM d{seed}.public.{name};")
    for row in door.execute("LIST QUERIES;"):
        for what in ("", "METRICS ", "EVENTS ", "HISTORY ", "STATE "):
            run(f"DESCRIBE QUERY {what}{row[0]};")
    metrics = httpx.get(
        f"{headrace_server.url}/metrics",
        headers={"Authorization": f"Bearer {headrace_server.token}"},
        timeout=PATIENCE_S,
    )
    said["/metrics"] = metrics.text

    contents = {**_answers(said), **_kept(headrace_server), **_of_processes(headrace_server)}
    seen = {
        (name, place)
        for name, secret in secrets.items()
        for spelling in spellings(secret)
        for place, content in contents.items()
        if spelling in content
    }
    for row in door.execute("LIST QUERIES;"):
        if row[3] == "running":
            door.execute(f"TERMINATE QUERY {row[0]};")
    # The server's own environment is where the operator put its token: so the search finds what is there.
    own = ("the administrator's token", f"environment of {headrace_server.pid}")
    assert seen == {own}
    assert len(secrets) > 20
    assert any("deltastream.sys.audit" in text or '"audit"' in text for text in said)


def _run_queries(
    broker: SecuredBroker,
    issuer: Issuer,
    authority: Authority,
    door: RestDoor,
    seed: str,
    certificate: str,
    key: str,
) -> None:
    """Create a store of each way to authenticate, and a query with a checkpoint on each."""
    mutual = (
        f"CREATE STORE mutual_{seed} WITH ('type' = CONFLUENT_KAFKA, 'uris' = '{broker.mutual}', "
        f"'tls.ca_cert_file' = '{authority.pem}', 'tls.client.cert_file' = '{certificate}', 'tls.client.key_file' = '{key}');"
    )
    stores = {
        "password": store(f"password_{seed}", broker, authority.pem),
        "token": token_store(f"token_{seed}", broker, authority.pem, issuer),
        "mutual": mutual,
    }
    door.execute(f"CREATE DATABASE d{seed}; USE DATABASE d{seed};")
    for name, created in stores.items():
        door.execute(
            f"{created} USE STORE {name}_{seed}; CREATE STREAM {name} (x BIGINT) WITH ('topic' = '{name}_{seed}', "
            "'topic.partitions' = 1, 'topic.replicas' = 1, 'value.format' = JSON);"
            f"CREATE STREAM {name}_copy WITH ('topic' = '{name}_copy_{seed}', 'delivery.guarantee' = exactly_once) AS "
            f"SELECT x FROM {name} WITH ('starting.position' = 'earliest');"
            f"INSERT INTO ENTITY {name}_{seed} VALUE('{{\"x\": 1}}');"
        )
    kafka = KafkaClient(broker.bootstrap)
    until(lambda: all(kafka.consume(f"{name}_copy_{seed}") for name in stores), "every result")


def _answers(said: Mapping[str, str]) -> dict[str, bytes]:
    return {
        f"answer to {text[:60]}": answer.encode()
        for text, answer in said.items()
        if "API_TOKEN t_" not in text
    }


def _kept(server: HeadraceProcess) -> dict[str, bytes]:
    """All files of the data directory: catalog, logs, plans, checkpoints, what drivers put aside."""
    contents = {}
    for path in paths_below(server.data_dir):
        with suppress(OSError):  # it may go while we look
            if path.is_file():
                contents[str(path)] = path.read_bytes()
    assert any("checkpoints" in path for path in contents)
    assert any(path.endswith("catalog.db") for path in contents)
    return contents


def _of_processes(server: HeadraceProcess) -> dict[str, bytes]:
    contents = {}
    for process in (psutil.Process(server.pid), *server.descendants()):
        with suppress(psutil.Error):  # it may be ending just now
            contents[f"command line of {process.pid}"] = "\0".join(process.cmdline()).encode()
            environment = "\0".join(f"{name}={value}" for name, value in process.environ().items())
            contents[f"environment of {process.pid}"] = environment.encode()
    assert len(contents) >= 4
    return contents
