"""Oracle's driver against simulated listeners: each failed step is reported in time, and nothing about this machine is sent.

A listener's refusal is a single packet, which is easy to simulate. The protocol after an accepted connection needs a real Oracle.
"""

from __future__ import annotations

import getpass
import re
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

import pytest

from harness.authority import Authority
from harness.patience import PATIENCE_S
from headrace.connectors.oracle import admin
from headrace.connectors.oracle.client import Oracle, reach
from headrace.connectors.oracle.options import PROPERTIES, read_store
from headrace.core.errors import ExternalError
from headrace.core.properties import PropertyReader, Scope, of_scope, stored

# The driver leaves the socket of a connection that was reset to be collected.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
_REFUSE = 4
Answer = Callable[[socket.socket, bytes], None]


def store_of(port: int, *, host: str = "127.0.0.1", **properties: str) -> dict[str, str]:
    """The checked properties of a store."""
    given = {
        "uris": f"oracle://{host}:{port}/shop",
        "oracle.username": "app",
        "oracle.password": "hunter2",
        **{name.replace("__", "."): value for name, value in properties.items()},
    }
    return read_store(PropertyReader(stored(given), of_scope(PROPERTIES, Scope.STORE), what="a store"))


@contextmanager
def listening(answer: Answer, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """Yield a port that answers each connection after its first bytes; the first connection is the check by `reach`."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with suppress(OSError), connection:
                    talk = (
                        connection if context is None else context.wrap_socket(connection, server_side=True)
                    )
                    with talk:
                        asked = talk.recv(8192)
                        if asked:
                            answer(talk, asked)

        thread = Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(PATIENCE_S)


def refusing(number: int) -> Answer:
    """Return the answer of a listener that refuses a connection."""
    text = (
        f"(DESCRIPTION=(TMP=)(VSNNUM=0)(ERR={number})(ERROR_STACK=(ERROR=(CODE={number})(EMFI=4))))".encode()
    )
    body = b"\x22\x00" + struct.pack(">H", len(text)) + text

    def answer(connection: socket.socket, _asked: bytes) -> None:
        connection.sendall(struct.pack(">HHBBH", 8 + len(body), 0, _REFUSE, 0, 0) + body)
        # Whoever hangs up on words that he has not read takes his own back.
        connection.settimeout(PATIENCE_S)
        while connection.recv(8192):
            pass

    return answer


def closing(_connection: socket.socket, _asked: bytes) -> None:
    """Close the connection without an answer."""


def refused(store: dict[str, str]) -> str:
    with pytest.raises(ExternalError) as caught:
        admin.test(store)
    assert caught.value.hint
    assert "hunter2" not in caught.value.text()
    return caught.value.message


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (12514, "service: the listener at .* knows none of that name"),
        (12505, "service: the listener at .* knows none of that name"),
        (12516, r"the listener at .* refused the connection: ORA-12516"),
        (12528, r"the listener at .* refused the connection: ORA-12528"),
    ],
)
def test_refusals_of_a_listener_are_reported(number: int, expected: str) -> None:
    with listening(refusing(number)) as port:
        message = refused(store_of(port, tls__disabled="true"))
    assert re.match(expected, message), message


def test_every_server_other_than_oracle_causes_the_same_error() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        closed = store_of(unused.getsockname()[1], tls__disabled="true")
        assert "did not answer as Oracle" in refused(closed)
        with pytest.raises(ExternalError, match="did not answer as Oracle"):
            reach(closed)
    for answer in (
        closing,
        lambda connection, _asked: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    ):
        with listening(answer) as port:
            assert "did not answer as Oracle" in refused(store_of(port, tls__disabled="true"))
    with pytest.raises(ExternalError, match=r"DNS: the host 'nowhere\.invalid' is not known"):
        reach(store_of(1521, host="nowhere.invalid"))


def test_a_listener_that_says_nothing_is_not_waited_for() -> None:
    """The driver itself would wait without end."""
    asked, over = Event(), Event()

    def silent(_connection: socket.socket, _asked: bytes) -> None:
        asked.set()
        over.wait(PATIENCE_S)

    with listening(silent) as port:
        with pytest.raises(ExternalError, match="did not answer as Oracle"):
            Oracle(store_of(port, tls__disabled="true"), timeout_s=0.5)
        assert asked.wait(PATIENCE_S)
        over.set()


def test_a_server_learns_nothing_of_this_machine() -> None:
    asked: list[bytes] = []

    def note(connection: socket.socket, words: bytes) -> None:
        connection.settimeout(PATIENCE_S)
        while b"CONNECTION_ID" not in words and (more := connection.recv(8192)):
            words += more
        asked.append(words)

    with listening(note) as port:
        refused(store_of(port, tls__disabled="true"))
    said = b"".join(asked)
    assert b"(SERVICE_NAME=shop)" in said
    assert b"(PROGRAM=headrace)(HOST=headrace)(USER=headrace)" in said
    assert socket.gethostname().encode() not in said.replace(b"headrace", b"")
    assert f"(USER={getpass.getuser()})".encode() not in said


def test_tls_is_checked(tmp_path: Path) -> None:
    authority = Authority()
    file = tmp_path / "server.pem"

    def context(host: str) -> ssl.SSLContext:
        file.write_bytes(authority.key_and_certificate(host))
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(file)
        return made

    with listening(
        lambda connection, _asked: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    ) as port:
        assert "TLS: " in refused(store_of(port))
    with listening(refusing(12514), context("localhost")) as port:
        assert "is not to be trusted" in refused(store_of(port, host="localhost"))
        trusted = store_of(port, host="localhost", tls__ca_cert_file=authority.pem)
        assert "knows none of that name" in refused(trusted)
    with listening(refusing(12514), context("db.example.com")) as port:
        known = {"host": "localhost", "tls__ca_cert_file": authority.pem}
        assert "is not to be trusted" in refused(store_of(port, **known))
        unchecked = store_of(port, **known, tls__verify_server_hostname="false")
        assert "knows none of that name" in refused(unchecked)
