"""Errors of each failed step of connecting, without secrets."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from harness.authority import Authority
from harness.clickhouse import ClickHouseServer
from headrace.connectors.clickhouse import admin
from headrace.core.errors import ExternalError, HeadraceError, UserError
from tests.clickhouse.conftest import store_of


class Web(BaseHTTPRequestHandler):
    """A server that answers, and is not ClickHouse."""

    def do_GET(self) -> None:
        self.send_response(302)
        self.send_header("Location", "http://127.0.0.1:1/ping")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def web() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Web) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def refused(store: dict[str, str]) -> HeadraceError:
    with pytest.raises(HeadraceError) as caught:
        admin.test(store)
    assert caught.value.hint
    assert store["clickhouse.password"] not in caught.value.text()
    return caught.value


def test_with_and_without_tls(clickhouse: ClickHouseServer, store: dict[str, str]) -> None:
    admin.test(store)
    secured = {
        "uris": clickhouse.tls_uri,
        "tls__disabled": "false",
        "tls__ca_cert_file": clickhouse.authority.pem,
    }
    admin.test(store_of(**secured))
    by_address = {**secured, "uris": clickhouse.tls_uri.replace("localhost", "127.0.0.1")}
    assert "not valid for '127.0.0.1'" in refused(store_of(**by_address)).message
    admin.test(store_of(**by_address, tls__verify_server_hostname="false"))


def test_the_step_that_failed_is_named(clickhouse: ClickHouseServer, web: str) -> None:
    tls = {"uris": clickhouse.tls_uri, "tls__disabled": "false"}
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        cases = {
            "DNS: the host 'no.such.host.invalid' is not known": {
                "uris": "clickhouse://no.such.host.invalid"
            },
            f"127.0.0.1:{port} did not answer as ClickHouse": {"uris": f"clickhouse://127.0.0.1:{port}"},
            "did not answer as ClickHouse": {"uris": web},
            "TLS: .*self-signed|TLS: .*unable to get": tls,
            "TLS: ": {**tls, "tls__ca_cert_file": Authority().pem},
            "authentication: .* refused the store's user": {"clickhouse__password": "hunter2"},
            "authentication: ": {"clickhouse__username": "nobody"},
            "there is no such database .* Database shop does not exist": {"uris": f"{clickhouse.uri}/shop"},
        }
        for expected, differs in cases.items():
            error = refused(store_of(**{"uris": clickhouse.uri, **differs}))
            assert pytest.RaisesExc(HeadraceError, match=expected).matches(error), (expected, error.message)
            assert isinstance(error, UserError if "database" in expected else ExternalError)
    # A TLS server causes the same error as any other server that is not ClickHouse.
    plain = store_of(uris=clickhouse.tls_uri)
    assert "did not answer as ClickHouse" in refused(plain).message
    spoken = store_of(uris=clickhouse.uri, tls__disabled="false")
    assert "TLS: " in refused(spoken).message
