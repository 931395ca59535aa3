"""Lineage of columns: a table of queries, and what holds of every query of the plan snapshots."""

from __future__ import annotations

import pytest

from headrace.analyzer.lineage import lineage
from headrace.analyzer.logical import Scan, walk
from tests.plans.test_plans import CASES, NAMES
from tests.plans.world import bound, sink_of

_OF_FLIGHTS = "FROM flights WITH ('starting.position' = 'earliest')"


def written(text: str) -> list[str]:
    """Return the lineage of a query as `column <- relation.column KIND`; `*` is for the rows."""
    return sorted(
        f"{each.column or '*'} <- {each.relation.removeprefix('id_of_')}.{each.source} {each.kind.value}"
        for each in lineage(bound(text).root)
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f"SELECT carrier AS c, UPPER(origin) AS o, 1 AS one {_OF_FLIGHTS} WHERE distance > 5",
            [
                "* <- flights.distance FILTER",
                "c <- flights.carrier IDENTITY",
                "o <- flights.origin TRANSFORMATION",
            ],
        ),
        (
            f"SELECT carrier, SUM(delay) + 1 AS d, COUNT(*) AS n {_OF_FLIGHTS} GROUP BY carrier HAVING MAX(fare) > 1",
            [
                "* <- flights.carrier GROUP_BY",
                "* <- flights.fare FILTER",
                "carrier <- flights.carrier IDENTITY",
                "d <- flights.delay AGGREGATION",
            ],
        ),
        (
            f"SELECT CASE WHEN cancelled THEN origin ELSE dest END AS x {_OF_FLIGHTS}",
            [
                "x <- flights.cancelled CONDITIONAL",
                "x <- flights.dest TRANSFORMATION",
                "x <- flights.origin TRANSFORMATION",
            ],
        ),
        (
            f"SELECT s.c AS d FROM (SELECT UPPER(carrier) AS c {_OF_FLIGHTS} WHERE cancelled) AS s",
            ["* <- flights.cancelled FILTER", "d <- flights.carrier TRANSFORMATION"],
        ),
        (
            "SELECT f.carrier, p.maker FROM flights f JOIN planes p ON f.tailnum = p.tailnum",
            [
                "* <- flights.tailnum JOIN",
                "* <- planes.tailnum JOIN",
                "carrier <- flights.carrier IDENTITY",
                "maker <- planes.maker IDENTITY",
            ],
        ),
        (
            "SELECT f.carrier, c.city FROM flights f LEFT JOIN cities c ON f.dest = c.code",
            [
                "* <- cities.code JOIN",
                "* <- flights.dest JOIN",
                "carrier <- flights.carrier IDENTITY",
                "city <- cities.city IDENTITY",
            ],
        ),
        (
            "SELECT window_start, COUNT(*) AS n FROM TUMBLE(flights, SIZE 1 HOUR) GROUP BY window_start, window_end",
            ["* <- flights.flight_time GROUP_BY", "window_start <- flights.flight_time TRANSFORMATION"],
        ),
        (
            f"SELECT origin AS place {_OF_FLIGHTS} UNION ALL SELECT LOWER(dest) FROM flights",
            ["place <- flights.dest TRANSFORMATION", "place <- flights.origin IDENTITY"],
        ),
        (
            "SELECT f.carrier, s.stop FROM flights f CROSS JOIN UNNEST(f.stops) AS s(stop)",
            ["carrier <- flights.carrier IDENTITY", "stop <- flights.stops TRANSFORMATION"],
        ),
        (
            "SELECT carrier, fare FROM (SELECT carrier, fare, ROW_NUMBER() OVER (PARTITION BY origin ORDER BY distance) AS r FROM flights) "
            "WHERE r <= 3",
            [
                "* <- flights.distance SORT",
                "* <- flights.origin WINDOW",
                "carrier <- flights.carrier IDENTITY",
                "fare <- flights.fare IDENTITY",
            ],
        ),
    ],
)
def test_columns_are_traced_to_their_relations(text: str, expected: list[str]) -> None:
    assert written(text) == expected


@pytest.mark.parametrize("name", NAMES)
def test_every_query_has_a_lineage(name: str) -> None:
    """Names columns of the relations that are read, and every output column that is not computed from nothing has an origin."""
    logical, _ = sink_of((CASES / f"{name}.sql").read_text())
    columns = {
        (node.relation.id, column.name)
        for node in walk(logical.root)
        if isinstance(node, Scan)
        for column in node.relation.schema.columns
    }
    uses = lineage(logical.root)
    assert {(use.relation, use.source) for use in uses} <= columns
    assert {use.column for use in uses} <= {None, *(column.name for column in logical.root.schema.columns)}
    assert all(use.kind.is_direct is False for use in uses if use.column is None)
