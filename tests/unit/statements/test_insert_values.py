"""INSERT INTO … VALUES: rows that fit, and the errors of the others, checked without a compute pool."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from harness.session import ADMINISTRATOR, Session, open_session
from headrace.core.context import SessionContext

BEFORE = """
CREATE DATABASE d; USE DATABASE d; USE STORE k;
CREATE CHANGELOG cities (city VARCHAR, id BIGINT, since TIMESTAMP, size DECIMAL(8, 2), PRIMARY KEY (city))
  WITH ('topic' = 'cities', 'value.format' = JSON, 'key.format' = JSON, 'key.type' = 'STRUCT<city VARCHAR>');
"""


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    async with open_session(tmp_path) as opened:
        yield opened


async def problems(session: Session, text: str) -> list[tuple[str, str]]:
    checked = await session.service.check(
        BEFORE + text, principal=ADMINISTRATOR, context=SessionContext(""), files={}
    )
    return [(one.sqlstate, one.message) for one in checked.diagnostics]


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO cities VALUES ('Reno', 1 + 1, TIMESTAMP '2026-01-01 00:00:00', 1.5), (UPPER('rome'), 7, NULL, NULL)",
        "INSERT INTO cities (id, city) VALUES (9, 'Reno')",
        "INSERT INTO cities (id, city) VALUES (CARDINALITY(ARRAY['a', 'b']), MD5(UUID()))",
    ],
)
async def test_rows_of_constants_fit(session: Session, text: str) -> None:
    assert await problems(session, text) == []


@pytest.mark.parametrize(
    ("rest", "state", "message"),
    [
        (" VALUES ('x', 1)", "42804", "the row has 2 values, expected one for each of city, id, since, size"),
        (" (city, id) VALUES ('x', 'y')", "42804", "the column id of the sink is BIGINT"),
        (" (id) VALUES (1)", "42804", "the column city of the sink is NOT NULL"),
        (" (id, city) VALUES (1, NULL)", "42804", "the column city is NOT NULL"),
        (" (citi) VALUES (1)", "42703", "has no column citi"),
        (" (id, id) VALUES (1, 2)", "42601", "the column id is listed twice"),
        (
            " (city, id) VALUES ('x', (SELECT MAX(n) FROM shop.public.\"Best\"))",
            "0A000",
            "cannot read a relation",
        ),
        (" (city, id) VALUES ('x', ARRAY[1])", "42804", "the column id of the sink is BIGINT"),
        (f" (city) VALUES {', '.join(['(1)'] * 501)}", "53000", "at most 500 rows, found 501"),
    ],
)
async def test_other_rows_are_refused(session: Session, rest: str, state: str, message: str) -> None:
    [(sqlstate, text)] = await problems(session, f"INSERT INTO cities{rest}")
    assert sqlstate == state
    assert message in text


TABLES = """
CREATE STORE db WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://localhost/db', 'postgres.username' = 'u', 'postgres.password' = 'p');
CREATE STORE house WITH ('type' = CLICKHOUSE, 'uris' = 'https://localhost:8443/db', 'clickhouse.username' = 'u',
  'clickhouse.password' = 'p');
CREATE TABLE prices (item VARCHAR, price BIGINT, photo BYTES, PRIMARY KEY (item)) WITH ('store' = 'db');
CREATE TABLE sold (id BIGINT, item VARCHAR, photo BYTES, PRIMARY KEY (id)) WITH ('store' = 'house');
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("INSERT INTO prices (item, price) VALUES ('lamp', 1 + 1), ('chair', NULL)", None),
        ("INSERT INTO prices (price) VALUES (1)", None),
        ("INSERT INTO prices (item, price) VALUES ('lamp', 'x')", ("42804", "the column price")),
        ("INSERT INTO prices (item, price) VALUES (NULL, 1)", ("42804", "item is NOT NULL")),
        ("INSERT INTO prices VALUES ('lamp', 1, NULL)", ("0A000", "column photo of the type BYTES")),
        ("INSERT INTO sold (id, photo) VALUES (1, UNHEX('00'))", None),
        ("INSERT INTO sold (item) VALUES ('lamp')", ("42804", "the column id of the sink is NOT NULL")),
        ("INSERT INTO sold (id, photo) VALUES (1, 2)", ("42804", "the column photo")),
        (
            f"INSERT INTO sold (id) VALUES {', '.join(['(1)'] * 501)}",
            ("53000", "at most 500 rows, found 501"),
        ),
    ],
)
async def test_rows_of_a_table_fit_or_are_refused(
    session: Session, text: str, expected: tuple[str, str] | None
) -> None:
    received = await problems(session, TABLES + text)
    if expected is None:
        assert received == []
    else:
        [(sqlstate, message)] = received
        assert sqlstate == expected[0]
        assert expected[1] in message
