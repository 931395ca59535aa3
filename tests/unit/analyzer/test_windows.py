"""Offsets of time windows, and the column that a window names as its event time.

The relations are those of `tests/plans/world.py`.
"""

from __future__ import annotations

import pytest

from headrace.analyzer.logical import Aggregate, TimeWindow, Unnest, walk
from headrace.analyzer.traits import traits
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.planner import physical
from tests.plans.shapes import tree
from tests.plans.world import planned

COUNTED = "SELECT window_start, window_end, COUNT(*) AS n FROM {} GROUP BY window_start, window_end"


def window(source: str) -> TimeWindow:
    """The topmost window of a query that counts the rows of its windows."""
    node, *_ = [node for node in walk(tree(COUNTED.format(source))) if isinstance(node, TimeWindow)]
    return node


@pytest.mark.parametrize(
    ("source", "offset_ms"),
    [
        ("TUMBLE(flights, SIZE 1 DAY)", 0),
        ("TUMBLE(flights, SIZE 1 DAY, OFFSET 8 HOURS)", 28_800_000),
        ("TUMBLE(flights, SIZE 1 DAY, OFFSET -8 HOURS)", 57_600_000),
        ("TUMBLE(flights, SIZE 1 DAY, OFFSET 25 HOURS)", 3_600_000),
        ("HOP(flights, SIZE 10 MINUTES, ADVANCE BY 4 MINUTES, OFFSET -5 MINUTES)", 180_000),
        ("CUMULATE(flights, SIZE 1 DAY, STEP 1 HOUR, OFFSET 90 MINUTES)", 5_400_000),
        ("TUMBLE(TABLE flights, DESCRIPTOR(flight_time), INTERVAL '10' MINUTE, INTERVAL '5' MINUTE)", 300_000),
        ("TABLE(HOP(TABLE flights, DESCRIPTOR(flight_time), INTERVAL '5' MINUTE, INTERVAL '10' MINUTE))", 0),
        ("CUMULATE(DATA => TABLE flights, TIMECOL => DESCRIPTOR(flight_time), SIZE => INTERVAL '1' HOUR, "
         "STEP => INTERVAL '10' MINUTE, OFFSET => INTERVAL '-1' MINUTE)", 3_540_000),
    ],
)  # fmt: skip
def test_an_offset_is_less_than_what_windows_repeat_after(source: str, offset_ms: int) -> None:
    assert window(source).offset_ms == offset_ms


def test_both_spellings_are_the_same_window() -> None:
    ours = "HOP(flights, SIZE 10 MINUTES, ADVANCE BY 5 MINUTES, OFFSET 1 MINUTE)"
    flinks = "HOP(TABLE flights, DESCRIPTOR(flight_time), INTERVAL '5' MINUTE, INTERVAL '10' MINUTE, INTERVAL '1' MINUTE)"
    assert window(ours) == window(flinks)
    grouped = (
        "SELECT HOP_START(flight_time, INTERVAL '5' MINUTE, INTERVAL '10' MINUTE) AS s FROM flights GROUP BY "
    )
    legacy = tree(grouped + "HOP(flight_time, INTERVAL '5' MINUTE, INTERVAL '10' MINUTE)")
    today = tree(COUNTED.format(ours.replace(", OFFSET 1 MINUTE", "")))
    assert legacy.inputs == today.inputs


def test_late_rows_and_windows_are_shifted_alike() -> None:
    plan = planned(
        f"CREATE CHANGELOG c AS {COUNTED.format('HOP(flights, SIZE 10 MINUTES, ADVANCE BY 4 MINUTES, OFFSET 1 MINUTE)')}"
    )
    [timed] = [step for step in plan.steps if isinstance(step, physical.AssignWatermark)]
    assert (timed.window_ms, timed.advance_ms, timed.offset_ms) == (600_000, 240_000, 60_000)
    texts = [step.sql for step in plan.steps if isinstance(step, physical.SqlTransform)]
    assert any("'600000 milliseconds', '240000 milliseconds', '60000 milliseconds'" in text for text in texts)
    cumulated = planned(
        f"CREATE CHANGELOG c AS {COUNTED.format('CUMULATE(flights, SIZE 1 DAY, STEP 1 HOUR, OFFSET 90 MINUTES)')}"
    )
    [timed] = [step for step in cumulated.steps if isinstance(step, physical.AssignWatermark)]
    assert (timed.window_ms, timed.advance_ms, timed.offset_ms) == (86_400_000, 86_400_000, 5_400_000)
    texts = [step.sql for step in cumulated.steps if isinstance(step, physical.SqlTransform)]
    assert any("- 5400000000L" in text for text in texts)


@pytest.mark.parametrize(
    ("query", "shape"),
    [
        ("SELECT carrier, delay FROM SESSION(flights PARTITION BY carrier, GAP 1 MINUTE)", (1, 1)),
        (
            "SELECT * FROM SESSION((SELECT carrier FROM flights), GAP 1 MINUTE) AS f WHERE f.carrier = 'AA'",
            (1, 1),
        ),
        # The groups are the sessions.
        ("SELECT DISTINCT window_start, window_end, carrier FROM SESSION(flights, GAP 1 MINUTE)", (1, 0)),
        (
            "SELECT carrier, COUNT(*) AS n FROM SESSION(flights PARTITION BY carrier, GAP 1 MINUTE) "
            "GROUP BY window_start, window_end, carrier",
            (1, 0),
        ),
        # The groups divide sessions, or unite them.
        (
            "SELECT tailnum, COUNT(*) AS n FROM SESSION(flights PARTITION BY carrier, GAP 1 MINUTE) "
            "GROUP BY window_start, window_end, tailnum",
            (2, 1),
        ),
        (
            "SELECT COUNT(*) AS n FROM SESSION(flights PARTITION BY carrier, GAP 1 MINUTE) GROUP BY window_start, window_end",
            (2, 1),
        ),
    ],
)
def test_rows_of_sessions_are_collected_unless_the_groups_are_the_sessions(
    query: str, shape: tuple[int, int]
) -> None:
    parts = list(walk(tree(query)))
    assert (
        len([x for x in parts if isinstance(x, Aggregate)]),
        len([x for x in parts if isinstance(x, Unnest)]),
    ) == shape
    assert traits(parts[0]).insert_only


BY_HOUR = "SELECT carrier, FLOOR(departed TO HOUR) AS hour, COUNT(*) AS n FROM flights GROUP BY carrier, FLOOR(departed TO HOUR)"
DAILY = (
    f"SELECT window_time AS ended, SUM(n) AS n FROM TUMBLE(({BY_HOUR}), DESCRIPTOR(hour), SIZE 1 DAY) "
    "GROUP BY window_start, window_end, window_time"
)


@pytest.mark.parametrize(
    ("source", "time"),
    [
        ("TUMBLE(readings, SIZE 1 DAY)", "at"),
        ("TUMBLE(readings, DESCRIPTOR(at), SIZE 1 DAY)", "at"),
        ("TUMBLE((SELECT at AS moment, level FROM readings WHERE level > 0), SIZE 1 DAY)", "moment"),
        (f"HOP(({BY_HOUR}), DESCRIPTOR(hour), SIZE 1 DAY, ADVANCE BY 1 HOUR)", "hour"),
        (f"TUMBLE((SELECT hour + INTERVAL '1' DAY AS next, n FROM ({BY_HOUR})), DESCRIPTOR(next), SIZE 1 DAY)", "next"),
        (f"TUMBLE(({DAILY}), DESCRIPTOR(ended), SIZE 7 DAYS)", "ended"),
        (f"CUMULATE((SELECT DISTINCT hour FROM ({BY_HOUR})), DESCRIPTOR(hour), SIZE 1 DAY, STEP BY 1 HOUR)", "hour"),
    ],
)  # fmt: skip
def test_a_window_over_rows_that_change_is_by_a_time_of_their_key(source: str, time: str) -> None:
    node = window(source)
    assert node.time is not None
    assert node.time.column == time
    plan = planned(f"CREATE CHANGELOG c AS {COUNTED.format(source)}")
    # No watermark closes the windows, so no row is late.
    assert not [step for step in plan.steps if isinstance(step, physical.AssignWatermark)]
    assert plan.groupings == []


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("TUMBLE(planes, SIZE 1 DAY)", "an update may change the time"),
        ("TUMBLE(readings, SIZE 1 DAY) WITH ('timestamp' = 'checked')", "an update may change the time"),
        ("TUMBLE(readings, DESCRIPTOR(checked), SIZE 1 DAY)", "an update may change the time"),
        ("TUMBLE(readings, DESCRIPTOR(sensor), SIZE 1 DAY)", "not a time"),
        ("TUMBLE(airports, SIZE 1 DAY)", "no column with their event time"),
        (f"TUMBLE(({BY_HOUR}), SIZE 1 DAY)", "no column with their event time"),
        (f"TUMBLE(({BY_HOUR}), DESCRIPTOR(n), SIZE 1 DAY)", "not a time"),
        ("TUMBLE((SELECT carrier, MAX(departed) AS last FROM flights GROUP BY carrier), DESCRIPTOR(last), SIZE 1 DAY)", "may change"),
        ("TUMBLE((SELECT sensor, checked + INTERVAL '1' DAY AS at FROM readings), DESCRIPTOR(at), SIZE 1 DAY)", "may change"),
        ("TUMBLE((SELECT sensor, at, NOW() AS seen FROM readings), DESCRIPTOR(seen), SIZE 1 DAY)", "may change"),
        ("SESSION(readings, GAP 1 DAY)", "SESSION requires rows that never change"),
    ],
)  # fmt: skip
def test_a_window_over_rows_that_change_is_refused_by_a_time_that_may_change(
    source: str, reason: str
) -> None:
    with pytest.raises(UserError) as refused:
        tree(COUNTED.format(source))
    assert refused.value.state is SqlState.FEATURE_NOT_SUPPORTED
    assert reason in refused.value.message
    assert refused.value.hint


def test_the_groups_of_windows_over_rows_that_change_are_known_by_one_bound() -> None:
    query = "SELECT {} COUNT(*) AS n FROM HOP(readings, SIZE 1 DAY, ADVANCE BY 1 HOUR) GROUP BY window_start, window_end"
    assert traits(tree(query.format("window_end,"))).key == (("", "window_end"),)
    assert traits(tree(query.format("window_start,"))).key == (("", "window_start"),)
    assert traits(tree(query.format(""))).key is None
    rows = "SELECT window_end, sensor, at, level FROM HOP(readings, SIZE 1 DAY, ADVANCE BY 1 HOUR)"
    assert traits(tree(rows)).key == (("", "sensor"), ("", "at"), ("", "window_end"))


def test_the_bounds_of_a_window_are_not_columns_of_its_rows_too() -> None:
    inner = "SELECT window_start, window_end, COUNT(*) AS n FROM TUMBLE(readings, SIZE 1 HOUR) GROUP BY window_start, window_end"
    with pytest.raises(UserError, match="already have a column window_start"):
        tree(COUNTED.format(f"TUMBLE(({inner}), DESCRIPTOR(window_start), SIZE 1 DAY)"))


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (
            "window_start, window_end, HOUR(window_start)",
            "`flights`.`__headrace_window`, hash(`flights`.`__headrace_rowtime`) % 1",
        ),
        (
            "window_start, window_end, 'all'",
            "`flights`.`__headrace_window`, hash(`flights`.`__headrace_rowtime`) % 1",
        ),
        (
            "window_start, window_end, carrier, HOUR(window_start)",
            "`flights`.`__headrace_window`, `flights`.`carrier`",
        ),
    ],
)
def test_the_bounds_of_a_row_are_no_key_of_its_session(keys: str, expected: str) -> None:
    text = f"SELECT window_start, window_end, HOUR(window_start) AS h, COUNT(*) AS n FROM SESSION(flights, GAP 1 MINUTE) GROUP BY {keys}"
    [grouping] = planned(text).groupings
    assert ", ".join(grouping.keys) == expected
