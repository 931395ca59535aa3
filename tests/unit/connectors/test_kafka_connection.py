"""Failing steps of a connection to a host without Kafka, with real sockets."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.patience import PATIENCE_S
from headrace.connectors.kafka import connection
from headrace.connectors.kafka.admin import KAFKA
from headrace.core.errors import ExternalError


@pytest.fixture
def web_server() -> Iterator[str]:
    """An address that answers everything with HTTP."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=50)

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"127.0.0.1:{listener.getsockname()[1]}"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def failure_text(uris: str, tls_disabled: str) -> str:
    with pytest.raises(ExternalError) as caught:
        KAFKA.test({"uris": uris, "tls.disabled": tls_disabled})
    return caught.value.text().replace(uris, "ADDRESS")


@pytest.fixture
def closed() -> Iterator[str]:
    """An address at which nothing listens. Its port is bound, so that no other server takes it."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{unused.getsockname()[1]}"


def test_the_step_that_fails_is_named_soon(
    web_server: str, closed: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # librdkafka allows five minutes.
    monkeypatch.setattr(connection, "REQUEST_TIMEOUT_S", min(PATIENCE_S, 300))
    unknown = "no-such-host.invalid:9092"
    expected = {
        (
            unknown,
            "FALSE",
        ): "DNS: the host 'no-such-host.invalid' is not known\nHint: Check the name in 'uris'",
        (
            closed,
            "FALSE",
        ): "TCP: nothing accepts connections at ADDRESS\nHint: Check 'uris', that the broker runs",
        (
            web_server,
            "FALSE",
        ): "TLS: ADDRESS accepts connections and does not speak TLS\nHint: Check the port",
        (
            web_server,
            "TRUE",
        ): "Kafka: ADDRESS accepts connections and does not answer as Kafka\nHint: Check the port",
        # Of several, the one that comes furthest is told.
        (f"{unknown},{closed}", "TRUE"): f"TCP: nothing accepts connections at {closed}",
    }
    started = time.monotonic()
    with ThreadPoolExecutor(len(expected)) as pool:
        texts = dict(zip(expected, pool.map(lambda pair: failure_text(*pair), expected), strict=True))
    for asked, text in expected.items():
        assert texts[asked].startswith(text), (asked, texts[asked])
    assert time.monotonic() - started < PATIENCE_S
    # librdkafka's words are for the operator.
    assert f"Kafka at {closed}: _TRANSPORT" in caplog.text
    assert "Connection refused" in caplog.text
