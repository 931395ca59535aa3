"""SELECT over materialized views, run on a real DuckDB that is closed to the outside."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

import duckdb
import pytest

from headrace.core.errors import UserError
from headrace.engine.view_functions import install
from headrace.planner.snapshot import compile_snapshot
from tests.plans.world import bound


@pytest.fixture(scope="module")
def views() -> Iterator[duckdb.DuckDBPyConnection]:
    """Two views with a few rows."""
    connection = duckdb.connect(config={"enable_external_access": "false"})
    install(connection)
    connection.execute(
        "CREATE TABLE id_of_delays (carrier VARCHAR, day DATE, minutes DOUBLE, flights BIGINT)"
    )
    connection.execute("CREATE TABLE id_of_carriers (carrier VARCHAR, name VARCHAR)")
    connection.execute(
        "INSERT INTO id_of_delays VALUES ('AA', '2026-01-01', 10, 2), ('AA', '2026-01-02', 30, 2), "
        "('BB', '2026-01-01', 5, 1), ('CC', '2026-01-03', NULL, 0)"
    )
    connection.execute("INSERT INTO id_of_carriers VALUES ('AA', 'Alpha'), ('BB', 'Beta')")
    yield connection
    connection.close()


def rows(views: duckdb.DuckDBPyConnection, text: str) -> list[tuple[object, ...]]:
    """The answer to a SELECT."""
    return views.execute(compile_snapshot(bound(text)).sql).fetchall()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT carrier FROM carriers ORDER BY carrier DESC", [("BB",), ("AA",)]),
        (
            "SELECT carrier, SUM(minutes) AS m FROM delays GROUP BY carrier ORDER BY m DESC",
            [("AA", 40.0), ("BB", 5.0), ("CC", None)],
        ),
        ("SELECT carrier, minutes FROM delays ORDER BY minutes, 1 LIMIT 2", [("CC", None), ("BB", 5.0)]),
        ("SELECT COUNT(*), COUNT(DISTINCT carrier) FROM delays WHERE day > '2026-01-01'", [(2, 2)]),
        (
            "SELECT d.carrier, c.name FROM delays d LEFT JOIN carriers c ON c.carrier = d.carrier "
            "WHERE d.day = '2026-01-01' OR c.name IS NULL ORDER BY 1",
            [("AA", "Alpha"), ("BB", "Beta"), ("CC", None)],
        ),
        (
            "SELECT x.n FROM (SELECT carrier, COUNT(*) AS n FROM delays GROUP BY carrier) x WHERE x.n > 1",
            [(2,)],
        ),
        (
            "WITH a AS (SELECT carrier FROM delays) SELECT DISTINCT carrier FROM a ORDER BY carrier LIMIT 1 OFFSET 1",
            [("BB",)],
        ),
        (
            "SELECT carrier FROM carriers UNION SELECT carrier FROM delays ORDER BY carrier",
            [("AA",), ("BB",), ("CC",)],
        ),
        ("SELECT flights / 2 AS half, flights % 2 AS rest FROM delays WHERE carrier = 'BB'", [(0, 1)]),
        ("SELECT upper('a' || 'b') AS x, CAST(1.5 AS VARCHAR) AS y, 'it''s' AS z", [("AB", "1.5", "it's")]),
        ("SELECT CAST(day AS VARCHAR) AS d FROM delays WHERE carrier = 'CC'", [("2026-01-03",)]),
        (
            "SELECT day + INTERVAL '1' DAY AS d FROM delays WHERE carrier = 'CC'",
            [(datetime.datetime(2026, 1, 4),)],
        ),
        (
            "SELECT carrier, COUNT(*) AS n FROM delays GROUP BY carrier HAVING COUNT(*) > 1 ORDER BY COUNT(*)",
            [("AA", 2)],
        ),
        (
            "SELECT EXTRACT(DAY FROM day) AS d, FLOOR(day TO MONTH) AS m FROM delays WHERE carrier = 'CC'",
            [(3, datetime.datetime(2026, 1, 1))],
        ),
        (
            "SELECT a.carrier, b.name FROM carriers a CROSS JOIN carriers b WHERE a.carrier <> b.carrier ORDER BY 1",
            [("AA", "Beta"), ("BB", "Alpha")],
        ),
    ],
)
def test_a_view_query_answers(
    views: duckdb.DuckDBPyConnection, text: str, expected: list[tuple[object, ...]]
) -> None:
    assert rows(views, text) == expected


def test_the_answer_has_the_declared_columns() -> None:
    query = compile_snapshot(
        bound("SELECT carrier, COUNT(*) AS n, AVG(minutes) AS m FROM delays GROUP BY carrier")
    )
    assert [(column.name, str(column.type)) for column in query.columns] == [
        ("carrier", "VARCHAR"),
        ("n", "BIGINT"),
        ("m", "DOUBLE"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_csv('x')",
        "SELECT getenv('HOME') FROM delays",
        'SELECT * FROM "duckdb_secrets"',
        "SELECT rowtime() FROM delays",
        "SELECT minuts FROM delays",
        "SELECT stops FROM delays d CROSS JOIN UNNEST(ARRAY['a']) AS t(stops)",
    ],
)
def test_nothing_but_views_and_listed_functions_reaches_duckdb(text: str) -> None:
    with pytest.raises(UserError) as caught:
        compile_snapshot(bound(text))
    assert caught.value.state.value in {"3D020", "3D017", "42703", "0A000", "42601"}


def test_a_stream_cannot_be_answered_at_once() -> None:
    with pytest.raises(UserError) as caught:
        compile_snapshot(bound("SELECT carrier FROM flights"))
    assert caught.value.state.value == "0A000"
