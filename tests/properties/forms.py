"""Templates of forms that other systems have too: offsets of windows, ORDER BY with LIMIT, and others; see `templates`."""

from __future__ import annotations

from tests.properties.templates import END_KEY, LATENCY_MS, Template

_S = f"WITH ('starting.position' = 'earliest', 'source.allow.latency.millis' = {LATENCY_MS})"
_U = "WITH ('starting.position' = 'earliest')"
_WORDS = "(VALUES ('k1', 'one'), ('k2', NULL), ('k1', 'uno')) AS n(key, word)"
_REAL = f"k <> '{END_KEY}'"


def _changelog(name: str, select: str, batch: str, *, exactly_once: bool = False) -> Template:
    return Template(name, select, batch, changelog=True, exactly_once=exactly_once)


def _bucket(seconds: int, offset: int) -> str:
    """Return DuckDB's SQL of the start of a row's window with an offset."""
    shift = f"INTERVAL ({offset}) SECOND"
    return f"time_bucket(INTERVAL {seconds} SECOND, make_timestamp(t * 1000) - {shift}) + {shift}"


CHANGES = (
    _changelog(
        "order_limit",
        f"SELECT id, w FROM u {_U} ORDER BY w DESC, id LIMIT 7",
        "SELECT id, w FROM u ORDER BY w DESC NULLS LAST, id LIMIT 7",
    ),
    _changelog(
        "order_limit_offset",
        f"SELECT id, w FROM u {_U} ORDER BY w DESC, id LIMIT 4 OFFSET 2",
        "SELECT id, w FROM u ORDER BY w DESC NULLS LAST, id LIMIT 4 OFFSET 2",
    ),
    _changelog(
        "order_limit_groups",
        f"SELECT k, SUM(w) AS total FROM u {_U} GROUP BY k ORDER BY COUNT(*) DESC, k FETCH FIRST 3 ROWS ONLY",
        "SELECT k, SUM(w) AS total FROM u GROUP BY k ORDER BY COUNT(*) DESC, k NULLS FIRST LIMIT 3",
        exactly_once=True,
    ),
    _changelog(
        "from_changelog",
        f"SELECT id, k, w FROM FROM_CHANGELOG(TABLE (SELECT * FROM TO_CHANGELOG(u) {_U}) PARTITION BY id)",
        "SELECT id, k, w FROM u",
    ),
    _changelog(
        "from_upserts",
        "SELECT k, SUM(w) AS total FROM FROM_CHANGELOG(TABLE (SELECT id, k, w, change FROM TO_CHANGELOG(TABLE u, op => "
        f"DESCRIPTOR(change), op_mapping => MAP['INSERT, UPDATE_AFTER', 'u', 'DELETE', 'd']) {_U} WHERE id <> 'i3') PARTITION BY id, "
        "op => DESCRIPTOR(change), op_mapping => MAP['u', 'UPDATE_AFTER', 'd', 'DELETE']) GROUP BY k",
        "SELECT k, SUM(w) AS total FROM u WHERE id <> 'i3' GROUP BY k",
    ),
    Template(
        "to_changelog",
        f"SELECT * FROM TO_CHANGELOG(TABLE (SELECT k, COUNT(*) AS n FROM u {_U} GROUP BY k))",
        "SELECT k, COUNT(*) AS n FROM u GROUP BY k",
        exactly_once=True,
        streaming="SELECT k, SUM(sign * n)::BIGINT AS n FROM (SELECT row->>'k' AS k, (row->>'n')::BIGINT AS n, "
        "CASE WHEN row->>'op' IN ('INSERT', 'UPDATE_AFTER') THEN 1 ELSE -1 END AS sign FROM result) GROUP BY k HAVING SUM(sign) <> 0",
    ),
)

GROUPS = (
    _changelog(
        "rollup",
        f"SELECT k, w, GROUPING(k) AS gk, GROUPING(w) AS gw, COUNT(*) AS n, SUM(w) AS total FROM u {_U} GROUP BY ROLLUP(k, w)",
        "SELECT k, w, GROUPING(k) AS gk, GROUPING(w) AS gw, COUNT(*) AS n, SUM(w) AS total FROM u GROUP BY ROLLUP(k, w)",
        exactly_once=True,
    ),
    _changelog(
        "cube_windows",
        "SELECT window_start, window_end, k, v % 3 AS r, GROUPING(k) AS gk, GROUPING(v % 3) AS gr, COUNT(*) AS n "
        f"FROM TUMBLE(s, SIZE 20 SECONDS) {_S} GROUP BY window_start, window_end, CUBE(k, v % 3) HAVING COUNT(*) > 2",
        f"SELECT {_bucket(20, 0)} AS window_start, {_bucket(20, 0)} + INTERVAL 20 SECOND AS window_end, k, v % 3 AS r, "
        "GROUPING(k) AS gk, GROUPING(v % 3) AS gr, COUNT(*) AS n FROM s "
        f"GROUP BY {_bucket(20, 0)}, CUBE(k, v % 3) HAVING COUNT(*) > 2",
    ),
)

_OTHER = "SELECT k, v FROM s {} WHERE v < 30"
_FEW = "w > 12 OR (w IS NULL AND id = 'i1') OR (k IS NULL AND id = 'i2')"
_NO_ROW = (
    f"NOT EXISTS (SELECT 1 FROM (SELECT * FROM x WHERE {_FEW}) y WHERE (y.k = u.k OR y.k IS NULL OR u.k IS NULL) "
    "AND (y.w = u.w OR y.w IS NULL OR u.w IS NULL))"
)
_TOP = "SELECT id, k, w, ROW_NUMBER() OVER (PARTITION BY k ORDER BY w DESC NULLS LAST, id) AS n FROM x"

CORRELATED = (
    _changelog(
        "lateral_union",
        f"SELECT id, name, COUNT(*) AS n FROM (SELECT u.id, l.name FROM u {_U}, LATERAL (SELECT DISTINCT w AS name FROM x {_U} "
        f"WHERE x.k = u.k UNION ALL SELECT w FROM x {_U} WHERE x.k = u.k AND w > 10 EXCEPT ALL SELECT w FROM x {_U} WHERE x.k = u.k AND "
        "id < 'i2') AS l) GROUP BY id, name",
        "SELECT id, v AS name, COUNT(*) AS n FROM u JOIN (SELECT DISTINCT k, w FROM x UNION ALL SELECT k, w FROM x WHERE w > 10 "
        "EXCEPT ALL SELECT k, w FROM x WHERE id < 'i2') AS l(k, v) ON l.k = u.k GROUP BY id, v",
    ),
    _changelog(
        "values_of_groups",
        f"SELECT k, SUM(w) AS total, (SELECT MAX(w) FROM x {_U} WHERE x.k = u.k) AS most, COUNT(*) IN (SELECT w FROM x {_U}) AS known "
        f"FROM u {_U} GROUP BY k HAVING SUM(w) > (SELECT AVG(w) FROM x {_U} WHERE k <> 'k1')",
        "SELECT k, SUM(w) AS total, (SELECT MAX(w) FROM x WHERE x.k = u.k) AS most, COUNT(*) IN (SELECT w FROM x) AS known FROM u "
        "GROUP BY k HAVING SUM(w) > (SELECT AVG(w) FROM x WHERE k <> 'k1')",
    ),
    _changelog(
        "answers",
        f"SELECT id, w NOT IN (SELECT w FROM x {_U} WHERE x.k = u.k) AS other, CASE WHEN EXISTS (SELECT 1 FROM x {_U} WHERE x.w = u.w) "
        f"THEN k END AS met FROM u {_U}",
        "SELECT id, w NOT IN (SELECT w FROM x WHERE x.k = u.k) AS other, CASE WHEN EXISTS (SELECT 1 FROM x WHERE x.w = u.w) THEN k END "
        "AS met FROM u",
    ),
    _changelog(
        "not_in_rows",
        f"SELECT id, k, w FROM u {_U} WHERE (k, w) NOT IN (SELECT k, w FROM x {_U} WHERE {_FEW})",
        f"SELECT id, k, w FROM u WHERE {_NO_ROW}",
    ),
    _changelog(
        "not_in_or",
        f"SELECT id, w FROM u {_U} WHERE w < 3 OR w NOT IN (SELECT w FROM x {_U} WHERE w > 8 AND x.k = u.k) "
        f"OR NOT (w NOT IN (SELECT w FROM x {_U} WHERE w < 5))",
        "SELECT id, w FROM u WHERE w < 3 OR w NOT IN (SELECT w FROM x WHERE w > 8 AND x.k = u.k) "
        "OR NOT (w NOT IN (SELECT w FROM x WHERE w < 5))",
        exactly_once=True,
    ),
    _changelog(
        "intersect_all",
        f"SELECT k, w, COUNT(*) AS copies FROM (SELECT k, w FROM u {_U} INTERSECT ALL SELECT k, w FROM x {_U}) GROUP BY k, w",
        "SELECT k, w, COUNT(*) AS copies FROM (SELECT k, w FROM u INTERSECT ALL SELECT k, w FROM x) GROUP BY k, w",
    ),
    _changelog(
        "except_all",
        f"SELECT k, w, COUNT(*) AS copies FROM (SELECT k, w % 4 AS w FROM u {_U} EXCEPT ALL SELECT k, w % 4 FROM x {_U}) GROUP BY k, w",
        "SELECT k, w, COUNT(*) AS copies FROM (SELECT k, w % 4 AS w FROM u EXCEPT ALL SELECT k, w % 4 FROM x) GROUP BY k, w",
        exactly_once=True,
    ),
    _changelog(
        "lateral_top",
        f"SELECT g.k AS k, t.id AS id, t.w AS w FROM (SELECT DISTINCT k FROM u {_U}) g, LATERAL (SELECT id, w FROM x {_U} "
        "WHERE k = g.k ORDER BY w DESC, id LIMIT 2) AS t",
        f"SELECT g.k, t.id, t.w FROM (SELECT DISTINCT k FROM u) g JOIN ({_TOP}) t ON t.k = g.k AND t.n <= 2",
        exactly_once=True,
    ),
    _changelog(
        "lateral_groups",
        f"SELECT u.id AS id, l.n AS n, l.total AS total FROM u {_U}, LATERAL (SELECT COUNT(*) AS n, SUM(w) + COUNT(w) AS total "
        f"FROM x {_U} WHERE x.k = u.k) AS l",
        "SELECT id, (SELECT COUNT(*) FROM x WHERE x.k = u.k) AS n, (SELECT SUM(w) + COUNT(w) FROM x WHERE x.k = u.k) AS total FROM u",
    ),
    _changelog(
        "lateral_left",
        f"SELECT u.id AS id, l.id AS other, l.w AS w FROM u {_U} LEFT JOIN LATERAL (SELECT id, COALESCE(w, -1) AS w FROM x {_U} "
        "WHERE x.k = u.k AND x.w > u.w) AS l ON TRUE",
        "SELECT u.id, l.id AS other, l.w FROM u LEFT JOIN x AS l ON l.k = u.k AND l.w > u.w",
    ),
    _changelog(
        "value_of_row",
        f"SELECT id, (SELECT MAX(w) FROM x {_U} WHERE x.k = u.k) AS most, (SELECT COUNT(*) FROM x {_U} WHERE x.w = u.w) AS n, "
        f"(SELECT COALESCE(w, -1) FROM x {_U} WHERE x.id = u.id) AS same FROM u {_U} "
        f"WHERE w >= (SELECT AVG(w) FROM x {_U} WHERE x.k = u.k)",
        "SELECT id, (SELECT MAX(w) FROM x WHERE x.k = u.k) AS most, (SELECT COUNT(*) FROM x WHERE x.w = u.w) AS n, "
        "(SELECT COALESCE(w, -1) FROM x WHERE x.id = u.id) AS same FROM u WHERE w >= (SELECT AVG(w) FROM x WHERE x.k = u.k)",
        exactly_once=True,
    ),
    Template(
        "lateral_columns",
        f"SELECT k, t, y, UPPER(z) AS z FROM s {_S}, LATERAL (SELECT v * 2 AS y, k || 'x' AS z WHERE v > 10) AS l "
        f"WHERE y < 150 AND {_REAL}",
        "SELECT k, t, v * 2 AS y, UPPER(k || 'x') AS z FROM s WHERE v > 10 AND v * 2 < 150",
    ),
)

JOINS = (
    *CORRELATED,
    _changelog(
        "not_in",
        f"SELECT id, w FROM u {_U} WHERE w NOT IN (SELECT w FROM x {_U} WHERE w > 17 OR (w IS NULL AND id = 'i1'))",
        "SELECT id, w FROM u WHERE w NOT IN (SELECT w FROM x WHERE w > 17 OR (w IS NULL AND id = 'i1'))",
    ),
    _changelog(
        "not_in_of_group",
        f"SELECT id, w FROM u {_U} WHERE w NOT IN (SELECT w FROM x {_U} WHERE x.k = u.k)",
        "SELECT id, w FROM u WHERE w NOT IN (SELECT w FROM x WHERE x.k = u.k)",
        exactly_once=True,
    ),
    _changelog(
        "in_or",
        f"SELECT id, w FROM u {_U} WHERE w < 3 OR k IN (SELECT k FROM x {_U} WHERE w > 10) "
        f"OR NOT EXISTS (SELECT 1 FROM x {_U} WHERE x.id = u.id)",
        "SELECT id, w FROM u WHERE w < 3 OR k IN (SELECT k FROM x WHERE w > 10) OR NOT EXISTS (SELECT 1 FROM x WHERE x.id = u.id)",
    ),
    _changelog(
        "in_rows",
        f"SELECT id, w FROM u {_U} WHERE (k, w) IN (SELECT k, w FROM x {_U})",
        "SELECT id, w FROM u WHERE (k, w) IN (SELECT k, w FROM x)",
    ),
    _changelog(
        "intersect",
        f"SELECT k, w FROM u {_U} INTERSECT SELECT k, w FROM x {_U}",
        "SELECT k, w FROM u INTERSECT SELECT k, w FROM x",
    ),
    _changelog(
        "except",
        f"SELECT k, w FROM u {_U} EXCEPT SELECT k, w FROM x {_U} EXCEPT {_OTHER.format(_S)}",
        f"SELECT k, w FROM u EXCEPT SELECT k, w FROM x EXCEPT {_OTHER.format('')}",
        exactly_once=True,
    ),
    _changelog(
        "value",
        f"SELECT id, w, w - (SELECT MIN(w) FROM x {_U}) AS above FROM u {_U} WHERE w > (SELECT AVG(w) FROM x {_U} WHERE k <> 'k1')",
        "SELECT id, w, w - (SELECT MIN(w) FROM x) AS above FROM u WHERE w > (SELECT AVG(w) FROM x WHERE k <> 'k1')",
    ),
    _changelog(
        "cross_join_of_one_row",
        f"SELECT u.id AS id, x.n AS n FROM u {_U} CROSS JOIN (SELECT COUNT(*) AS n FROM x {_U}) x",
        "SELECT u.id, x.n FROM u CROSS JOIN (SELECT COUNT(*) AS n FROM x) x",
    ),
    Template(
        "join_values",
        f"SELECT k, t, d, word FROM s {_S} JOIN {_WORDS} ON s.k = n.key WHERE {_REAL}",
        f"SELECT k, t, d, word FROM s JOIN {_WORDS} ON s.k = n.key",
    ),
    Template(
        "left_unnest",
        f"SELECT k, t, d, letter, place FROM s {_S} LEFT JOIN UNNEST(SPLIT(NULLIF(k, 'k1'), 'k')) WITH ORDINALITY AS l(letter, place) "
        f"ON TRUE WHERE {_REAL}",
        "SELECT k, t, d, NULLIF(letter, 'none') AS letter, NULLIF(place, 0) AS place FROM (SELECT k, t, d, unnest(CASE WHEN k = 'k1' "
        "THEN ['none'] ELSE string_split(k, 'k') END) AS letter, unnest(CASE WHEN k = 'k1' THEN [0] ELSE range(1, "
        "len(string_split(k, 'k')) + 1) END) AS place FROM s)",
        exactly_once=True,
    ),
    Template(
        "temporal_left_if",
        f"SELECT s.k AS k, s.t AS t, s.v AS v, c.w AS w FROM s {_S} LEFT JOIN c {_S} ON s.k = c.k AND c.w > s.v WHERE s.{_REAL}",
        "SELECT s.k, s.t, s.v, CASE WHEN c.w > s.v THEN c.w END AS w FROM s ASOF LEFT JOIN c ON s.k = c.k AND s.t >= c.t",
        exactly_once=True,
    ),
)

WINDOWS = (
    _changelog(
        "tumble_offset",
        "SELECT window_start, window_end, k, COUNT(*) AS n FROM TUMBLE(s, SIZE 10 SECONDS, OFFSET -3 SECONDS) "
        f"{_S} GROUP BY window_start, window_end, k",
        f"SELECT {_bucket(10, -3)} AS window_start, {_bucket(10, -3)} + INTERVAL 10 SECOND AS window_end, k, COUNT(*) AS n "
        "FROM s GROUP BY ALL",
    ),
    _changelog(
        "hop_offset",
        "SELECT window_start, window_end, COUNT(*) AS n, SUM(v) AS total FROM HOP(s, SIZE 10 SECONDS, ADVANCE BY 5 SECONDS, "
        f"OFFSET 7 SECONDS) {_S} GROUP BY window_start, window_end",
        "SELECT b AS window_start, b + INTERVAL 10 SECOND AS window_end, COUNT(*) AS n, SUM(v) AS total FROM "
        f"(SELECT v, {_bucket(5, 7)} - INTERVAL (5 * p) SECOND AS b FROM s, range(2) AS panes(p)) GROUP BY ALL",
    ),
    _changelog(
        "cumulate_offset",
        "SELECT window_start, window_end, COUNT(*) AS n FROM CUMULATE(s, SIZE 20 SECONDS, STEP BY 5 SECONDS, OFFSET 3 SECONDS) "
        f"{_S} GROUP BY window_start, window_end",
        f"SELECT b AS window_start, e AS window_end, COUNT(*) AS n FROM (SELECT {_bucket(20, 3)} AS b, "
        f"{_bucket(20, 3)} + INTERVAL (5 * p) SECOND AS e, make_timestamp(t * 1000) AS moment "
        "FROM s, range(1, 5) AS steps(p)) WHERE moment < e GROUP BY ALL",
    ),
    _changelog(
        "group_window",
        f"SELECT TUMBLE_START(t, INTERVAL '30' SECOND) AS window_start, k, MAX(v) AS most FROM s {_S} "
        "GROUP BY TUMBLE(t, INTERVAL '30' SECOND), k",
        f"SELECT {_bucket(30, 0)} AS window_start, k, MAX(v) AS most FROM s GROUP BY ALL",
    ),
)
