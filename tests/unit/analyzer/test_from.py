"""Joins in FROM: their kinds, the use of their conditions, and the names of their columns.

The relations are those of `tests/plans/world.py`: the streams flights, bookings (event time `booked`) and arrivals, the changelogs
planes, airports and routes, the views delays and carriers.
"""

from __future__ import annotations

import pytest

from headrace.analyzer.logical import Aggregate, Filter, LogicalNode, Project, Scan
from headrace.analyzer.traits import window_groups
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.planner import physical
from tests.plans.shapes import shape, text, tree
from tests.plans.world import bound, planned


def source(sql: str) -> str:
    """Return FROM and WHERE of a query."""
    return shape(tree(sql).inputs[0])


def test_a_temporal_join_may_name_its_time() -> None:
    joined = "flights f LEFT JOIN planes {} ON p.tailnum = f.tailnum AND p.seats > 3 JOIN airports {} ON a.code = f.dest"
    times = ("FOR SYSTEM_TIME AS OF f.flight_time AS p", "FOR SYSTEM_TIME AS OF f.flight_time AS a")
    assert source(f"SELECT f.carrier FROM {joined.format(*times)}") == source(
        f"SELECT f.carrier FROM {joined.format('AS p', 'AS a')}"
    )


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        (
            "flights f JOIN bookings b WITHIN 1 SECOND ON f.tailnum = b.tailnum",
            "INNER INTERVAL[f.tailnum = b.tailnum, -1000..1000](f, b)",
        ),
        (
            "flights f FULL JOIN bookings b WITHIN 1 SECOND ON b.tailnum = f.tailnum AND b.seat > 3",
            "FULL INTERVAL[f.tailnum = b.tailnum, if b.seat > 3, -1000..1000](f, b)",
        ),
        (
            "flights f JOIN bookings b WITHIN 1 SECOND ON f.tailnum = b.tailnum AND b.seat > f.distance",
            "Filter[b.seat > f.distance](INNER INTERVAL[f.tailnum = b.tailnum, -1000..1000](f, b))",
        ),
        (
            "flights f JOIN bookings b WITHIN 1 SECOND ON f.tailnum = b.tailnum WHERE b.seat > f.distance AND f.delay > 0",
            "Filter[(b.seat > f.distance) AND (f.delay > 0D)](INNER INTERVAL[f.tailnum = b.tailnum, -1000..1000](f, b))",
        ),
        (
            "bookings a RIGHT JOIN bookings b ON a.seat = b.seat AND b.booked BETWEEN a.booked - INTERVAL '5' MINUTE AND "
            "a.booked + INTERVAL '1' HOUR",
            "RIGHT INTERVAL[a.seat = b.seat, -300000..3600000](a, b)",
        ),
        (
            "bookings a, bookings b WHERE a.seat = b.seat AND a.booked >= b.booked AND a.booked <= INTERVAL '2' SECOND + "
            "b.booked AND a.seat > 7",
            "Filter[a.seat > 7](INNER INTERVAL[a.seat = b.seat, -2000..0](a, b))",
        ),
        (
            "bookings a JOIN bookings b ON a.seat = b.seat WHERE b.booked > a.booked AND b.booked < a.booked + INTERVAL '1' SECOND",
            "Filter[(b.booked > a.booked) AND (b.booked < (a.booked + INTERVAL '1' SECOND))](INNER INTERVAL[a.seat = "
            "b.seat, 0..1000](a, b))",
        ),
        (
            "flights f JOIN flights g ON f.tailnum = g.tailnum AND g.flight_time BETWEEN f.flight_time - 60000 AND f.flight_time",
            "INNER INTERVAL[f.tailnum = g.tailnum, -60000..0](f, g)",
        ),
        (
            "flights f LEFT JOIN arrivals a ON f.carrier = a.carrier AND rowtime(a) >= rowtime(f) AND rowtime(f) >= rowtime(a) - 1000",
            "LEFT INTERVAL[f.carrier = a.carrier, 0..1000](f, a)",
        ),
        (
            "bookings a JOIN (SELECT booked AS at, seat FROM bookings WHERE seat > 3) b ON a.seat = b.seat AND b.at = a.booked",
            "INNER INTERVAL[a.seat = b.seat, 0..0](a, b)",
        ),
        (
            "bookings a, (SELECT booked AS at, seat AS s FROM bookings UNION ALL SELECT booked, 7 FROM bookings) b "
            "WHERE a.seat = b.s AND b.at BETWEEN a.booked AND a.booked",
            "INNER INTERVAL[a.seat = b.s, 0..0](a, b)",
        ),
        # One bound, bounds on other columns, and bounds in WHERE of an outer join are no intervals.
        (
            "bookings a JOIN bookings b ON a.seat = b.seat AND b.booked > a.booked",
            "Filter[b.booked > a.booked](INNER REGULAR[a.seat = b.seat](a, b))",
        ),
        (
            "flights f JOIN flights g ON f.tailnum = g.tailnum AND g.distance BETWEEN f.distance AND f.distance + 3",
            "Filter[g.distance BETWEEN f.distance AND (f.distance + 3)](INNER REGULAR[f.tailnum = g.tailnum](f, g))",
        ),
        (
            "bookings a LEFT JOIN bookings b ON a.seat = b.seat WHERE b.booked BETWEEN a.booked AND a.booked",
            "Filter[b.booked BETWEEN a.booked AND a.booked](LEFT REGULAR[a.seat = b.seat](a, b))",
        ),
        (
            "flights f FULL JOIN bookings b ON f.tailnum = b.tailnum",
            "FULL REGULAR[f.tailnum = b.tailnum](f, b)",
        ),
        ("flights f JOIN planes p ON p.tailnum = f.tailnum", "INNER TEMPORAL[f.tailnum = tailnum](f, p)"),
        (
            "flights f, planes p WHERE f.tailnum = p.tailnum AND p.seats > 3",
            "Filter[p.seats > 3](INNER TEMPORAL[f.tailnum = tailnum](f, p))",
        ),
        (
            "flights f JOIN planes p ON f.tailnum = p.tailnum AND p.seats > f.distance",
            "Filter[p.seats > f.distance](INNER TEMPORAL[f.tailnum = tailnum](f, p))",
        ),
        (
            "flights f JOIN planes p USING (tailnum) LEFT JOIN routes r ON r.origin = f.origin AND r.dest = f.dest",
            "LEFT TEMPORAL[f.origin = origin, f.dest = dest](INNER TEMPORAL[f.tailnum = tailnum](f, p), r)",
        ),
        ("flights f JOIN routes r ON f.origin = r.origin", "INNER REGULAR[f.origin = r.origin](f, r)"),
        (
            "flights f RIGHT JOIN planes p ON f.tailnum = p.tailnum",
            "RIGHT REGULAR[f.tailnum = p.tailnum](f, p)",
        ),
        (
            "flights f FULL JOIN planes p ON f.tailnum = p.tailnum",
            "FULL REGULAR[f.tailnum = p.tailnum](f, p)",
        ),
        (
            "flights f JOIN planes p ON f.tailnum > p.tailnum",
            "Filter[f.tailnum > p.tailnum](INNER REGULAR[](f, p))",
        ),
        ("planes p JOIN flights f ON p.tailnum = f.tailnum", "INNER REGULAR[p.tailnum = f.tailnum](p, f)"),
        (
            "planes p LEFT JOIN airports a ON p.maker = a.code AND p.seats > 3",
            "LEFT REGULAR[p.maker = a.code, if p.seats > 3](p, a)",
        ),
        ("planes p CROSS JOIN airports a", "INNER REGULAR[](p, a)"),
        ("flights f, planes p", "INNER REGULAR[](f, p)"),
        ("flights f NATURAL LEFT JOIN planes p", "LEFT TEMPORAL[f.tailnum = tailnum](f, p)"),
        ("planes p NATURAL JOIN airports a", "INNER REGULAR[](p, a)"),
        ("planes p, airports a WHERE p.seats > 3", "Filter[p.seats > 3](INNER REGULAR[](p, a))"),
        (
            "planes p, airports a, routes r WHERE a.code = r.origin AND p.maker = a.city AND r.miles > p.seats",
            "Filter[r.miles > p.seats](INNER REGULAR[a.code = r.origin](INNER REGULAR[p.maker = a.city](p, a), r))",
        ),
        (
            "planes p JOIN airports a ON p.seats = CAST(a.code AS BIGINT) FULL JOIN routes r ON r.origin = a.code WHERE p.maker = a.city",
            "Filter[p.maker = a.city](FULL REGULAR[a.code = r.origin](INNER REGULAR[CAST(p.seats AS BIGINT) = CAST(a.code "
            "AS BIGINT)](p, a), r))",
        ),
        (
            "flights f CROSS JOIN UNNEST(stops) AS t(x) WHERE t.x = f.dest",
            "Filter[t.x = f.dest](Unnest[f.stops](f))",
        ),
        ("flights f, UNNEST(stops) AS t(x)", "Unnest[f.stops](f)"),
        (
            "flights f, UNNEST(stops) x WHERE x.x = x AND x = f.dest",
            "Filter[(x.x = x.x) AND (x.x = f.dest)](Unnest[f.stops](f))",
        ),
        (
            "delays d, carriers c WHERE d.carrier = c.carrier",
            "Filter[d.carrier = c.carrier](CROSS VIEWS[](d, c))",
        ),
        ("delays d FULL JOIN carriers c USING (carrier)", "FULL VIEWS[d.carrier = c.carrier](d, c)"),
        (
            "(SELECT tailnum FROM flights), (SELECT tailnum AS t FROM bookings) b WHERE t = tailnum",
            "INNER REGULAR[__headrace_query_1.tailnum = b.t](__headrace_query_1, b)",
        ),
        ("TUMBLE(flights, SIZE 1 SECOND) w", "TUMBLE[1000, 1000](w)"),
        (
            "CUMULATE((SELECT tailnum FROM flights), SIZE 1 MINUTE, STEP BY 10 SECONDS)",
            "CUMULATE[60000, 10000](__headrace_query_1)",
        ),
    ],
)
def test_sides_and_conditions_make_a_join(sources: str, expected: str) -> None:
    sql = f"SELECT 1 AS one FROM {sources}"
    if "b.seat = __headrace_query_1.tailnum" in expected:
        sql = sql.replace("seat = tailnum", "CAST(seat AS VARCHAR) = tailnum")
        expected = expected.replace(
            "b.seat = __headrace_query_1.tailnum", "__headrace_query_1.tailnum = CAST(b.seat AS STRING)"
        )
    assert source(sql) == expected


@pytest.mark.parametrize(
    "sources",
    [
        "flights AS f JOIN planes FOR SYSTEM_TIME AS OF f.distance AS p ON p.tailnum = f.tailnum",
        "flights AS f JOIN planes FOR SYSTEM_TIME AS OF f.flight_time AS p ON p.maker = f.note",
        "planes AS f JOIN airports FOR SYSTEM_TIME AS OF f.built AS p ON p.code = f.maker",
        "delays AS f JOIN carriers FOR SYSTEM_TIME AS OF f.day AS p ON p.carrier = f.carrier",
        "planes FOR SYSTEM_TIME AS OF TIMESTAMP '2020-01-01 00:00:00' AS f",
    ],
)
def test_another_time_or_join_as_of_a_time_is_refused(sources: str) -> None:
    with pytest.raises(UserError, match="FOR SYSTEM_TIME AS OF") as caught:
        tree(f"SELECT 1 AS one FROM {sources}")
    assert (caught.value.state.value, caught.value.span is None) == ("0A000", False)


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        (
            "SELECT * FROM flights f JOIN planes p USING (tailnum)",
            ["tailnum", "flight_time", "carrier", "origin"],
        ),
        (
            "SELECT p.*, seats AS s FROM bookings JOIN planes p USING (tailnum)",
            ["tailnum", "maker", "seats", "built", "s"],
        ),
        (
            "SELECT * EXCEPT (tailnum, booked), b.* EXCLUDE (seat) FROM bookings b JOIN planes p USING (tailnum)",
            ["seat", "maker", "seats", "built", "booked", "tailnum"],
        ),
        ("SELECT tailnum FROM bookings FULL JOIN planes p USING (tailnum)", ["tailnum"]),
        ("SELECT carrier, crew.* FROM flights", ["carrier", "captain", "count"]),
        ("SELECT f.crew.* EXCEPT (captain), note FROM flights f", ["count", "note"]),
        (
            "SELECT crew->*, rowmeta()->* EXCEPT (topic, offset, timestamp_type) FROM flights",
            ["captain", "count", "partition"],
        ),
        ("SELECT x.crew->* FROM (SELECT crew FROM flights) AS x", ["captain", "count"]),
        (
            "SELECT pair.f0.*, x.pair.f1 FROM (SELECT ROW(crew, carrier) AS pair FROM flights) AS x",
            ["captain", "count", "f1"],
        ),
        # A source's name comes first.
        ("SELECT crew.* FROM (SELECT carrier, crew FROM flights) AS crew", ["carrier", "crew"]),
        (
            "SELECT * FROM TUMBLE(arrivals, SIZE 1 DAY)",
            ["carrier", "distance", "note", "window_start", "window_end", "window_time"],
        ),
        (
            "SELECT * FROM TUMBLE(arrivals, SIZE 1 DAY) AS w",
            ["carrier", "distance", "note", "window_start", "window_end", "window_time"],
        ),
        (
            "SELECT * FROM TUMBLE((SELECT carrier, note FROM arrivals), SIZE 1 DAY) AS w(a, b)",
            ["a", "b", "window_start", "window_end", "window_time"],
        ),
        (
            "WITH t(x, y) AS (SELECT carrier, COUNT(*) FROM arrivals GROUP BY 1) SELECT a.*, b.y AS z FROM t a, t AS b WHERE a.x = b.x",
            ["x", "y", "z"],
        ),
        (
            "WITH t(x) AS (SELECT carrier FROM arrivals UNION ALL SELECT note FROM arrivals) SELECT * FROM t",
            ["x"],
        ),
        ("WITH t(x) AS (SELECT carrier FROM delays ORDER BY carrier LIMIT 2) SELECT * FROM t", ["x"]),
    ],
)
def test_columns_have_their_names(sql: str, names: list[str]) -> None:
    assert list(tree(sql).schema.names)[: len(names)] == names


@pytest.mark.parametrize(
    ("element", "columns"),
    [
        ("stops", "x VARCHAR"),
        ("ARRAY[crew]", "captain VARCHAR, count INTEGER"),
        ("tags", "key VARCHAR, value VARCHAR"),
    ],
)
def test_an_alias_alone_names_the_element_and_keeps_the_names_of_fields(element: str, columns: str) -> None:
    schema = bound(f"SELECT x.* FROM flights CROSS JOIN UNNEST({element}) AS x").schema
    assert ", ".join(f"{column.name} {column.type}" for column in schema.columns) == columns


def test_a_column_of_using_is_that_of_the_side_that_is_there() -> None:
    def item(kind: str) -> str:
        root = tree(f"SELECT tailnum FROM bookings b {kind} JOIN planes p USING (tailnum)")
        assert isinstance(root, Project)
        return text(root.items[0].expression)

    assert [item(kind) for kind in ("INNER", "LEFT", "RIGHT", "FULL")] == [
        "b.tailnum",
        "b.tailnum",
        "p.tailnum",
        "coalesce(b.tailnum, p.tailnum)",
    ]


def test_a_with_query_may_be_named_twice_and_knows_only_those_before_it() -> None:
    root = tree(
        "WITH flights AS (SELECT carrier AS c FROM flights WITH ('starting.position' = earliest)), b AS (SELECT c FROM flights) "
        "SELECT x.c FROM flights x, b y WHERE x.c = y.c"
    )
    scans = [node for node in _all(root) if isinstance(node, Scan)]
    assert [scan.properties.starting_position for scan in scans] == ["earliest", "earliest"]


@pytest.mark.parametrize(
    ("sql", "windowed"),
    [
        (
            "SELECT window_end, COUNT(*) AS n FROM TUMBLE(flights, SIZE 1 DAY) GROUP BY window_start, window_end",
            True,
        ),
        (
            "SELECT w, COUNT(*) AS n FROM (SELECT window_start AS w, window_end AS e FROM TUMBLE(flights, SIZE 1 DAY)) t GROUP BY w, e",
            True,
        ),
        (
            "SELECT w, COUNT(*) AS n FROM (SELECT window_start AS w, window_end AS e FROM TUMBLE(flights, SIZE 1 DAY)) t GROUP BY w",
            False,
        ),
        (
            "SELECT n, COUNT(*) AS c FROM (SELECT window_start, window_end, COUNT(*) AS n FROM TUMBLE(flights, SIZE 1 "
            "DAY) GROUP BY 1, 2) t GROUP BY n",
            False,
        ),
        (
            "SELECT window_start, MAX(n) AS m FROM (SELECT window_start, window_end, carrier, COUNT(*) AS n FROM "
            "TUMBLE(flights, SIZE 1 DAY) "
            "GROUP BY 1, 2, 3) GROUP BY window_start, window_end",
            True,
        ),
    ],
)
def test_groups_are_windowed_by_both_bounds_through_subqueries(sql: str, windowed: bool) -> None:
    root = tree(sql)
    assert isinstance(root, Aggregate)
    assert bool(window_groups(root)) is windowed


def test_where_that_repeats_on_still_filters_an_outer_join() -> None:
    inner = (
        "SELECT f.note FROM flights f {} JOIN arrivals a ON a.carrier = f.carrier WHERE a.carrier = f.carrier"
    )
    filters = [
        sum(isinstance(node, Filter) for node in _all(tree(inner.format(kind)))) for kind in ("INNER", "LEFT")
    ]
    assert filters == [0, 1]


def _all(node: LogicalNode) -> list[LogicalNode]:
    return [node, *(below for part in node.inputs for below in _all(part))]


def test_values_are_rows_with_columns_of_a_common_type() -> None:
    plan = bound("SELECT * FROM (VALUES (1, 'a'), (2.5, NULL)) AS t(x, y)")
    assert [(column.name, str(column.type), column.nullable) for column in plan.schema.columns] == [
        ("x", "DECIMAL(11, 1)", False),
        ("y", "VARCHAR", True),
    ]
    assert bound("SELECT * FROM (VALUES (1))").schema.names == ("column1",)


@pytest.mark.parametrize("kind", ["JOIN", "CROSS JOIN"])
def test_rows_of_constants_beside_a_stream_are_an_array(kind: str) -> None:
    on = "ON f.carrier = t.c" if kind == "JOIN" else "WHERE f.carrier = t.c"
    plan = planned(
        f"CREATE STREAM s AS SELECT f.carrier, y FROM flights f {kind} (VALUES ('AA', 1), ('B', 2)) AS t(c, y) {on}"
    )
    [result] = [step for step in plan.steps if isinstance(step, physical.SqlTransform)]
    assert (
        "inline(array(named_struct('f0', 'AA', 'f1', 1), named_struct('f0', 'B', 'f1', 2))) `t` AS `c`, `y`"
        in result.sql
    )
    assert "WHERE `f`.`carrier` = `t`.`c`" in result.sql


@pytest.mark.parametrize(
    "source",
    [
        "flights f LEFT JOIN (VALUES (1)) AS t(y) ON TRUE",
        "(VALUES (1)) AS t(y) CROSS JOIN flights f",
        "flights f JOIN (SELECT DISTINCT 1 AS y) AS t ON f.delay = t.y",
    ],
)
def test_other_joins_of_constants_are_refused(source: str) -> None:
    with pytest.raises(UserError, match="only as the right side") as caught:
        bound(f"SELECT f.carrier, y FROM {source}")
    assert caught.value.state is SqlState.FEATURE_NOT_SUPPORTED
