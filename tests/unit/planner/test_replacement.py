"""Replacements that continue from a query's checkpoint, and the obstacles to others."""

from __future__ import annotations

import pytest

from headrace.planner.physical import SparkPlan
from headrace.planner.replacement import Comparison, compare
from tests.plans.world import planned

COUNTS = (
    "CREATE CHANGELOG c AS SELECT carrier, COUNT(*) AS n, MAX(delay) AS worst FROM flights GROUP BY carrier"
)
WINDOWS = (
    "CREATE CHANGELOG c AS SELECT window_start, window_end, carrier, COUNT(*) AS n FROM TUMBLE(flights, SIZE 1 HOUR) "
    "GROUP BY window_start, window_end, carrier"
)
INTERVALS = "CREATE STREAM s AS SELECT f.carrier, b.seat FROM flights f JOIN bookings b WITHIN 1 HOUR ON f.tailnum = b.tailnum"
TEMPORAL = (
    "CREATE STREAM s AS SELECT f.carrier, p.maker FROM flights f JOIN planes p ON f.tailnum = p.tailnum"
)
CHANGES = "CREATE CHANGELOG c AS SELECT maker, COUNT(*) AS n, SUM(seats) AS seats FROM planes GROUP BY maker"
VIEW = COUNTS.replace("CHANGELOG", "MATERIALIZED VIEW")
ROWS = "CREATE STREAM s AS SELECT carrier, delay FROM flights"
PAIRS = "CREATE MATERIALIZED VIEW v AS SELECT f.carrier, a.note FROM flights f FULL JOIN arrivals a ON f.carrier = a.carrier"
BOTH = "CREATE STREAM s AS SELECT carrier FROM flights UNION ALL SELECT carrier FROM arrivals"


def changed(text: str, *replaced: str) -> str:
    """Return a statement in which each text of `replaced` has taken the place of the one before it."""
    for old, new in zip(replaced[::2], replaced[1::2], strict=True):
        assert old in text
        text = text.replace(old, new)
    return text


def compared(old: str, new: str) -> Comparison:
    return compare(planned(old), planned(new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (COUNTS, COUNTS),
        (COUNTS, changed(COUNTS, "AS n", "AS flights")),
        (COUNTS, changed(COUNTS, "COUNT(*) AS n", "COUNT(*) * 2 AS n")),
        (COUNTS, changed(COUNTS, "AS worst", "AS worst, COUNT(*) + MAX(delay) AS both")),
        (f"{COUNTS} HAVING MAX(delay) > 3", f"{COUNTS} HAVING COUNT(*) > 3"),
        (COUNTS, changed(COUNTS, "FROM flights", "FROM flights WITH ('starting.position' = 'earliest')")),
        (WINDOWS, changed(WINDOWS, "COUNT(*) AS n", "COUNT(*) + 1 AS n")),
        (WINDOWS, f"{WINDOWS} HAVING COUNT(*) > 3"),
        (INTERVALS, changed(INTERVALS, "b.seat", "upper(f.carrier) AS loud, b.seat")),
        (TEMPORAL, changed(TEMPORAL, "f.carrier,", "lower(f.carrier) AS carrier,")),
        (CHANGES, changed(CHANGES, "SUM(seats) AS", "SUM(seats) * 2 AS")),
        (CHANGES, f"{CHANGES} HAVING COUNT(*) > 3"),
        (VIEW, f"{VIEW} HAVING COUNT(*) > 3"),
        (ROWS, f"{ROWS} WHERE delay > 3"),
        (ROWS, changed(ROWS, "delay", "distance, note, delay")),
        (ROWS, changed(ROWS, "FROM flights", "FROM flights WHERE cancelled")),
    ],
)
def test_what_leaves_positions_and_state_as_they_are_is_compatible(old: str, new: str) -> None:
    assert compared(old, new).obstacles == ()
    assert compared(new, old).obstacles == ()


@pytest.mark.parametrize(
    ("old", "new", "obstacle"),
    [
        (
            COUNTS,
            changed(COUNTS, "MAX(delay)", "MIN(delay)"),
            "the aggregates of GROUP BY or their order change",
        ),
        (
            COUNTS,
            changed(COUNTS, "MAX(delay)", "MAX(distance)"),
            "the aggregates of GROUP BY or their order change",
        ),
        (
            COUNTS,
            changed(COUNTS, ", MAX(delay) AS worst", ""),
            "the aggregates of GROUP BY or their order change",
        ),
        (
            COUNTS,
            changed(COUNTS, "COUNT(*) AS n, MAX(delay) AS worst", "MAX(delay) AS worst, COUNT(*) AS n"),
            "the aggregates of GROUP BY or their order change",
        ),
        (COUNTS, f"{COUNTS} HAVING MIN(delay) > 3", "the aggregates of GROUP BY or their order change"),
        # Spark stores the time of a group only where a tombstone carries it.
        (COUNTS, f"{COUNTS} HAVING COUNT(*) > 3", "groups can be deleted in one of the statements only"),
        (f"{COUNTS} HAVING COUNT(*) > 3", COUNTS, "groups can be deleted in one of the statements only"),
        (
            COUNTS,
            changed(
                COUNTS,
                "GROUP BY carrier",
                "GROUP BY carrier, origin",
                "SELECT carrier,",
                "SELECT carrier, origin,",
            ),
            "the GROUP BY changes",
        ),
        (
            COUNTS,
            changed(COUNTS, "FROM flights", "FROM flights WHERE delay > 3"),
            "the rows that are grouped change: the groups contain rows of the old FROM and WHERE",
        ),
        (
            COUNTS,
            changed(COUNTS, "FROM flights", "FROM arrivals", "MAX(delay)", "MAX(distance)"),
            "the step read_arrivals",
        ),
        (WINDOWS, changed(WINDOWS, "1 HOUR", "2 HOURS"), "the rows that are grouped change"),
        (INTERVALS, changed(INTERVALS, "WITHIN 1 HOUR", "WITHIN 2 HOURS"), "(interval join) changes"),
        (
            INTERVALS,
            changed(INTERVALS, "f.carrier, b.seat", "f.carrier, b.seat, f.origin"),
            "gets other rows",
        ),
        (INTERVALS, ROWS, "is removed"),
        (ROWS, INTERVALS, "is new"),
        (
            TEMPORAL,
            changed(TEMPORAL, "ON f.tailnum = p.tailnum", "ON f.note = p.tailnum"),
            "(temporal join) gets other rows",
        ),
        (CHANGES, changed(CHANGES, "SUM(seats)", "MAX(seats)"), "(changelog aggregate) changes"),
        (
            CHANGES,
            changed(CHANGES, "FROM planes", "FROM planes WHERE seats > 3"),
            "(changelog aggregate) gets other rows",
        ),
        (
            BOTH,
            changed(
                BOTH,
                "SELECT carrier FROM flights UNION ALL SELECT carrier FROM arrivals",
                "SELECT carrier FROM arrivals UNION ALL SELECT carrier FROM flights",
            ),
            "changes",
        ),
        (
            ROWS,
            changed(ROWS, "AS SELECT", "WITH ('topic' = 'other') AS SELECT"),
            "the query writes another entity",
        ),
        (
            PAIRS,
            changed(PAIRS, "a.note", "lower(a.note) AS note"),
            "the rows of the view have no key",
        ),
    ],
)
def test_an_obstacle_is_named(old: str, new: str, obstacle: str) -> None:
    assert any(obstacle in reason for reason in compared(old, new).obstacles), compared(old, new)


def test_a_plan_without_a_list_of_its_aggregations_keeps_its_text() -> None:
    old = planned(COUNTS)
    stored = SparkPlan.from_json(old.model_copy(update={"groupings": None}).to_json())
    assert compare(stored, old).is_compatible
    (obstacle,) = compare(stored, planned(f"{COUNTS} HAVING COUNT(*) > 3")).obstacles
    assert obstacle == "an earlier release created the query, and its plan does not list its aggregations"


def test_a_view_without_a_key_is_compatible_with_itself() -> None:
    assert compared(PAIRS, PAIRS).is_compatible


def test_explain_lists_the_class_its_reasons_and_the_steps() -> None:
    compatible = compared(COUNTS, changed(COUNTS, "COUNT(*) AS n", "COUNT(*) * 2 AS n"))
    assert compatible.lines() == [
        "Replacement: compatible",
        "  the query continues from its positions, with its state",
        "  read entity read_flights: kept, continues from the checkpoint",
        "  decode rows rows_flights: kept",
        "  sql transform result: changed, continues from the checkpoint",
        "  encode rows records: changed",
        "  write entity sink: changed",
    ]
    anew = compared(
        ROWS, changed(ROWS, "delay", "MAX(delay) AS worst", "STREAM s", "CHANGELOG s") + " GROUP BY carrier"
    )
    assert anew.kind == "anew"
    assert anew.lines()[0] == "Replacement: anew"
