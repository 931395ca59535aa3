"""Grammar of the cursors of the PostgreSQL door."""

from __future__ import annotations

import pytest

from headrace.server.postgres.cursors import Declaration, Fetch, closed_name, declaration_of, fetch_of
from headrace.server.postgres.errors import PostgresError


@pytest.mark.parametrize(
    ("statement", "declaration"),
    [
        ("DECLARE c CURSOR FOR SELECT 1", Declaration("c", "SELECT 1", 21, is_held=False)),
        (
            'declare "My""c" insensitive no scroll cursor with hold for values (1)',
            Declaration('My"c', "values (1)", 59, is_held=True),
        ),
        (
            "DECLARE C CURSOR WITHOUT HOLD FOR WITH x AS (SELECT 1) SELECT * FROM x",
            Declaration("c", "WITH x AS (SELECT 1) SELECT * FROM x", 34, is_held=False),
        ),
    ],
)
def test_declarations(statement: str, declaration: Declaration) -> None:
    assert declaration_of(statement) == declaration


@pytest.mark.parametrize(
    ("statement", "fetch"),
    [
        ("FETCH c", Fetch("c", 1)),
        ("FETCH FROM c", Fetch("c", 1)),
        ("FETCH NEXT IN c", Fetch("c", 1)),
        ("FETCH FORWARD c", Fetch("c", 1)),
        ('FETCH FORWARD 100 FROM "C"', Fetch("C", 100)),
        ("FETCH FORWARD ALL FROM c", Fetch("c", None)),
        ("MOVE ALL c", Fetch("c", None)),
        ("MOVE +3 FROM c", Fetch("c", 3)),
    ],
)
def test_fetches(statement: str, fetch: Fetch) -> None:
    assert fetch_of(statement) == fetch


def test_closes() -> None:
    assert closed_name("CLOSE ALL") is None
    assert closed_name('CLOSE "a b"') == "a b"


@pytest.mark.parametrize(
    ("statement", "state"),
    [
        ("DECLARE c SCROLL CURSOR FOR SELECT 1", "0A000"),
        ("DECLARE c BINARY CURSOR FOR SELECT 1", "0A000"),
        ("DECLARE c CURSOR FOR LIST STORES", "42601"),
        ("DECLARE c CURSOR", "42601"),
        ("DECLARE", "42601"),
        ("FETCH", "42601"),
        ("FETCH 1.5 FROM c", "42601"),
        ("FETCH a FROM c", "42601"),
        ("FETCH ALL FROM c d", "42601"),
        ("FETCH 0 FROM c", "55000"),
        ("FETCH -1 FROM c", "55000"),
        ("FETCH FORWARD -1 FROM c", "55000"),
        ("FETCH PRIOR FROM c", "55000"),
        ("MOVE ABSOLUTE 5 FROM c", "55000"),
    ],
)
def test_what_a_cursor_cannot_do(statement: str, state: str) -> None:
    with pytest.raises(PostgresError) as refused:
        (declaration_of if statement.startswith("DECLARE") else fetch_of)(statement)
    assert refused.value.state == state
