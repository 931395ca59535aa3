"""Rewritten subqueries and set operations of continuous queries, computed by DuckDB over random rows, against what the text means.

The logical plan of a continuous query is turned into that of a query of views with the same nodes. So this proves the rewriting;
tests/properties prove that the operators compute in a stream what they compute in a batch.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import duckdb
import pytest

from headrace.analyzer.expressions import Call, ColumnReference, Expression, Literal, Over, transform
from headrace.analyzer.functions import OPERATORS_BY_NAME, WINDOW_FUNCTIONS
from headrace.analyzer.functions.composed import COPIES
from headrace.analyzer.invocation import call, conjunction, equality
from headrace.analyzer.logical import (
    Filter,
    Item,
    LogicalNode,
    Project,
    RegularJoin,
    Scan,
    SnapshotJoin,
    Subquery,
    TopN,
    Unnest,
)
from headrace.analyzer.logical import transform as rebuilt
from headrace.catalog.objects import RelationKind
from headrace.core.types import BIGINT
from headrace.engine.views.functions import install
from headrace.planner.snapshot import compile_snapshot
from tests.plans.world import bound

COLUMNS = {
    "planes": "tailnum VARCHAR, maker VARCHAR, seats INTEGER, built BIGINT",
    "flights": "carrier VARCHAR, tailnum VARCHAR, distance INTEGER, delay DOUBLE",
}
_BY_TAIL = "FROM flights f WHERE f.tailnum = p.tailnum"
_UNLIKE = (
    "NOT EXISTS (SELECT 1 FROM {rows} f WHERE (f.carrier = p.maker OR f.carrier IS NULL OR p.maker IS NULL) "
    "AND (f.distance = p.seats OR f.distance IS NULL OR p.seats IS NULL))"
)
_FEW = "(SELECT carrier, distance FROM flights WHERE delay > 2)"
_BEST = (
    "SELECT carrier, tailnum, ROW_NUMBER() OVER (PARTITION BY tailnum ORDER BY delay DESC NULLS LAST, distance NULLS FIRST, "
    "carrier NULLS FIRST) AS n FROM flights"
)
_KNOWN = f"SELECT tailnum FROM planes WHERE built < 2 OR seats NOT IN (SELECT distance FROM {_FEW})"

ROUNDS_MIN, ROUNDS_MAX, ANSWERS_MIN = 40, 2_000, 10
CASES = {
    "not_in_rows": (
        f"SELECT tailnum FROM planes p WHERE (maker, seats) NOT IN (SELECT carrier, distance FROM {_FEW})",
        f"SELECT tailnum FROM planes p WHERE {_UNLIKE.format(rows=_FEW)}",
    ),
    "not_in_rows_of_each": (
        f"SELECT tailnum FROM planes p WHERE (maker, seats) NOT IN (SELECT carrier, distance {_BY_TAIL})",
        f"SELECT tailnum FROM planes p WHERE {_UNLIKE.format(rows=f'(SELECT * {_BY_TAIL})')}",
    ),
    "in_rows": (
        "SELECT tailnum FROM planes p WHERE (maker, seats) IN (SELECT carrier, distance FROM flights)",
        "SELECT tailnum FROM planes p WHERE EXISTS (SELECT 1 FROM flights f WHERE f.carrier = p.maker AND f.distance = p.seats)",
    ),
    "not_in_or": (
        f"{_KNOWN} OR NOT (seats NOT IN (SELECT distance FROM flights))",
        f"{_KNOWN} OR NOT (seats NOT IN (SELECT distance FROM flights))",
    ),
    "not_in_rows_or": (
        f"SELECT tailnum FROM planes p WHERE built < 2 OR (maker, seats) NOT IN (SELECT carrier, distance FROM {_FEW})",
        f"SELECT tailnum FROM planes p WHERE built < 2 OR {_UNLIKE.format(rows=_FEW)}",
    ),
    "intersect_all": (
        "SELECT maker, seats FROM planes INTERSECT ALL SELECT carrier, distance FROM flights",
        "SELECT maker, seats FROM planes INTERSECT ALL SELECT carrier, distance FROM flights",
    ),
    "except_all": (
        "SELECT carrier FROM flights EXCEPT ALL SELECT maker FROM planes",
        "SELECT carrier FROM flights EXCEPT ALL SELECT maker FROM planes",
    ),
    "lateral_rows": (
        "SELECT tailnum, l.c, l.d FROM planes p LEFT JOIN LATERAL (SELECT COALESCE(carrier, 'none'), delay "
        f"{_BY_TAIL} AND f.distance > p.seats AND f.delay < 3) AS l(c, d) ON TRUE",
        "SELECT p.tailnum, CASE WHEN f.tailnum IS NOT NULL THEN COALESCE(carrier, 'none') END AS c, delay AS d FROM planes p LEFT JOIN "
        "flights f ON f.tailnum = p.tailnum AND f.distance > p.seats AND f.delay < 3",
    ),
    "lateral_of_both": (
        f"SELECT tailnum, l.x FROM planes p, LATERAL (SELECT distance + p.seats AS x {_BY_TAIL}) AS l",
        "SELECT p.tailnum, distance + seats AS x FROM planes p JOIN flights f ON f.tailnum = p.tailnum",
    ),
    "lateral_top_n": (
        "SELECT p.tailnum, l.carrier FROM planes p, LATERAL (SELECT carrier "
        f"{_BY_TAIL} ORDER BY delay DESC, distance, carrier LIMIT 2 OFFSET 1) AS l",
        f"SELECT p.tailnum, l.carrier FROM planes p JOIN ({_BEST}) l ON l.tailnum = p.tailnum AND l.n IN (2, 3)",
    ),
    "lateral_aggregate": (
        f"SELECT tailnum, l.n, l.m FROM planes p, LATERAL (SELECT COUNT(distance) + 1 AS n, MAX(delay) - p.seats AS m {_BY_TAIL}) AS l",
        f"SELECT tailnum, (SELECT COUNT(distance) + 1 {_BY_TAIL}) AS n, (SELECT MAX(delay) {_BY_TAIL}) - seats AS m FROM planes p",
    ),
    "lateral_groups": (
        f"SELECT p.tailnum, l.c, l.n FROM planes p, LATERAL (SELECT carrier AS c, COUNT(*) AS n {_BY_TAIL} "
        "GROUP BY carrier HAVING COUNT(*) > 1) l",
        "SELECT p.tailnum, carrier AS c, COUNT(*) AS n FROM planes p JOIN flights f ON f.tailnum = p.tailnum GROUP BY p.tailnum, carrier "
        "HAVING COUNT(*) > 1",
    ),
    "lateral_distinct": (
        f"SELECT p.tailnum, l.c, l.x FROM planes p LEFT JOIN LATERAL (SELECT DISTINCT carrier AS c, delay > 2 AS x {_BY_TAIL}) l ON TRUE",
        "SELECT DISTINCT p.tailnum, carrier AS c, delay > 2 AS x FROM planes p LEFT JOIN flights f ON f.tailnum = p.tailnum",
    ),
    "lateral_union": (
        f"SELECT p.tailnum, l.c, l.d FROM planes p, LATERAL (SELECT carrier AS c, distance AS d {_BY_TAIL} UNION ALL (SELECT maker, "
        f"seats + 0.5 FROM planes q WHERE p.tailnum = q.tailnum) UNION ALL SELECT MAX(carrier), COUNT(*) {_BY_TAIL} GROUP BY f.tailnum) l",
        "SELECT p.tailnum, c, d FROM planes p JOIN (SELECT tailnum, carrier AS c, distance AS d FROM flights UNION ALL SELECT tailnum, "
        "maker, seats + 0.5 FROM planes UNION ALL SELECT tailnum, MAX(carrier), COUNT(*) FROM flights GROUP BY tailnum) l USING (tailnum)",
    ),
    "lateral_intersect": (
        f"SELECT p.tailnum, l.c FROM planes p, LATERAL (SELECT carrier AS c {_BY_TAIL} AND delay > 1 INTERSECT SELECT carrier {_BY_TAIL} "
        f"AND distance > 1 EXCEPT ALL SELECT carrier {_BY_TAIL} AND delay > 3) l",
        "SELECT p.tailnum, c FROM planes p JOIN (SELECT tailnum, carrier AS c FROM flights WHERE delay > 1 INTERSECT SELECT tailnum, "
        "carrier FROM flights WHERE distance > 1 EXCEPT ALL SELECT tailnum, carrier FROM flights WHERE delay > 3) l USING (tailnum)",
    ),
    "lateral_pivot": (
        "SELECT tailnum, l.name, l.x FROM planes, LATERAL (SELECT 'seats' AS name, seats + 0.5 AS x UNION ALL SELECT 'built', built "
        "UNION ALL SELECT maker, CAST(NULL AS INTEGER)) l",
        "SELECT tailnum, 'seats' AS name, seats + 0.5 AS x FROM planes UNION ALL SELECT tailnum, 'built', built FROM planes "
        "UNION ALL SELECT tailnum, maker, NULL FROM planes",
    ),
    "lateral_columns": (
        "SELECT tailnum, b.y FROM planes, LATERAL (SELECT seats * 2 AS x WHERE seats > 1) a, LATERAL (SELECT a.x + built AS y, 1 AS z) b",
        "SELECT tailnum, seats * 2 + built AS y FROM planes WHERE seats > 1",
    ),
    "values_of_rows": (
        f"SELECT tailnum, (SELECT COUNT(*) {_BY_TAIL}) AS n, (SELECT maker FROM planes q WHERE q.tailnum = p.tailnum) AS m FROM planes p "
        f"WHERE seats >= (SELECT AVG(distance) FROM flights f WHERE f.carrier = p.maker) OR built > (SELECT MAX(delay) {_BY_TAIL})",
        f"SELECT tailnum, (SELECT COUNT(*) {_BY_TAIL}) AS n, maker AS m FROM planes p "
        f"WHERE seats >= (SELECT AVG(distance) FROM flights f WHERE f.carrier = p.maker) OR built > (SELECT MAX(delay) {_BY_TAIL})",
    ),
    "first_value_of_rows": (
        f"SELECT tailnum, (SELECT carrier {_BY_TAIL} ORDER BY delay DESC, distance, carrier LIMIT 1) AS c FROM planes p",
        f"SELECT p.tailnum, l.carrier AS c FROM planes p LEFT JOIN ({_BEST}) l ON l.tailnum = p.tailnum AND l.n = 1",
    ),
}
CASES |= {
    name: (text, text)
    for name, text in {
        "values_beside_groups": "SELECT maker, SUM(seats) - (SELECT MIN(distance) FROM flights) AS x, COUNT(*) AS n FROM planes "
        "WHERE built < 3 GROUP BY maker HAVING SUM(seats) >= (SELECT AVG(distance) FROM flights WHERE delay < 4) AND COUNT(*) < 5",
        "values_beside_an_aggregate": "SELECT SUM(seats) - (SELECT COUNT(*) FROM flights) AS x, MAX(seats + (SELECT MAX(delay) FROM "
        "flights)) AS y FROM planes",
        "values_of_groups": "SELECT DISTINCT maker || 'x' AS m, (SELECT COUNT(*) FROM flights f WHERE f.carrier = p.maker) + "
        "COUNT(*) AS n FROM planes p GROUP BY maker, built % 2 HAVING built % 2 <= (SELECT MAX(delay) FROM flights f WHERE "
        "f.carrier = p.maker)",
        "values_of_sets": "SELECT maker, built, COUNT(*) AS n, EXISTS (SELECT 1 FROM flights f WHERE f.carrier = p.maker) AS e FROM "
        "planes p GROUP BY maker, ROLLUP(built) HAVING COUNT(*) < (SELECT COUNT(*) FROM flights)",
        "answers_of_groups": "SELECT maker, MAX(seats) IN (SELECT distance FROM flights) AS a, MIN(seats) NOT IN (SELECT distance "
        "FROM flights f WHERE f.carrier = p.maker) AS b FROM planes p GROUP BY maker HAVING COUNT(*) NOT IN (SELECT distance FROM "
        "flights WHERE delay > 2)",
        "answers": "SELECT tailnum, EXISTS (SELECT 1 FROM flights f WHERE f.tailnum = p.tailnum) AS a, seats IN (SELECT distance "
        "FROM flights WHERE delay > 1) AS b, NOT EXISTS (SELECT 1 FROM flights WHERE delay > 3) AS c, seats NOT IN (SELECT distance "
        "FROM flights f WHERE f.carrier = p.maker) AS d, (maker, built) IN (SELECT carrier, distance FROM flights WHERE delay > 2) "
        "AS e FROM planes p",
        "answers_in_case": "SELECT tailnum, CASE WHEN seats IN (SELECT distance FROM flights) THEN 'in' WHEN NOT (seats IN (SELECT "
        "distance FROM flights)) THEN 'out' END AS a FROM planes p WHERE CASE WHEN built > 1 THEN EXISTS (SELECT 1 FROM flights f "
        "WHERE f.carrier = p.maker) ELSE TRUE END",
        "answers_in_aggregates": "SELECT COUNT(*) FILTER (WHERE EXISTS (SELECT 1 FROM flights f WHERE f.tailnum = p.tailnum)) AS n, "
        "SUM(CASE WHEN seats IN (SELECT distance FROM flights) THEN 1 ELSE 0 END) AS m FROM planes p",
        "groups_by_answers": "SELECT seats IN (SELECT distance FROM flights) AS a, (SELECT MAX(delay) FROM flights f WHERE "
        "f.carrier = p.maker) AS b, COUNT(*) AS n, (SELECT MAX(delay) FROM flights) AS m FROM planes p GROUP BY a, b",
        "conditions_of_joins": "SELECT p.tailnum, f.delay FROM planes p JOIN flights f ON f.tailnum = p.tailnum AND f.distance NOT "
        "IN (SELECT seats FROM planes WHERE built > 2) AND (p.built > 1 OR EXISTS (SELECT 1 FROM flights g WHERE g.carrier = "
        "f.carrier)) LEFT JOIN planes q ON q.maker = f.carrier WHERE f.delay < (SELECT MAX(delay) FROM flights)",
        "conditions_alone": "SELECT p.tailnum, q.tailnum AS other FROM planes p JOIN planes q ON EXISTS (SELECT 1 FROM flights f "
        "WHERE f.carrier = p.maker AND f.distance = q.seats)",
    }.items()
}


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        install(connection)
        for name, columns in COLUMNS.items():
            connection.execute(f"CREATE TABLE id_of_{name} ({columns})")
            connection.execute(f"CREATE VIEW {name} AS SELECT * FROM id_of_{name}")
        yield connection


def _fill(database: duckdb.DuckDBPyConnection, seed: str) -> None:
    draw = random.Random(seed)

    def one(*values: object) -> object:
        return draw.choice((None, *values))

    planes = [
        (f"t{number}", one("a", "b"), one(1, 2, 3), one(1, 2, 3)) for number in range(draw.randrange(8))
    ]
    flights = [
        (one("a", "b", "c"), one("t0", "t1", "t2"), one(1, 2, 3, 4), one(1.0, 2.0, 3.0, 4.0))
        for _ in range(draw.randrange(10))
    ]
    for name, rows in (("planes", planes), ("flights", flights)):
        database.execute(f"DELETE FROM id_of_{name}")
        for row in rows:
            database.execute(f"INSERT INTO id_of_{name} VALUES (?, ?, ?, ?)", row)


def _as_views(node: LogicalNode) -> LogicalNode:
    """Return a node of a continuous query as one of a query of views."""
    match node:
        case Scan():
            return replace(node, relation=replace(node.relation, kind=RelationKind.MATERIALIZED_VIEW))
        case RegularJoin():
            conditions: list[Expression] = [
                equality(*pair) for pair in zip(node.left_keys, node.right_keys, strict=True)
            ]
            conditions.extend([node.condition] if node.condition is not None else [])
            right = node.right
            if isinstance(right, Filter):
                conditions.append(right.condition)
                right = right.input
            return SnapshotJoin(node.left, right, conjunction(conditions) if conditions else None, node.kind)
        case Project(input=TopN() as top):
            return _numbered(node, top)
        case Unnest():
            return replace(node, array=transform(node.array, _copies))
    return node


def _copies(expression: Expression) -> Expression:
    is_copies = isinstance(expression, Call) and expression.function is COPIES
    return replace(expression, function=replace(COPIES, duckdb="range({0})")) if is_copies else expression  # type: ignore[call-arg]


def _numbered(node: Project, top: TopN) -> Project:
    number = Over(
        function=WINDOW_FUNCTIONS["ROW_NUMBER"],
        arguments=(),
        partition_by=top.partition_by,
        order_by=top.order_by,
        type=BIGINT,
        nullable=False,
    )
    rows = Subquery(Project(top.input, (*node.items, Item("place", number))), "numbered")

    def column(name: str) -> ColumnReference:
        match = next(column for column in rows.schema.columns if column.name == name)
        return ColumnReference(source="numbered", column=name, type=match.type, nullable=match.nullable)

    limits = [
        call(
            OPERATORS_BY_NAME[operator],
            [column("place"), Literal(type=BIGINT, text=str(limit), nullable=False)],
            span=None,
        )
        for operator, limit in ((">", top.skipped), ("<=", top.limit))
    ]
    return Project(
        Filter(rows, conjunction(limits)), tuple(Item(item.name, column(item.name)) for item in node.items)
    )


@pytest.mark.parametrize("name", CASES)
def test_a_rewritten_query_means_the_same(name: str, database: duckdb.DuckDBPyConnection, seed: str) -> None:
    text, meaning = CASES[name]
    plan = bound(text)
    ours = compile_snapshot(replace(plan, root=rebuilt(plan.root, _as_views), snapshot=True)).sql
    answers = number = 0
    # Few sets of rows have answers to some queries.
    while number < ROUNDS_MIN or answers < ANSWERS_MIN:
        assert number < ROUNDS_MAX, f"{answers} answers"
        _fill(database, f"{seed} {number}")
        rows = [sorted(database.execute(sql).fetchall(), key=str) for sql in (ours, meaning)]
        assert rows[0] == rows[1], (number, ours)
        answers += len(rows[0])
        number += 1
