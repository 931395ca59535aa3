"""MATCH_RECOGNIZE: supported patterns, conditions and measures, and their plans.

The relations are those of `tests/plans/world.py`.
"""

from __future__ import annotations

import pytest

from headrace.analyzer.logical import MatchRecognize, walk
from headrace.analyzer.virtual import inlined
from headrace.core.errors import UserError
from headrace.core.names import RelationName
from tests.plans.shapes import text, tree
from tests.plans.world import planned, select_of


def query(
    measures: str = "a.delay AS d",
    pattern: str = "a b",
    define: str = "",
    *,
    rows: str = "flights",
    order: str = "flight_time",
    skip: str = "",
) -> str:
    clauses = f"PARTITION BY carrier ORDER BY {order} MEASURES {measures} {skip} PATTERN ({pattern})"
    return f"SELECT * FROM {rows} MATCH_RECOGNIZE ({clauses}{f' DEFINE {define}' if define else ''}) AS m"


def matched(sql: str) -> MatchRecognize:
    (node,) = (node for node in walk(tree(sql)) if isinstance(node, MatchRecognize))
    return node


def navigations(sql: str) -> list[str]:
    node = matched(sql)
    return [
        f"{item.kind} {item.variable or '*'} {text(item.expression)}{f' {item.offset}' if item.offset else ''}"
        for item in node.navigations
    ]


@pytest.mark.parametrize(
    ("measure", "navigation"),
    [
        ("a.delay", "last a flights.delay"),
        ("delay", "last * flights.delay"),
        ("flights.delay", "last * flights.delay"),
        ("FIRST(a.delay)", "first a flights.delay"),
        ("FIRST(a.distance + 1, 2)", "first a flights.distance + 1 2"),
        ("LAST(a.delay, 1)", "last a flights.delay 1"),
        ("LAST(delay)", "last * flights.delay"),
        ("PREV(a.delay)", "prev a flights.delay 1"),
        ("PREV(a.delay, 0)", "last a flights.delay"),
        ("PREV(delay, 3)", "prev * flights.delay 3"),
        ("a.crew->captain", "last a flights.crew"),
        ("FIRST(a.crew->captain)", "first a flights.crew.`captain`"),
        ("SUM(b.distance * 2)", "values b flights.distance * 2"),
        ("COUNT(*)", "values * true"),
        ("COUNT(b.*)", "values b true"),
        ("AVG(fare)", "values * flights.fare"),
        ("MATCH_ROWTIME()", "last * flights.__headrace_rowtime"),
        ("b.row_timestamp", "last b unix_millis(flights.__headrace_rowtime)"),
        ("b.row_key", "last b flights.__headrace_rowkey"),
        ("rowtime()", "last * flights.__headrace_rowtime"),
    ],
)
def test_what_a_measure_reads_is_a_navigation(measure: str, navigation: str) -> None:
    partition, *read = navigations(query(f"{measure} AS x"))
    assert partition == "last * flights.carrier"
    assert read == [navigation]


def test_a_column_without_a_variable_is_of_the_row_that_a_condition_looks_at() -> None:
    node = matched(
        query(
            pattern="a b+ c",
            define="b AS delay > a.delay AND delay < AVG(delay), c AS c.delay > LAST(b.delay)",
        )
    )
    read = {item.name: (item.kind, item.variable) for item in node.navigations}
    conditions = [text(variable.condition) for variable in node.pattern]
    assert conditions[0] == ""
    assert {read[name] for name in read if f".{name}" in conditions[1]} == {
        ("last", "a"),
        ("last", "b"),
        ("values", None),
    }
    assert {read[name] for name in read if f".{name}" in conditions[2]} == {("last", "b"), ("last", "c")}


@pytest.mark.parametrize(
    ("quantifier", "rows"),
    [
        ("", (1, 1, True)),
        ("+", (1, None, True)),
        ("*", (0, None, True)),
        ("?", (0, 1, True)),
        ("{2}", (2, 2, True)),
        ("{2,}", (2, None, True)),
        ("{2,3}", (2, 3, True)),
        ("{,3}", (0, 3, True)),
        ("+?", (1, None, False)),
        ("{2,3}?", (2, 3, False)),
        ("??", (0, 1, False)),
    ],
)
def test_a_quantifier_says_how_many_rows(quantifier: str, rows: tuple[int, int | None, bool]) -> None:
    variable = matched(query(pattern=f"a{quantifier} b")).pattern[0]
    assert (variable.least, variable.most, variable.greedy) == rows


@pytest.mark.parametrize(
    ("skip", "expected"),
    [
        ("", ("next_row", None)),
        ("AFTER MATCH SKIP TO NEXT ROW", ("next_row", None)),
        ("AFTER MATCH SKIP PAST LAST ROW", ("past_last_row", None)),
        ("AFTER MATCH SKIP TO FIRST b", ("first", "b")),
        ("AFTER MATCH SKIP TO LAST b", ("last", "b")),
        ("AFTER MATCH SKIP TO b", ("last", "b")),
    ],
)
def test_where_the_search_goes_on(skip: str, expected: tuple[str, str | None]) -> None:
    node = matched(query(skip=skip))
    assert (node.skip, node.skip_to) == expected


@pytest.mark.parametrize(
    ("rows", "order"),
    [
        ("flights", "flight_time"),
        ("flights", "flight_time ASC, distance DESC"),
        ("flights", "rowtime()"),
        ("(SELECT flight_time AS t, carrier, delay FROM flights WHERE delay > 1)", "t"),
        ("(SELECT rowtime() AS t, carrier, delay FROM flights)", "t"),
        (
            "(SELECT f.flight_time AS t, carrier, delay FROM flights f JOIN planes p ON f.tailnum = p.tailnum)",
            "t",
        ),
        (
            "(SELECT window_time AS t, carrier, MAX(delay) AS delay FROM TUMBLE(flights, SIZE 1 MINUTE) "
            "GROUP BY window_start, window_end, window_time, carrier)",
            "t",
        ),
        (
            "(SELECT t, carrier, delay FROM flights MATCH_RECOGNIZE (PARTITION BY carrier ORDER BY flight_time "
            "MEASURES y.delay AS delay, y.flight_time AS z, MATCH_ROWTIME() AS t PATTERN (x y)))",
            "t",
        ),
    ],
)
def test_the_event_time_comes_first_under_whatever_name(rows: str, order: str) -> None:
    assert planned(query(rows=rows, order=order)).mode == "micro_batch"


WRONG = [
    (query(order="distance"), "0A000", "distance", "Write ORDER BY flight_time or rowtime()."),
    (query(order="flight_time DESC"), "0A000", "flight_time", "Write ORDER BY flight_time"),
    (
        query(rows="(SELECT carrier, delay FROM flights)", order="delay"),
        "0A000",
        "delay",
        "Select the event time",
    ),
    (
        query(rows="planes", order="built", measures="a.seats AS s").replace("carrier", "maker"),
        "0A000",
        "planes",
        "STREAM",
    ),
    (query(rows="carriers", order="name", measures="a.name AS s"), "0A000", "carriers", "stream"),
    (query(pattern="a b+"), "0A000", "b", "b+?"),
    (query(pattern="a b{2,3}"), "0A000", "b", "b+?"),
    (query(pattern="a b?"), "0A000", "b", "one row"),
    (query(pattern="a*"), "0A000", "a", "one row"),
    (query(pattern="a b a"), "0A000", "a", "Rename the second variable"),
    (query(pattern="a | b"), "0A000", "|", "a sequence of variables"),
    (query(pattern="(a b)+"), "0A000", "(", "a sequence of variables"),
    (query(pattern=""), "42601", ")", None),
    (query(pattern="a{3,2} b"), "42601", "3,2", None),
    (query(pattern="a{0} b"), "42601", "0", None),
    (query("c.delay AS d"), "42703", "c.delay", "It has a, b."),
    (query("a.dely AS d"), "42703", "dely", "delay"),
    (query(define="c AS delay > 1"), "42703", "c", "It has a, b."),
    (query(define="a AS delay > 1, a AS delay < 3"), "42601", "a", "AND"),
    (query(define="a AS delay"), "42804", "delay", None),
    (query(define="a AS a.carrier > 5"), "42804", None, None),
    (query(skip="AFTER MATCH SKIP TO FIRST c"), "42703", "c", None),
    (query(skip="AFTER MATCH SKIP TO FIRST a"), "42601", "a", "NEXT ROW"),
    (query("SUM(a.distance + b.distance) AS d"), "42601", "SUM", "the same variable"),
    (query("SUM(a.distance + distance) AS d"), "42601", "SUM", "the same variable"),
    (query("LAST(a.delay, b.delay) AS d"), "42601", None, None),
    (query("LAST(a.delay, 100000) AS d"), "42601", "100000", None),
    (query("LAST(FIRST(a.delay)) AS d"), "0A000", "FIRST", None),
    (query("SUM(LAST(a.delay)) AS d"), "0A000", "LAST", None),
    (query("NEXT(a.delay) AS d"), "0A000", "NEXT", "the next variable"),
    (query("CLASSIFIER() AS d"), "0A000", "CLASSIFIER", None),
    (query("COUNT(DISTINCT a.delay) AS d"), "0A000", "COUNT", "AVG, COUNT, MAX, MIN, SUM"),
    (query("LISTAGG(a.carrier) AS d"), "0A000", "LISTAGG", "AVG, COUNT"),
    (query("COUNT(a.delay) FILTER (WHERE a.delay > 1) AS d"), "0A000", "COUNT", "CASE"),
    (query("SUM(a.delay) OVER (PARTITION BY a.carrier) AS d"), "0A000", None, None),
    (query("a.delay AS carrier"), "42P16", None, "AS"),
    (query("SUM(a.carrier) AS d"), "42804", None, None),
    (query() + "(x, y)", "0A000", "x", "MEASURES"),
    (
        "SELECT * FROM TUMBLE(flights, SIZE 1 MINUTE) MATCH_RECOGNIZE (ORDER BY a MEASURES a.b AS c PATTERN (a))",
        "0A000",
        None,
        None,
    ),
]


@pytest.mark.parametrize(("sql", "sqlstate", "place", "hint"), WRONG, ids=[case[0][13:] for case in WRONG])
def test_an_unsupported_match_is_reported_with_its_position(
    sql: str, sqlstate: str, place: str | None, hint: str | None
) -> None:
    with pytest.raises(UserError) as caught:
        planned(sql)
    error = caught.value
    assert error.state.value == sqlstate, error
    assert error.span is not None
    marked = sql[error.span.start : error.span.end]
    assert place is None or marked.startswith(place), marked
    assert hint is None or hint in (error.hint or ""), error.hint


def test_late_rows_of_a_pattern_can_be_kept() -> None:
    sql = query().replace(" AS m", " AS m WITH ('source.late.rows.handling' = LOG)")
    plan = planned(f"CREATE STREAM x AS {sql}")
    (mark,) = (step for step in plan.steps if step.step == "assign_watermark")
    assert (mark.window_ms, mark.advance_ms) == (1, 0)
    assert mark.late in plan.outputs


def test_rows_have_no_time_of_arrival_in_a_pattern() -> None:
    with pytest.raises(UserError, match="ARRIVAL requires a window"):
        planned(query().replace(" AS m", " AS m WITH ('source.time' = ARRIVAL)"))


@pytest.mark.parametrize(
    ("skip", "within", "timed"),
    [
        ("", "", True),
        ("AFTER MATCH SKIP PAST LAST ROW", " WITHIN 1 MINUTE", True),
        ("AFTER MATCH SKIP PAST LAST ROW", "", False),
    ],
)
def test_a_match_that_may_wait_without_end_is_in_no_window(skip: str, within: str, timed: bool) -> None:
    rows = query(skip=skip).replace("(a b)", f"(a b){within}")
    text = f"SELECT window_start, window_end, COUNT(*) AS n FROM TUMBLE(({rows}), SIZE 1 MINUTE) GROUP BY window_start, window_end"
    if timed:
        planned(text)
        return
    with pytest.raises(UserError, match="with an event time") as caught:
        planned(text)
    assert "WITHIN" in (caught.value.hint or "")


def test_a_virtual_relation_of_an_application_can_be_matched() -> None:
    rows = select_of("SELECT flight_time AS t, delay FROM flights").expression
    matches = select_of(
        "SELECT d FROM virtual.public.v MATCH_RECOGNIZE (ORDER BY t MEASURES a.delay AS d PATTERN (a b))"
    )
    made = inlined(matches.expression, {RelationName("virtual", "public", "v"): rows}).sql(dialect="headrace")
    assert planned(made).mode == "micro_batch"
