"""Subqueries that ask or number rows: IN, EXISTS, and the Top-N pattern; FILTER and DISTINCT of aggregates.

The relations are those of `tests/plans/world.py`. `world.py`'s only columns that cannot be NULL are the changelogs' keys.
"""

from __future__ import annotations

import pytest

from headrace.analyzer.expressions import Case
from headrace.analyzer.logical import Aggregate, JoinKind, Project, RegularJoin, Subquery, walk
from headrace.core.errors import UserError
from tests.plans.shapes import shape, text, tree
from tests.plans.world import bound


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (
            "f.tailnum IN (SELECT tailnum FROM planes WHERE seats > 3)",
            "SEMI REGULAR[f.tailnum = __headrace_asked_1.column_1](f, (planes.tailnum AS column_1 FROM Filter[planes.seats > 3](planes)))",
        ),
        (
            "(f.tailnum, f.distance) IN (SELECT tailnum, seats FROM planes)",
            "SEMI REGULAR[f.tailnum = __headrace_asked_1.column_1, f.distance = __headrace_asked_1.column_2](f, "
            "(planes.tailnum AS column_1, planes.seats AS column_2 FROM planes))",
        ),
        (
            "delay > 1 AND (f.distance IN (SELECT miles + 1e0 FROM routes r WHERE r.origin = f.origin)) AND carrier = 'A'",
            "SEMI REGULAR[CAST(f.distance AS DOUBLE) = __headrace_asked_1.column_1, f.origin = __headrace_asked_1.column_2]"
            "(Filter[(f.delay > 1D) AND (f.carrier = 'A')](f), "
            "(CAST(r.miles AS DOUBLE) + 1e0 AS column_1, r.origin AS column_2 FROM r))",
        ),
        (
            "NOT EXISTS (SELECT * FROM planes WHERE planes.tailnum = f.tailnum AND seats > f.distance AND built IS NULL)",
            "ANTI REGULAR[f.tailnum = __headrace_asked_1.column_1, if __headrace_asked_1.column_2 > f.distance]"
            "(f, (planes.tailnum AS column_1, planes.seats AS column_2 FROM Filter[planes.built IS NULL](planes)))",
        ),
        (
            "EXISTS (SELECT 1 FROM planes WHERE planes.tailnum = f.tailnum) AND EXISTS (SELECT 1 FROM airports WHERE code = dest)",
            "SEMI REGULAR[f.dest = __headrace_asked_2.column_1](SEMI REGULAR[f.tailnum = __headrace_asked_1.column_1]"
            "(f, (planes.tailnum AS column_1 FROM planes)), (airports.code AS column_1 FROM airports))",
        ),
        (
            "EXISTS (SELECT 1 FROM bookings WHERE seat > 3)",
            "SEMI REGULAR[](f, (1 AS one FROM Filter[bookings.seat > 3](bookings)))",
        ),
        (
            "f.carrier IN (SELECT carrier FROM arrivals GROUP BY carrier HAVING COUNT(*) > 3)",
            "SEMI REGULAR[f.carrier = __headrace_asked_1.column_1](f, (asked.carrier AS column_1 FROM asked))",
        ),
        (
            "EXISTS (SELECT 1 FROM bookings b WHERE b.tailnum = f.tailnum AND b.tailnum IN (SELECT tailnum FROM planes))",
            "SEMI REGULAR[f.tailnum = __headrace_asked_1.column_1](f, (b.tailnum AS column_1 FROM "
            "SEMI REGULAR[b.tailnum = __headrace_asked_1.column_1](b, (planes.tailnum AS column_1 FROM planes))))",
        ),
    ],
)
def test_a_condition_that_asks_is_a_join(where: str, expected: str) -> None:
    assert shape(tree(f"SELECT carrier FROM flights f WHERE {where}").inputs[0]) == expected


def test_not_in_is_for_what_cannot_be_null() -> None:
    plan = tree("SELECT city FROM airports WHERE code NOT IN (SELECT tailnum FROM planes)")
    assert (
        shape(plan.inputs[0])
        == "ANTI REGULAR[airports.code = __headrace_asked_1.column_1](airports, (planes.tailnum AS column_1 FROM planes))"
    )


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (
            "maker NOT IN (SELECT city FROM airports)",
            "ANTI REGULAR[p.maker IS NULL = true](ANTI REGULAR[](ANTI REGULAR[p.maker = __headrace_asked_1.column_1](p, {0}), "
            "Filter[__headrace_asked_1.column_1 IS NULL]({0})), {0})",
        ),
        (
            "tailnum NOT IN (SELECT city FROM airports)",
            "ANTI REGULAR[](ANTI REGULAR[p.tailnum = __headrace_asked_1.column_1](p, {0}), "
            "Filter[__headrace_asked_1.column_1 IS NULL]({0}))",
        ),
        (
            "maker NOT IN (SELECT code FROM airports a WHERE a.city = p.tailnum AND p.seats > 3)",
            "ANTI REGULAR[p.tailnum = __headrace_asked_1.column_2, p.maker IS NULL = true, if p.seats > 3]"
            "(ANTI REGULAR[p.maker = __headrace_asked_1.column_1, p.tailnum = __headrace_asked_1.column_2, if p.seats > 3]"
            "(p, {1}), {1})",
        ),
    ],
)
def test_a_null_makes_not_in_unknown(where: str, expected: str) -> None:
    rows = (
        "(airports.city AS column_1 FROM airports)",
        "(a.code AS column_1, a.city AS column_2 FROM a)",
    )
    plan = tree(f"SELECT tailnum FROM planes p WHERE {where}")
    assert shape(plan.inputs[0]) == expected.format(*rows)


def test_each_choice_of_equal_and_null_columns_is_an_anti_join_of_its_own() -> None:
    """`tailnum` and `code` are keys, so that only `maker` and `city` may be NULL."""
    plan = tree("SELECT seats FROM planes p WHERE (tailnum, maker) NOT IN (SELECT code, city FROM airports)")
    rows = "(airports.code AS column_1, airports.city AS column_2 FROM airports)"
    by_code = "p.tailnum = __headrace_asked_1.column_1"
    assert shape(plan.inputs[0]) == (
        f"ANTI REGULAR[{by_code}, p.maker IS NULL = true](ANTI REGULAR[{by_code}]("
        f"ANTI REGULAR[{by_code}, p.maker = __headrace_asked_1.column_2](p, {rows}), "
        f"Filter[__headrace_asked_1.column_2 IS NULL]({rows})), {rows})"
    )
    twice = tree(
        "SELECT seats FROM planes p WHERE (built, maker) NOT IN (SELECT delay, carrier FROM flights)"
    )
    assert [join.kind for join in walk(twice) if isinstance(join, RegularJoin)] == [JoinKind.ANTI] * 9


def test_a_null_makes_not_in_under_or_unknown() -> None:
    plan = tree("SELECT tailnum FROM planes p WHERE seats > 3 OR maker NOT IN (SELECT carrier FROM flights)")
    answer = "__headrace_asked_1{}.answer IS TRUE"
    unknown = f"(({answer.format('_2')}) OR ({answer.format('_3')})) AND CAST(NULL AS BOOLEAN)"
    condition = f"(p.seats > 3) OR (NOT (({answer.format('')}) OR ({unknown})))"
    equal, their_null, our_null = (
        "p.maker = __headrace_asked_1.column_1",
        "1 = __headrace_asked_1_2.one",
        "p.maker IS NULL = true, 1 = __headrace_asked_1_3.one",
    )
    assert shape(plan.inputs[0]) == (
        f"Filter[{condition}](LEFT REGULAR[{our_null}](LEFT REGULAR[{their_null}](LEFT REGULAR[{equal}]"
        "(p, __headrace_asked_1), __headrace_asked_1_2), __headrace_asked_1_3))"
    )


def test_an_answer_under_or_is_a_column_of_a_left_join_by_key() -> None:
    query = (
        "SELECT tailnum, seats FROM planes p WHERE seats > 3 OR maker IN (SELECT carrier FROM flights) "
        "OR NOT EXISTS (SELECT 1 FROM airports)"
    )
    plan = bound(query)
    assert plan.schema.primary_key == ("tailnum",)
    answers = "(__headrace_asked_1.answer IS TRUE)) OR (NOT (__headrace_asked_2.answer IS TRUE))"
    below = "LEFT REGULAR[1 = __headrace_asked_2.one](LEFT REGULAR[p.maker = __headrace_asked_1.column_1](p, "
    assert shape(plan.root.inputs[0]).startswith(f"Filter[((p.seats > 3) OR {answers}]({below}")
    asked = [node.input for node in walk(plan.root) if isinstance(node, Subquery) and "asked" in node.alias]
    assert [len(group.group_by) for group in asked if isinstance(group, Aggregate)] == [1, 1]


def test_a_value_is_joined_with_each_row_that_other_conditions_leave() -> None:
    plan = bound(
        "SELECT tailnum FROM planes p WHERE seats > (SELECT AVG(distance) FROM flights) AND maker = 'A'"
    )
    assert plan.schema.primary_key == ("tailnum",)
    assert shape(plan.root.inputs[0]) == (
        "Filter[CAST(p.seats AS DOUBLE) > __headrace_value_1.expr_1]"
        "(INNER REGULAR[](Filter[p.maker = 'A'](p), __headrace_value_1))"
    )
    crossed = bound("SELECT p.tailnum, t.n FROM planes p CROSS JOIN (SELECT COUNT(*) AS n FROM flights) t")
    assert crossed.schema.primary_key == ("tailnum",)
    assert not bound(
        "SELECT f.carrier FROM flights f, (SELECT MAX(delay) AS d FROM flights) t"
    ).traits.insert_only


def test_a_value_beside_groups_is_joined_with_the_groups() -> None:
    plan = bound(
        "SELECT p.maker, COUNT(*) AS n, (SELECT MAX(delay) FROM flights f WHERE f.carrier = p.maker) AS d FROM planes p GROUP BY p.maker "
        "HAVING SUM(p.seats) > (SELECT AVG(distance) FROM flights) AND COUNT(*) > 1"
    )
    assert plan.schema.primary_key == ("maker",)
    groups, most = "__headrace_groups", "__headrace_value_of_row_1"
    assert shape(plan.root.inputs[0]) == (
        f"Filter[CAST({groups}.__headrace_column_2 AS DOUBLE) > __headrace_value_2.expr_1](INNER REGULAR[]("
        f"LEFT REGULAR[{groups}.__headrace_column_1 = {most}.__headrace_column_1]({groups}, {most}), __headrace_value_2))"
    )
    inner = next(
        node.input for node in walk(plan.root) if isinstance(node, Subquery) and node.alias == groups
    )
    assert isinstance(inner, Aggregate)
    assert text(inner.having) == "count(*) > 1"


def test_an_answer_is_a_value_too() -> None:
    """Only where it matters that an IN is unknown does it require joins for NULLs."""
    for value, joins in (
        ("seats IN (SELECT distance FROM flights)", 3),
        ("seats NOT IN (SELECT distance FROM flights)", 3),
        ("tailnum IN (SELECT code FROM airports)", 1),
        ("CASE WHEN built > 1 OR seats IN (SELECT distance FROM flights) THEN 1 END", 1),
        ("CASE seats IN (SELECT distance FROM flights) WHEN FALSE THEN 1 END", 3),
        ("EXISTS (SELECT 1 FROM flights f WHERE f.tailnum = p.tailnum)", 1),
    ):
        plan = bound(f"SELECT tailnum, {value} AS v FROM planes p")
        kinds = [node.kind for node in walk(plan.root) if isinstance(node, RegularJoin)]
        assert kinds == [JoinKind.LEFT] * joins, value
        assert plan.schema.primary_key == ("tailnum",)


def test_a_subquery_in_on_of_an_inner_join_is_a_condition_of_where() -> None:
    query = "SELECT a.city FROM airports a JOIN planes p ON {} WHERE p.seats > 3{}"
    asked = "a.code IN (SELECT tailnum FROM flights)"
    both = query.format(f"a.city = p.maker AND ({asked})", "")
    assert tree(both) == tree(query.format("a.city = p.maker", f" AND {asked}"))
    assert tree(query.format(asked, "")) == tree(
        query.replace("JOIN planes p ON {}", "CROSS JOIN planes p").format(f" AND {asked}")
    )


def test_set_operations_are_groups_of_both_sides() -> None:
    for word, most in (("INTERSECT", 1), ("EXCEPT", 0)):
        plan = bound(f"SELECT carrier AS c, note FROM flights {word} SELECT maker, tailnum FROM planes")
        assert plan.schema.primary_key == ("c", "note")
        assert isinstance(plan.root, Aggregate)
        assert text(plan.root.having) == f"(min(both.side_1) = 0) AND (max(both.side_1) = {most})"


def test_set_operations_with_all_repeat_the_groups_of_both_sides() -> None:
    left, right = "count(both.side_1) - sum(both.side_1)", "sum(both.side_1)"
    for word, copies in (
        ("INTERSECT", f"CASE WHEN ({left}) < {right} THEN ({left}) ELSE {right} END"),
        ("EXCEPT", f"({left}) - {right}"),
    ):
        plan = bound(f"SELECT carrier AS c, note FROM flights {word} ALL SELECT maker, tailnum FROM planes")
        assert plan.schema.names == ("c", "note")
        assert plan.schema.primary_key == ()
        groups = next(node for node in walk(plan.root) if isinstance(node, Aggregate))
        assert text(groups.items[-1].expression) == copies
        assert shape(plan.root.inputs[0]) == (
            "Unnest[array_repeat(1, CAST(groups.__headrace_copies AS INT))](groups)"
        )


RANKED = (
    "SELECT carrier, delay, ROW_NUMBER() OVER (PARTITION BY carrier ORDER BY delay DESC) AS n FROM flights"
)


@pytest.mark.parametrize(
    ("query", "above", "within"),
    [
        (
            f"SELECT carrier FROM ({RANKED}) t WHERE n <= 3",
            "t",
            "TOP 3[flights.carrier | flights.delay DESC](flights)",
        ),
        (
            f"SELECT carrier, n FROM ({RANKED}) t WHERE n <= 3",
            "t",
            "TOP 3[flights.carrier | flights.delay DESC] AS n(flights)",
        ),
        (
            f"SELECT carrier FROM ({RANKED}) t WHERE n = 1",
            "t",
            "TOP 1[flights.carrier | flights.delay DESC](flights)",
        ),
        (
            f"SELECT carrier FROM ({RANKED}) t WHERE 4 > n AND delay > 5",
            "Filter[t.delay > 5D](t)",
            "TOP 3[flights.carrier | flights.delay DESC](flights)",
        ),
        (
            f"SELECT carrier FROM ({RANKED}) t WHERE n = 2",
            "Filter[t.n = 2](t)",
            "TOP 2[flights.carrier | flights.delay DESC] AS n(flights)",
        ),
        (
            f"SELECT carrier FROM ({RANKED}) t WHERE n BETWEEN 2 AND 4",
            "Filter[t.n BETWEEN 2 AND 4](t)",
            "TOP 4[flights.carrier | flights.delay DESC] AS n(flights)",
        ),
        (
            f"SELECT carrier FROM ({RANKED}) t WHERE n < 5 AND n <= 2 AND n <> 1",
            "Filter[t.n <> 1](t)",
            "TOP 2[flights.carrier | flights.delay DESC] AS n(flights)",
        ),
        (
            f"WITH t AS ({RANKED}) SELECT * FROM t WHERE 1 >= n",
            "t",
            "TOP 1[flights.carrier | flights.delay DESC] AS n(flights)",
        ),
        (
            f"SELECT city FROM ({RANKED}) t JOIN airports a ON a.code = t.carrier WHERE n <= 2",
            "INNER REGULAR[t.carrier = a.code](t, a)",
            "TOP 2[flights.carrier | flights.delay DESC](flights)",
        ),
        (
            "SELECT carrier FROM (SELECT carrier, ROW_NUMBER() OVER (ORDER BY COUNT(*) DESC, carrier) AS n FROM flights "
            "WHERE delay > 1 GROUP BY carrier) t WHERE n <= 3",
            "t",
            "TOP 3[ | groups.key_1 DESC, groups.carrier](groups)",
        ),
    ],
)
def test_the_first_rows_of_numbered_ones_are_a_top_n(query: str, above: str, within: str) -> None:
    root = tree(query)
    assert shape(root.inputs[0]) == above
    source = root.inputs[0]
    while not isinstance(source, Subquery):
        source = source.inputs[0]
    assert isinstance(source.input, Project)
    assert shape(source.input.input) == within


REFUSED = [
    # The inner f hides the outer one.
    (
        "SELECT carrier FROM flights f WHERE EXISTS (SELECT 1 FROM bookings f WHERE f.seat = distance)",
        "42703",
        None,
    ),
    (f"{RANKED}", "0A000", "WHERE n <= 3"),
    (f"SELECT carrier FROM ({RANKED}) WHERE n > 3", "0A000", "WHERE n <= 3"),
    (f"SELECT carrier FROM ({RANKED}) WHERE n <= 3 OR delay > 1", "0A000", "WHERE n <= 3"),
    (f"SELECT carrier FROM ({RANKED}) WHERE n < 1", "42601", "WHERE n <= 3"),
    (
        f"SELECT carrier FROM ({RANKED.replace('ROW_NUMBER', 'DENSE_RANK')}) WHERE n > 3",
        "0A000",
        "WHERE n <= 3",
    ),
    (
        "SELECT c FROM (SELECT carrier AS c, RANK() OVER () AS n FROM flights) WHERE n = 1",
        "0A000",
        "WHERE n <= 3",
    ),
    (
        "SELECT c FROM (SELECT carrier AS c, ROW_NUMBER() OVER (PARTITION BY carrier) AS n FROM flights) WHERE n = 1",
        "0A000",
        "WHERE n <= 3",
    ),
    (
        "SELECT c FROM (SELECT carrier AS c, NTILE(4) OVER (ORDER BY delay) AS n FROM flights) WHERE n = 1",
        "0A000",
        "WHERE n <= 3",
    ),
    ("SELECT ROW_NUMBER() FROM flights", "42601", "OVER (PARTITION BY"),
    ("SELECT LISTAGG(carrier) OVER () FROM delays", "0A000", "ROW_NUMBER, RANK"),
    ("SELECT COUNT(DISTINCT carrier) OVER () FROM delays", "0A000", None),
    ("SELECT UPPER(carrier) OVER () FROM delays", "0A000", None),
    ("SELECT ROW_NUMBR() OVER () FROM delays", "3D017", None),
    ("SELECT carrier FROM delays WHERE ROW_NUMBER() OVER () = 1", "42803", "in a subquery"),
    ("SELECT carrier FROM delays GROUP BY carrier, ROW_NUMBER() OVER ()", "42803", "in a subquery"),
    ("SELECT SUM(ROW_NUMBER() OVER ()) FROM delays", "42803", None),
    ("SELECT SUM(ROW_NUMBER() OVER ()) OVER () FROM delays", "42803", "in a subquery"),
    ("SELECT carrier, SUM(minutes) OVER () FROM delays GROUP BY carrier", "42803", "GROUP BY"),
    (
        "SELECT SUM(minutes) OVER (ORDER BY day ROWS BETWEEN 1.5 PRECEDING AND CURRENT ROW) FROM delays",
        "42804",
        "ROWS BETWEEN",
    ),
    (
        "SELECT SUM(minutes) OVER (ORDER BY carrier RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM delays",
        "42804",
        None,
    ),
    (
        "SELECT SUM(minutes) OVER (ORDER BY day ROWS BETWEEN 1 FOLLOWING AND 1 PRECEDING) FROM delays",
        "42601",
        None,
    ),
    ("SELECT SUM(minutes) OVER (ORDER BY day ROWS BETWEEN CURRENT ROW AND 2) FROM delays", "42601", None),
    (
        "SELECT carrier FROM flights f WHERE EXISTS (SELECT 1 FROM planes p WHERE p.seats > f.distance) OR delay > 1",
        "0A000",
        "by AND",
    ),
    (
        "SELECT carrier FROM flights f WHERE EXISTS (SELECT 1 FROM planes p WHERE p.seats > 3 AND "
        "(p.tailnum = f.tailnum OR p.maker IN (SELECT code FROM airports)))",
        "0A000",
        "a condition of its own",
    ),
    (
        "SELECT carrier, EXISTS (SELECT 1 FROM planes p WHERE p.seats > f.distance) AS e FROM flights f",
        "0A000",
        "UNION ALL",
    ),
    (
        "SELECT carrier FROM flights f LEFT JOIN planes p ON p.tailnum = f.tailnum AND EXISTS (SELECT 1 FROM airports)",
        "0A000",
        "in a subquery of FROM",
    ),
    (
        "SELECT f.carrier FROM flights f JOIN planes p ON EXISTS (SELECT 1 FROM airports) RIGHT JOIN airports a ON a.code = p.maker",
        "0A000",
        "in a subquery of FROM",
    ),
    (
        "SELECT carrier FROM flights WHERE CASE WHEN SUM(delay) IN (SELECT seats FROM planes) THEN TRUE END",
        "42803",
        "HAVING",
    ),
    (
        "SELECT SUM(CASE WHEN MAX(seats) IN (SELECT distance FROM flights) THEN 1 END) AS x FROM planes",
        "42803",
        None,
    ),
    ("SELECT carrier, carrier IN (SELECT 'AA') AS x FROM flights", "0A000", "x IN (value"),
    ("SELECT EXISTS (SELECT 1 FROM flights) AS x", "0A000", "Join it"),
    (
        "SELECT tailnum, (SELECT SUM(delay) / (SELECT COUNT(*) FROM airports) FROM flights) AS x FROM planes",
        "0A000",
        "in the outer query",
    ),
    ("SELECT carrier FROM flights WHERE tailnum IN (SELECT tailnum, seats FROM planes)", "42601", None),
    (
        "SELECT carrier FROM flights WHERE tailnum IN (SELECT tailnum, COUNT(*) FROM planes GROUP BY 1)",
        "42601",
        None,
    ),
    ("SELECT carrier FROM flights WHERE distance IN (SELECT tailnum FROM planes)", "42804", "CAST"),
    (
        "SELECT carrier FROM flights WHERE (carrier, delay, note) NOT IN (SELECT maker, 1.5, maker FROM planes)",
        "0A000",
        "NOT EXISTS",
    ),
    (
        "SELECT carrier FROM flights WHERE (carrier, delay) IN (SELECT maker FROM planes)",
        "42601",
        "2 columns",
    ),
    ("SELECT carrier FROM flights WHERE tags IN (SELECT tags FROM flights)", "42804", None),
    ("SELECT carrier FROM flights WHERE tailnum IN (SELECT tailnm FROM planes)", "42703", "tailnum"),
    ("SELECT carrier FROM flights f WHERE EXISTS (SELECT nothing FROM planes)", "42703", None),
    ("SELECT carrier FROM flights f WHERE tailnum IN (SELECT f.carrier FROM planes)", "0A000", "EXISTS"),
    ("SELECT carrier FROM flights WHERE carrier IN (SELECT 'AA')", "0A000", "x IN (value"),
    ("SELECT carrier FROM flights WHERE COUNT(*) IN (SELECT seats FROM planes)", "42803", None),
    ("SELECT carrier FROM flights WHERE delay > (SELECT delay FROM flights)", "0A000", "Join it"),
    (
        "SELECT carrier FROM flights ORDER BY (SELECT MAX(delay) FROM flights) LIMIT 3",
        "0A000",
        "ORDER BY the name",
    ),
    ("SELECT (SELECT MAX(delay) FROM flights) AS d", "0A000", "Join it"),
    ("SELECT (SELECT name FROM carriers) AS n FROM delays", "0A000", "Join it"),
    ("SELECT (SELECT MAX(name) FROM carriers LIMIT 0) AS n FROM delays", "0A000", "Join it"),
    ("SELECT (SELECT MIN(name), MAX(name) FROM carriers) AS n FROM delays", "42601", None),
    ("SELECT carrier FROM delays ORDER BY (SELECT COUNT(*) FROM carriers)", "0A000", None),
    ("SELECT carrier FROM flights EXCEPT SELECT 'AA'", "0A000", "Write the rows out"),
    ("SELECT UPPER(carrier) FILTER (WHERE delay > 1) FROM flights", "42601", None),
    ("SELECT COUNT(*) FILTER (WHERE SUM(delay) > 1) FROM flights", "42803", None),
    ("SELECT COUNT(*) FILTER (WHERE delay) FROM flights", "42804", None),
    ("SELECT ROW_NUMBER() FILTER (WHERE minutes > 1) OVER () FROM delays", "42601", None),
]


@pytest.mark.parametrize(("query", "state", "hint"), REFUSED)
def test_what_cannot_be_asked_is_refused_in_place(query: str, state: str, hint: str | None) -> None:
    with pytest.raises(UserError) as caught:
        bound(query)
    assert caught.value.state.value == state, caught.value.text()
    assert caught.value.span is not None
    assert hint is None or hint in (caught.value.hint or ""), caught.value.text()


def test_filter_makes_null_of_the_other_rows() -> None:
    root = tree(
        "SELECT COUNT(*) FILTER (WHERE delay > 1) AS a, SUM(delay) FILTER (WHERE cancelled) AS b, "
        "LISTAGG(DISTINCT note, '|') FILTER (WHERE delay IS NULL) AS c, COLLECT(note) AS d FROM flights"
    )
    assert isinstance(root, Aggregate)
    assert [text(item.expression) for item in root.items] == [
        "count(CASE WHEN flights.delay > 1D THEN 1 END)",
        "sum(CASE WHEN flights.cancelled THEN flights.delay END)",
        "listagg(DISTINCT CASE WHEN flights.delay IS NULL THEN flights.note END, '|')",
        "collect_list(flights.note)",
    ]
    assert not any(isinstance(item.expression, Case) for item in root.items)
