"""MATCH_RECOGNIZE: supported patterns, conditions and measures, and their plans.

The relations are those of `tests/plans/world.py`.
"""

from __future__ import annotations

import pytest

from headrace.analyzer.logical import MatchRecognize, PatternPart, walk
from headrace.analyzer.virtual import inlined
from headrace.core.errors import UserError
from headrace.core.names import RelationName
from headrace.sql.ast import quantified
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
        f"{item.kind} {item.variable or '*'}{f' {text(item.expression)}' if item.expression is not None else ''}"
        f"{f' {item.offset}' if item.offset else ''}"
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
        ("CLASSIFIER()", "last *"),
        ("FIRST(CLASSIFIER(), 1)", "first * 1"),
        ("PREV(CLASSIFIER(b))", "prev b 1"),
        ("MATCH_NUMBER()", "number *"),
        ("FINAL LAST(a.delay)", "last a flights.delay"),
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


ALL_ROWS = "ALL ROWS PER MATCH "


def test_final_is_of_the_whole_match_where_each_row_is_shown() -> None:
    measures = "FINAL LAST(a.delay) AS x, RUNNING COUNT(*) AS y, FINAL COUNT(*) AS z, FINAL PREV(CLASSIFIER()) AS c, LAST(a.delay) AS w"
    kinds = [item.kind for item in matched(query(measures, skip=ALL_ROWS)).navigations[1:6]]
    assert kinds == ["final_last", "values", "final_values", "final_prev", "last"]
    columns = [item.name for item in matched(query("COUNT(*) AS n", skip=ALL_ROWS)).items]
    assert columns[:3] == ["carrier", "flight_time", "n"]
    assert sorted(columns[3:]) == sorted({"tailnum", *columns[3:]} - {"carrier", "flight_time", "n"})
    assert len(set(columns)) == len(columns)


def test_all_rows_need_no_measures() -> None:
    clauses = "PARTITION BY carrier ORDER BY flight_time ALL ROWS PER MATCH SHOW EMPTY MATCHES PATTERN (a b+)"
    node = matched(f"SELECT * FROM flights MATCH_RECOGNIZE ({clauses}) AS m")
    assert node.all_rows
    assert node.parts is not None


@pytest.mark.parametrize("pattern", ["a", "a b+ c?d", "a*? b", "a {2}", "a b{2,3}?"])
def test_a_pattern_that_flink_accepts_is_a_sequence(pattern: str) -> None:
    assert matched(query(pattern=pattern)).parts is None


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("a b+", "sequence(a, repetition(b)+)"),
        ("a b?", "sequence(a, repetition(b)?)"),
        ("a b a", "sequence(a, b, a)"),
        ("(a b)", "sequence(sequence(a, b))"),
        ("a | b c", "sequence(alternation(a, sequence(b, c)))"),
        ("(a | b+? c){2} d", "sequence(repetition(alternation(a, sequence(repetition(b)+?, c))){2}, d)"),
        ("PERMUTE(a, b c)", "sequence(permutation(a, sequence(b, c)))"),
        (
            "a {- b {- c -} | d -}* e",
            "sequence(a, repetition(sequence(alternation(sequence(B, sequence(C)), D)))*, e)",
        ),
    ],
)
def test_another_pattern_consists_of_parts(pattern: str, expected: str) -> None:
    def shown(part: PatternPart) -> str:
        if part.variable is not None:
            return part.variable.upper() if part.kind == "excluded" else part.variable
        text = f"{part.kind}({', '.join(map(shown, part.parts))})"
        return quantified(text, part.least, part.most, part.greedy) if part.kind == "repetition" else text

    node = matched(query(pattern=pattern))
    assert node.parts is not None
    assert shown(node.parts) == expected
    assert {item.name for item in node.pattern} == set(pattern) & set("abcde")


def test_a_subset_is_navigated_and_skipped_to_like_a_variable() -> None:
    sql = query(
        "LAST(u.delay) AS x, COUNT(u.*) AS n",
        pattern="a b c) SUBSET u = (a, c, a",
        define="c AS SUM(u.delay) > 3",
        skip="AFTER MATCH SKIP TO LAST u",
    )
    # The clauses after the subset close the bracket that it has opened.
    node = matched(sql)
    assert node.subsets == (("u", ("a", "c")),)
    assert (node.skip, node.skip_to) == ("last", "u")
    assert "values u flights.delay" in navigations(sql)


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
    (query(pattern="a*"), "0A000", "a", "Require one row"),
    (query(pattern="a | b?"), "0A000", "a", "Require one row"),
    (query(pattern="(a{,2} PERMUTE(b?, a*))+"), "0A000", "a", "Require one row"),
    (query(pattern="^ a"), "0A000", "^", "PREV"),
    (query(pattern="a | "), "42601", ")", None),
    (query(pattern="a (b"), "42601", None, None),
    (query(pattern="a {- b"), "42601", None, None),
    (query(pattern="PERMUTE(a, b, a, (b a+), a, a)"), "53000", "PERMUTE", None),
    (query(pattern="PERMUTE(a, b, a, b, a, b, a, b, a)"), "53000", "PERMUTE", None),
    (query(pattern="a " * 200 + "b"), "53000", "b", "quantifier"),
    (query(pattern="(" * 60 + "a" + ")" * 60), "53000", None, None),
    (query(pattern="a b) SUBSET u = (a, c"), "42703", "c", "It has a, b."),
    (query(pattern="a b) SUBSET b = (a"), "42601", "b", "Rename the subset."),
    (query(pattern="a b) SUBSET u = (a), u = (b"), "42601", "u", "Rename the subset."),
    (query("FINAL delay(a) AS d"), "42601", "FINAL", None),
    (query(define="b AS FINAL LAST(b.delay) > 1"), "42601", "FINAL", "Leave FINAL out."),
    (query(define="b AS MATCH_NUMBER() > 1"), "0A000", "MATCH_NUMBER", "WHERE"),
    (query("MATCH_NUMBER(1) AS d"), "42601", "MATCH_NUMBER", None),
    (query("CLASSIFIER(c) AS d"), "42703", "c", "It has a, b."),
    (query("CLASSIFIER(a.delay) AS d"), "42601", "CLASSIFIER", None),
    (query("SUM(CLASSIFIER()) AS d"), "0A000", "CLASSIFIER", None),
    (query("LAST(delay) AS distance", skip="ALL ROWS PER MATCH"), "42P16", None, "those of its rows"),
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
        ("ALL ROWS PER MATCH", "", False),
        ("ALL ROWS PER MATCH", " WITHIN 1 MINUTE", True),
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
