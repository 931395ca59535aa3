"""Choice of a Top-N between two rows at the same place in the order."""

from __future__ import annotations

import pytest

from headrace.planner import physical
from tests.plans.world import planned

NUMBERED = "SELECT tailnum, carrier FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY tailnum ORDER BY {}) AS n FROM flights) WHERE n {}"


@pytest.mark.parametrize(
    ("order", "taken", "ties"),
    [
        ("flight_time DESC", "= 1", "newest"),
        ("rowtime() DESC", "= 1", "newest"),
        ("flight_time", "= 1", "oldest"),
        ("delay DESC", "= 1", "oldest"),
        ("flight_time DESC", "<= 2", "oldest"),
        ("flight_time DESC, delay", "= 1", "oldest"),
    ],
)
def test_of_equal_event_times_the_newest_row_is_the_last_one_that_came(
    order: str, taken: str, ties: str
) -> None:
    plan = planned(NUMBERED.format(order, taken))
    assert [step.ties for step in plan.steps if isinstance(step, physical.TopN)] == [ties]
