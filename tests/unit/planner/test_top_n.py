"""Choice of a Top-N between rows at the same place in the order."""

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


@pytest.mark.parametrize("function", ["RANK", "DENSE_RANK"])
@pytest.mark.parametrize("taken", ["= 1", "<= 2", "BETWEEN 2 AND 3"])
def test_rows_of_one_rank_have_the_key_of_the_input(function: str, taken: str) -> None:
    text = f"SELECT tailnum, n FROM (SELECT *, {function}() OVER (PARTITION BY maker ORDER BY seats DESC) AS n FROM planes) WHERE n {taken}"
    plan = planned(text)
    [step] = [step for step in plan.steps if isinstance(step, physical.TopN)]
    assert (step.function, step.output, step.ties) == (function.lower(), "signed", "oldest")
    assert step.limit == int(taken[-1])
