"""COPY, cursors and portals of real clients over results that are being produced: they come in batches, and some have no end yet."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from harness.patience import PATIENCE_S
from headrace.catalog.objects import Principal
from headrace.core.context import SessionContext
from headrace.core.resultset import Cell, LiveRows, ResultColumn
from headrace.core.types import BIGINT, VARCHAR
from headrace.session import StatementService
from tests.clients.postgres.served import Served, serving
from tests.clients.postgres.test_clients import psql
from tests.clients.postgres.test_cursors import copied
from tests.clients.postgres.test_protocol import SYNC, bind, execute, parse, raw, sent
from tests.unit.server.scripted import ScriptedExecuted

STREAM = "SELECT id, item FROM orders LIMIT 3"
CHANGELOG = "SELECT id, item FROM counted LIMIT 3"
ENDLESS = "SELECT id, item FROM orders LIMIT 1000"
ROWS = [(1, "lamp"), (2, None), (3, "a\tchair")]
LINES = "1\tlamp\n2\t\\N\n3\ta\\tchair\n"


class LiveResult:
    """Rows in two batches, and then the end or a wait for more."""

    query_id = "q"
    columns = (ResultColumn("id", BIGINT, nullable=False), ResultColumn("item", VARCHAR))
    message = None

    def __init__(self, *, ends: bool, kinds: bool) -> None:
        self.changelog_key = ("id",) if kinds else None
        self.lacking: str | None = None
        self.closed = threading.Event()
        self._ends = ends
        self._kinds = kinds

    def lost(self) -> str | None:
        return self.lacking

    async def started(self) -> None:
        await asyncio.sleep(0)

    async def __aiter__(self) -> AsyncIterator[LiveRows]:
        cells: list[list[Cell]] = [[str(number), item] for number, item in ROWS]
        for batch in (cells[:2], cells[2:]):
            await asyncio.sleep(0.01)
            yield LiveRows(batch, ["insert"] * len(batch) if self._kinds else None)
        if not self._ends:
            await asyncio.Event().wait()

    async def close(self) -> None:
        self.closed.set()


class LiveStatements:
    """The real statements, but for the three queries of this module."""

    def __init__(self, service: StatementService) -> None:
        self._service = service
        self.results: list[LiveResult] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._service, name)

    async def execute(self, text: str, *, principal: Principal, context: SessionContext, **named: Any) -> Any:
        text = text.strip()  # psql adds spaces to the query of \copy
        if text not in (STREAM, CHANGELOG, ENDLESS):
            return await self._service.execute(text, principal=principal, context=context, **named)
        assert named["bounded"]
        self.results.append(LiveResult(ends=text != ENDLESS, kinds=text == CHANGELOG))
        settled = self._service.settled(context, principal)
        return ScriptedExecuted(("id",), self.results[-1], settled)  # type: ignore[arg-type] # live too


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, list[LiveResult]]]:
    """A door over these statements, and their results."""
    statements: list[LiveStatements] = []

    def runner(service: StatementService) -> Any:
        statements.append(LiveStatements(service))
        return statements[-1]

    with serving(tmp_path_factory.mktemp("live") / "data", runner=runner) as served:
        yield served, statements[0].results


@pytest.fixture
def door(live: tuple[Served, list[LiveResult]]) -> Served:
    return live[0]


@pytest.fixture
def last(live: tuple[Served, list[LiveResult]]) -> Callable[[], LiveResult]:
    return lambda: live[1][-1]


@pytest.mark.parametrize("query", [STREAM, CHANGELOG])
def test_a_result_is_copied_to_its_end(
    connection: psycopg.Connection, last: Callable[[], LiveResult], query: str
) -> None:
    assert copied(connection, f"COPY ({query}) TO STDOUT") == LINES
    assert last().closed.wait(PATIENCE_S)
    assert copied(connection, f"COPY ({query}) TO STDOUT (FORMAT csv, HEADER)").startswith(
        "id,item\n1,lamp\n2,\n"
    )


@pytest.mark.parametrize("query", [STREAM, CHANGELOG])
def test_a_named_cursor_reads_in_parts(door: Served, last: Callable[[], LiveResult], query: str) -> None:
    with psycopg.connect(door.address) as connection:
        for binary in (False, True):
            with connection.cursor("part", binary=binary) as cursor:
                cursor.itersize = 2
                cursor.execute(query.encode())
                assert list(cursor) == ROWS
        connection.execute(f"DECLARE c NO SCROLL CURSOR FOR {query}".encode())
        assert connection.execute("MOVE 1 FROM c").statusmessage == "MOVE 1"
        assert connection.execute("FETCH 1 FROM c").fetchall() == ROWS[1:2]
        assert not last().closed.is_set()
        # The end of the transaction ends the query of the cursor.
        connection.commit()
        assert last().closed.wait(PATIENCE_S)


def test_a_fetch_that_waits_is_cancelled(
    connection: psycopg.Connection, last: Callable[[], LiveResult]
) -> None:
    connection.execute(f"DECLARE c CURSOR WITH HOLD FOR {ENDLESS}".encode())
    assert connection.execute("FETCH 3 FROM c").fetchall() == ROWS
    connection.execute("SET statement_timeout = 200")
    with pytest.raises(psycopg.errors.QueryCanceled, match="statement_timeout"):
        connection.execute("FETCH 1 FROM c")
    connection.execute("RESET statement_timeout")
    with pytest.raises(psycopg.errors.InvalidCursorState, match="failed before"):
        connection.execute("FETCH 1 FROM c")
    assert connection.execute("CLOSE c").statusmessage == "CLOSE CURSOR"
    assert last().closed.wait(PATIENCE_S)


def test_a_copy_that_waits_is_cancelled(
    connection: psycopg.Connection, last: Callable[[], LiveResult]
) -> None:
    connection.execute("SET statement_timeout = 500")
    with pytest.raises(psycopg.errors.QueryCanceled, match="statement_timeout"):
        copied(connection, f"COPY ({ENDLESS}) TO STDOUT")
    connection.execute("RESET statement_timeout")
    assert last().closed.wait(PATIENCE_S)
    assert copied(connection, f"COPY ({STREAM}) TO STDOUT") == LINES


def test_a_lost_privilege_ends_a_cursor(
    connection: psycopg.Connection, last: Callable[[], LiveResult]
) -> None:
    connection.execute(f"DECLARE c CURSOR WITH HOLD FOR {ENDLESS}".encode())
    assert connection.execute("FETCH 1 FROM c").fetchall() == ROWS[:1]
    last().lacking = "the role lost SELECT"
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="lost SELECT"):
        connection.execute("FETCH 1 FROM c")
    connection.execute("CLOSE c")


def kinds_of(client: Any, messages: Sequence[bytes]) -> list[bytes]:
    kinds: list[bytes] = client.exchange(b"".join(messages))
    return kinds


def test_portals_with_row_limits(door: Served, last: Callable[[], LiveResult]) -> None:
    with raw(door) as client:
        assert kinds_of(client, [sent(b"Q", b"BEGIN\0")]) == [b"C", b"Z"]
        start = [parse("", STREAM), bind("p", ""), sent(b"D", b"Pp\0"), execute("p", 1), SYNC]
        assert kinds_of(client, start) == [b"1", b"2", b"T", b"D", b"s", b"Z"]
        assert kinds_of(client, [execute("p", 10), SYNC]) == [b"D", b"D", b"C", b"Z"]
        assert kinds_of(client, [sent(b"C", b"Pp\0"), SYNC]) == [b"3", b"Z"]
        assert last().closed.wait(PATIENCE_S)
        # A suspended portal cannot be continued in a transaction that has failed: rows may be lost.
        start = [parse("", ENDLESS), bind("q", ""), execute("q", 1), SYNC]
        assert kinds_of(client, start) == [b"1", b"2", b"D", b"s", b"Z"]
        assert kinds_of(client, [sent(b"Q", b"SELECT nothing\0")]) == [b"E", b"Z"]
        client.socket.sendall(execute("q", 1) + SYNC)
        error, ready = client.until(b"Z")
        assert (error[0], b"C25P02" in error[1], ready) == (b"E", True, (b"Z", b"E"))
        assert kinds_of(client, [sent(b"Q", b"ROLLBACK\0")]) == [b"C", b"Z"]
        assert last().closed.wait(PATIENCE_S)


def test_psql_copies_and_fetches_in_parts(door: Served, tmp_path: Path) -> None:
    file = tmp_path / "orders.tsv"
    output = psql(door, rf"\copy ({STREAM}) to '{file}'", r"\set FETCH_COUNT 2", CHANGELOG)
    assert output == "COPY 3\n1|lamp\n2|\n3|a\tchair\n"
    assert file.read_text() == LINES
