"""Functions of users in the conditions and measures of MATCH_RECOGNIZE, and in lookups."""

from __future__ import annotations

import re

import pytest

from tests.plans.world import planned


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
