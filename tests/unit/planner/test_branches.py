"""Classification of replacements of a UNION ALL: the branches that continue, and those that start."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.planner.branches import Rebuild
from headrace.planner.replacement import Comparison, compare
from tests.plans.world import planned

ONCE = "WITH ('delivery.guarantee' = 'exactly_once')"
PLAIN = (
    "SELECT carrier FROM arrivals",
    "SELECT carrier FROM flights WHERE delay > 3",
    "SELECT upper(carrier) AS carrier FROM arrivals",
)
DISTINCT = ("SELECT DISTINCT carrier FROM flights", "SELECT DISTINCT origin AS carrier FROM flights")
JOINED = (
    "SELECT f.carrier FROM flights f JOIN flights g ON f.carrier = g.origin",
    "SELECT f.carrier FROM flights f JOIN flights g ON f.carrier = g.carrier",
)
WINDOWS = "SELECT carrier FROM TUMBLE(flights, SIZE 1 HOUR) GROUP BY window_start, window_end, carrier"
SOURCES = {**dict.fromkeys(PLAIN, 1), **dict.fromkeys(DISTINCT, 1), **dict.fromkeys(JOINED, 2)}


def compared(old: tuple[str, ...], new: tuple[str, ...], properties: str = ONCE) -> Comparison:
    before, after = (
        planned(f"CREATE STREAM s {properties} AS {' UNION ALL '.join(each)}") for each in (old, new)
    )
    return compare(before, after)


def rebuilt(old: tuple[str, ...], new: tuple[str, ...]) -> Rebuild:
    comparison = compared(old, new)
    assert (comparison.kind, comparison.not_apart) == ("partly", None)
    assert comparison.rebuild is not None
    return comparison.rebuild


def test_a_branch_whose_key_changes_starts_and_the_others_keep_their_state() -> None:
    changed = rebuilt((JOINED[0], DISTINCT[0], PLAIN[0]), (JOINED[1], DISTINCT[0], PLAIN[0]))
    assert changed.sources == (None, None, 2, 3)
    assert changed.entities == ("flights", "flights", "flights", "arrivals")
    assert (changed.old_operators, changed.operators, changed.kept_operators) == (2, 2, {1})


def test_a_branch_is_added_or_removed_at_the_end() -> None:
    two, three = (DISTINCT[0], PLAIN[0]), (DISTINCT[0], PLAIN[0], DISTINCT[1])
    assert rebuilt(two, three).sources == (0, 1, None)
    assert rebuilt(two, three).kept_operators == {0}
    removed = rebuilt(three, two)
    assert (removed.sources, removed.old_operators, removed.operators) == ((0, 1), 2, 1)


def test_a_plan_whose_branches_all_continue_is_compatible() -> None:
    comparison = compared((PLAIN[0], DISTINCT[0]), (PLAIN[2], DISTINCT[0]))
    assert (comparison.kind, comparison.obstacles) == ("compatible", ())


def test_a_branch_whose_last_step_changes_continues() -> None:
    filtered = "SELECT carrier FROM (SELECT DISTINCT carrier FROM flights) d WHERE carrier > 'b'"
    other = filtered.replace("carrier > 'b'", "length(carrier) > 1")
    changed = rebuilt((filtered, JOINED[0]), (other, JOINED[1]))
    assert changed.sources == (0, None, None)
    assert changed.kept_operators == {0}


def test_a_plan_of_another_form_neither_continues_nor_is_rebuilt_partly() -> None:
    before, after = (
        planned(f"CREATE STREAM s {ONCE} AS {' UNION ALL '.join(each)}")
        for each in ((PLAIN[0], DISTINCT[0]), (PLAIN[2], DISTINCT[0]))
    )
    comparison = compare(before, after.model_copy(update={"output_mode": "complete"}))
    assert comparison.kind == "anew"
    assert any("output mode of Spark changes" in reason for reason in comparison.obstacles)


@pytest.mark.parametrize(
    ("old", "new", "properties", "reason"),
    [
        ((PLAIN[0], DISTINCT[0]), (DISTINCT[0], PLAIN[0]), ONCE, "no branch of the UNION ALL stays as it is"),
        ((PLAIN[0],), (PLAIN[0], PLAIN[0]), ONCE, "the query has no UNION ALL"),
        ((PLAIN[0], PLAIN[0]), (PLAIN[0], PLAIN[1]), "", "real-time mode"),
        ((WINDOWS, PLAIN[0]), (WINDOWS, DISTINCT[0]), ONCE, "the query has windows"),
        (
            (JOINED[0], DISTINCT[0]),
            (PLAIN[1], DISTINCT[0]),
            ONCE,
            "the number of operators with state before grouped_u2 changes",
        ),
    ],
)
def test_what_does_not_allow_it_is_named(
    old: tuple[str, ...], new: tuple[str, ...], properties: str, reason: str
) -> None:
    comparison = compared(old, new, properties)
    assert comparison.kind == "anew"
    assert reason in (comparison.not_apart or "")


def test_branches_that_meet_in_an_operator_are_not_apart() -> None:
    def meeting(key: str) -> str:
        rows = f"SELECT carrier FROM arrivals UNION ALL SELECT {key} AS carrier FROM flights"
        return f"CREATE CHANGELOG c {ONCE} AS SELECT carrier, COUNT(*) AS n FROM ({rows}) u GROUP BY carrier"

    comparison = compare(planned(meeting("carrier")), planned(meeting("origin")))
    assert comparison.kind == "anew"
    assert comparison.not_apart


def test_explain_lists_what_continues_and_what_starts() -> None:
    lines = compared((DISTINCT[0], PLAIN[0]), (DISTINCT[1], PLAIN[0])).lines()
    assert lines[:2] == [
        "Replacement: partly",
        "  the branches that change start without state, and compute their results again; the others continue",
    ]
    assert "  read entity read_u1_flights: kept, starts at its starting position" in lines
    assert "  changelog aggregate grouped_u1: changed, starts without state" in lines or (
        "  changelog aggregate grouped_u1: kept, starts without state" in lines
    )
    assert "  read entity read_u2_arrivals: kept, continues from the checkpoint" in lines


BRANCHES = st.lists(st.sampled_from([*PLAIN, *DISTINCT, *JOINED]), min_size=2, max_size=3).map(tuple)


@settings(max_examples=30, deadline=None)
@given(BRANCHES, BRANCHES)
def test_what_continues_was_in_the_old_plan_at_the_place_from_which_it_continues(
    old: tuple[str, ...], new: tuple[str, ...]
) -> None:
    comparison = compared(old, new)
    if comparison.rebuild is None:
        return
    changed = comparison.rebuild
    places: list[tuple[int, str]] = []
    for number, branch in enumerate(old):
        places += [(number, branch)] * SOURCES[branch]
    continued = dict.fromkeys(range(len(new)), True)
    position = 0
    for number, branch in enumerate(new):
        for _ in range(SOURCES[branch]):
            place = changed.sources[position]
            if place is None:
                continued[number] = False
            else:
                # The same branch, of which at most the stateless part has changed.
                before = places[place]
                assert before[0] == number
                assert branch == before[1] or {branch, before[1]} <= set(PLAIN)
            position += 1
    assert position == len(changed.sources)
    assert any(continued.values())
    kept = [place for place in changed.sources if place is not None]
    assert kept == sorted(set(kept))
    with_state = [branch for branch in new if branch not in PLAIN]
    stateful = [number for number, branch in enumerate(new) if branch not in PLAIN]
    assert len(with_state) == changed.operators
    assert changed.kept_operators == {
        operator for operator, number in enumerate(stateful) if continued[number]
    }
