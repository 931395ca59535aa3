"""Tests of COPY, cursors and portals over running queries: a stream and a changelog up to a LIMIT, and a view."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from harness.kafka import KafkaClient
from harness.patience import until
from harness.process import HeadraceProcess
from tests.clients.postgres.served import Endpoint
from tests.clients.postgres.test_clients import psql
from tests.clients.postgres.test_cursors import copied
from tests.clients.postgres.test_protocol import SYNC, bind, execute, parse, raw, sent

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

ITEMS = ("lamp", "chair", "lamp")
EARLIEST = "WITH ('starting.position' = 'earliest')"
SET_UP = f"""
CREATE STORE {{name}} WITH ('type' = KAFKA, 'uris' = '{{broker}}', 'tls.disabled' = TRUE);
USE STORE {{name}};
CREATE STREAM orders (id BIGINT, item VARCHAR) WITH ('topic' = '{{name}}', 'value.format' = JSON);
CREATE STREAM doubled WITH ('topic' = '{{name}}_doubled') AS SELECT id * 2 AS id, item FROM orders {EARLIEST};
CREATE MATERIALIZED VIEW sold AS SELECT item, COUNT(*) AS n FROM orders {EARLIEST} GROUP BY item
"""
DOUBLED = f"SELECT id, item FROM doubled {EARLIEST} LIMIT 3"
COUNTED = f"SELECT item, COUNT(*) AS n FROM doubled {EARLIEST} GROUP BY item LIMIT 2"
MORE = DOUBLED.replace("LIMIT 3", "LIMIT 1000")
SOLD = "SELECT item, n FROM sold ORDER BY item"
OF_DOUBLED = [(0, "lamp"), (2, "chair"), (4, "lamp")]
OF_SOLD = [("chair", 1), ("lamp", 2)]


@pytest.fixture(scope="module")
def shop(headrace_server: HeadraceProcess, kafka: KafkaClient) -> Iterator[Endpoint]:
    """A database whose view has every order."""
    name = f"shop{uuid.uuid4().hex[:8]}"
    kafka.create(name)
    kafka.produce(name, [(None, json.dumps({"id": n, "item": item})) for n, item in enumerate(ITEMS)])
    shop = Endpoint(headrace_server.postgres_port, headrace_server.token, name)
    with psycopg.connect(Endpoint(shop.port, shop.token, "").address, autocommit=True) as administrator:
        administrator.execute(f"CREATE DATABASE {name}".encode())
        try:
            with psycopg.connect(shop.address, autocommit=True) as connection:
                for statement in SET_UP.format(name=name, broker=kafka.bootstrap).split(";"):
                    connection.execute(statement.encode())
                until(
                    lambda: connection.execute(SOLD.encode()).fetchall() == OF_SOLD, "the view has all orders"
                )
            yield shop
        finally:
            for statement in (f"DROP DATABASE {name} CASCADE", f"DROP STORE {name} CASCADE"):
                with suppress(psycopg.Error):
                    administrator.execute(statement.encode())


@pytest.fixture
def connection(shop: Endpoint) -> Iterator[psycopg.Connection]:
    with psycopg.connect(shop.address, autocommit=True) as opened:
        yield opened


def test_copies(connection: psycopg.Connection) -> None:
    of_the_view = copied(connection, f"COPY ({SOLD}) TO STDOUT WITH (FORMAT csv, HEADER)")
    assert of_the_view == "item,n\nchair,1\nlamp,2\n"
    lines = copied(connection, f"COPY ({DOUBLED}) TO STDOUT").splitlines()
    assert sorted(lines) == ["0\tlamp", "2\tchair", "4\tlamp"]
    rows = copied(connection, f"COPY ({COUNTED}) TO STDOUT (DELIMITER '|')").splitlines()
    assert len(rows) == 2
    assert set(rows) <= {"lamp|1", "lamp|2", "chair|1"}
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="has no end"):
        copied(connection, "COPY doubled TO STDOUT")
    # The connection is usable after the results that ended early and the refusal.
    assert connection.execute(SOLD.encode()).fetchall() == OF_SOLD


def test_cursors(shop: Endpoint) -> None:
    with psycopg.connect(shop.address) as connection:
        with connection.cursor("of_the_stream") as cursor:
            cursor.itersize = 2
            cursor.execute(DOUBLED.encode())
            assert sorted(cursor) == OF_DOUBLED
        with connection.cursor("of_the_changelog", binary=True) as cursor:
            cursor.execute(COUNTED.encode())
            assert len(cursor.fetchmany(1)) == 1
            assert len(cursor.fetchmany(5)) == 1
            assert cursor.fetchmany(5) == []
        with connection.cursor("of_the_view") as cursor:
            cursor.execute(SOLD.encode())
            assert cursor.fetchone() == OF_SOLD[0]
            assert cursor.fetchall() == OF_SOLD[1:]


def test_a_fetch_that_waits_for_rows_is_timed_out(connection: psycopg.Connection) -> None:
    connection.execute(f"DECLARE c CURSOR WITH HOLD FOR {MORE}".encode())
    assert connection.execute("MOVE 1 FROM c").statusmessage == "MOVE 1"
    assert len(connection.execute("FETCH 2 FROM c").fetchall()) == 2
    connection.execute("SET statement_timeout = 500")
    with pytest.raises(psycopg.errors.QueryCanceled, match="statement_timeout"):
        connection.execute("FETCH 1 FROM c")
    connection.execute("RESET statement_timeout")
    with pytest.raises(psycopg.errors.InvalidCursorState, match="failed before"):
        connection.execute("FETCH 1 FROM c")
    assert connection.execute("CLOSE c").statusmessage == "CLOSE CURSOR"
    assert connection.execute(SOLD.encode()).fetchall() == OF_SOLD


def test_a_copy_that_waits_for_rows_is_cancelled(connection: psycopg.Connection) -> None:
    canceller = threading.Thread(target=connection.cancel_safe)
    received = b""

    def copy_to_the_end() -> None:
        nonlocal received
        with connection.cursor().copy(f"COPY ({MORE}) TO STDOUT".encode()) as copy:
            for data in copy:
                received += bytes(data)
                if received.count(b"\n") == len(ITEMS):
                    canceller.start()

    with pytest.raises(psycopg.errors.QueryCanceled, match="request of the user"):
        copy_to_the_end()
    canceller.join()
    assert sorted(received.split()) == sorted(b"0 2 4 lamp chair lamp".split())
    assert connection.execute(SOLD.encode()).fetchall() == OF_SOLD


def test_portals_with_row_limits(shop: Endpoint) -> None:
    with raw(shop) as client:
        assert client.exchange(sent(b"Q", b"BEGIN\0")) == [b"C", b"Z"]
        started = parse("", DOUBLED) + bind("p", "") + sent(b"D", b"Pp\0") + execute("p", 1) + SYNC
        assert client.exchange(started) == [b"1", b"2", b"T", b"D", b"s", b"Z"]
        assert client.exchange(execute("p", 10) + SYNC) == [b"D", b"D", b"C", b"Z"]
        assert client.exchange(sent(b"C", b"Pp\0") + SYNC) == [b"3", b"Z"]
        assert client.exchange(sent(b"Q", b"COMMIT\0")) == [b"C", b"Z"]


def test_psql(shop: Endpoint, tmp_path: Path) -> None:
    file = tmp_path / "doubled.csv"
    output = psql(shop, rf"\copy ({DOUBLED}) to '{file}' csv header", r"\set FETCH_COUNT 1", SOLD)
    assert output == "COPY 3\nchair|1\nlamp|2\n"
    header, *lines = file.read_text().splitlines()
    assert (header, sorted(lines)) == ("id,item", ["0,lamp", "2,chair", "4,lamp"])
