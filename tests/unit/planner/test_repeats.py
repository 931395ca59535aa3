"""Operators that repeat the rows of touched keys."""

from __future__ import annotations

import pytest

from headrace.planner.repeats import Touched, repeating
from tests.plans.world import planned

TTL = "QUERY WITH ('state.ttl.millis' = 60000)"
GROUPS = "(SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier)"


@pytest.mark.parametrize(
    ("statement", "repeats"),
    [
        (f"SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier {TTL}", []),
        (
            f"CREATE CHANGELOG c AS SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier {TTL}",
            ["grouped"],
        ),
        (
            f"CREATE MATERIALIZED VIEW c AS SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier {TTL}",
            [],
        ),
        (f"SELECT n, COUNT(*) AS carriers FROM {GROUPS} AS g GROUP BY n", []),
        (f"SELECT n, COUNT(*) AS carriers FROM {GROUPS} AS g WHERE n > 1 GROUP BY n {TTL}", ["grouped_g"]),
        (f"SELECT COUNT(*) AS carriers FROM {GROUPS} AS g {TTL}", []),
        (
            f"SELECT a.carrier, b.carrier AS other FROM {GROUPS} AS a JOIN {GROUPS} AS b ON a.n = b.n {TTL}",
            ["grouped_a", "grouped_b"],
        ),
    ],
)
def test_a_key_that_is_touched_is_repeated_to_those_whose_time_to_live_goes_on(
    statement: str, repeats: list[str]
) -> None:
    plan = planned(statement)
    assert any(isinstance(step, Touched) for step in plan.steps) or "QUERY WITH" not in statement
    assert repeating(plan.steps) == set(repeats)
