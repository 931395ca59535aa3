"""ORDER BY with LIMIT in continuous queries: a Top-N over all rows.

The relations are those of `tests/plans/world.py`.
"""

from __future__ import annotations

import pytest

from headrace.analyzer.logical import Project
from headrace.core.errors import UserError
from headrace.planner import physical
from tests.plans.shapes import shape, tree
from tests.plans.world import bound, planned


@pytest.mark.parametrize(
    ("text", "expected", "columns"),
    [
        ("SELECT tailnum, seats FROM planes ORDER BY seats DESC LIMIT 3", "TOP 3[ | ordered.seats DESC](ordered)",
         ["tailnum", "seats"]),
        ("SELECT tailnum FROM planes ORDER BY seats * 2 LIMIT 3", "TOP 3[ | ordered.key_1](ordered)", ["tailnum"]),
        ("SELECT tailnum AS key_1 FROM planes ORDER BY seats, maker FETCH FIRST ROW ONLY",
         "TOP 1[ | ordered.key_2, ordered.key_3](ordered)",
         ["key_1"]),
        ("SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier ORDER BY SUM(distance) DESC, 1 LIMIT 5 OFFSET 0",
         "TOP 5[ | ordered.key_1 DESC, ordered.carrier](ordered)", ["carrier", "n"]),
        ("SELECT carrier FROM flights UNION SELECT maker FROM planes ORDER BY 1 LIMIT 2",
         "TOP 2[ | ordered.carrier](ordered)", ["carrier"]),
    ],
)  # fmt: skip
def test_the_first_rows_are_a_top_n_of_a_subquery(text: str, expected: str, columns: list[str]) -> None:
    root = tree(text)
    assert isinstance(root, Project)
    assert shape(root.input) == expected
    assert [item.name for item in root.items] == columns


def test_its_key_is_that_of_the_rows() -> None:
    assert bound("SELECT tailnum, seats FROM planes ORDER BY seats LIMIT 3").schema.primary_key == (
        "tailnum",
    )
    # A sink and a reader need columns for a key, even of one row.
    assert bound("SELECT tailnum FROM planes ORDER BY seats LIMIT 1").schema.primary_key == ("tailnum",)
    assert bound("SELECT carrier FROM flights ORDER BY delay LIMIT 1").traits.key is None
    changes = planned("SELECT carrier FROM flights ORDER BY delay LIMIT 1").steps[-1]
    assert isinstance(changes, physical.WriteResults)
    assert changes.changes is not None
    assert changes.changes.sign is not None
    plan = planned("CREATE CHANGELOG c AS SELECT tailnum, seats FROM planes ORDER BY seats LIMIT 3")
    [ranked] = [step for step in plan.steps if isinstance(step, physical.TopN)]
    assert (ranked.partition, ranked.limit, ranked.rank, ranked.signed) == ([], 3, None, True)
    assert ranked.order[0].nulls_first


def test_an_offset_leaves_the_first_places_out() -> None:
    text = "SELECT tailnum, seats FROM planes ORDER BY seats LIMIT 3 OFFSET 2"
    assert bound(text).schema.primary_key == ("tailnum",)
    plan = planned(f"CREATE CHANGELOG c AS {text}")
    [ranked] = [step for step in plan.steps if isinstance(step, physical.TopN)]
    assert (ranked.limit, ranked.rank, ranked.output) == (5, "__headrace_place", "signed")
    [kept] = [
        step for step in plan.steps if isinstance(step, physical.SqlTransform) and ranked.id in step.inputs
    ]
    assert "WHERE `__headrace_place` > 2" in kept.sql


def test_one_row_has_no_key_to_show() -> None:
    steps = planned("SELECT n FROM (SELECT COUNT(*) AS n FROM flights) AS t WHERE n > 1").steps
    assert not any("struct()" in step.sql for step in steps if isinstance(step, physical.SqlTransform))


def test_it_may_stand_in_a_subquery() -> None:
    text = "SELECT maker, COUNT(*) AS n FROM (SELECT maker FROM planes ORDER BY seats DESC LIMIT 10) GROUP BY maker"
    assert "TopN" in [type(step).__name__ for step in planned(f"CREATE CHANGELOG c AS {text}").steps]


@pytest.mark.parametrize(
    ("text", "first", "limit"),
    [
        ("SELECT carrier FROM flights LIMIT 3", None, 3),
        ("SELECT carrier FROM flights LIMIT 3 OFFSET 2", (5, 2), 3),
        ("SELECT carrier FROM (SELECT carrier FROM flights LIMIT 3 OFFSET 2) LIMIT 1", (5, 2), 1),
        ("CREATE STREAM c AS SELECT carrier FROM flights LIMIT 3", (3, 0), None),
        ("CREATE STREAM c AS SELECT carrier FROM flights FETCH FIRST 2 ROWS ONLY", (2, 0), None),
    ],
)
def test_without_an_order_the_first_rows_are_those_that_come_first(
    text: str, first: tuple[int, int] | None, limit: int | None
) -> None:
    plan = planned(text)
    kept = [step for step in plan.steps if isinstance(step, physical.TopN)]
    assert [(step.limit, step.order, step.signed, step.output) for step in kept] == (
        [] if first is None else [(first[0], [], False, "signed")]
    )
    results = [step for step in plan.steps if isinstance(step, physical.WriteResults)]
    assert [step.limit for step in results] == ([] if limit is None else [limit])


def test_first_rows_of_rows_that_change_change_too() -> None:
    assert bound("SELECT tailnum, seats FROM planes LIMIT 3 OFFSET 1").kind.value == "changelog"
    assert bound("SELECT carrier FROM flights LIMIT 3 OFFSET 1").kind.value == "stream"


def test_more_rows_than_an_operator_counts_are_refused() -> None:
    with pytest.raises(UserError, match="at most the first 2147483647 rows") as caught:
        bound("SELECT carrier FROM flights ORDER BY delay LIMIT 2147483648")
    assert caught.value.state.value == "53000"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT carrier, flight_time FROM flights ORDER BY flight_time",
        "SELECT carrier, flight_time FROM flights AS f WHERE delay > 1 ORDER BY f.flight_time ASC NULLS LAST",
        "SELECT carrier, flight_time FROM flights ORDER BY rowtime()",
        "SELECT carrier AS c, flight_time AS t FROM flights ORDER BY t",
        "SELECT carrier, t FROM (SELECT carrier, flight_time AS t FROM flights ORDER BY t) AS x",
    ],
)
def test_the_order_of_event_time_is_that_of_rows_that_wait_for_the_watermark(text: str) -> None:
    plan = bound(text)
    assert (plan.kind.value, plan.traits.insert_only) == ("stream", True)
    [step] = [step for step in planned(text).steps if isinstance(step, physical.OverAggregate)]
    assert (step.partition, [call.function for call in step.calls]) == ([], ["COUNT"])


def test_running_results_may_be_ordered_too() -> None:
    text = "SELECT SUM(delay) OVER (PARTITION BY carrier ORDER BY flight_time) AS s, flight_time FROM flights ORDER BY 2"
    steps = [step for step in planned(text).steps if isinstance(step, physical.OverAggregate)]
    assert [len(step.partition) for step in steps] == [1, 0]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT carrier FROM flights ORDER BY flight_time DESC",
        "SELECT carrier FROM flights ORDER BY flight_time, delay",
        "SELECT carrier, flight_time + 1 AS t FROM flights ORDER BY t",
        "SELECT DISTINCT flight_time FROM flights ORDER BY flight_time",
        "SELECT tailnum, built FROM planes ORDER BY built",
        "SELECT carrier FROM flights ORDER BY delay",
        "SELECT carrier FROM flights ORDER BY delay LIMIT 0",
        "SELECT carrier FROM flights ORDER BY delay OFFSET 1",
        "SELECT carrier FROM flights OFFSET 1",
        "SELECT carrier FROM (SELECT carrier FROM flights LIMIT 0)",
    ],
)
def test_what_has_no_end_or_no_order_is_refused(text: str) -> None:
    with pytest.raises(UserError) as caught:
        bound(text)
    assert caught.value.state.value == "0A000"


def test_a_changelog_needs_a_key() -> None:
    with pytest.raises(UserError) as caught:
        planned("CREATE CHANGELOG c AS SELECT carrier FROM flights ORDER BY delay LIMIT 3")
    assert caught.value.state.value == "42P16"
