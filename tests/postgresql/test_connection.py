"""Errors of each failed step of connecting, without secrets."""

from __future__ import annotations

import re
import socket
import socketserver
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from harness.authority import Authority
from harness.postgresql import PostgresServer, TlsFront
from headrace.connectors.postgresql import admin
from headrace.core.errors import HeadraceError
from tests.postgresql.conftest import store_of


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def front(
    postgresql: PostgresServer, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TlsFront]:
    with TlsFront(postgresql, authority, tmp_path_factory.mktemp("front")) as front:
        yield front


class Web(socketserver.BaseRequestHandler):
    """A server that answers, and is not PostgreSQL."""

    def handle(self) -> None:
        self.request.recv(65536)
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


@pytest.fixture
def web() -> Iterator[str]:
    with socketserver.TCPServer(("127.0.0.1", 0), Web) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def refused(store: dict[str, str]) -> HeadraceError:
    with pytest.raises(HeadraceError) as caught:
        admin.test(store)
    assert caught.value.hint
    assert store["postgres.password"] not in caught.value.text()
    return caught.value


def test_with_and_without_tls(store: dict[str, str], front: TlsFront, authority: Authority) -> None:
    admin.test(store)
    secured = {"uris": front.uri, "tls__disabled": "false", "tls__ca_cert_file": authority.pem}
    admin.test(store_of(**secured))
    by_address = {**secured, "uris": front.uri.replace("localhost", "127.0.0.1")}
    assert "is for another host" in refused(store_of(**by_address)).message
    admin.test(store_of(**by_address, tls__verify_server_hostname="false"))


def test_a_certificate_is_shown_to_a_server_that_asks_for_one(
    postgresql: PostgresServer, authority: Authority, tmp_path: Path
) -> None:
    pem = authority.key_and_certificate("headrace").decode()
    key, certificate = (f"-----BEGIN {part}" for part in pem.split("-----BEGIN ")[1:])
    with TlsFront(postgresql, authority, tmp_path, asks=True) as front:
        given = {"uris": front.uri, "tls__disabled": "false", "tls__ca_cert_file": authority.pem}
        assert "no safe connection" in refused(store_of(**given)).message
        admin.test(store_of(**given, tls__client__cert_file=certificate, tls__client__key_file=key))


def test_the_step_that_failed_is_named(
    postgresql: PostgresServer, store: dict[str, str], front: TlsFront
) -> None:
    tls = {"uris": front.uri, "tls__disabled": "false"}
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nowhere = f"postgresql://127.0.0.1:{closed.getsockname()[1]}/x"
        for given, words in (
            (
                store_of(uris="postgresql://nowhere.invalid/x"),
                "the host name of nowhere.invalid:5432 is not known",
            ),
            (store_of(uris=nowhere), "did not answer as PostgreSQL"),
            (store_of(**tls), "is not trusted"),
            (store_of(**tls, tls__ca_cert_file=Authority().pem), "is not trusted"),
            (store_of(uris=postgresql.uri, tls__disabled="false"), "does not speak TLS"),
            (
                {**store, "postgres.password": "hunter2"},
                "refused the store's user: password authentication failed",
            ),
            ({**store, "postgres.username": "nobody"}, "refused the store's user"),
            (
                {**store, "uris": store["uris"] + "x"},
                'no such database at .*: database "postgresx" does not exist',
            ),
        ):
            error = refused(given)
            assert error.state.value in ("57015", "3D007")
            assert re.search(words, error.message), error.message


def test_a_closed_port_and_another_server_cause_the_same_error(web: str) -> None:
    """A user who may create stores must not explore the network with them."""
    closed = refused(store_of(uris="postgresql://127.0.0.1:1/x"))
    for tls in ("true", "false"):
        other = refused(store_of(uris=f"postgresql://{web}/x", tls__disabled=tls))
        assert other.text().replace(web, "127.0.0.1:1") == closed.text()


def test_nothing_is_taken_from_the_environment(
    store: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        ("PGHOST", "127.0.0.9"),
        ("PGPORT", "1"),
        ("PGUSER", "mallory"),
        ("PGDATABASE", "nope"),
        ("PGPASSWORD", "wrong"),
        ("PGSSLMODE", "require"),
        ("PGOPTIONS", "-c nonsense=1"),
        ("PGTARGETSESSIONATTRS", "standby"),
        ("PGREQUIREAUTH", "none"),
    ):
        monkeypatch.setenv(name, value)
    admin.test(store)
