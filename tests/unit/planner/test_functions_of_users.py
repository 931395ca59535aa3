"""Functions of users in the conditions and measures of MATCH_RECOGNIZE, in lookups, and in EXPLAIN."""

from __future__ import annotations

import re

import pytest

from headrace.planner import plan_query
from headrace.planner.explain import explain
from tests.plans.world import planned, sink_of


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param(
            "CREATE STREAM s AS SELECT m.x FROM flights MATCH_RECOGNIZE (ORDER BY flight_time MEASURES shorten(LAST(b.note)) AS x "
            "PATTERN (a b) WITHIN 10 SECONDS DEFINE b AS shorten(b.note) <> shorten(PREV(b.note), 2) "
            "AND plus(a.distance, 1) > b.distance) AS m",
            id="pattern",
        ),
        pytest.param(
            "CREATE STREAM s AS SELECT shorten(c.city, 3) AS city, plus(f.distance, c.people) AS n FROM flights AS f "
            "LEFT JOIN cities AS c ON shorten(f.origin) = c.code AND plus(c.people, 1) > 1000",
            id="lookup",
        ),
    ],
)
def test_the_plan_has_each_function_that_is_called(statement: str) -> None:
    plan = planned(statement)
    called = set(re.findall(r"headrace_call\('(\w+)'", plan.model_dump_json()))
    assert len(called) == 3
    assert {function.id for function in plan.functions} == called


@pytest.mark.parametrize(
    ("handling", "expected"),
    [
        ("NULL", "its result is NULL"),
        (
            "DEAD_LETTER",
            "the row is skipped and its record is written to flights-dead-letters of store broker",
        ),
    ],
)
def test_explain_names_the_dead_letters_of_a_function_only_if_it_has_them(
    handling: str, expected: str
) -> None:
    logical, sink = sink_of(
        "CREATE STREAM s AS SELECT shorten(carrier) AS c FROM flights WITH ("
        f"'source.deserialization.error.handling' = DEAD_LETTER, 'source.function.error.handling' = {handling})"
    )
    text = explain(logical, plan_query(logical, sink), sink)
    assert f"    where a function of a user fails, {expected}\n" in text
