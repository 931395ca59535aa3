"""Joins of rows with the MAX or MIN of their own windows: those that are computed once, and those that must stay joins."""

from __future__ import annotations

import pytest

from headrace.analyzer.logical import Filter, LogicalNode, RegularJoin, Scan, WindowExtremes, walk
from headrace.analyzer.traits import traits
from headrace.planner import physical
from headrace.planner.rules import rewritten
from tests.plans.world import bound, planned

_T = "TUMBLE(flights, SIZE 10 SECONDS)"
_COUNTS = "SELECT carrier, COUNT(*) AS n, window_start AS s, window_end AS e FROM {} {} GROUP BY {}carrier, window_start, window_end"
_BOTH = "a.s = m.s AND a.e = m.e"


def _raw(rows: str = f"{_T} AS a", most: str = "MAX(delay)", of: str = _T, on: str = "a.delay = m.x") -> str:
    return (
        f"SELECT a.carrier, a.delay, m.x, m.window_end FROM {rows} JOIN (SELECT {most} AS x, window_start, window_end FROM {of} "
        f"GROUP BY window_start, window_end) AS m ON a.window_start = m.window_start AND a.window_end = m.window_end AND {on}"
    )


def _counted(
    on: str = f"{_BOTH} AND a.n >= m.x",
    *,
    window: str = _T,
    where: str = "",
    other: str = "",
    key: str = "",
    most: str = "MAX(c.n)",
    join: str = "JOIN",
) -> str:
    return (
        f"SELECT a.carrier, a.n, a.e FROM ({_COUNTS.format(window, where, '')}) AS a {join} "
        f"(SELECT {most} AS x, c.s, c.e FROM ({_COUNTS.format(window, other or where, key)}) AS c GROUP BY c.s, c.e) AS m ON {on}"
    )


def _root(text: str) -> LogicalNode:
    return rewritten(bound(text)).root


@pytest.mark.parametrize(
    ("text", "function"),
    [
        (_raw(), "MAX"),
        (_raw(most="MIN(delay)", on="a.delay <= m.x"), "MIN"),
        (_raw(most="MAX(delay + distance)", on="m.x <= a.delay + a.distance"), "MAX"),
        (_raw("(SELECT carrier, delay, window_start, window_end FROM TUMBLE(flights, SIZE 10 SECONDS)) AS a"), "MAX"),
        (_raw(f"(SELECT * FROM {_T} WHERE delay > 1) AS a", of=f"{_T} WHERE delay > 1"), "MAX"),
        (_raw("CUMULATE(flights, SIZE 10 SECONDS, STEP 5 SECONDS) AS a", of="CUMULATE(flights, SIZE 10 SECONDS, STEP 5 SECONDS)"), "MAX"),
        (_counted(), "MAX"),
        (_counted(most="MIN(c.n)", on=f"a.n = m.x AND {_BOTH}"), "MIN"),
        (_counted(f"{_BOTH} AND a.carrier = m.x", most="MAX(c.carrier)"), "MAX"),
        (_counted(where="WHERE delay > 1"), "MAX"),
        (
            f"WITH t AS ({_COUNTS.format(_T, '', '')}) SELECT a.carrier, a.e FROM t AS a JOIN "
            f"(SELECT MAX(n) AS x, s, e FROM t GROUP BY s, e) AS m ON {_BOTH} AND a.n = m.x",
            "MAX",
        ),
        (_counted(window="HOP(flights, SIZE 10 SECONDS, ADVANCE BY 2 SECONDS)"), "MAX"),
    ],
)  # fmt: skip
def test_equal_rows_are_read_once(text: str, function: str) -> None:
    root = _root(text)
    [node] = [node for node in walk(root) if isinstance(node, WindowExtremes)]
    assert node.function == function
    assert sum(isinstance(part, Scan) for part in walk(root)) == 1
    assert traits(root) == traits(bound(text).root)
    assert sum(isinstance(step, physical.ReadEntity) for step in planned(text).steps) == 1


@pytest.mark.parametrize(
    "text",
    [
        _raw(of="TUMBLE(flights, SIZE 20 SECONDS)"),
        _raw(of="TUMBLE(arrivals, SIZE 10 SECONDS)", most="MAX(distance)", on="a.distance = m.x"),
        _raw(of=f"{_T} WITH ('source.allow.latency.millis' = 5)"),
        _raw(of=f"{_T} WHERE delay > 1"),
        _raw(most="MAX(distance)"),
        _raw(most="AVG(delay)"),
        _raw(most="SUM(delay)", on="a.delay >= m.x"),
        _raw(most="MAX(delay)", on="a.delay <= m.x"),
        _raw(most="MIN(delay)", on="a.delay >= m.x"),
        _raw(on="a.delay > m.x"),
        _raw(on="a.delay + 1 = m.x"),
        _raw(most="COUNT(*) AS k, MAX(delay)"),
        _raw(f"(SELECT *, RAND() AS r FROM {_T}) AS a", most="MAX(delay)", on="a.r = m.x"),
        _counted(other="WHERE delay > 2", where="WHERE delay > 1"),
        _counted(key="tailnum, "),
        _counted(join="LEFT JOIN"),
        _counted(most="MAX(c.n + 1)"),
        # The group has the key (s, e), which this join does not contain.
        _counted("a.e = m.e AND a.n = m.x"),
    ],
)
def test_other_joins_stay(text: str) -> None:
    assert not any(isinstance(node, WindowExtremes) for node in walk(_root(text)))
    assert any(isinstance(node, RegularJoin) for node in walk(_root(text)))


def test_a_group_on_the_left_and_further_conditions_stay_what_they_are() -> None:
    text = (
        f"SELECT m.x, a.carrier FROM (SELECT MAX(delay) AS x, window_end FROM {_T} GROUP BY window_start, window_end) AS m JOIN {_T} AS a "
        "ON m.window_end = a.window_end AND m.x = a.delay WHERE a.distance > 3 AND m.x < 9"
    )
    root = _root(text)
    [node] = [node for node in walk(root) if isinstance(node, WindowExtremes)]
    assert node.leads
    assert [source.alias for source in node.sources] == ["m", "a"]
    assert sum(isinstance(part, Filter) for part in walk(root)) == 1
    assert traits(root) == traits(bound(text).root)


def test_the_number_of_groups_is_not_the_number_of_rows_in_a_group() -> None:
    inner = _COUNTS.format(_T, "", "")

    def text(rows: str, other: str) -> str:
        sides = [
            f"SELECT {n} AS n, i.s, i.e FROM ({inner}) AS i GROUP BY i.n, i.s, i.e" for n in (rows, other)
        ]
        most = f"SELECT MAX(c.n) AS x, c.s, c.e FROM ({sides[1]}) AS c GROUP BY c.s, c.e"
        return f"SELECT a.n, a.e FROM ({sides[0]}) AS a JOIN ({most}) AS m ON {_BOTH} AND a.n = m.x"

    for rows, other, once in (
        ("COUNT(*)", "i.n", False),
        ("COUNT(*)", "COUNT(*)", True),
        ("i.n", "i.n", True),
    ):
        assert any(isinstance(node, WindowExtremes) for node in walk(_root(text(rows, other)))) is once
