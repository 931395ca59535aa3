"""Correlated subqueries that return columns: LATERAL, and subqueries as values. The relations are those of `tests/plans/world.py`."""

from __future__ import annotations

import pytest

from headrace.analyzer.logical import Aggregate, Project, SnapshotJoin, Subquery, TopN, Unnest, walk
from headrace.core.errors import UserError
from tests.plans.shapes import shape, text, tree
from tests.plans.world import bound


def test_expressions_are_computed_once_for_each_row() -> None:
    plan = bound(
        "SELECT tailnum, half, m FROM planes p, LATERAL (SELECT seats / 2 AS half, UPPER(maker) WHERE seats > 3) AS l(half, m)"
    )
    assert plan.schema.primary_key == ("tailnum",)
    assert shape(plan.root.inputs[0]) == (
        "Filter[p.seats > 3](Unnest[array(named_struct('f0', CAST(p.seats div 2 AS INT), 'f1', upper(p.maker)))](p))"
    )
    streamed = bound("SELECT carrier, x FROM flights, LATERAL (SELECT delay * 2 AS x) WHERE x > 3")
    assert streamed.traits.insert_only


def test_a_later_source_may_read_the_columns_of_an_earlier_one() -> None:
    plan = tree(
        "SELECT a.x, b.y, c.city FROM flights, LATERAL (SELECT dest AS x) a, LATERAL (SELECT a.x || origin AS y) b "
        "JOIN airports c ON c.code = b.y"
    )
    assert shape(plan.inputs[0]) == (
        "INNER TEMPORAL[b.y = code](Unnest[array((a.x || flights.origin))](Unnest[array(flights.dest)](flights)), c)"
    )


def test_rows_are_joined_by_the_compared_columns() -> None:
    plan = bound(
        "SELECT p.tailnum, f.* FROM planes p LEFT JOIN LATERAL (SELECT carrier, COALESCE(delay, 0) AS delay FROM flights "
        "WHERE tailnum = p.tailnum AND distance > p.seats AND NOT cancelled) AS f ON TRUE"
    )
    assert plan.schema.names == ("tailnum", "carrier", "delay")
    assert all(column.nullable for column in plan.schema.columns[1:])
    assert shape(plan.root.inputs[0]) == (
        "LEFT REGULAR[p.tailnum = f.__headrace_column_1, if f.__headrace_column_2 > p.seats](p, f)"
    )


def test_the_first_rows_are_those_of_each_compared_value() -> None:
    plan = bound(
        "SELECT m.maker, t.tailnum, t.seats FROM (SELECT DISTINCT maker FROM planes) m, LATERAL (SELECT tailnum, seats FROM planes "
        "WHERE maker = m.maker ORDER BY seats DESC, tailnum LIMIT 3 OFFSET 1) AS t"
    )
    assert plan.schema.primary_key == ("tailnum",)
    assert shape(plan.root.inputs[0]) == "INNER REGULAR[m.maker = t.__headrace_column_1](m, t)"
    (top,) = (node for node in walk(plan.root) if isinstance(node, TopN))
    assert shape(top) == "TOP 4[planes.maker | planes.seats DESC, planes.tailnum](planes)"
    assert top.skipped == 1


def test_an_aggregate_has_a_value_without_rows() -> None:
    plan = bound(
        "SELECT tailnum, l.n, l.delay FROM planes p, LATERAL (SELECT COUNT(*) + 1 AS n, MAX(delay) AS delay FROM flights f "
        "WHERE f.tailnum = p.tailnum) l"
    )
    assert plan.schema.primary_key == ("tailnum",)
    unnest = plan.root.inputs[0]
    assert isinstance(unnest, Unnest)
    assert "coalesce(__headrace_lateral_1.__headrace_column_2, 0L) + 1" in text(unnest.array)
    assert shape(unnest.input) == (
        "LEFT REGULAR[p.tailnum = __headrace_lateral_1.__headrace_column_1](p, __headrace_lateral_1)"
    )
    groups = next(node for node in walk(plan.root) if isinstance(node, Aggregate))
    assert [text(key) for key in groups.group_by] == ["f.tailnum"]


def test_groups_of_a_subquery_are_groups_by_the_compared_columns_too() -> None:
    plan = bound(
        "SELECT tailnum, l.carrier, l.n FROM planes p, LATERAL (SELECT carrier, COUNT(*) AS n FROM flights f "
        "WHERE f.tailnum = p.tailnum GROUP BY carrier HAVING COUNT(*) > 2) l"
    )
    groups = next(node for node in walk(plan.root) if isinstance(node, Aggregate))
    assert [text(key) for key in groups.group_by] == ["f.tailnum", "f.carrier"]
    assert text(groups.having) == "count(*) > 2"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            "(SELECT MAX(delay) FROM flights f WHERE f.tailnum = p.tailnum)",
            "__headrace_value_of_row_1.__headrace_column_2",
        ),
        (
            "(SELECT COUNT(*) FROM flights f WHERE f.tailnum = p.tailnum)",
            "coalesce(__headrace_value_of_row_1.__headrace_column_2, 0L)",
        ),
        (
            "(SELECT city FROM airports a WHERE a.code = p.maker)",
            "__headrace_value_of_row_1.__headrace_column_2",
        ),
        (
            "(SELECT note FROM flights f WHERE f.tailnum = p.tailnum ORDER BY delay LIMIT 1)",
            "__headrace_value_of_row_1.__headrace_column_2",
        ),
        ("(SELECT seats + 1)", "p.seats + 1"),
    ],
)
def test_a_value_of_each_row_is_a_left_join(value: str, expected: str) -> None:
    plan = bound(f"SELECT tailnum, {value} AS x FROM planes p")
    assert plan.schema.primary_key == ("tailnum",)
    assert isinstance(plan.root, Project)
    assert text(plan.root.items[1].expression) == expected
    filtered = bound(f"SELECT tailnum FROM planes p WHERE seats > 3 AND {value} IS NOT NULL")
    assert "Filter[p.seats > 3](p)" in shape(filtered.root.inputs[0]) or "SELECT seats" in value


def test_views_are_joined_with_values_of_each_row() -> None:
    plan = bound(
        "SELECT day, (SELECT name FROM carriers c WHERE c.carrier = d.carrier) AS name, l.minutes FROM delays d, LATERAL "
        "(SELECT minutes FROM delays e WHERE e.carrier = d.carrier ORDER BY minutes DESC LIMIT 2) AS l"
    )
    assert plan.snapshot
    joins = [node for node in walk(plan.root) if isinstance(node, SnapshotJoin)]
    assert [join.kind.name for join in joins] == ["LEFT", "INNER"]
    numbered = [node for node in walk(plan.root) if isinstance(node, Subquery) and "numbered" in node.alias]
    assert len(numbered) == 1


BY_TAIL = "FROM flights f WHERE f.tailnum = p.tailnum"


@pytest.mark.parametrize(
    ("subquery", "key"),
    [
        (f"LATERAL (SELECT carrier, COUNT(*) AS n {BY_TAIL} GROUP BY carrier) l", ("tailnum", "carrier")),
        (f"LATERAL (SELECT DISTINCT carrier {BY_TAIL}) l", ("tailnum", "carrier")),
        (
            f"LATERAL (SELECT carrier {BY_TAIL} UNION SELECT maker FROM planes q WHERE q.tailnum = p.tailnum) l",
            ("tailnum", "carrier"),
        ),
        (f"LATERAL (SELECT carrier {BY_TAIL} INTERSECT SELECT dest {BY_TAIL}) l", ("tailnum", "carrier")),
        ("LATERAL (SELECT DISTINCT carrier FROM flights f WHERE f.dest = p.maker) l", ("tailnum", "carrier")),
    ],
)
def test_the_rows_of_a_lateral_subquery_have_the_key_of_both_sides(
    subquery: str, key: tuple[str, ...]
) -> None:
    assert bound(f"SELECT p.tailnum, p.maker, l.carrier FROM planes p, {subquery}").schema.primary_key == key
    outer = bound(f"SELECT p.tailnum, p.maker, l.carrier FROM planes p LEFT JOIN {subquery} ON TRUE")
    assert outer.schema.primary_key == key


REFUSED = [
    (f"SELECT tailnum, (SELECT delay {BY_TAIL}) AS d FROM planes p", "0A000", "LIMIT 1"),
    (f"SELECT tailnum, (SELECT carrier {BY_TAIL} LIMIT 2) AS d FROM planes p", "0A000", "LIMIT 1"),
    (f"SELECT tailnum, (SELECT MAX(delay), 1 {BY_TAIL}) AS d FROM planes p", "42601", None),
    (
        f"SELECT maker, (SELECT COUNT(*) {BY_TAIL}) AS e FROM planes p GROUP BY maker",
        "42803",
        "Add tailnum to GROUP BY",
    ),
    (f"SELECT tailnum FROM planes p ORDER BY (SELECT MAX(delay) {BY_TAIL}) LIMIT 3", "0A000", None),
    (
        f"SELECT l.x FROM planes p, LATERAL (SELECT DISTINCT carrier AS x {BY_TAIL} GROUP BY carrier) l",
        "0A000",
        "FROM of the subquery",
    ),
    (
        f"SELECT l.x FROM planes p, LATERAL (SELECT DISTINCT carrier AS x {BY_TAIL} AND delay > seats) l",
        "0A000",
        "a.x = b.x",
    ),
    (
        f"SELECT l.x FROM planes p, LATERAL (SELECT DISTINCT carrier || p.maker AS x {BY_TAIL}) l",
        "0A000",
        "outer query",
    ),
    (
        f"SELECT l.x FROM planes p, LATERAL (SELECT carrier AS x {BY_TAIL} UNION SELECT code FROM airports WHERE code = p.maker) l",
        "0A000",
        "in both sides",
    ),
    (
        f"SELECT l.x FROM planes p, LATERAL (SELECT MAX(carrier) AS x {BY_TAIL} UNION SELECT carrier {BY_TAIL}) l",
        "0A000",
        "with GROUP BY",
    ),
    (
        f"SELECT l.x FROM planes p, LATERAL (SELECT carrier AS x {BY_TAIL} UNION SELECT carrier, 1 {BY_TAIL}) l",
        "42804",
        "missing column",
    ),
    (
        f"SELECT l.x FROM planes p, LATERAL (SELECT carrier AS x {BY_TAIL} UNION SELECT distance {BY_TAIL}) l",
        "42804",
        "CAST",
    ),
    (
        f"SELECT l.x FROM planes p, LATERAL (SELECT carrier AS x {BY_TAIL} UNION SELECT carrier {BY_TAIL} LIMIT 2) l",
        "0A000",
        "FROM of the",
    ),
    (
        f"SELECT (SELECT carrier {BY_TAIL} UNION SELECT carrier {BY_TAIL}) AS x FROM planes p",
        "0A000",
        "FROM of the",
    ),
    (f"SELECT l.x FROM planes p, LATERAL (SELECT COLLECT(carrier) AS x {BY_TAIL}) l", "0A000", "LEFT JOIN"),
    (
        f"SELECT l.x FROM planes p, LATERAL (SELECT SUM(delay + p.seats) AS x {BY_TAIL}) l",
        "0A000",
        "outer query",
    ),
    (
        f"SELECT l.x FROM planes p, LATERAL (SELECT SUM(delay) AS x, carrier {BY_TAIL}) l",
        "42803",
        "MAX(column)",
    ),
    (
        f"SELECT l.x FROM planes p, LATERAL (SELECT SUM(delay) AS x {BY_TAIL} AND f.distance > p.seats) l",
        "0A000",
        "a.x = b.x",
    ),
    (
        f"SELECT l.x FROM planes p, LATERAL (SELECT SUM(delay) AS x {BY_TAIL} HAVING COUNT(*) > 1) l",
        "0A000",
        None,
    ),
    (f"SELECT l.x FROM planes p, LATERAL (SELECT SUM(delay) AS x {BY_TAIL} LIMIT 1) l", "0A000", None),
    (
        f"SELECT l.x FROM planes p, LATERAL (SELECT carrier, SUM(delay) AS x {BY_TAIL} GROUP BY ROLLUP(carrier)) l",
        "0A000",
        None,
    ),
    (f"SELECT l.x FROM planes p, LATERAL (SELECT delay AS x {BY_TAIL} ORDER BY delay) l", "0A000", "LIMIT n"),
    (
        f"SELECT l.x FROM planes p, LATERAL (SELECT delay AS x {BY_TAIL} ORDER BY p.seats LIMIT 1) l",
        "0A000",
        None,
    ),
    (
        f"SELECT l.x FROM planes p, LATERAL (SELECT ROW_NUMBER() OVER (ORDER BY delay) AS x {BY_TAIL}) l",
        "0A000",
        "LIMIT",
    ),
    (
        f"SELECT l.x FROM planes p LEFT JOIN LATERAL (SELECT delay + p.seats AS x {BY_TAIL}) l ON TRUE",
        "0A000",
        "outer query",
    ),
    (
        f"SELECT l.x FROM planes p LEFT JOIN LATERAL (SELECT delay AS x {BY_TAIL}) l ON l.x > 3",
        "0A000",
        "WHERE of the subquery",
    ),
    (f"SELECT l.x FROM planes p RIGHT JOIN LATERAL (SELECT delay AS x {BY_TAIL}) l ON TRUE", "0A000", None),
    (
        "SELECT l.x FROM planes p LEFT JOIN LATERAL (SELECT seats AS x WHERE seats > 3) l ON TRUE",
        "0A000",
        "CASE WHEN",
    ),
    ("SELECT l.x FROM planes p, LATERAL (SELECT COUNT(seats) AS x) l", "0A000", "a.x + 1"),
    ("SELECT l.x FROM planes p, LATERAL (SELECT seats, maker) AS l(x)", "42P16", "seats"),
    ("SELECT l.x FROM planes p, LATERAL (SELECT seats AS x, maker AS x) AS l", "42P16", "AS"),
    ("SELECT l.x FROM planes p, LATERAL (SELECT other AS x) AS l", "42703", None),
]


@pytest.mark.parametrize(("query", "state", "hint"), REFUSED)
def test_what_is_no_join_is_refused_in_place(query: str, state: str, hint: str | None) -> None:
    with pytest.raises(UserError) as caught:
        bound(query)
    assert caught.value.state.value == state, caught.value.text()
    assert caught.value.span is not None
    assert hint is None or hint in (caught.value.hint or ""), caught.value.text()


def test_nested_values_are_bound_once() -> None:
    """A subquery is bound before it is known whether it reads the outer query; binding it again would double the work at each level."""
    query = "MAX(seats)"
    for _ in range(11):
        query = f"MAX((SELECT {query} FROM planes))"
    bound(f"SELECT (SELECT {query} FROM planes) AS x FROM planes")
