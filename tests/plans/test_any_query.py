"""Random queries: each is planned, or refused with a position; a query of views returns the same rows as DuckDB for its own text."""

from __future__ import annotations

import random

import duckdb
import pytest

from headrace.core.errors import UserError
from headrace.engine.views.functions import install
from headrace.planner import plan_query
from headrace.planner.explain import explain
from headrace.planner.snapshot import compile_snapshot
from tests.plans.world import bound, sink_of

STREAMING = {
    "flights": ["carrier", "tailnum", "origin", "dest", "note"],
    "bookings": ["tailnum"],
    "planes": ["tailnum", "maker"],
    "airports": ["code", "city"],
    "routes": ["origin", "dest"],
    "arrivals": ["carrier", "note"],
}
VIEWS = {"delays": ["carrier"], "carriers": ["carrier", "name"]}
WINDOWS = [
    "TUMBLE({}, SIZE 1 MINUTE)",
    "HOP({}, SIZE 1 HOUR, ADVANCE BY 1 MINUTE)",
    "CUMULATE({}, SIZE 1 HOUR, STEP BY 1 MINUTE)",
    "SESSION({}, GAP 1 MINUTE)",
]
STATEMENTS = ["", "CREATE STREAM s AS ", "CREATE CHANGELOG s AS ", "CREATE MATERIALIZED VIEW s AS "]
Source = tuple[str, list[str]]


class Queries:
    """SELECTs over `relations`, whose columns are all texts."""

    def __init__(self, seed: int, relations: dict[str, list[str]]) -> None:
        self._random = random.Random(seed)
        self._relations = relations
        self._streaming = relations is STREAMING

    def one_of(self, choices: list[str]) -> str:
        return self._random.choice(choices)

    def select(self, depth: int = 0) -> tuple[str, list[str]]:
        """A query, and the names of its columns."""
        known: list[Source] = []
        text = self._source("s0", known, depth)
        where: list[str] = []
        for number in range(1, self._random.choice([1, 1, 2, 2, 3])):
            text += self._joined(f"s{number}", known, where, depth)
        where.extend(self._condition(known, depth) for _ in range(self._random.choice([0, 0, 1, 2])))
        rows = text + (f" WHERE {' AND '.join(where)}" if where else "")
        if self._random.random() < 0.25:
            return self._grouped(rows, known)
        names = [f"c{number}" for number in range(self._random.choice([1, 2, 3]))]
        items = [f"{self._column(known)} AS {name}" for name in names]
        if self._streaming and self._random.random() < 0.2:
            number = (
                f"ROW_NUMBER() OVER (PARTITION BY {self._column(known)} ORDER BY {self._column(known)}) AS n"
            )
            limit = self.one_of(["n <= 3", "n = 1", "n < 5 AND c0 IS NOT NULL", "2 >= n"])
            return f"SELECT c0 FROM (SELECT {', '.join([*items, number])} FROM {rows}) AS t WHERE {limit}", [
                "c0"
            ]
        return f"SELECT {self.one_of(['', 'DISTINCT '])}{', '.join(items)} FROM {rows}", names

    def _grouped(self, rows: str, known: list[Source]) -> tuple[str, list[str]]:
        window = next((alias for alias, columns in known if "window_start" in columns), None)
        bounds = [f"{window}.window_start", f"{window}.window_end"] if window is not None else []
        keys = list(dict.fromkeys([*bounds, self._column(known)]))
        items = [f"{key} AS c{number}" for number, key in enumerate(keys)]
        count = f"COUNT(*) FILTER (WHERE {self._column(known)} IS NULL) AS n"
        distinct, having = self.one_of(["", "DISTINCT "]), self.one_of(["", " HAVING COUNT(*) > 1"])
        text = f"SELECT {distinct}{', '.join([*items, count])} FROM {rows} GROUP BY {', '.join(keys)}{having}"
        return text, [f"c{number}" for number in range(len(keys))]

    def _source(self, alias: str, known: list[Source], depth: int) -> str:
        name = self.one_of(list(self._relations))
        text, columns, chance = name, self._relations[name], self._random.random()
        if chance > 0.5 and depth < 3:
            query, columns = self.select(depth + 1)
            text = f"({query})"
        if self._streaming and chance > 0.85:
            text = self.one_of(WINDOWS).format(text)
            columns = [*columns, "window_start", "window_end", "window_time"]
        known.append((alias, columns))
        return f"{text} AS {alias}"

    def _joined(self, alias: str, known: list[Source], where: list[str], depth: int) -> str:
        left, chance = list(known), self._random.random()
        source = self._source(alias, known, depth)
        on = f"{self._column(left)} {self.one_of(['=', '=', '>'])} {self._column(known[-1:])}"
        if chance < 0.2:
            where.append(on)
            return f", {source}"
        kind = self.one_of(["", "LEFT ", "FULL ", "RIGHT "])
        shared = sorted(set(left[0][1]) & set(known[-1][1]))
        if chance < 0.3 and shared and len(left) == 1:
            return f" {kind}JOIN {source} USING ({self.one_of(shared)})"
        within = self.one_of(["", " WITHIN 5 MINUTES"]) if self._streaming else ""
        return f" {kind}JOIN {source}{within} ON {on}"

    def _condition(self, known: list[Source], depth: int) -> str:
        word, column, chance = self.one_of(["", "NOT "]), self._column(known), self._random.random()
        name = self.one_of(list(self._relations))
        if chance < 0.3:
            query, names = self.select(depth + 2)
            return f"{column} {word}IN (SELECT {self.one_of(names)} FROM ({query}) AS z)"
        if chance < 0.6:
            return f"{word}EXISTS (SELECT 1 FROM {name} AS e WHERE e.{self.one_of(self._relations[name])} = {column})"
        return f"{column} IS NOT NULL"

    def _column(self, known: list[Source]) -> str:
        alias, columns = self._random.choice(known)
        return f"{alias}.{self.one_of(columns)}"


def test_a_query_is_planned_or_refused_in_place(seed: str) -> None:
    queries, planned = Queries(int(seed, 16), STREAMING), 0
    nowhere: list[str] = []
    for _ in range(300):
        text = queries.one_of(STATEMENTS) + queries.select()[0]
        try:
            logical, sink = sink_of(text)
            explain(logical, plan_query(logical, sink), sink)
            planned += 1
        except UserError as error:
            nowhere.extend([text] if error.span is None else [])
    assert not nowhere
    assert planned > 20


@pytest.fixture(scope="module")
def views() -> duckdb.DuckDBPyConnection:
    """The tables of the two views, and views of their names for DuckDB's own reading of a query."""
    connection = duckdb.connect(config={"disabled_optimizers": "join_elimination"})
    install(connection)
    connection.execute("CREATE TABLE id_of_delays AS SELECT unnest(['AA', 'AA', 'BB', 'CC']) AS carrier")
    connection.execute("CREATE TABLE id_of_carriers (carrier VARCHAR, name VARCHAR)")
    connection.execute(
        "INSERT INTO id_of_carriers VALUES ('AA', 'Alpha'), ('BB', 'AA'), ('DD', NULL), ('EE', 'BB')"
    )
    for name in VIEWS:
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM id_of_{name}")
    return connection


def test_a_query_of_views_answers_as_its_text_does(views: duckdb.DuckDBPyConnection, seed: str) -> None:
    queries, answered = Queries(int(seed, 16), VIEWS), 0
    for _ in range(200):
        text, _ = queries.select()
        try:
            ours = compile_snapshot(bound(text)).sql
        except UserError:
            continue
        rows = [views.execute(sql).fetchall() for sql in (ours, text)]
        assert sorted(rows[0], key=str) == sorted(rows[1], key=str), text
        answered += 1
    assert answered > 50
