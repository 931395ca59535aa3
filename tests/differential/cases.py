"""The cases: each query in the dialect and in Flink's SQL, over the relations of `relations`.

In Flink's SQL the event time of a relation is `ts`, and a window is asked for as `TUMBLE(TABLE s, DESCRIPTOR(ts), …)`; the helpers below
keep the two texts of a case beside each other. Rows that only end a topic are filtered by both.
"""

from __future__ import annotations

from tests.differential.case import LIVE, Case
from tests.differential.correlated import CORRELATED
from tests.differential.relations import END

WINDOW = "window_start, window_end"
_SUM = "SELECT window_start, window_end, k, COUNT(*) AS n, SUM(v) AS total"


def _tumble(relation: str, seconds: int, *, time: str = "ts") -> tuple[str, str]:
    flink = f"TABLE(TUMBLE(TABLE {relation}, DESCRIPTOR({time}), INTERVAL '{seconds}' SECOND))"
    return f"TUMBLE({relation}, SIZE {seconds} SECONDS)", flink


def _both(name: str, text: str, *windows: tuple[str, str], key: str = "", documented: str = "") -> Case:
    """`text` with {0}, {1} … for the windows, in either spelling."""
    ours, flinks = zip(*windows, strict=True)
    return Case(name, text.format(*ours), text.format(*flinks), key, documented)


_TEN, _FIVE, _THIRTY = _tumble("s", 10), _tumble("s", 5), _tumble("s", 30)
_TEN_R = _tumble("r", 10)
_HOP = (
    "HOP(s, SIZE 20 SECONDS, ADVANCE BY 5 SECONDS)",
    "TABLE(HOP(TABLE s, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND))",
)
_CUMULATE = (
    "CUMULATE(s, SIZE 30 SECONDS, STEP BY 10 SECONDS)",
    "TABLE(CUMULATE(TABLE s, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '30' SECOND))",
)

STATELESS = (
    Case("filter", f"SELECT n, k, v, t FROM s WHERE v % 3 = 0 AND {LIVE}"),
    Case(
        "expressions",
        "SELECT n, UPPER(k) || '-' || CAST(v AS VARCHAR) AS label, COALESCE(v, 0) * 2 AS twice, "
        f"CASE WHEN v IS NULL THEN 'none' WHEN v > 50 THEN 'high' ELSE 'low' END AS size FROM s WHERE {LIVE}",
    ),
    Case("unnest", f"SELECT n, tag FROM s CROSS JOIN UNNEST(tags) AS x(tag) WHERE {LIVE}"),
    Case(
        "left_unnest",
        f"SELECT n, tag FROM s LEFT JOIN UNNEST(tags) AS x(tag) ON TRUE WHERE {LIVE}",
    ),
    Case(
        "unnest_with_position",
        f"SELECT n, tag, place FROM s CROSS JOIN UNNEST(tags) WITH ORDINALITY AS x(tag, place) WHERE {LIVE}",
    ),
    Case(
        "fields_of_a_struct",
        f"SELECT n, x.pair.* FROM (SELECT n, k, CAST(ROW(g, v + 1) AS ROW<a VARCHAR, b BIGINT>) AS pair FROM s) AS x WHERE x.{LIVE}",
    ),
    Case(
        "values",
        "SELECT s.n, x.label FROM s JOIN (VALUES ('g1', 'one'), ('g2', 'two'), ('g2', 'zwei')) AS x(g, label) ON s.g = x.g "
        f"WHERE s.{LIVE}",
    ),
    Case(
        "union_all",
        f"SELECT n, k, t FROM s WHERE {LIVE} UNION ALL SELECT n, k, t FROM r WHERE {LIVE}",
    ),
    Case(
        "subquery",
        f"WITH big AS (SELECT n, k, v * 2 AS w FROM s WHERE {LIVE}) SELECT n, w FROM (SELECT * FROM big WHERE w > 60) AS x",
    ),
    Case("changelog_filter", "SELECT id, owner, amount FROM a WHERE amount > 50", key="id"),
    Case("changelog_projection", "SELECT id, UPPER(owner) AS owner, amount + 1 AS more FROM a", key="id"),
)

WINDOWS = (
    _both("tumble", f"{_SUM} FROM {{0}} WHERE {LIVE} GROUP BY {WINDOW}, k", _TEN, key=f"{WINDOW}, k"),
    _both(
        "tumble_having",
        f"{_SUM} FROM {{0}} WHERE {LIVE} GROUP BY {WINDOW}, k HAVING COUNT(*) > 5",
        _TEN,
        key=f"{WINDOW}, k",
    ),
    _both(
        "tumble_statistics",
        f"SELECT {WINDOW}, AVG(d) AS mean, MIN(v) AS least, MAX(v) AS most, STDDEV_SAMP(d) AS spread "
        f"FROM {{0}} WHERE {LIVE} GROUP BY {WINDOW}",
        _THIRTY,
        key=WINDOW,
    ),
    _both(
        "tumble_distinct",
        f"SELECT {WINDOW}, COUNT(DISTINCT v) AS kinds, COUNT(DISTINCT k) AS ks, SUM(DISTINCT v) AS total "
        f"FROM {{0}} WHERE {LIVE} GROUP BY {WINDOW}",
        _THIRTY,
        key=WINDOW,
    ),
    _both(
        "tumble_filter",
        f"SELECT {WINDOW}, k, COUNT(*) FILTER (WHERE v > 50) AS high, SUM(v) FILTER (WHERE g = 'g1') AS first_g "
        f"FROM {{0}} WHERE {LIVE} GROUP BY {WINDOW}, k",
        _TEN,
        key=f"{WINDOW}, k",
    ),
    _both("hop", f"{_SUM} FROM {{0}} WHERE {LIVE} GROUP BY {WINDOW}, k", _HOP, key=f"{WINDOW}, k"),
    _both("cumulate", f"{_SUM} FROM {{0}} WHERE {LIVE} GROUP BY {WINDOW}, k", _CUMULATE, key=f"{WINDOW}, k"),
    Case(
        "session",
        f"{_SUM} FROM SESSION(s, GAP 3 SECONDS) WHERE {LIVE} GROUP BY {WINDOW}, k",
        f"{_SUM} FROM TABLE(SESSION(TABLE s PARTITION BY k, DESCRIPTOR(ts), INTERVAL '3' SECOND)) "
        f"WHERE {LIVE} GROUP BY {WINDOW}, k",
        key=f"{WINDOW}, k",
    ),
    _both(
        "session_of_all",
        f"SELECT {WINDOW}, COUNT(*) AS n, SUM(v) AS total FROM {{0}} WHERE {LIVE} GROUP BY {WINDOW}",
        (
            "SESSION(s, GAP 300 MILLISECONDS)",
            "TABLE(SESSION(TABLE s, DESCRIPTOR(ts), INTERVAL '0.3' SECOND))",
        ),
        key=WINDOW,
    ),
    _both("window_rows", f"SELECT n, k, {WINDOW} FROM {{0}} WHERE {LIVE}", _HOP),
    _both(
        "window_of_a_subquery",
        f"WITH x AS (SELECT k, v, {{1}} FROM s WHERE {LIVE} UNION ALL SELECT k, v, {{1}} FROM r WHERE {LIVE}) "
        f"{_SUM} FROM {{0}} GROUP BY {WINDOW}, k",
        _tumble("x", 10),
        ("t", "ts"),
        key=f"{WINDOW}, k",
    ),
    _both(
        "window_over_window",
        f"WITH x AS (SELECT k, window_time{{1}}, SUM(v) AS total FROM {{2}} WHERE {LIVE} "
        f"GROUP BY {WINDOW}, window_time, k) "
        f"SELECT {WINDOW}, k, COUNT(*) AS n, MAX(total) AS most FROM {{0}} GROUP BY {WINDOW}, k",
        _tumble("x", 20, time="rt"),
        ("", " AS rt"),
        _FIVE,
        key=f"{WINDOW}, k",
    ),
    _both(
        "window_regrouped",
        f"SELECT {WINDOW}, n, COUNT(*) AS ks FROM ({_SUM} FROM {{0}} WHERE {LIVE} GROUP BY {WINDOW}, k) AS x "
        f"GROUP BY {WINDOW}, n",
        _TEN,
        key=f"{WINDOW}, n",
    ),
    _both(
        "window_top_n",
        "SELECT window_start, window_end, k, total, place FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end "
        f"ORDER BY total DESC, k) AS place FROM ({_SUM} FROM {{0}} WHERE {LIVE} GROUP BY {WINDOW}, k) AS x) AS y WHERE place <= 3",
        _TEN,
        key=f"{WINDOW}, place",
    ),
    _both(
        "window_top_n_of_rows",
        "SELECT window_start, n, k, v FROM (SELECT window_start, window_end, n, k, v, ROW_NUMBER() OVER "
        f"(PARTITION BY window_start, window_end, k ORDER BY v DESC, n) AS place FROM {{0}} WHERE {LIVE} AND v IS NOT NULL) AS x "
        "WHERE place <= 2",
        _TEN,
    ),
    _both(
        "window_dedup",
        f"SELECT window_start, k, n FROM (SELECT window_start, window_end, k, n, ROW_NUMBER() OVER "
        f"(PARTITION BY window_start, window_end, k ORDER BY {{1}} DESC) AS place FROM {{0}} WHERE {LIVE}) AS x WHERE place = 1",
        _TEN,
        ("t", "ts"),
    ),
    _both(
        "window_join",
        f"SELECT l.window_start, l.window_end, l.k, l.n AS ls, m.n AS ms "
        f"FROM ({_SUM} FROM {{0}} WHERE {LIVE} GROUP BY {WINDOW}, k) AS l "
        f"JOIN ({_SUM} FROM {{1}} WHERE {LIVE} GROUP BY {WINDOW}, k) AS m "
        "ON l.window_start = m.window_start AND l.window_end = m.window_end AND l.k = m.k",
        _TEN,
        _TEN_R,
        key=f"{WINDOW}, k",
    ),
    _both(
        "window_left_join",
        f"SELECT l.window_start, l.window_end, l.k, l.n AS ls, m.n AS ms "
        f"FROM ({_SUM} FROM {{0}} WHERE {LIVE} GROUP BY {WINDOW}, k) AS l "
        f"LEFT JOIN ({_SUM} FROM {{1}} WHERE {LIVE} GROUP BY {WINDOW}, k) AS m "
        "ON l.window_start = m.window_start AND l.window_end = m.window_end AND l.k = m.k",
        _TEN,
        _TEN_R,
        key=f"{WINDOW}, k",
    ),
)


def _interval(
    name: str, join: str, condition: str = "", *, ours: str = "WITHIN 3 SECONDS", flink: str = ""
) -> Case:
    """The sides' end rows meet no row of the other side, so a null k beside an end row's is dropped with it."""
    bounds = flink or "x.ts BETWEEN y.ts - INTERVAL '3' SECOND AND y.ts + INTERVAL '3' SECOND"
    live = f"COALESCE(x.k, y.k) <> '{END}'{condition}"
    select = "SELECT x.n AS xn, y.n AS yn, x.k AS k FROM s AS x"
    return Case(
        name,
        f"{select} {join} r AS y {ours} ON x.k = y.k WHERE {live}",
        f"{select} {join} r AS y ON x.k = y.k AND {bounds} WHERE {live}",
    )


INTERVAL_JOINS = (
    _interval("interval_inner", "JOIN", " AND y.v > 10"),
    _interval("interval_left", "LEFT JOIN"),
    _interval("interval_right", "RIGHT JOIN"),
    _interval("interval_full", "FULL JOIN"),
    Case(
        "interval_bounds",
        "SELECT x.n AS xn, y.n AS yn FROM s AS x JOIN r AS y ON x.k = y.k "
        "AND rowtime(y) BETWEEN rowtime(x) AND rowtime(x) + 4000 WHERE x.k <> 'end'",
        "SELECT x.n AS xn, y.n AS yn FROM s AS x JOIN r AS y ON x.k = y.k "
        "AND y.ts BETWEEN x.ts AND x.ts + INTERVAL '4' SECOND WHERE x.k <> 'end'",
    ),
    Case(
        "interval_chain",
        "SELECT x.n AS xn, y.n AS yn, z.n AS zn FROM s AS x JOIN r AS y WITHIN 2 SECONDS ON x.k = y.k "
        "JOIN r AS z WITHIN 2 SECONDS ON x.k = z.k WHERE x.k <> 'end'",
        # The second join goes by the event time of the first one's rows, which is the later of theirs.
        "SELECT x.n AS xn, y.n AS yn, z.n AS zn FROM s AS x "
        "JOIN r AS y ON x.k = y.k AND ABS(x.t - y.t) <= 2000 "
        "JOIN r AS z ON x.k = z.k AND ABS(GREATEST(x.t, y.t) - z.t) <= 2000 WHERE x.k <> 'end'",
    ),
)

_AS_OF = "FOR SYSTEM_TIME AS OF s.ts"
TEMPORAL_JOINS = (
    Case(
        "temporal_inner",
        "SELECT s.n, s.k, c.w FROM s JOIN c ON s.k = c.k WHERE s.k <> 'end'",
        f"SELECT s.n, s.k, c.w FROM s JOIN c {_AS_OF} ON s.k = c.k WHERE s.k <> 'end'",
    ),
    Case(
        "temporal_left",
        "SELECT s.n, s.k, c.w FROM s LEFT JOIN c ON s.k = c.k WHERE s.k <> 'end'",
        f"SELECT s.n, s.k, c.w FROM s LEFT JOIN c {_AS_OF} ON s.k = c.k WHERE s.k <> 'end'",
    ),
    Case(
        "temporal_chain",
        "SELECT s.n, c.w AS cw, e.w AS ew FROM s LEFT JOIN c ON s.k = c.k LEFT JOIN e ON s.g = e.g WHERE s.k <> 'end'",
        f"SELECT s.n, c.w AS cw, e.w AS ew FROM s LEFT JOIN c {_AS_OF} ON s.k = c.k LEFT JOIN e {_AS_OF} ON s.g = e.g "
        "WHERE s.k <> 'end'",
    ),
    Case(
        "temporal_filtered",
        "SELECT s.n, c.w FROM s JOIN c ON s.k = c.k WHERE s.k <> 'end' AND c.w % 2 = 0 AND s.v > 20",
        f"SELECT s.n, c.w FROM s JOIN c {_AS_OF} ON s.k = c.k WHERE s.k <> 'end' AND c.w % 2 = 0 AND s.v > 20",
    ),
    Case(
        "temporal_deleted",
        "SELECT s.n, s.k, x.w FROM s LEFT JOIN x ON s.k = x.k WHERE s.k <> 'end'",
        f"SELECT s.n, s.k, x.w FROM s LEFT JOIN x {_AS_OF} ON s.k = x.k WHERE s.k <> 'end'",
    ),
    Case(
        "temporal_grouped",
        "SELECT s.k, COUNT(*) AS n, SUM(c.w) AS total FROM s JOIN c ON s.k = c.k WHERE s.k <> 'end' GROUP BY s.k",
        f"SELECT s.k, COUNT(*) AS n, SUM(c.w) AS total FROM s JOIN c {_AS_OF} ON s.k = c.k WHERE s.k <> 'end' GROUP BY s.k",
        key="k",
    ),
)

_IN_A_REGION = "SELECT owner FROM o WHERE region = 'r1'"
_SAME_OWNER = "SELECT 1 FROM o WHERE o.owner = a.owner"
REGULAR_JOINS = (
    Case(
        "stream_join",
        "SELECT x.n AS xn, y.n AS yn FROM s AS x JOIN r AS y ON x.k = y.k WHERE x.v = 7 AND x.k <> 'end'",
    ),
    Case(
        "stream_join_grouped",
        "SELECT x.k AS k, COUNT(*) AS n, SUM(y.v) AS total FROM s AS x JOIN r AS y ON x.k = y.k WHERE x.k <> 'end' GROUP BY x.k",
        key="k",
    ),
    Case(
        "changelog_join",
        "SELECT a.id, a.amount, o.region FROM a JOIN o ON a.owner = o.owner",
        key="id",
    ),
    Case(
        "changelog_left_join",
        "SELECT a.id, a.amount, o.region FROM a LEFT JOIN o ON a.owner = o.owner",
        key="id",
    ),
    Case(
        "changelog_join_condition",
        "SELECT a.id, a.amount, o.region FROM a LEFT JOIN o ON a.owner = o.owner AND a.amount > 30",
        key="id",
    ),
    Case(
        "changelog_join_grouped",
        "SELECT o.region, COUNT(*) AS n, SUM(a.amount) AS total FROM a JOIN o ON a.owner = o.owner GROUP BY o.region",
        key="region",
    ),
    Case(
        "changelog_full_join_grouped",
        "SELECT COALESCE(o.region, 'none') AS region, COUNT(a.id) AS n, COUNT(*) AS pairs FROM a FULL JOIN o ON a.owner = o.owner "
        "GROUP BY COALESCE(o.region, 'none')",
        key="region",
    ),
    Case(
        "in_subquery",
        "SELECT id, amount FROM a WHERE owner IN (SELECT owner FROM o WHERE region = 'r1')",
        key="id",
    ),
    Case("in_or", f"SELECT id, amount FROM a WHERE amount > 80 OR owner IN ({_IN_A_REGION})", key="id"),
    Case(
        "not_in",
        f"SELECT id, amount FROM a WHERE owner NOT IN ({_IN_A_REGION})",
        key="id",
        documented="Subqueries over changelogs",
    ),
    Case(
        "not_in_with_nulls",
        # `amount` is NULL in some rows of `a`; the values contain a NULL now and then.
        "SELECT id, amount FROM a WHERE amount NOT IN (SELECT CASE WHEN region = 'r2' THEN 40 ELSE 7 END FROM o)",
        key="id",
    ),
    Case(
        "not_in_a_null",
        "SELECT id, amount FROM a WHERE amount NOT IN (SELECT CASE WHEN region = 'r2' THEN 40 END FROM o)",
        key="id",
    ),
    Case(
        "not_exists_or", f"SELECT id, amount FROM a WHERE amount < 20 OR NOT EXISTS ({_SAME_OWNER})", key="id"
    ),
    Case(
        "scalar_subquery",
        "SELECT id, amount FROM a WHERE amount * 2 > (SELECT MAX(amount) FROM a)",
        key="id",
        documented="Subqueries over changelogs",
    ),
    Case(
        "in_rows",
        "SELECT id, amount FROM a WHERE (owner, amount % 5) IN (SELECT owner, CHAR_LENGTH(region) FROM o)",
        key="id",
    ),
    Case("natural", "SELECT * FROM (SELECT id, owner FROM a) NATURAL JOIN (SELECT owner FROM o)", key="id"),
    Case(
        "cross_join",
        f"SELECT x.n, y.m FROM (SELECT n FROM s WHERE v > 95 AND {LIVE}) AS x "
        f"CROSS JOIN (SELECT n, v FROM r WHERE v > 95 AND {LIVE}) AS y(m, w)",
    ),
    Case(
        "cross_join_of_one_row",
        "SELECT a.id, a.amount, x.n FROM a CROSS JOIN (SELECT COUNT(*) AS n FROM o) AS x",
        key="id",
    ),
    Case(
        "not_exists",
        "SELECT id, amount FROM a WHERE NOT EXISTS (SELECT 1 FROM o WHERE o.owner = a.owner)",
        key="id",
    ),
)


def _sets(
    name: str, sets: str, relation: str, columns: tuple[str, str], aggregates: str, where: str = ""
) -> Case:
    """Groups of several sets of two columns. Flink allows no NULL in a key, so its key has texts instead of the columns."""
    first, second = columns
    return Case(
        name,
        f"SELECT {first} AS x, {second} AS y, "
        f"COALESCE(CAST({first} AS VARCHAR), '-') AS key_x, COALESCE(CAST({second} AS VARCHAR), '-') AS key_y, "
        f"GROUPING({first}) AS of_x, GROUPING({second}) AS of_y, {aggregates} FROM {relation}{where} GROUP BY {sets}",
        key="key_x, key_y, of_x, of_y",
    )


AGGREGATES = (
    Case(
        "group",
        f"SELECT k, COUNT(*) AS n, SUM(v) AS total, MAX(t) AS latest FROM s WHERE {LIVE} GROUP BY k",
        key="k",
    ),
    Case(
        "having", f"SELECT k, SUM(v) AS total FROM s WHERE {LIVE} GROUP BY k HAVING SUM(v) % 2 = 0", key="k"
    ),
    Case("count_distinct", f"SELECT k, COUNT(DISTINCT v) AS kinds FROM s WHERE {LIVE} GROUP BY k", key="k"),
    Case(
        "filtered_aggregates",
        "SELECT k, COUNT(*) FILTER (WHERE v > 50) AS high, SUM(v) FILTER (WHERE g = 'g1') AS first_g, "
        f"COUNT(DISTINCT g) FILTER (WHERE v > 50) AS gs FROM s WHERE {LIVE} GROUP BY k",
        key="k",
    ),
    Case("distinct", f"SELECT DISTINCT k, g FROM s WHERE {LIVE}", key="k, g"),
    Case("union", f"SELECT k, g FROM s WHERE {LIVE} UNION SELECT k, g FROM r WHERE {LIVE}", key="k, g"),
    Case(
        "group_changelog",
        "SELECT owner, COUNT(*) AS n, SUM(amount) AS total, MIN(amount) AS least, MAX(amount) AS most FROM a GROUP BY owner",
        key="owner",
    ),
    Case(
        "distinct_under_deletes",
        "SELECT owner, COUNT(DISTINCT amount) AS kinds, COUNT(*) FILTER (WHERE amount > 50) AS high FROM a GROUP BY owner",
        key="owner",
    ),
    Case(
        "statistics_under_deletes",
        "SELECT owner, AVG(CAST(amount AS DOUBLE)) AS mean, STDDEV_POP(CAST(amount AS DOUBLE)) AS spread FROM a GROUP BY owner",
        key="owner",
    ),
    Case(
        "having_under_deletes",
        "SELECT owner, COUNT(*) AS n FROM a GROUP BY owner HAVING COUNT(*) > 4",
        key="owner",
    ),
    _sets(
        "grouping_sets",
        "GROUPING SETS ((k, g), (g), ())",
        "s",
        ("k", "g"),
        "COUNT(v) AS n, SUM(v) AS total",
        f" WHERE {LIVE}",
    ),
    _sets("rollup", "ROLLUP (k, g)", "s", ("k", "g"), "COUNT(*) AS n, MAX(v) AS most", f" WHERE {LIVE}"),
    _sets(
        "cube_under_deletes",
        "CUBE (owner, amount % 3)",
        "a",
        ("owner", "amount % 3"),
        "COUNT(*) AS n, COUNT(DISTINCT amount) AS kinds",
    ),
    Case("intersect", "SELECT owner FROM a WHERE amount > 50 INTERSECT SELECT owner FROM o", key="owner"),
    Case("except", "SELECT owner FROM a EXCEPT SELECT owner FROM o WHERE region = 'r1'", key="owner"),
    Case("distinct_of_changelog", "SELECT DISTINCT owner FROM a WHERE amount > 50", key="owner"),
    Case(
        "nested",
        f"SELECT n, COUNT(*) AS ks FROM (SELECT k, g, COUNT(*) AS n FROM s WHERE {LIVE} GROUP BY k, g) AS x GROUP BY n",
        key="n",
    ),
    Case(
        "nested_three_deep",
        "SELECT owners, COUNT(*) AS times FROM (SELECT n, COUNT(*) AS owners FROM "
        "(SELECT owner, COUNT(*) AS n FROM a GROUP BY owner) AS x GROUP BY n) AS y GROUP BY owners",
        key="owners",
    ),
    Case(
        "average_of_integers",
        f"SELECT k, AVG(v) AS mean FROM s WHERE {LIVE} GROUP BY k",
        key="k",
        documented="AVG of integers",
    ),
)

RANKS = (
    Case(
        "keep_first",
        f"SELECT k, n, v FROM (SELECT k, n, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY t) AS place FROM s WHERE {LIVE}) AS x "
        "WHERE place = 1",
        f"SELECT k, n, v FROM (SELECT k, n, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS place FROM s WHERE {LIVE}) AS x "
        "WHERE place = 1",
        key="k",
    ),
    Case(
        "keep_last",
        f"SELECT k, n, v FROM (SELECT k, n, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY t DESC) AS place FROM s WHERE {LIVE}) AS x "
        "WHERE place = 1",
        f"SELECT k, n, v FROM (SELECT k, n, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS place FROM s WHERE {LIVE}) AS x "
        "WHERE place = 1",
        key="k",
    ),
    Case(
        "top_n",
        "SELECT k, n, v, place FROM (SELECT k, n, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, n) AS place "
        f"FROM s WHERE {LIVE} AND v IS NOT NULL) AS x WHERE place <= 3",
        key="k, place",
    ),
    Case(
        "top_n_of_changelog",
        "SELECT id, owner, amount FROM (SELECT id, owner, amount, ROW_NUMBER() OVER (PARTITION BY owner ORDER BY amount DESC, id) AS place "
        "FROM a WHERE amount IS NOT NULL) AS x WHERE place <= 2",
        key="id",
    ),
    Case(
        "top_n_of_groups",
        "SELECT k, total, place FROM (SELECT k, total, ROW_NUMBER() OVER (ORDER BY total DESC, k) AS place "
        f"FROM (SELECT k, SUM(v) AS total FROM s WHERE {LIVE} GROUP BY k) AS x) AS y WHERE place <= 5",
        key="place",
    ),
    Case(
        "keep_last_grouped",
        "SELECT g, COUNT(*) AS ks FROM (SELECT k, g, ROW_NUMBER() OVER (PARTITION BY k ORDER BY t DESC) AS place "
        f"FROM s WHERE {LIVE}) AS x WHERE place = 1 GROUP BY g",
        "SELECT g, COUNT(*) AS ks FROM (SELECT k, g, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS place "
        f"FROM s WHERE {LIVE}) AS x WHERE place = 1 GROUP BY g",
        key="g",
    ),
)

_ASCENT = "v > LAST(up.v, 1) OR (LAST(up.v, 1) IS NULL AND v > low.v)"


def _matches(
    name: str,
    pattern: str,
    define: str,
    *measures: str,
    skip: str = "TO NEXT ROW",
    within: str = "",
    partition: str = "k",
    order: str = "",
    documented: str = "",
) -> Case:
    """Matches among the rows of each partition; the row numbers distinguish matches. `order` follows the time in ORDER BY."""

    after = f"AFTER MATCH SKIP {skip}" if skip else ""

    def select(time: str, span: str) -> str:
        return (
            f"SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY {partition} ORDER BY {time}{order} MEASURES {', '.join(measures)} "
            f"ONE ROW PER MATCH {after} PATTERN ({pattern}) {span} DEFINE {define}) AS m WHERE m.{LIVE}"
        )

    ours, flinks = (f"WITHIN {within} SECONDS", f"WITHIN INTERVAL '{within}' SECOND") if within else ("", "")
    return Case(name, select("t", ours), select("ts", flinks), documented=documented)


PATTERNS = (
    _matches(
        "match_two", "a b", "a AS v > 50, b AS b.v < a.v", "a.n AS first", "b.n AS last", "b.v - a.v AS fall"
    ),
    _matches("match_any_three", "a b c", "b AS b.v > a.v", "a.n AS first", "c.n AS last", skip=""),
    _matches(
        "match_ascent",
        "low up+ down",
        f"low AS v >= 0, up AS {_ASCENT}, down AS down.v < LAST(up.v)",
        "low.n AS first",
        "COUNT(up.v) AS steps",
        "FIRST(up.n) AS next_n",
        "LAST(up.n) AS top",
        "down.n AS last",
        skip="PAST LAST ROW",
    ),
    _matches(
        "match_any",
        "a l+? f",
        "a AS v > 80, f AS f.v < 20",
        "a.n AS first",
        "FIRST(l.n) AS next_n",
        "f.n AS last",
    ),
    _matches(
        "match_greedy",
        "a b* c",
        "a AS v < 30, b AS v < 60, c AS v > 40",
        "a.n AS first",
        "LAST(b.n) AS middle",
        "COUNT(b.n) AS n",
        "c.n AS last",
    ),
    _matches(
        "match_reluctant",
        "a b*? c",
        "a AS v < 30, b AS v < 60, c AS v > 40",
        "a.n AS first",
        "LAST(b.n) AS middle",
        "c.n AS last",
        skip="PAST LAST ROW",
    ),
    _matches(
        "match_counted",
        "a{2} b{1,3}? c",
        "a AS v < 70, c AS v > 50",
        "FIRST(a.n) AS first",
        "LAST(a.n) AS next_n",
        "LAST(b.n) AS middle",
        "c.n AS last",
    ),
    _matches(
        "match_optional",
        "a b? c",
        "a AS v < 50, b AS v > 90, c AS v > 50 AND v <= 90",
        "a.n AS first",
        "b.n AS middle",
        "c.n AS last",
        skip="PAST LAST ROW",
    ),
    _matches(
        "match_first_optional",
        "a* b",
        "a AS v < 30, b AS v > 60",
        "FIRST(a.n) AS first",
        "LAST(a.n) AS middle",
        "b.n AS last",
        skip="PAST LAST ROW",
    ),
    _matches(
        "match_within",
        "a l+? f",
        "a AS v > 60, f AS f.v < 30",
        "a.n AS first",
        "f.n AS last",
        "f.t - a.t AS took",
        within="4",
    ),
    _matches(
        "match_to_first",
        "a b+ c",
        "a AS v < 50, b AS v >= 50, c AS v < 50",
        "a.n AS first",
        "c.n AS last",
        skip="TO FIRST b",
    ),
    _matches(
        "match_to_last",
        "a b+ c",
        "a AS v < 90, b AS v < 60, c AS v >= 60",
        "a.n AS first",
        "c.n AS last",
        skip="TO LAST b",
    ),
    _matches(
        "match_at_most",
        "a b{1,2} c",
        "a AS v < 50, b AS v < 60, c AS v > 30",
        "a.n AS first",
        "LAST(b.n) AS middle",
        "c.n AS last",
        documented="Patterns",
    ),
    _matches(
        "match_mean",
        "a+ b",
        "a AS AVG(a.d) < 60, b AS v >= 0",
        "FIRST(a.n) AS first",
        "LAST(a.n) AS middle",
        "AVG(a.d) AS mean",
        "SUM(a.v) AS total",
        "MIN(a.v) AS least",
        "MAX(a.v) AS most",
        "b.n AS last",
        skip="PAST LAST ROW",
    ),
    _matches(
        "match_at_least",
        "a{2,} b",
        "a AS v < 60, b AS v > 80",
        "FIRST(a.n) AS first",
        "FIRST(a.n, 1) AS next_n",
        "LAST(a.n, 1) AS middle",
        "b.n AS last",
    ),
    _matches(
        "match_counted_end",
        "a b{2}",
        "a AS v > 40, b AS b.v < a.v",
        "a.n AS first",
        "FIRST(b.n) AS middle",
        "LAST(b.n) AS last",
        skip="PAST LAST ROW",
    ),
    _matches(
        "match_reluctant_end",
        "a b+?",
        "a AS v > 40, b AS b.v < a.v",
        "a.n AS first",
        "LAST(b.n) AS last",
        "COUNT(b.n) AS n",
    ),
    _matches(
        "match_final",
        "a b+ c",
        "a AS v < 50, b AS v >= 50, c AS v < 50",
        "FINAL FIRST(b.n) AS next_n",
        "FINAL LAST(b.n) AS middle",
        "FINAL LAST(c.n) AS last",
        skip="TO c",
    ),
    _matches(
        "match_keys_and_order",
        "a b",
        "a AS v > 30, b AS b.n > a.n OR b.v < a.v",
        "a.n AS first",
        "b.n AS last",
        partition="k, g",
        order=", n",
    ),
    _matches(
        "match_within_greedy",
        "a b* c",
        "a AS v < 60, b AS v < 80, c AS v > 40",
        "a.n AS first",
        "COUNT(b.n) AS n",
        "c.n AS last",
        skip="PAST LAST ROW",
        within="6",
    ),
    _matches(
        "match_sums",
        "a b+ c",
        "b AS SUM(b.v) < 150, c AS COUNT(b.n) > 1 AND c.v > FIRST(b.v)",
        "a.n AS first",
        "SUM(b.v) + a.v AS total",
        "COUNT(b.n) AS n",
        "c.n AS last",
        skip="PAST LAST ROW",
    ),
    _matches(
        "match_five",
        "a b c d e",
        "b AS b.v > a.v, c AS c.v < b.v, d AS d.v > c.v, e AS e.v < d.v",
        "a.n AS first",
        "c.n AS middle",
        "e.n AS last",
        "CHAR_LENGTH(UPPER(e.k)) AS letters",
    ),
    _matches(
        "match_optional_end",
        "a b?",
        "a AS v > 60, b AS v < 40",
        "a.n AS first",
        "b.n AS last",
        documented="Patterns",
    ),
)


def _over(name: str, frame: str, *items: str, documented: str = "") -> Case:
    """Results over the rows of each key so far."""
    ours, flinks = (
        f"SELECT k, n, {', '.join(items)} FROM s WHERE {LIVE} WINDOW w AS (PARTITION BY k ORDER BY {time} {frame})"
        for time in ("t", "ts")
    )
    return Case(name, ours, flinks, documented=documented)


_ALL_SO_FAR = (
    "COUNT(*) OVER w AS c",
    "COUNT(v) OVER w AS known",
    "SUM(v) OVER w AS total",
    "MIN(v) OVER w AS least",
    "MAX(v) OVER w AS most",
    "AVG(d) OVER w AS mean",
)
OVER = (
    _over("over_all", "", *_ALL_SO_FAR),
    Case(
        "ordered",
        f"SELECT n, k, t FROM s WHERE {LIVE} ORDER BY t",
        f"SELECT n, k, t FROM s WHERE {LIVE} ORDER BY ts",
    ),
    _over("over_range", "RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW", *_ALL_SO_FAR),
    _over(
        "over_rows", "ROWS BETWEEN 3 PRECEDING AND CURRENT ROW", *_ALL_SO_FAR, "LAST_VALUE(n) OVER w AS last"
    ),
    _over("over_lag", "", "LAG(v) OVER w AS before", "LAG(n, 3) OVER w AS third"),
    _over("over_number", "", "ROW_NUMBER() OVER w AS place"),
    _over(
        "over_first",
        "ROWS BETWEEN 3 PRECEDING AND CURRENT ROW",
        "FIRST_VALUE(v) OVER w AS first",
        documented="OVER",
    ),
)

CASES = (
    *STATELESS,
    *WINDOWS,
    *INTERVAL_JOINS,
    *TEMPORAL_JOINS,
    *REGULAR_JOINS,
    *AGGREGATES,
    *RANKS,
    *PATTERNS,
    *OVER,
    *CORRELATED,
)
