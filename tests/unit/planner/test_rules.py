"""Rewrite rules: nodes that move, nodes that must not move, and expressions that print as equivalent SQL."""

from __future__ import annotations

import pytest

from headrace.analyzer.logical import Filter, TemporalJoin, walk
from headrace.planner import physical
from headrace.planner.rules import rewritten
from headrace.planner.spark_sql import interval, text_literal
from tests.plans.world import bound, planned

JOIN = "FROM flights f LEFT JOIN planes p ON p.tailnum = f.tailnum WHERE"


@pytest.mark.parametrize(
    ("condition", "below", "above"),
    [
        ("f.distance > 1", 1, 0),
        ("p.seats > 1", 0, 1),
        ("f.distance > 1 AND p.seats > 1", 1, 1),
        ("f.distance > p.seats", 0, 1),
        ("f.distance > 1 OR p.seats > 1", 0, 1),
        ("p.maker IS NULL AND f.delay > 0", 1, 1),
        ("RAND() > f.delay", 0, 1),
    ],
)
def test_only_conditions_on_the_stream_move_below_a_temporal_join(
    condition: str, below: int, above: int
) -> None:
    root = rewritten(bound(f"SELECT f.carrier {JOIN} {condition}")).root
    join = next(node for node in walk(root) if isinstance(node, TemporalJoin))
    under = sum(isinstance(node, Filter) for node in walk(join))
    over = sum(isinstance(node, Filter) for node in walk(root)) - under
    assert (under, over) == (below, above)


def test_distinct_counts_become_sizes_of_sets_on_streams_only() -> None:
    plan = planned("SELECT carrier, COUNT(DISTINCT tailnum) AS n FROM flights GROUP BY carrier")
    (island,) = [step for step in plan.steps if isinstance(step, physical.SqlTransform)]
    assert "cardinality(collect_set(`flights`.`tailnum`))" in island.sql
    assert "DISTINCT" not in island.sql


def test_a_type_that_is_an_argument_cannot_leave_its_quotes() -> None:
    returned = """JSON_QUERY(note, '$' RETURNING ARRAY<STRUCT<"a'b" BIGINT>>)"""
    plan = planned(f"SELECT {returned} AS x FROM flights")
    texts = [step.sql for step in plan.steps if isinstance(step, physical.SqlTransform)]
    assert any(r"'ARRAY<STRUCT<`a\'b`: BIGINT>>'" in text for text in texts)


def test_texts_and_names_cannot_leave_their_quotes() -> None:
    plan = planned("""SELECT 'a''b\\' AS "x`y" FROM flights""")
    (island,) = [step for step in plan.steps if isinstance(step, physical.SqlTransform)]
    assert island.sql.startswith("SELECT 'a\\'b\\\\' AS `x``y`")
    assert text_literal("\\'") == "'\\\\\\''"


@pytest.mark.parametrize(
    ("milliseconds", "expected"),
    [(1000, "'1' SECOND"), (1500, "'1.500' SECOND"), (-90_000, "'-90' SECOND"), (0, "'0' SECOND")],
)
def test_an_interval_keeps_its_milliseconds(milliseconds: int, expected: str) -> None:
    assert interval(milliseconds) == f"INTERVAL {expected}"


def test_event_time_is_assigned_only_where_it_is_needed() -> None:
    def timed(text: str) -> int:
        return sum(isinstance(step, physical.AssignWatermark) for step in planned(text).steps)

    assert timed("SELECT carrier FROM flights") == 0
    assert timed("SELECT carrier, window_start FROM TUMBLE(flights, SIZE 1 HOUR)") == 0
    assert timed("SELECT carrier, COUNT(*) FROM flights GROUP BY carrier") == 0
    assert (
        timed(
            "SELECT window_start, window_end, COUNT(*) FROM TUMBLE(flights, SIZE 1 HOUR) GROUP BY window_start, window_end"
        )
        == 1
    )
    assert timed(f"SELECT f.carrier {JOIN} f.delay > 1") == 2
