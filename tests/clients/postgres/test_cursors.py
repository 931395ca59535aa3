"""COPY and cursors of real clients: psycopg, and psql with FETCH_COUNT and \\copy."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from headrace.server.postgres import cursors
from tests.clients.postgres.served import VIEW, Served
from tests.clients.postgres.test_clients import psql
from tests.clients.postgres.test_protocol import SYNC, bind, execute, parse, raw, sent

QUERY = f'SELECT n FROM "{VIEW}" ORDER BY n'


def copied(connection: psycopg.Connection, statement: str) -> str:
    with connection.cursor().copy(statement.encode()) as copy:
        return b"".join(map(bytes, copy)).decode()


def test_a_query_and_a_relation_are_copied(connection: psycopg.Connection) -> None:
    assert copied(connection, f"COPY ({QUERY}) TO STDOUT") == "1\n2\n3\n"
    assert sorted(copied(connection, f'COPY "{VIEW}" TO STDOUT CSV HEADER').split()) == ["1", "2", "3", "n"]
    assert copied(connection, f'COPY "{VIEW}" (n, n) TO STDOUT WITH (FORMAT csv)').count(",") == 3
    values = "VALUES ('a,b', NULL, TRUE), ('', 'x', FALSE)"
    query = f"COPY (SELECT * FROM ({values}) AS t (p, q, r)) TO STDOUT (FORMAT csv, HEADER, NULL '~')"
    assert "42" in copied(connection, "COPY (SELECT 42 AS x) TO STDOUT")
    assert copied(connection, query) == 'p,q,r\n"a,b",~,t\n,x,f\n'
    # A query of PostgreSQL's catalog.
    catalog = "COPY (SELECT relname, relkind FROM pg_class WHERE relname = 'Best') TO STDOUT (DELIMITER '|')"
    assert copied(connection, catalog) == "Best|m\n"
    with connection.cursor().copy(f"COPY ({QUERY}) TO STDOUT".encode()) as copy:
        assert list(copy.rows()) == [("1",), ("2",), ("3",)]
    with connection.cursor().copy(b"COPY (SELECT %s AS a) TO STDOUT", ("x\ty",)) as copy:
        assert b"".join(map(bytes, copy)) == b"x\\ty\n"


def test_a_copy_that_fails(connection: psycopg.Connection) -> None:
    with pytest.raises(psycopg.errors.FeatureNotSupported) as refused:
        copied(connection, "COPY orders FROM STDIN")
    assert refused.value.diag.message_hint is not None
    assert "INSERT INTO" in refused.value.diag.message_hint
    for statement in ("COPY (SELECT nothing) TO STDOUT", "COPY nothing TO STDOUT"):
        with pytest.raises(psycopg.Error) as unknown:
            copied(connection, statement)
        position = unknown.value.diag.statement_position
        assert position == str(statement.index("nothing") + 1), statement
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="has no end"):
        copied(connection, "COPY orders TO STDOUT")
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_the_messages_of_a_copy(door: Served) -> None:
    copy = f"COPY ({QUERY}) TO STDOUT (FORMAT csv, HEADER)"
    with raw(door) as client:
        described = parse("c", copy) + sent(b"D", b"Sc\0") + SYNC
        assert client.exchange(described) == [b"1", b"t", b"n", b"Z"]
        run = bind("", "c") + sent(b"D", b"P\0") + execute("", 1) + SYNC
        assert client.exchange(run) == [b"2", b"n", b"H", b"d", b"d", b"d", b"d", b"c", b"C", b"Z"]
        client.socket.sendall(sent(b"Q", copy.encode() + b"\0"))
        assert client.until(b"Z")[-2] == (b"C", b"COPY 3\0")


def test_a_named_cursor_of_psycopg(door: Served) -> None:
    with psycopg.connect(door.address) as connection:
        for binary in (False, True):
            with connection.cursor("Part", binary=binary) as cursor:
                cursor.itersize = 2
                cursor.execute(QUERY.encode())
                assert [column.name for column in cursor.description or ()] == ["n"]
                listed = connection.execute("SELECT name, is_holdable FROM pg_cursors").fetchall()
                assert listed == [("Part", False)]
                assert cursor.fetchone() == (1,)
                assert cursor.fetchmany(5) == [(2,), (3,)]
                assert cursor.fetchmany(5) == []
            with connection.cursor("Part", binary=binary) as cursor:
                cursor.execute(f'SELECT n FROM "{VIEW}" WHERE n > %s ORDER BY n'.encode(), (1,))
                assert list(cursor) == [(2,), (3,)]
        assert connection.execute("SELECT name FROM pg_cursors").fetchall() == []
        connection.rollback()
        # A cursor ends with its transaction, and one WITH HOLD stays after a commit.
        held = connection.cursor("held", withhold=True)
        held.execute(QUERY.encode())
        connection.execute(f"DECLARE short CURSOR FOR {QUERY}".encode())
        connection.commit()
        assert connection.execute("SELECT name FROM pg_cursors").fetchall() == [("held",)]
        assert held.fetchall() == [(1,), (2,), (3,)]
        connection.rollback()
        assert connection.execute("SELECT count(*) FROM pg_cursors").fetchone() == (1,)
        held.close()
        connection.execute(f"DECLARE undone CURSOR WITH HOLD FOR {QUERY}".encode())
        connection.rollback()
        assert connection.execute("SELECT name FROM pg_cursors").fetchall() == []


def test_cursors_in_sql(connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(psycopg.errors.NoActiveSqlTransaction):
        connection.execute(f"DECLARE c CURSOR FOR {QUERY}".encode())
    connection.execute(f"DECLARE c CURSOR WITH HOLD FOR {QUERY}".encode())
    with pytest.raises(psycopg.errors.DuplicateCursor):
        connection.execute(f"DECLARE c CURSOR WITH HOLD FOR {QUERY}".encode())
    assert connection.execute("MOVE c").statusmessage == "MOVE 1"
    fetched = connection.execute("FETCH FORWARD 1 FROM c")
    assert (fetched.fetchall(), fetched.statusmessage) == ([(2,)], "FETCH 1")
    assert connection.execute("FETCH ALL FROM c").fetchall() == [(3,)]
    fetched = connection.execute("FETCH c", prepare=True)
    assert (fetched.fetchall(), fetched.statusmessage) == ([], "FETCH 0")
    assert connection.execute("CLOSE c").statusmessage == "CLOSE CURSOR"
    for statement in ("FETCH c", "MOVE c", "CLOSE c"):
        with pytest.raises(psycopg.errors.InvalidCursorName):
            connection.execute(statement.encode())
    with pytest.raises(psycopg.Error) as unknown:
        connection.execute("DECLARE c CURSOR WITH HOLD FOR SELECT nothing")
    assert unknown.value.diag.statement_position == "39"
    connection.execute("DECLARE c CURSOR WITH HOLD FOR SELECT 1 AS x")
    assert connection.execute("CLOSE ALL").statusmessage == "CLOSE CURSOR ALL"
    monkeypatch.setattr(cursors, "CURSORS_MAX", 2)
    monkeypatch.setattr(cursors, "HELD_ROWS_MAX", 3)
    connection.execute("DECLARE c0 CURSOR WITH HOLD FOR SELECT 1 AS x")
    with pytest.raises(psycopg.OperationalError, match="hold at most 3 rows"):
        connection.execute(f"DECLARE c1 CURSOR WITH HOLD FOR {QUERY}".encode())
    connection.execute("DECLARE c1 CURSOR WITH HOLD FOR SELECT 1 AS x")
    with pytest.raises(psycopg.OperationalError, match="at most 2 cursors"):
        connection.execute("DECLARE c CURSOR WITH HOLD FOR SELECT 1 AS x")
    connection.execute("DISCARD ALL")
    assert connection.execute("SELECT count(*) FROM pg_cursors").fetchone() == (0,)


def test_psql_copies_and_fetches_in_parts(door: Served, tmp_path: Path) -> None:
    file = tmp_path / "best.csv"
    output = psql(door, rf"\copy ({QUERY}) to '{file}' csv header", r"\set FETCH_COUNT 2", QUERY)
    assert output == "COPY 3\n1\n2\n3\n"
    assert file.read_text() == "n\n1\n2\n3\n"
    assert psql(door, f"BEGIN; DECLARE c NO SCROLL CURSOR FOR {QUERY}; FETCH FORWARD 2 FROM c; COMMIT") == (
        "BEGIN\nDECLARE CURSOR\n1\n2\nCOMMIT\n"
    )
