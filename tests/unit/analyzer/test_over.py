"""Window functions in continuous queries: what they bind to, and the windows that a stream cannot have."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.analyzer import LogicalPlan
from headrace.analyzer.logical import OverAggregate, walk
from headrace.analyzer.over_aggregates import frame_of
from headrace.analyzer.traits import INSERTS
from headrace.catalog.objects import RelationKind
from headrace.core.errors import UserError
from headrace.planner import physical
from tests.plans.world import bound, planned

SUM = "SELECT SUM(distance) OVER ({}) AS x FROM flights"
TIME = "must be ordered by the event time alone, ascending"


def overs(plan: LogicalPlan) -> Iterator[OverAggregate]:
    """The windows of a query, the last computed first."""
    return (node for node in walk(plan.root) if isinstance(node, OverAggregate))


@pytest.mark.parametrize(
    ("window", "frame"),
    [
        ("ORDER BY flight_time", ("RANGE", None)),
        ("ORDER BY flight_time ASC ROWS 3 PRECEDING", ("ROWS", 3)),
        ("ORDER BY flight_time ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", ("ROWS", None)),
        ("ORDER BY flight_time RANGE CURRENT ROW", ("RANGE", 0)),
        ("ORDER BY flight_time RANGE BETWEEN 5000 PRECEDING AND CURRENT ROW", ("RANGE", 5000)),
        ("ORDER BY flight_time RANGE BETWEEN INTERVAL '5' SECOND PRECEDING AND CURRENT ROW", ("RANGE", 5000)),
        ("ORDER BY rowtime() RANGE INTERVAL '1' HOUR PRECEDING", ("RANGE", 3_600_000)),
    ],
)
def test_a_frame_ends_with_the_current_row(window: str, frame: tuple[str, int | None]) -> None:
    (node,) = overs(bound(SUM.format(window)))
    ((_, over),) = node.calls
    assert frame_of(over) == frame


def test_functions_of_one_partition_are_one_operator_whatever_their_frames() -> None:
    text = (
        "SELECT SUM(distance) OVER (PARTITION BY carrier ORDER BY flight_time) + 1 AS a, "
        "MAX(delay) OVER (PARTITION BY carrier ORDER BY flight_time ROWS 2 PRECEDING) AS b, "
        "SUM(distance) OVER (PARTITION BY carrier ORDER BY flight_time) AS c, "
        "ROW_NUMBER() OVER (ORDER BY flight_time) AS d, LAG(note, 2) OVER (PARTITION BY carrier ORDER BY flight_time) AS e "
        "FROM flights"
    )
    last, first = overs(bound(text))
    assert [over.function.name for _, over in first.calls] == ["SUM", "MAX", "LAG"]
    assert [frame_of(over) for _, over in first.calls] == [("RANGE", None), ("ROWS", 2), ("ROWS", 2)]
    assert [over.function.name for _, over in last.calls] == ["ROW_NUMBER"]
    steps = [step for step in planned(text).steps if isinstance(step, physical.OverAggregate)]
    # The number of a row is the count of rows.
    assert [[call.function for call in step.calls] for step in steps] == [["SUM", "MAX", "LAG"], ["COUNT"]]


def test_the_result_is_a_stream_with_the_time_of_its_rows() -> None:
    plan = bound(SUM.format("ORDER BY flight_time"))
    assert plan.kind is RelationKind.STREAM
    assert plan.traits.changes == INSERTS
    assert plan.traits.timed


def test_a_number_that_keeps_the_first_rows_is_a_top_n_still() -> None:
    text = "SELECT carrier FROM (SELECT carrier, ROW_NUMBER() OVER (ORDER BY flight_time) AS n FROM flights) WHERE n {}"
    assert not list(overs(bound(text.format("<= 3"))))
    assert list(overs(bound(text.format("> 3"))))


@pytest.mark.parametrize(
    ("text", "state", "reason", "hint"),
    [
        (SUM.format("ORDER BY distance"), "0A000", TIME, "ORDER BY flight_time or rowtime()"),
        (SUM.format("ORDER BY flight_time DESC"), "0A000", TIME, None),
        (SUM.format("ORDER BY flight_time, distance"), "0A000", TIME, None),
        (SUM.format("PARTITION BY carrier"), "0A000", TIME, None),
        ("SELECT ROW_NUMBER() OVER (ORDER BY distance) AS n FROM flights", "0A000", TIME, "WHERE n <= 3"),
        (
            "SELECT SUM(d) OVER (ORDER BY t) AS x FROM (SELECT distance AS d, flight_time + 1 AS t FROM flights)",
            "0A000",
            TIME,
            "Select the event time",
        ),
        (
            "SELECT SUM(f.distance) OVER (ORDER BY rowtime(f)) AS x FROM flights AS f "
            "JOIN bookings AS b WITHIN 5 MINUTES ON f.tailnum = b.tailnum",
            "0A000",
            TIME,
            None,
        ),
        (
            SUM.format("ORDER BY flight_time ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING"),
            "0A000",
            "end with CURRENT ROW",
            "PRECEDING AND CURRENT ROW",
        ),
        (
            SUM.format("ORDER BY flight_time ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING"),
            "0A000",
            "end with CURRENT ROW",
            None,
        ),
        (
            SUM.format("ORDER BY flight_time RANGE 1.5 PRECEDING"),
            "42804",
            "whole milliseconds",
            "INTERVAL '5' MINUTE",
        ),
        ("SELECT LEAD(delay) OVER (ORDER BY flight_time) AS x FROM flights", "0A000", "LEAD OVER", "LAG"),
        (
            "SELECT RANK() OVER (ORDER BY flight_time) AS x FROM flights",
            "0A000",
            "RANK OVER",
            ", RANK() OVER (",
        ),
        (
            "SELECT LAG(delay, distance) OVER (ORDER BY flight_time) AS x FROM flights",
            "0A000",
            "constant number",
            None,
        ),
        (
            "SELECT LAG(delay, -1) OVER (ORDER BY flight_time) AS x FROM flights",
            "0A000",
            "constant number",
            None,
        ),
        (
            "SELECT COUNT(*) OVER (ORDER BY built) AS n FROM planes",
            "0A000",
            "requires a STREAM; CHANGELOG",
            "STREAM",
        ),
        (
            "SELECT carrier, SUM(COUNT(*)) OVER (ORDER BY carrier) AS x FROM flights GROUP BY carrier",
            "0A000",
            "beside GROUP BY or DISTINCT",
            "subquery",
        ),
        (
            "SELECT DISTINCT " + SUM.format("ORDER BY flight_time")[7:],
            "0A000",
            "beside GROUP BY or DISTINCT",
            "subquery",
        ),
        (
            "SELECT COUNT(*) OVER (PARTITION BY tags ORDER BY flight_time) AS n FROM flights",
            "42804",
            "a key must be of a comparable type",
            None,
        ),
        (
            "SELECT SUM(flights) OVER (ORDER BY flights RANGE INTERVAL '1' HOUR PRECEDING) AS x FROM delays",
            "42804",
            "over numbers requires a number",
            "60000 PRECEDING",
        ),
    ],
)
def test_a_window_that_a_stream_cannot_have_is_refused(
    text: str, state: str, reason: str, hint: str | None
) -> None:
    with pytest.raises(UserError) as caught:
        planned(text)
    error = caught.value
    assert error.state.value == state, error.text()
    assert error.span is not None
    assert reason in str(error)
    assert (hint or "") in (error.hint or ""), error.text()


@pytest.mark.parametrize(
    ("short", "long"),
    [
        (
            "SELECT SUM(distance) OVER w AS a, MIN(delay) OVER w AS b, COUNT(*) OVER v AS c FROM flights "
            "WHERE distance > 0 WINDOW w AS (PARTITION BY carrier ORDER BY flight_time ROWS 2 PRECEDING), v AS (ORDER BY flight_time)",
            "SELECT SUM(distance) OVER (PARTITION BY carrier ORDER BY flight_time ROWS 2 PRECEDING) AS a, MIN(delay) "
            "OVER (PARTITION BY carrier ORDER BY flight_time ROWS 2 PRECEDING) AS b, COUNT(*) OVER (ORDER BY flight_time) AS c "
            "FROM flights WHERE distance > 0",
        ),
        (
            "SELECT carrier AS c, delay FROM flights AS f WINDOW w AS (PARTITION BY carrier ORDER BY flight_time) "
            "QUALIFY delay > AVG(f.delay) OVER w AND c <> 'x'",
            "SELECT c, delay FROM (SELECT carrier AS c, delay, AVG(f.delay) OVER (PARTITION BY carrier ORDER BY flight_time) AS mean "
            "FROM flights AS f) WHERE delay > mean AND c <> 'x'",
        ),
        (
            "SELECT carrier, delay FROM flights QUALIFY ROW_NUMBER() OVER (PARTITION BY carrier ORDER BY delay DESC) <= 3",
            "SELECT carrier, delay FROM (SELECT carrier, delay, ROW_NUMBER() OVER (PARTITION BY carrier ORDER BY delay DESC) AS n "
            "FROM flights) WHERE n <= 3",
        ),
        (
            "SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier QUALIFY ROW_NUMBER() OVER (ORDER BY COUNT(*) DESC) = 1",
            "SELECT carrier, n FROM (SELECT carrier, COUNT(*) AS n, ROW_NUMBER() OVER (ORDER BY COUNT(*) DESC) AS place FROM flights "
            "GROUP BY carrier) WHERE place = 1",
        ),
    ],
)
def test_named_windows_and_qualify_are_short_for_the_long_form(short: str, long: str) -> None:
    assert _steps(short) == _steps(long)


def _steps(text: str) -> str:
    """The plan, whatever the long form calls what QUALIFY leaves unnamed."""
    plan = planned(text).to_json()
    for name in ("mean", "place", "n"):
        plan = plan.replace(f"`{name}`", "`__headrace_qualify_1`").replace(
            f'"{name}"', '"__headrace_qualify_1"'
        )
    return plan


def test_qualify_beside_a_star_shows_the_columns_of_the_source_alone() -> None:
    view = bound(
        "SELECT * FROM delays QUALIFY flights > MAX(minutes) OVER (PARTITION BY day) ORDER BY carrier LIMIT 1"
    )
    assert view.schema.names == ("carrier", "day", "minutes", "flights")
    assert bound(
        "SELECT * FROM flights QUALIFY LAG(delay) OVER (ORDER BY flight_time) < delay"
    ).schema.names == (bound("SELECT * FROM flights").schema.names)


@pytest.mark.parametrize(
    ("text", "state", "reason"),
    [
        ("SELECT SUM(distance) OVER w AS x FROM flights", "42601", "the window w is not defined"),
        (
            "SELECT SUM(distance) OVER w AS x FROM flights WINDOW v AS (ORDER BY flight_time)",
            "42601",
            "the window w is not defined",
        ),
        (
            "SELECT SUM(distance) OVER w AS x FROM flights WINDOW v AS (ORDER BY flight_time), w AS (v ROWS 1 PRECEDING)",
            "0A000",
            "extends a named window",
        ),
        ("SELECT carrier FROM flights QUALIFY COUNT(*) > 3", "42803", "COUNT is not allowed in WHERE"),
        ("SELECT carrier FROM flights QUALIFY carriers > 3", "42703", "carriers"),
    ],
)
def test_a_window_that_is_not_defined_is_refused(text: str, state: str, reason: str) -> None:
    with pytest.raises(UserError) as caught:
        planned(text)
    assert caught.value.state.value == state, caught.value.text()
    assert reason in str(caught.value)
