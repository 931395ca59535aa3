"""Joins of a stream with a table: the joins that look rows up, their keys, and refused joins."""

from __future__ import annotations

import pytest

from headrace.analyzer import bind
from headrace.analyzer.logical import Filter, LookupJoin, Project, walk
from headrace.catalog.objects import RelationKind
from headrace.core.errors import UserError
from headrace.planner.physical import LookupJoin as LookupStep
from tests.plans.world import BINDING, WORLD, bound, planned, select_of, view


def lookups(text: str) -> list[LookupJoin]:
    return [node for node in walk(bound(text).root) if isinstance(node, LookupJoin)]


@pytest.mark.parametrize(
    "source",
    [
        "flights f JOIN cities c ON c.code = f.dest",
        "flights f JOIN cities c ON f.dest = c.code",
        "flights f, cities c WHERE c.code = f.dest",
        "flights f CROSS JOIN cities c WHERE c.code = f.dest",
    ],
)
def test_an_equality_with_a_column_of_the_table_is_the_key(source: str) -> None:
    (join,) = lookups(f"SELECT f.tailnum, c.city FROM {source}")
    assert join.right_keys == ("code",)


def test_other_conditions_filter_or_decide_what_matches() -> None:
    text = "SELECT f.tailnum, c.city FROM flights f {} JOIN cities c ON c.code = f.dest AND c.code = f.origin AND c.people > 1"
    inner = bound(text.format("INNER")).root
    assert isinstance(inner, Project)
    assert isinstance(inner.input, Filter)
    (join,) = lookups(text.format("LEFT"))
    assert join.condition is not None


def test_a_row_is_enriched_and_stays_a_row() -> None:
    unkeyed = bound("SELECT f.tailnum, c.city FROM flights f LEFT JOIN cities c ON c.country = f.dest")
    assert unkeyed.kind is RelationKind.STREAM
    groups = (
        "SELECT window_start, window_end, dest, COUNT(*) AS n FROM TUMBLE(flights, SIZE 1 MINUTE) "
        "GROUP BY window_start, window_end, dest"
    )
    template = (
        "SELECT g.window_start, g.window_end, g.dest, c.city FROM ({}) g JOIN cities c ON c.{} = g.dest"
    )
    # By its primary key a table has one row at most, so that what told rows apart does so still.
    assert bound(template.format(groups, "code")).kind is RelationKind.CHANGELOG
    assert bound(template.format(groups, "city")).kind is RelationKind.STREAM


def test_the_property_says_that_the_table_is_read_whole() -> None:
    text = "SELECT f.tailnum, c.city FROM flights f JOIN cities c {} ON c.code = f.dest"
    refresh = [
        step.refresh_ms
        for given in ("", "WITH ('lookup.refresh.millis' = 5000)")
        for step in planned(text.format(given)).steps
        if isinstance(step, LookupStep)
    ]
    assert refresh == [None, 5000]


@pytest.mark.parametrize(
    ("text", "state", "message"),
    [
        (
            "SELECT 1 AS x FROM flights f JOIN cities c WITHIN 1 MINUTE ON c.code = f.dest",
            "42601",
            "cities is a TABLE",
        ),
        (
            "SELECT 1 AS x FROM flights f RIGHT JOIN cities c ON c.code = f.dest",
            "0A000",
            "a RIGHT JOIN with the table",
        ),
        (
            "SELECT 1 AS x FROM flights f FULL JOIN cities c ON c.code = f.dest",
            "0A000",
            "a FULL JOIN with the table",
        ),
        ("SELECT 1 AS x FROM cities c JOIN flights f ON c.code = f.dest", "0A000", "only in a join"),
        (
            "SELECT 1 AS x FROM planes p JOIN cities c ON c.city = p.maker",
            "0A000",
            "a changelog cannot be joined",
        ),
        (
            "SELECT 1 AS x FROM flights f JOIN cities c ON UPPER(c.code) = f.dest",
            "0A000",
            "requires an equality",
        ),
        ("SELECT 1 AS x FROM flights f CROSS JOIN cities c", "0A000", "requires an equality"),
        (
            "SELECT 1 AS x FROM flights f JOIN cities c ON c.tax = f.delay",
            "42804",
            "by DOUBLE with DOUBLE",
        ),
        (
            "SELECT 1 AS x FROM flights f JOIN (SELECT code FROM cities) c ON c.code = f.dest",
            "0A000",
            "only in a join",
        ),
        ("SELECT tailnum FROM flights UNION ALL SELECT code FROM cities", "0A000", "only in a join"),
        ("SELECT tailnum FROM flights WHERE dest IN (SELECT code FROM cities)", "0A000", "only in a join"),
        (
            "SELECT 1 AS x FROM flights f JOIN cities c WITH ('lookup.refresh.millis' = 10) ON c.code = f.dest",
            "3D008",
            "'lookup.refresh.millis' must be milliseconds, 1000 to",
        ),
        ("SELECT code FROM cities WITH ('lookup.refresh.millis' = 1000)", "3D008", "has no property"),
        (
            "SELECT 1 AS x FROM flights f JOIN cities c ON c.code = f.dest QUERY WITH ('execution.mode' = 'real_time')",
            "0A000",
            "a table's rows are looked up in batches",
        ),
    ],
)
def test_what_cannot_be_looked_up_is_refused_where_it_stands(text: str, state: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        planned(text)
    assert caught.value.state.value == state
    assert caught.value.span is not None


def test_a_view_that_looks_up_cannot_be_followed() -> None:
    """The view would look up a second time, and find other rows."""
    before = list(WORLD.views)
    WORLD.views.append(
        view(
            "CREATE MATERIALIZED VIEW visits AS SELECT f.tailnum, c.city FROM flights f WITH ('starting.position' = 'earliest') "
            "JOIN cities c ON c.code = f.dest"
        )
    )
    try:
        with pytest.raises(UserError, match="reads the table"):
            bind(select_of("CREATE STREAM s AS SELECT city FROM visits"), BINDING, continuous=True)
    finally:
        WORLD.views[:] = before
