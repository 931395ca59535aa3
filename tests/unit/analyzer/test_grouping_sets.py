"""GROUPING SETS, ROLLUP, CUBE and GROUPING in continuous queries, and their mistakes.

The relations are those of `tests/plans/world.py`. `tests/unit/planner/test_snapshot.py` has those of snapshot queries.
"""

from __future__ import annotations

import pytest

from headrace.analyzer.logical import Aggregate, Unnest, walk
from headrace.core.errors import UserError
from headrace.planner import physical
from headrace.sql import parse
from tests.plans.shapes import text
from tests.plans.world import bound, planned


def group(query: str) -> Aggregate:
    """The groups of a query."""
    root = bound(query).root
    assert isinstance(root, Aggregate)
    return root


def test_each_row_is_repeated_for_each_set_and_a_left_out_column_is_null() -> None:
    node = group(
        "SELECT carrier, dest, GROUPING(dest, carrier) AS g, COUNT(*) AS n FROM flights GROUP BY ROLLUP(carrier, dest)"
    )
    [repeated] = [part for part in walk(node) if isinstance(part, Unnest)]
    assert text(repeated.array) == "array(0, 1, 2)"
    place = "__headrace_sets.place"
    assert [text(item.expression) for item in node.items] == [
        f"CASE WHEN {place} IN (0, 1) THEN flights.carrier END",
        f"CASE WHEN {place} IN (0) THEN flights.dest END",
        f"(CASE WHEN {place} IN (1, 2) THEN 1L ELSE 0L END * 2L) + CASE WHEN {place} IN (2) THEN 1L ELSE 0L END",
        "count(*)",
    ]


@pytest.mark.parametrize(
    ("groups", "places", "count"),
    [
        ("GROUPING SETS ((carrier, dest), dest, ())", "array(0, 1, 2)", 4),
        ("CUBE(carrier, dest)", "array(0, 1, 2, 3)", 4),
        ("carrier, GROUPING SETS (dest, ())", "array(0, 1)", 3),
        ("carrier, ROLLUP((dest, origin))", "array(0, 1)", 5),
        ("GROUPING SETS (ROLLUP(carrier), dest)", "array(0, 1, 2)", 4),
        # Of two equal sets each has its groups: they are apart by the set itself.
        ("GROUPING SETS (carrier, carrier)", "array(0, 1)", 2),
    ],
)
def test_sets_multiply_and_equal_ones_stay_apart(groups: str, places: str, count: int) -> None:
    node = group(f"SELECT COUNT(*) AS n FROM flights GROUP BY {groups}")
    [repeated] = [part for part in walk(node) if isinstance(part, Unnest)]
    assert (text(repeated.array), len(node.group_by)) == (places, count)


def test_the_key_is_what_is_grouped_by_and_what_is_left_out() -> None:
    select = "SELECT carrier, GROUPING(carrier) AS g, COUNT(*) AS n FROM flights GROUP BY ROLLUP(carrier)"
    assert bound(select).schema.primary_key == ("carrier", "g")
    windowed = (
        "SELECT window_start, window_end, carrier, GROUPING(carrier) AS g, COUNT(*) AS n FROM TUMBLE(flights, SIZE 1 DAY) "
        "GROUP BY window_start, window_end, ROLLUP(carrier)"
    )
    assert bound(windowed).traits.insert_only
    with pytest.raises(UserError) as caught:
        planned("CREATE CHANGELOG c AS SELECT carrier, COUNT(*) AS n FROM flights GROUP BY ROLLUP(carrier)")
    assert caught.value.state.value == "42P16"
    assert isinstance(planned(f"CREATE CHANGELOG c AS {select}").steps[-2], physical.EncodeRows)


@pytest.mark.parametrize(
    "groups",
    ["ROLLUP (a, (b, c))", "GROUPING SETS ((a, b), c, (), CUBE (a, b))", "a, CUBE (UPPER(b))"],
)
def test_they_are_printed_as_they_are_written(groups: str) -> None:
    [statement] = parse(f"SELECT COUNT(*) FROM t GROUP BY {groups}")
    assert statement.sql() == f"SELECT COUNT(*) FROM t GROUP BY {groups}"


@pytest.mark.parametrize(
    ("query", "state", "message"),
    [
        ("SELECT carrier, GROUPING(carrier) AS g FROM flights GROUP BY carrier", "42803", "GROUPING requires groups"),
        ("SELECT GROUPING(carrier) AS g FROM flights", "42803", "GROUPING requires groups"),
        ("SELECT GROUPING(dest) AS g FROM flights GROUP BY ROLLUP(carrier)", "42803", "GROUPING requires groups"),
        ("SELECT SUM(GROUPING(carrier)) AS g FROM flights GROUP BY ROLLUP(carrier)", "42803", "GROUPING requires groups"),
        ("SELECT dest, COUNT(*) AS n FROM flights GROUP BY ROLLUP(carrier)", "42803", "neither in GROUP BY"),
        ("SELECT COUNT(*) AS n FROM flights GROUP BY CUBE(carrier, dest, origin, tailnum, note, distance, delay)", "53000",
         "64 grouping sets"),
        ("SELECT COUNT(*) AS n FROM flights GROUP BY CUBE(carrier, dest, origin, tailnum), CUBE(note, distance, delay)", "53000",
         "found 128"),
        ("SELECT window_end, COUNT(*) AS n FROM TUMBLE(flights, SIZE 1 DAY) GROUP BY window_start, ROLLUP(window_end)", "42803",
         "window_end"),
        ("SELECT COUNT(*) AS n FROM flights GROUP BY ROLLUP(carrier", "42601", "at the end of ROLLUP"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_and_placed(query: str, state: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        bound(query)
    assert (caught.value.state.value, caught.value.span is None) == (state, False)
    assert message in str(caught.value)
