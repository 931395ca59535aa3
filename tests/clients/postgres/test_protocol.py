"""The protocol itself: sign-in, TLS, portals, descriptions, and messages that no client would send."""

from __future__ import annotations

import random
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from psycopg import pq

from harness.authority import Authority
from harness.patience import PATIENCE_S
from headrace.core.errors import UserError
from headrace.core.settings import Settings
from headrace.server.connections import HEADER_TIMEOUT_S
from headrace.server.postgres import messages
from headrace.server.postgres.door import check_listener, is_loopback
from tests.clients.postgres.served import PASSWORD, TOKEN, VIEW, Endpoint, Served, serving

STARTUP = {"user": "admin", "database": "shop"}


def startup(parameters: dict[str, str], version: int = messages.PROTOCOL_VERSION) -> bytes:
    """The first message of a client."""
    body = (
        struct.pack("!I", version)
        + b"".join(f"{key}\0{value}\0".encode() for key, value in parameters.items())
        + b"\0"
    )
    return struct.pack("!I", len(body) + 4) + body


def sent(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


class RawClient:
    """A client that sends any bytes and reads messages."""

    def __init__(self, served: Endpoint, *, signs_in: bool = True) -> None:
        self.socket = socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE_S)
        self.file = self.socket.makefile("rb")
        if signs_in:
            self.socket.sendall(startup({**STARTUP, "database": served.database}))
            assert self.message() == (b"R", struct.pack("!I", 3))
            self.socket.sendall(sent(b"p", served.token.encode() + b"\0"))
            self.until(b"Z")

    def message(self) -> tuple[bytes, bytes]:
        """The next message; (b"", b"") at the end."""
        head = self.file.read(5)
        if len(head) < 5:
            return b"", b""
        return head[:1], self.file.read(int.from_bytes(head[1:]) - 4)

    def until(self, kind: bytes) -> list[tuple[bytes, bytes]]:
        """All messages to the first of that kind, or to the end."""
        received = [self.message()]
        while received[-1][0] not in (kind, b""):
            received.append(self.message())
        return received

    def exchange(self, data: bytes) -> list[bytes]:
        """The kinds of the messages that answer `data`, which ends with a Sync or a query."""
        self.socket.sendall(data)
        return [kind for kind, _ in self.until(b"Z")]


@contextmanager
def raw(served: Endpoint, *, signs_in: bool = True) -> Iterator[RawClient]:
    client = RawClient(served, signs_in=signs_in)
    try:
        yield client
    finally:
        client.file.close()
        client.socket.close()


def parse(name: str, text: str, *oids: int) -> bytes:
    return sent(b"P", f"{name}\0{text}\0".encode() + struct.pack(f"!H{len(oids)}I", len(oids), *oids))


def bind(
    portal: str,
    name: str,
    *values: bytes | None,
    formats: tuple[int, ...] = (),
    results: tuple[int, ...] = (),
) -> bytes:
    parts = [f"{portal}\0{name}\0".encode(), struct.pack(f"!H{len(formats)}h", len(formats), *formats)]
    parts.append(struct.pack("!H", len(values)))
    parts += [
        struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value for value in values
    ]
    return sent(b"B", b"".join(parts) + struct.pack(f"!H{len(results)}h", len(results), *results))


def execute(portal: str, most: int = 0) -> bytes:
    return sent(b"E", portal.encode() + b"\0" + struct.pack("!i", most))


SYNC = sent(b"S")


@pytest.mark.parametrize(
    ("user", "secret", "state"),
    [
        ("admin", TOKEN, None),
        (" ADMIN ", TOKEN, None),
        ("admin", PASSWORD, None),
        ("admin", "wrong", "28P01"),
        ("admin", "", "28P01"),
        ("other", TOKEN, "28P01"),
        ("nobody", PASSWORD, "28P01"),
    ],
)
def test_sign_in(door: Served, user: str, secret: str, state: str | None) -> None:
    with raw(door, signs_in=False) as client:
        client.socket.sendall(startup({"user": user, "database": "shop"}))
        assert client.message()[0] == b"R"
        client.socket.sendall(sent(b"p", secret.encode() + b"\0"))
        kind, body = client.message()
        if state is None:
            assert (kind, body) == (b"R", bytes(4))
        else:
            assert kind == b"E"
            assert f"C{state}\0".encode() in body
            assert b"SFATAL\0" in body
            assert client.message() == (b"", b"")
    entry = door.audited[-1]
    assert (entry.event.value, entry.door) == ("sign_in", "postgres")
    assert entry.outcome.value == ("allowed" if state is None else "denied")
    assert entry.user == (None if user in ("other", "nobody") else "admin")
    assert secret == "" or secret not in repr(entry)


def test_a_password_may_be_guessed_a_few_times_only(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as served:
        address = f"host=127.0.0.1 port={served.port} user=admin dbname=shop"
        for _ in range(5):
            with pytest.raises(psycopg.OperationalError, match="is wrong"):
                psycopg.connect(address, password="guess")
        with pytest.raises(psycopg.OperationalError, match="too many wrong passwords"):
            psycopg.connect(address, password=PASSWORD)
        # A token cannot be guessed, so that it is accepted meanwhile.
        psycopg.connect(address, password=TOKEN).close()


def test_a_dropped_token_ends_its_connections(door: Served) -> None:
    with psycopg.connect(door.address, autocommit=True) as administrator:
        created = administrator.execute("CREATE API_TOKEN short WITH ('token.role_name' = sysadmin)")
        row = dict(
            zip([column.name for column in created.description or ()], created.fetchone() or (), strict=True)
        )
        secret = next(str(value) for value in row.values() if str(value).startswith("hrt_"))
        with psycopg.connect(door.address, password=secret, autocommit=True) as other:
            assert other.execute("SELECT 1").fetchone() == (1,)
            administrator.execute("DROP API_TOKEN short")
            with pytest.raises(psycopg.OperationalError, match="no longer valid"):
                other.execute("SELECT 1")
            assert other.closed


def test_the_database_of_a_connection(door: Served) -> None:
    with pytest.raises(psycopg.OperationalError, match="the database 'nothing' does not exist"):
        psycopg.connect(door.address, dbname="nothing")
    with pytest.raises(psycopg.OperationalError, match=r"the setting nothing does not exist"):
        psycopg.connect(door.address, options="-c nothing=1")
    with pytest.raises(psycopg.OperationalError, match="the role"):
        psycopg.connect(door.address, options="-c role=nobody")
    # Clients that name no database send the user's name.
    with psycopg.connect(door.address, dbname="admin", autocommit=True) as connection:
        assert connection.execute(
            "SELECT name FROM deltastream.sys.\"databases\" WHERE name = 'shop'"
        ).fetchall()


def test_tls(tmp_path: Path) -> None:
    authority, file = Authority(), tmp_path / "certificate.pem"
    file.write_bytes(authority.key_and_certificate("localhost"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    with serving(tmp_path / "data", context) as served:
        trusting = ssl.create_default_context(cadata=authority.pem)
        with socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE_S) as plain:
            plain.sendall(struct.pack("!II", 8, messages.SSL_REQUEST))
            assert plain.recv(1) == b"S"
            with trusting.wrap_socket(plain, server_hostname="localhost") as encrypted:
                encrypted.sendall(startup(STARTUP))
                assert encrypted.recv(9) == messages.CLEARTEXT_PASSWORD
                encrypted.sendall(sent(b"p", TOKEN.encode() + b"\0"))
                assert encrypted.recv(9) == messages.AUTHENTICATED
        # What comes together with the request is not of the client that encrypts.
        with socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE_S) as plain:
            plain.sendall(struct.pack("!II", 8, messages.SSL_REQUEST) + startup(STARTUP))
            assert plain.recv(1) in (b"E", b"S", b"")
            with suppress(ConnectionError):
                while plain.recv(4096):
                    pass


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::"])  # noqa: S104
def test_other_addresses_than_loopback_need_tls(tmp_path: Path, host: str) -> None:
    with pytest.raises(UserError, match="requires TLS"):
        check_listener(Settings(data_dir=tmp_path, host=host, postgres_port=5432))
    check_listener(Settings(data_dir=tmp_path, host=host, postgres_port=5432, tls_cert=tmp_path / "c"))
    check_listener(Settings(data_dir=tmp_path, host=host))
    assert not is_loopback(host)
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "::1", "::ffff:127.0.0.1")))


def test_portals_with_row_limits(door: Served) -> None:
    with raw(door) as client:
        query = parse("s", f'SELECT n FROM "{VIEW}" WHERE n > $1 ORDER BY n', 20)
        begun = client.exchange(sent(b"Q", b"BEGIN\0"))
        assert begun == [b"C", b"Z"]
        first = client.exchange(query + bind("p", "s", b"0") + sent(b"D", b"Pp\0") + execute("p", 2) + SYNC)
        assert first == [b"1", b"2", b"T", b"D", b"D", b"s", b"Z"]
        assert client.exchange(execute("p", 2) + SYNC) == [b"D", b"C", b"Z"]
        assert client.exchange(sent(b"C", b"Pp\0") + execute("p") + SYNC) == [b"3", b"E", b"Z"]
        assert client.exchange(sent(b"Q", b"ROLLBACK\0")) == [b"C", b"Z"]
        # A portal lives as long as its transaction.
        assert client.exchange(bind("q", "s", b"0") + SYNC + execute("q") + SYNC)[:3] == [b"2", b"Z"]
        assert [kind for kind, _ in client.until(b"Z")] == [b"E", b"Z"]


def test_descriptions_do_not_change_anything(door: Served) -> None:
    with raw(door) as client:
        create = parse("c", "CREATE DATABASE described") + sent(b"D", b"Sc\0") + SYNC
        assert client.exchange(create) == [b"1", b"t", b"n", b"Z"]
        assert client.exchange(bind("", "c") + sent(b"D", b"P\0") + SYNC) == [b"2", b"n", b"Z"]
        names = [database.name for database in door.session.catalog.databases()]
        assert "described" not in names
        select = parse("", f'SELECT n FROM "{VIEW}" WHERE n > $1 LIMIT $2', 20) + sent(b"D", b"S\0") + SYNC
        client.socket.sendall(select)
        described = dict(client.until(b"Z"))
        assert described[b"t"] == struct.pack("!HII", 2, 20, 20)
        assert b"n\0" in described[b"T"]
        empty = parse("", "") + bind("", "") + sent(b"D", b"P\0") + execute("") + SYNC
        assert client.exchange(empty) == [b"1", b"2", b"n", b"I", b"Z"]


def test_an_error_skips_to_the_next_sync(door: Served) -> None:
    with raw(door) as client:
        assert client.exchange(parse("", "SELECT") + bind("", "") + execute("") + execute("") + SYNC) == [
            b"1",
            b"2",
            b"E",
            b"Z",
        ]
        assert client.exchange(parse("", "SELECT 1; SELECT 2") + SYNC) == [b"E", b"Z"]
        assert client.exchange(bind("", "nothing") + SYNC) == [b"E", b"Z"]
        assert client.exchange(sent(b"F", b"\0") + SYNC) == [b"E", b"Z"]
        assert client.exchange(sent(b"Q", b"SELECT 1; SELECT nothing; SELECT 2\0")) == [
            b"T",
            b"D",
            b"C",
            b"E",
            b"Z",
        ]
        assert client.exchange(sent(b"Q", b" -- nothing\0")) == [b"I", b"Z"]
        assert client.exchange(parse("", "SELECT $1", 20) + bind("", "", b"1x") + SYNC) == [b"1", b"E", b"Z"]
        assert client.exchange(parse("", "SELECT $70000") + SYNC) == [b"E", b"Z"]
        client.socket.sendall(parse("", "SELECT $1", 20) + bind("", "", b"1", formats=(7,)) + SYNC)
        [_, (kind, body), _] = client.until(b"Z")
        assert (kind, b"(binary), found 7\0" in body) == (b"E", True)


def test_an_older_protocol_is_offered(door: Served) -> None:
    with raw(door, signs_in=False) as client:
        client.socket.sendall(startup({**STARTUP, "_pq_.new": "1"}, messages.PROTOCOL_VERSION + 2))
        assert client.message() == (b"v", struct.pack("!II", messages.PROTOCOL_VERSION, 1) + b"_pq_.new\0")
    with raw(door, signs_in=False) as client:
        client.socket.sendall(startup(STARTUP, 2 << 16))
        kind, body = client.message()
        assert (kind, b"found 2.0\0" in body) == (b"E", True)
    with raw(door, signs_in=False) as client:
        client.socket.sendall(startup({**STARTUP, "replication": "database"}))
        assert b"replication" in client.message()[1]


def test_a_request_to_cancel_needs_the_key(door: Served) -> None:
    with psycopg.connect(door.address, autocommit=True) as connection:
        request = struct.pack("!IIII", 16, messages.CANCEL_REQUEST, connection.pgconn.backend_pid, 1)
        failures: list[Exception] = []

        def slow() -> None:
            try:
                connection.execute(
                    "SELECT count(*) FROM pg_class a, pg_class b, pg_class c WHERE a.oid + b.oid = c.oid + 1"
                )
            except psycopg.Error as error:
                failures.append(error)

        thread = threading.Thread(target=slow)
        thread.start()
        with socket.create_connection(("127.0.0.1", door.port), timeout=PATIENCE_S) as stranger:
            stranger.sendall(request)
            assert stranger.recv(1) == b""
        time.sleep(0.1)
        assert failures == []
        connection.cancel_safe()
        thread.join()


def _hostile(number: random.Random) -> bytes:
    """A message with a wrong length, type or content."""
    kind = bytes([number.choice(b"QPBDECSHFXdcfp\0\xff?")])
    body = number.randbytes(number.randrange(40))
    if number.random() < 0.5:
        body = (
            number.choice(
                [b"\0", b"S\0", b"P\0", b"\0\0", b"\0\0\xff\xff", b"SELECT '\xff'\0", b"\0SELECT 1\0\0\1\xff"]
            )
            + body
        )
    length = len(body) + 4
    if number.random() < 0.3:
        length = number.choice([0, 1, 3, length + 1, length - 1, 2**31 - 1, 2**31, 2**32 - 1])
    return kind + struct.pack("!I", length) + body


def test_hostile_messages(door: Served) -> None:
    """end in an error response or the end of the connection, and never in an internal error; other clients are served on."""
    number = random.Random(61)
    for _ in range(60):
        with raw(door) as client:
            client.socket.sendall(b"".join(_hostile(number) for _ in range(number.randrange(1, 6))))
            client.socket.shutdown(socket.SHUT_WR)
            with suppress(ConnectionError):
                for kind, body in client.until(b""):
                    assert kind in b"EZTDCINSn123tRsv", kind
                    assert b"CXX000" not in body, body
    for _ in range(60):
        with raw(door, signs_in=False) as client, suppress(ConnectionError):
            data = number.randbytes(number.randrange(60))
            if number.random() < 0.5:
                data = struct.pack("!I", len(data) + 4) + data
            client.socket.sendall(data)
            client.socket.shutdown(socket.SHUT_WR)
            assert b"CXX000" not in client.file.read()
    with psycopg.connect(door.address) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_stranger_has_little_time_and_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert HEADER_TIMEOUT_S > 1
    with serving(tmp_path / "data", request_bytes_max=100_000) as served:
        with raw(served) as client:
            client.socket.sendall(b"Q" + struct.pack("!I", 200_000))
            assert b"08P01" in client.message()[1]
        monkeypatch.setattr("headrace.server.postgres.door.HEADER_TIMEOUT_S", 0.2)
        with raw(served, signs_in=False) as client:
            assert client.file.read() == b""


def test_many_statements_and_portals_are_refused(door: Served) -> None:
    with raw(door) as client:
        client.socket.sendall(b"".join(parse(f"s{place}", "SELECT 1") for place in range(1025)) + SYNC)
        received = client.until(b"Z")
        assert [kind for kind, _ in received].count(b"1") == 1024
        assert b"at most 1024 prepared statements" in received[-2][1]
        client.socket.sendall(b"".join(bind(f"p{place}", "s0") for place in range(65)) + SYNC)
        assert b"at most 64 portals" in client.until(b"Z")[-2][1]


def test_a_client_that_does_not_read_holds_nothing_up(door: Served) -> None:
    wide = "SELECT a.relname FROM pg_class a, pg_class b LIMIT 40000"
    with raw(door) as idle:
        idle.socket.sendall(sent(b"Q", wide.encode() + b"\0"))
        time.sleep(0.2)
        with psycopg.connect(door.address) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        rows = [kind for kind, _ in idle.until(b"Z")].count(b"D")
        assert rows == 40_000


def test_pipelines(door: Served) -> None:
    with psycopg.connect(door.address, autocommit=True) as connection, connection.pipeline():
        cursors = [connection.execute("SELECT %s::int", (place,)) for place in range(50)]
        assert [cursor.fetchone() for cursor in cursors] == [(place,) for place in range(50)]
    assert connection.pgconn.status in (pq.ConnStatus.OK, pq.ConnStatus.BAD)
