"""Planning and explaining of queries within `sql.limits`, from a stack as deep as the server's may be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.core.errors import UserError
from headrace.planner import plan_query
from headrace.planner.explain import explain
from headrace.planner.snapshot import compile_snapshot
from tests.plans.world import sink_of

SERVERS_STACK = 150


def nested(opening: str, core: str, closing: str, times: int = 38) -> str:
    return opening * times + core + closing * times


EXPRESSIONS = [
    nested("(", "distance", ")"),
    nested("(1.5 + ", "distance", ")"),
    nested("NOT ", "cancelled", ""),
    nested("CASE WHEN cancelled THEN 1.5 ELSE ", "2", " END"),
    nested("upper(", "carrier", ")"),
    nested("CAST(", "distance", " AS BIGINT)"),
    nested("COALESCE(distance, ", "2", ")"),
    "+".join(["1"] * 201),
    "distance" + " + 1.5" * 200,
    "distance" + " / 3" * 200,
    "||".join(["carrier"] * 201),
    "carrier" + " IS NOT NULL" * 60,
    " AND ".join(["distance > 1"] * 1000),
    " OR ".join(["distance > 1"] * 1000),
]


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=[text[:20] for text in EXPRESSIONS])
def test_an_expression_within_the_limits_is_planned(expression: str) -> None:
    _from_below(SERVERS_STACK, lambda: _planned(f"SELECT {expression} AS x FROM flights"))


def test_many_unions_are_planned_flat() -> None:
    text = " UNION ALL ".join(["SELECT carrier FROM flights"] * 150)
    assert "UNION ALL" in _from_below(SERVERS_STACK, lambda: _planned(text))


def test_many_conditions_over_a_view_are_planned() -> None:
    logical, _ = sink_of(f"SELECT carrier FROM delays WHERE {' AND '.join(['flights > 1'] * 1000)}")
    assert compile_snapshot(logical).sql.count("> 1") == 1000


DEEP = [
    nested(
        "SELECT carrier, COUNT(*) AS n FROM (",
        "SELECT carrier, origin AS n FROM flights",
        ") GROUP BY carrier",
        30,
    ),
    "SELECT p0.maker FROM planes p0 " + " ".join(f"JOIN planes p{n} USING (maker)" for n in range(1, 99)),
    "SELECT carrier FROM flights f "
    + " ".join(f"JOIN planes p{n} ON p{n}.tailnum = f.tailnum" for n in range(99)),
    "SELECT maker FROM planes p WHERE "
    + " AND ".join(["EXISTS (SELECT 1 FROM planes q WHERE q.maker = p.maker)"] * 99),
]


@pytest.mark.parametrize("text", DEEP, ids=["groups of groups", "joins", "temporal joins", "EXISTS"])
def test_a_query_that_is_as_deep_as_it_may_be_is_planned(text: str) -> None:
    _from_below(SERVERS_STACK, lambda: _planned(text))


WIDE = [
    f"{DEEP[1]} JOIN planes p99 USING (maker) CROSS JOIN UNNEST(ARRAY['x']) AS u(x)",
    f"{DEEP[3]} AND EXISTS (SELECT 1 FROM planes)",
]


@pytest.mark.parametrize("text", WIDE, ids=["joins", "EXISTS"])
def test_one_source_more_is_too_many(text: str) -> None:
    with pytest.raises(UserError, match="100 sources at most"):
        _planned(text)


def test_an_engines_text_may_be_too_long() -> None:
    with pytest.raises(UserError, match="characters of the engine's SQL") as caught:
        _planned(f"SELECT upper('{'x' * 4_000_001}') AS x FROM flights")
    assert caught.value.state.value == "53000"


def test_a_text_that_doubles_with_each_level_meets_a_limit() -> None:
    logical, _ = sink_of(f"SELECT {nested('NULLIF(', 'minutes', ', 1)', 30)} AS x FROM delays")
    with pytest.raises(UserError, match="characters of the engine's SQL"):
        compile_snapshot(logical)


def _planned(text: str) -> str:
    logical, sink = sink_of(text)
    return explain(logical, plan_query(logical, sink), sink)


def _from_below(frames: int, work: Callable[[], str]) -> str:
    return work() if frames == 0 else _from_below(frames - 1, work)
