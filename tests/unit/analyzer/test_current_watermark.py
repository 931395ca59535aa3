"""CURRENT_WATERMARK: its types, what a plan with it has, and where it is refused."""

from __future__ import annotations

import pytest

from headrace.core.errors import UserError
from headrace.planner import physical
from tests.plans.world import bound, planned


@pytest.mark.parametrize(
    ("time", "source", "kind"),
    [
        ("flight_time", "flights", "BIGINT"),
        ("booked", "bookings", "TIMESTAMP(3)"),
        ("rowtime()", "arrivals", "BIGINT"),
        ("b", "(SELECT booked AS b FROM bookings WHERE seat > 1) AS s", "TIMESTAMP(3)"),
        (
            "t",
            "(SELECT booked AS t FROM bookings UNION ALL SELECT booked FROM bookings) AS s",
            "TIMESTAMP(3)",
        ),
    ],
)
def test_the_watermark_has_the_type_of_the_event_time(time: str, source: str, kind: str) -> None:
    select = f"SELECT CURRENT_WATERMARK({time}) AS w FROM {source}"
    (column,) = bound(select).schema.columns
    assert (str(column.type), column.nullable) == (kind, True)


def test_a_query_that_reads_the_watermark_has_one_and_runs_in_batches() -> None:
    plan = planned(
        "CREATE STREAM s AS SELECT note FROM flights WHERE flight_time > CURRENT_WATERMARK(flight_time)"
    )
    [timed] = [step for step in plan.steps if isinstance(step, physical.AssignWatermark)]
    assert timed.window_ms == 0
    assert plan.mode == "micro_batch"
    assert "micro-batch: CURRENT_WATERMARK is the watermark of a batch" in plan.reasons
    texts = [step.sql for step in plan.steps if isinstance(step, physical.SqlTransform)]
    assert any("unix_millis(headrace_current_watermark())" in text for text in texts)


def test_windows_group_rows_of_a_filter_by_the_watermark() -> None:
    planned(
        "CREATE CHANGELOG c AS SELECT window_start, window_end, COUNT(*) AS n FROM TUMBLE(flights, SIZE 1 HOUR) "
        "WHERE flight_time > CURRENT_WATERMARK(flight_time) GROUP BY window_start, window_end"
    )


@pytest.mark.parametrize(
    ("select", "state", "message"),
    [
        (
            "SELECT CURRENT_WATERMARK(departed) AS w FROM flights",
            "42804",
            "requires the event time of a stream",
        ),
        ("SELECT CURRENT_WATERMARK(NULL) AS w FROM flights", "42804", ""),
        ("SELECT CURRENT_WATERMARK(note) AS w FROM flights", "42804", ""),
        ("SELECT CURRENT_WATERMARK() AS w FROM flights", "42804", ""),
        ("SELECT tailnum, CURRENT_WATERMARK(built) AS w FROM planes", "0A000", "not over changelogs"),
        ("SELECT MAX(CURRENT_WATERMARK(booked)) AS w FROM bookings", "0A000", "Call it in a subquery"),
        ("SELECT DISTINCT CURRENT_WATERMARK(booked) AS w FROM bookings", "0A000", "groups"),
        (
            "SELECT SUM(CURRENT_WATERMARK(flight_time)) OVER (ORDER BY flight_time) AS w FROM flights",
            "0A000",
            "OVER",
        ),
        (
            "SELECT f.note FROM flights AS f JOIN bookings AS b WITHIN 1 MINUTE ON f.tailnum = b.tailnum "
            "WHERE b.booked > CURRENT_WATERMARK(b.booked)",
            "0A000",
            "joins",
        ),
        (
            "SELECT w, CURRENT_WATERMARK(w) AS n FROM (SELECT window_start, window_end, window_time AS w, COUNT(*) AS n "
            "FROM TUMBLE(flights, SIZE 1 HOUR) GROUP BY window_start, window_end, window_time) AS g",
            "0A000",
            "groups",
        ),
        ("SELECT CURRENT_WATERMARK(day) AS w FROM delays", "42804", ""),
        ("SELECT CURRENT_WATERMARK(flights) AS w FROM delays", "0A000", "requires a continuous query"),
    ],
)
def test_a_watermark_that_means_nothing_is_refused(select: str, state: str, message: str) -> None:
    with pytest.raises(UserError) as raised:
        bound(select)
    assert raised.value.state.value == state
    assert message in f"{raised.value} {raised.value.hint}"
