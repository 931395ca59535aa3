"""SELECT over materialized views, run on a real DuckDB that is closed to the outside."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator

import duckdb
import pytest

from headrace.core.errors import UserError
from headrace.engine.views.functions import install
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
        (
            "SELECT d.carrier, name, day FROM delays d, carriers c WHERE d.carrier = c.carrier AND flights > 1 ORDER BY day",
            [("AA", "Alpha", datetime.date(2026, 1, 1)), ("AA", "Alpha", datetime.date(2026, 1, 2))],
        ),
        (
            "SELECT carrier, COUNT(name) AS n FROM delays FULL JOIN carriers USING (carrier) GROUP BY 1 ORDER BY 1",
            [("AA", 2), ("BB", 1), ("CC", 0)],
        ),
        (
            "SELECT * FROM carriers JOIN (SELECT carrier, MAX(minutes) AS m FROM delays GROUP BY carrier) USING (carrier) ORDER BY m",
            [("BB", "Beta", 5.0), ("AA", "Alpha", 30.0)],
        ),
        (
            "WITH a(c, n) AS (SELECT carrier, COUNT(*) FROM delays GROUP BY 1), b AS (SELECT MAX(n) AS most FROM a) "
            "SELECT c FROM a JOIN b ON n = most",
            [("AA",)],
        ),
        (
            "SELECT carrier FROM carriers WHERE carrier IN (SELECT carrier FROM delays WHERE minutes > 9)",
            [("AA",)],
        ),
        (
            "SELECT carrier FROM delays d WHERE minutes > 5 AND NOT EXISTS "
            "(SELECT 1 FROM delays x WHERE x.carrier = d.carrier AND x.minutes > d.minutes)",
            [("AA",)],
        ),
        (
            "SELECT DISTINCT carrier FROM delays d WHERE EXISTS (SELECT * FROM carriers WHERE carriers.carrier = d.carrier) "
            "AND carrier NOT IN ('BB')",
            [("AA",)],
        ),
        (
            "SELECT DISTINCT carrier FROM delays WHERE carrier NOT IN (SELECT carrier FROM carriers)",
            [("CC",)],
        ),
        (
            "SELECT carrier FROM delays d WHERE minutes > 20 OR carrier IN (SELECT carrier FROM carriers WHERE name = 'Beta') "
            "OR NOT EXISTS (SELECT 1 FROM carriers c WHERE c.carrier = d.carrier) ORDER BY 1",
            [("AA",), ("BB",), ("CC",)],
        ),
        (
            "SELECT carrier FROM delays WHERE minutes > 20 OR EXISTS (SELECT 1 FROM carriers WHERE name = 'Gamma')",
            [("AA",)],
        ),
        (
            "SELECT carrier, SUM(minutes) AS m, GROUPING(carrier) AS g FROM delays GROUP BY ROLLUP(carrier) ORDER BY GROUPING(carrier), 1",
            [("AA", 40.0, 0), ("BB", 5.0, 0), ("CC", None, 0), (None, 45.0, 1)],
        ),
        (
            "SELECT carrier, day, COUNT(*) AS n, GROUPING_ID(carrier, day) AS g FROM delays GROUP BY CUBE(carrier, day) "
            "HAVING GROUPING(day) = 1 ORDER BY 4, 1",
            [("AA", None, 2, 1), ("BB", None, 1, 1), ("CC", None, 1, 1), (None, None, 4, 3)],
        ),
        (
            "SELECT COUNT(*) AS n FROM delays WHERE minutes > 99 GROUP BY GROUPING SETS ((carrier), ())",
            [(0,)],
        ),
        (
            "SELECT COUNT(*) AS n FROM delays GROUP BY flights, GROUPING SETS ((), ROLLUP((carrier, day))) HAVING COUNT(*) > 1",
            [(2,), (2,)],
        ),
        (
            "SELECT c.carrier, (SELECT COUNT(*) FROM delays d WHERE d.carrier = c.carrier AND d.minutes > 5) AS n, l.m, x.p "
            "FROM carriers c LEFT JOIN LATERAL (SELECT minutes AS m FROM delays d WHERE d.carrier = c.carrier "
            "ORDER BY m DESC LIMIT 1 OFFSET 1) l ON TRUE, "
            "LATERAL (SELECT UPPER(name) AS p, l.m + 1 AS q) x ORDER BY 1",
            [("AA", 2, 10.0, "ALPHA"), ("BB", 0, None, "BETA")],
        ),
        (
            "SELECT carrier, (SELECT name FROM carriers c WHERE c.carrier = d.carrier) AS name FROM delays d "
            "WHERE minutes >= (SELECT MAX(minutes) FROM delays e WHERE e.carrier = d.carrier) ORDER BY 1",
            [("AA", "Alpha"), ("BB", "Beta")],
        ),
        # The row of CC has no minutes, which might be any.
        (
            "SELECT carrier FROM delays WHERE (carrier, minutes) NOT IN (SELECT carrier, minutes FROM delays WHERE minutes > 20 OR "
            "carrier = 'CC') ORDER BY 1",
            [("AA",), ("BB",)],
        ),
        (
            "SELECT carrier, minutes FROM delays WHERE minutes < 8 OR (carrier, minutes) NOT IN "
            "(SELECT carrier, 30e0 FROM carriers) ORDER BY 1, 2",
            [("AA", 10.0), ("BB", 5.0), ("CC", None)],
        ),
        (
            "SELECT carrier FROM carriers WHERE (carrier, name) IN (('AA', 'Alpha'), ('BB', NULL)) OR (carrier, name) <> ('BB', 'Beta')",
            [("AA",)],
        ),
        # A NULL among the values: nothing is known not to be in them.
        ("SELECT carrier FROM carriers WHERE 7e0 NOT IN (SELECT minutes FROM delays)", []),
        ("SELECT 1 AS one WHERE EXISTS (SELECT 1 FROM delays WHERE minutes > 29)", [(1,)]),
        ("SELECT 1 AS one WHERE EXISTS (SELECT MAX(minutes) FROM delays WHERE minutes > 99)", [(1,)]),
        ("SELECT 1 AS one WHERE NOT EXISTS (SELECT 1 FROM delays)", []),
        ("SELECT carrier FROM delays INTERSECT SELECT carrier FROM carriers ORDER BY 1", [("AA",), ("BB",)]),
        ("SELECT carrier FROM delays EXCEPT SELECT carrier FROM carriers", [("CC",)]),
        (
            "SELECT carrier FROM delays EXCEPT ALL SELECT carrier FROM carriers ORDER BY carrier",
            [("AA",), ("CC",)],
        ),
        ("(SELECT carrier FROM carriers) ORDER BY carrier DESC LIMIT 1", [("BB",)]),
        (
            "SELECT carrier, ROW_NUMBER() OVER (PARTITION BY carrier ORDER BY minutes DESC NULLS LAST) AS n, "
            "LAG(minutes, 1, 0) OVER (PARTITION BY carrier ORDER BY day) AS before, "
            "SUM(flights) OVER (ORDER BY day, carrier ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS two "
            "FROM delays ORDER BY day, carrier",
            [("AA", 2, 0.0, 2), ("BB", 1, 0.0, 3), ("AA", 1, 10.0, 3), ("CC", 1, 0.0, 2)],
        ),
        (
            "SELECT carrier, NTILE(3) OVER (ORDER BY carrier, day) AS t, PERCENT_RANK() OVER (ORDER BY carrier DESC) AS p, "
            "CUME_DIST() OVER (ORDER BY carrier) AS c FROM delays ORDER BY carrier, day",
            [("AA", 1, 2 / 3, 0.5), ("AA", 1, 2 / 3, 0.5), ("BB", 2, 1 / 3, 0.75), ("CC", 3, 0.0, 1.0)],
        ),
        (
            "SELECT carrier, RANK() OVER (ORDER BY COUNT(*) DESC) AS r, DENSE_RANK() OVER (ORDER BY COUNT(*) DESC) AS d "
            "FROM delays GROUP BY carrier ORDER BY 1",
            [("AA", 1, 1), ("BB", 2, 2), ("CC", 2, 2)],
        ),
        (
            "SELECT carrier FROM (SELECT carrier, ROW_NUMBER() OVER (PARTITION BY carrier ORDER BY day DESC) AS n, minutes "
            "FROM delays) WHERE n = 1 AND minutes > 1 ORDER BY 1",
            [("AA",), ("BB",)],
        ),
        (
            "SELECT day, COUNT(*) OVER (ORDER BY day RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND CURRENT ROW) AS n, "
            "FIRST_VALUE(carrier) OVER (ORDER BY day, carrier) AS f, LEAD(carrier) OVER (ORDER BY day, carrier) AS l "
            "FROM delays ORDER BY day, carrier LIMIT 2",
            [(datetime.date(2026, 1, 1), 2, "AA", "BB"), (datetime.date(2026, 1, 1), 2, "AA", "AA")],
        ),
        (
            "SELECT AVG(CAST(flights AS DECIMAL(10, 2))) OVER () AS a, COUNT(minutes) FILTER (WHERE flights > 1) OVER () AS n "
            "FROM delays LIMIT 1",
            [(decimal.Decimal("1.250000"), 2)],
        ),
        (
            "SELECT COUNT(*) FILTER (WHERE flights > 1) AS n, SUM(minutes) FILTER (WHERE carrier = 'BB') AS m, "
            "COUNT(DISTINCT carrier) FILTER (WHERE minutes IS NOT NULL) AS c FROM delays",
            [(2, 5.0, 2)],
        ),
        ("SELECT DISTINCT COUNT(*) AS n FROM delays GROUP BY carrier ORDER BY n", [(1,), (2,)]),
        ("SELECT COUNT(*) AS n FROM delays HAVING COUNT(*) > 99", []),
        (
            "SELECT carrier, minutes / (SELECT SUM(minutes) FROM delays) AS part FROM delays "
            "WHERE minutes >= (SELECT AVG(minutes) FROM delays) ORDER BY 2",
            [("AA", 30 / 45)],
        ),
        (
            "SELECT (SELECT MAX(name) FROM carriers) AS n, (SELECT COUNT(*) FROM delays WHERE FALSE) AS z",
            [("Beta", 0)],
        ),
        (
            "SELECT carrier, SUM(minutes) - (SELECT MIN(minutes) FROM delays) AS m FROM delays GROUP BY carrier "
            "HAVING COUNT(*) > (SELECT MIN(flights) FROM delays) + 1 ORDER BY 1",
            [("AA", 35.0)],
        ),
        ("SELECT SUM(minutes - (SELECT MIN(minutes) FROM delays)) AS m FROM delays", [(30.0,)]),
        (
            "SELECT carrier FROM carriers c WHERE (SELECT COUNT(*) FROM carriers) IN (SELECT flights FROM delays d WHERE "
            "d.carrier = c.carrier)",
            [("AA",)],
        ),
        (
            "SELECT carrier FROM carriers WHERE 31e0 IN (SELECT (SELECT MAX(minutes) FROM delays) + 1)",
            [("AA",), ("BB",)],
        ),
        (
            "SELECT carrier FROM delays ORDER BY minutes * -1 NULLS FIRST, carrier LIMIT 2 OFFSET 1",
            [("AA",), ("AA",)],
        ),
    ],
)
def test_a_view_query_answers(
    views: duckdb.DuckDBPyConnection, text: str, expected: list[tuple[object, ...]]
) -> None:
    assert rows(views, text) == expected


def test_the_rows_of_a_table_function_are_joined_with_the_row_that_it_is_called_for(
    views: duckdb.DuckDBPyConnection,
) -> None:
    text = "SELECT c.carrier, w.word, w.length FROM carriers c CROSS JOIN LATERAL TABLE(words(c.name)) AS w WHERE w.length > 1"
    query = compile_snapshot(bound(text))
    (function,) = query.functions
    views.execute(
        f"CREATE OR REPLACE MACRO headrace_call_{function.id}(t) AS [{{word: t, length: 1}}, {{word: t, length: 2}}]"
    )
    assert sorted(views.execute(query.sql).fetchall()) == [("AA", "Alpha", 2), ("BB", "Beta", 2)]
    assert (function.signature, function.kind) == ("words(VARCHAR)", "table")
    assert function.result == "ARRAY<STRUCT<word VARCHAR, length INTEGER>>"


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
