"""Reads of each view in a query of views."""

from __future__ import annotations

import pytest

from headrace.planner.view_reads import Condition, ViewRead, view_reads
from tests.plans.world import bound

DELAYS, CARRIERS = "id_of_delays", "id_of_carriers"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT COUNT(*) FROM delays", [ViewRead(DELAYS, ("carrier",))]),
        (
            "SELECT carrier FROM delays WHERE flights > 1 AND 'a' <= carrier LIMIT 3 OFFSET 2",
            [
                ViewRead(
                    DELAYS,
                    ("carrier", "flights"),
                    (Condition("flights", ">", ("1",)), Condition("carrier", ">=", ("a",))),
                    5,
                )
            ],
        ),
        # A cast may make another value, and a limit is not of rows that are left out later.
        (
            "SELECT day FROM delays WHERE CAST(flights AS INTEGER) = 1 AND day IS NOT NULL LIMIT 3",
            [ViewRead(DELAYS, ("day", "flights"), (Condition("day", "IS NOT NULL"),))],
        ),
        (
            "SELECT day FROM delays WHERE carrier = CAST('abc' AS VARCHAR(1))",
            [ViewRead(DELAYS, ("carrier", "day"))],
        ),
        ("SELECT day FROM delays WHERE minutes > 1 OR flights = 1", None),
        ("SELECT DISTINCT day FROM delays LIMIT 1", [ViewRead(DELAYS, ("day",))]),
        ("SELECT day FROM delays ORDER BY day LIMIT 1", [ViewRead(DELAYS, ("day",))]),
        ("SELECT MAX(day) FROM delays LIMIT 1", [ViewRead(DELAYS, ("day",))]),
        (
            "SELECT d.day FROM delays d LEFT JOIN carriers c ON d.carrier = c.carrier WHERE d.flights = 1 AND c.name = 'x'",
            [
                ViewRead(DELAYS, ("carrier", "day", "flights"), (Condition("flights", "=", ("1",)),)),
                ViewRead(CARRIERS, ("carrier", "name")),
            ],
        ),
        # Twice, and each time of other rows.
        (
            "SELECT a.day FROM delays a JOIN delays b ON a.carrier = b.carrier WHERE a.flights = 1",
            [ViewRead(DELAYS, ("carrier", "day", "flights"))],
        ),
    ],
)
def test_a_read_is_what_the_query_needs_and_no_less(text: str, expected: list[ViewRead] | None) -> None:
    reads = view_reads(bound(text).root)
    if expected is None:
        assert [read.conditions for read in reads] == [()]
    else:
        assert list(reads) == expected
