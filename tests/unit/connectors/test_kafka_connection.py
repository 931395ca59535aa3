"""What a store's test says of an address where no Kafka is, asked of real sockets."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.connectors.kafka.admin import KAFKA
from headrace.connectors.kafka.connection import REQUEST_TIMEOUT_S
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


def told(uris: str, tls_disabled: str) -> str:
    with pytest.raises(ExternalError) as caught:
        KAFKA.test({"uris": uris, "tls.disabled": tls_disabled})
    return caught.value.text().replace(uris, "ADDRESS")


def test_a_closed_port_and_another_server_are_told_alike_and_soon(
    web_server: str, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        closed = f"127.0.0.1:{free.getsockname()[1]}"
    asked = [
        (address, tls)
        for address in (closed, web_server, "no-such-host.invalid:9092")
        for tls in ("TRUE", "FALSE")
    ]
    started = time.monotonic()
    with ThreadPoolExecutor(len(asked)) as pool:
        texts = set(pool.map(lambda pair: told(*pair), asked))
    assert len(texts) == 1
    assert texts.pop().startswith("ADDRESS did not answer as Kafka\nHint: Check 'uris'")
    assert time.monotonic() - started < REQUEST_TIMEOUT_S / 3
    # What they were is for the operator.
    assert f"Kafka at {closed}: _TRANSPORT" in caplog.text
    assert "Connection refused" in caplog.text
