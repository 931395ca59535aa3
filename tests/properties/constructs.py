"""Templates of queries over changelogs, joins, Top-N and windows; see `templates`."""

from __future__ import annotations

from tests.properties import forms
from tests.properties.templates import END_KEY, LATE_TOPIC, LATENCY_MS, Template, window

_S = f"WITH ('starting.position' = 'earliest', 'source.allow.latency.millis' = {LATENCY_MS})"
_U = "WITH ('starting.position' = 'earliest')"
_REAL = f"k <> '{END_KEY}'"
_COUNTED = "COUNT(*) AS n, COUNT(w) AS known, SUM(w) AS total, MIN(w) AS least, MAX(w) AS most, COUNT(DISTINCT w) AS kinds"
_EVEN = "SUM(w) FILTER (WHERE w % 2 = 0) AS even"


def _changelog(
    name: str, select: str, batch: str, *, exactly_once: bool = False, views: str = "", streaming: str = ""
) -> Template:
    return Template(
        name, select, batch, changelog=True, exactly_once=exactly_once, views=views, streaming=streaming
    )


def _windowed(seconds: int, rows: str = "s", extra: str = "") -> str:
    """Groups of windows, in DuckDB's SQL."""
    start = window(seconds)
    return (
        f"SELECT {start} AS window_start, {start} + INTERVAL {seconds} SECOND AS window_end, k, COUNT(*) AS n, "
        f"SUM(v) AS total{extra} FROM {rows} GROUP BY ALL"
    )


_TUMBLED = (
    "SELECT window_start, window_end, k, COUNT(*) AS n, SUM(v) AS total "
    f"FROM TUMBLE(s, SIZE 10 SECONDS) {_S} GROUP BY window_start, window_end, k"
)

_COUNTS = "SELECT k, COUNT(*) AS n, SUM(w) AS total FROM u {} GROUP BY k"

_BY_TIME = "SELECT t, k, COUNT(*) AS n, SUM(w) AS total FROM u {} GROUP BY t, k"
_MOMENTS = f"SELECT TO_TIMESTAMP_LTZ(t, 3) AS m, k, n, total FROM ({_BY_TIME.format(_U)})"
_CHANGED = (
    f"SELECT window_time AS ended, k, SUM(n) AS n FROM TUMBLE(({_MOMENTS}), DESCRIPTOR(m), SIZE 10 SECONDS) "
    "GROUP BY window_start, window_end, window_time, k"
)

CHANGES = (
    _changelog(
        "view_group",
        "SELECT n, COUNT(*) AS groups, SUM(total) AS total FROM counts GROUP BY n",
        f"SELECT n, COUNT(*) AS groups, SUM(total) AS total FROM ({_COUNTS.format('')}) GROUP BY n",
        views=f"CREATE MATERIALIZED VIEW counts AS {_COUNTS.format(_U)};",
    ),
    _changelog(
        "view_of_view",
        "SELECT a.k AS k, b.k AS other, a.n AS n FROM large AS a JOIN large AS b ON a.n = b.n",
        "SELECT a.k AS k, b.k AS other, a.n FROM (SELECT k, COUNT(*) AS n FROM u GROUP BY k HAVING SUM(w) > 100) AS a "
        "JOIN (SELECT k, COUNT(*) AS n FROM u GROUP BY k HAVING SUM(w) > 100) AS b ON a.n = b.n",
        views=f"CREATE MATERIALIZED VIEW all_of_them AS {_COUNTS.format(_U)};"
        "CREATE MATERIALIZED VIEW large AS SELECT k, n FROM all_of_them WHERE total > 100;",
    ),
    _changelog(
        "u_group",
        f"SELECT k, {_COUNTED}, {_EVEN} FROM u {_U} GROUP BY k",
        f"SELECT k, {_COUNTED}, {_EVEN} FROM u GROUP BY k",
        exactly_once=True,
    ),
    _changelog(
        "u_having",
        f"SELECT k, SUM(w) AS total FROM u {_U} GROUP BY k HAVING COUNT(*) > 2",
        "SELECT k, SUM(w) AS total FROM u GROUP BY k HAVING COUNT(*) > 2",
    ),
    _changelog(
        "u_filter",
        f"SELECT id, w * 2 AS twice FROM u {_U} WHERE w % 3 <> 0",
        "SELECT id, w * 2 AS twice FROM u WHERE w % 3 <> 0",
    ),
    _changelog(
        "u_hop",
        f"SELECT window_start, window_end, k, SUM(n) AS n, MAX(total) AS most FROM HOP(({_MOMENTS}), DESCRIPTOR(m), SIZE 10 SECONDS, "
        "ADVANCE BY 4 SECONDS) GROUP BY window_start, window_end, k HAVING SUM(n) > 1",
        "SELECT b AS window_start, b + INTERVAL 10 SECOND AS window_end, k, SUM(n) AS n, MAX(total) AS most FROM (SELECT k, n, total, "
        f"make_timestamp(t * 1000) AS moment, {window(4)} - INTERVAL (4 * p) SECOND AS b FROM ({_BY_TIME.format('')}), "
        "range(3) AS panes(p)) WHERE moment < b + INTERVAL 10 SECOND GROUP BY ALL HAVING SUM(n) > 1",
    ),
    _changelog(
        "u_cumulate",
        "SELECT window_end, COUNT(*) AS groups, SUM(total) AS total FROM "
        f"CUMULATE(({_MOMENTS}), DESCRIPTOR(m), SIZE 20 SECONDS, STEP BY 5 SECONDS, OFFSET 5 SECONDS) GROUP BY window_start, window_end",
        "SELECT e AS window_end, COUNT(*) AS groups, SUM(total) AS total FROM (SELECT total, make_timestamp(t * 1000) AS moment, "
        "time_bucket(INTERVAL 20 SECOND, make_timestamp(t * 1000), INTERVAL 5 SECOND) + INTERVAL (5 * p) SECOND AS e "
        f"FROM ({_BY_TIME.format('')}), range(1, 5) AS steps(p)) WHERE moment < e GROUP BY ALL",
        exactly_once=True,
    ),
    _changelog(
        "u_windows_of_windows",
        f"SELECT window_start, window_end, SUM(n) AS n, COUNT(*) AS groups FROM TUMBLE(({_CHANGED}), DESCRIPTOR(ended), SIZE 30 SECONDS) "
        "GROUP BY window_start, window_end",
        f"SELECT {window(30)} AS window_start, {window(30)} + INTERVAL 30 SECOND AS window_end, COUNT(*) AS n, "
        f"COUNT(DISTINCT ({window(10)}, k)) AS groups FROM u GROUP BY ALL",
    ),
    _changelog("u_distinct", f"SELECT DISTINCT k, w FROM u {_U}", "SELECT DISTINCT k, w FROM u"),
    _changelog(
        "u_nested",
        f"SELECT n, COUNT(*) AS groups, SUM(m) AS most FROM (SELECT k, COUNT(*) AS n, MAX(w) AS m FROM u {_U} GROUP BY k) GROUP BY n",
        "SELECT n, COUNT(*) AS groups, SUM(m) AS most FROM (SELECT k, COUNT(*) AS n, MAX(w) AS m FROM u GROUP BY k) GROUP BY n",
    ),
    _changelog(
        "s_nested",
        f"SELECT n, COUNT(*) AS groups FROM (SELECT k, v, COUNT(*) AS n FROM s {_S} WHERE {_REAL} GROUP BY k, v) GROUP BY n",
        "SELECT n, COUNT(*) AS groups FROM (SELECT k, v, COUNT(*) AS n FROM s GROUP BY k, v) GROUP BY n",
    ),
    _changelog(
        "u_union",
        f"SELECT k FROM u {_U} WHERE k IS NOT NULL UNION SELECT k FROM s {_S} WHERE {_REAL} AND v < 20",
        "SELECT k FROM u WHERE k IS NOT NULL UNION SELECT k FROM s WHERE v < 20",
    ),
    _changelog(
        "u_union_all",
        f"SELECT k, COUNT(*) AS n FROM (SELECT k FROM u {_U} UNION ALL SELECT k FROM x {_U} "
        f"UNION ALL SELECT k FROM s {_S} WHERE {_REAL}) GROUP BY k",
        "SELECT k, COUNT(*) AS n FROM (SELECT k FROM u UNION ALL SELECT k FROM x UNION ALL SELECT k FROM s) GROUP BY k",
    ),
    _changelog(
        "u_union_keys",
        f"SELECT id, COUNT(*) AS n FROM (SELECT id FROM u {_U} UNION ALL SELECT k AS id FROM c {_U}) WHERE id <> '{END_KEY}' GROUP BY id",
        "SELECT id, COUNT(*) AS n FROM (SELECT id FROM u UNION ALL SELECT DISTINCT k AS id FROM c) GROUP BY id",
    ),
    _changelog(
        "u_last_of_each",
        f"SELECT k, id, w FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY w DESC, id) AS rn FROM u {_U}) WHERE rn = 1",
        "SELECT k, id, w FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY w DESC NULLS LAST, id) AS rn FROM u) WHERE rn = 1",
    ),
    _changelog(
        "u_first_three",
        f"SELECT k, rn, id, w FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY w, id) AS rn FROM u {_U}) WHERE rn <= 3",
        "SELECT k, rn, id, w FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY w NULLS FIRST, id) AS rn FROM u) WHERE rn <= 3",
    ),
    _changelog(
        "u_among_first_two",
        f"SELECT id, w FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY w DESC, id) AS rn FROM u {_U}) WHERE rn <= 2",
        "SELECT id, w FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY w DESC NULLS LAST, id) AS rn FROM u) WHERE rn <= 2",
    ),
    _changelog(
        "u_first_ranks",
        f"SELECT id, rn, k, w FROM (SELECT *, RANK() OVER (PARTITION BY k ORDER BY w DESC) AS rn FROM u {_U}) WHERE rn <= 3",
        "SELECT id, rn, k, w FROM (SELECT *, RANK() OVER (PARTITION BY k ORDER BY w DESC NULLS LAST) AS rn FROM u) WHERE rn <= 3",
    ),
    _changelog(
        "u_dense_ranks",
        f"SELECT id, w FROM (SELECT *, DENSE_RANK() OVER (ORDER BY w % 7) AS rn FROM u {_U}) WHERE rn BETWEEN 2 AND 3",
        "SELECT id, w FROM (SELECT *, DENSE_RANK() OVER (ORDER BY w % 7 NULLS FIRST) AS rn FROM u) WHERE rn BETWEEN 2 AND 3",
    ),
    _changelog(
        "s_first_ranks",
        f"SELECT rn, COUNT(*) AS n, COUNT(DISTINCT v) AS m FROM (SELECT *, DENSE_RANK() OVER (PARTITION BY k ORDER BY v DESC) AS rn "
        f"FROM s {_S} WHERE {_REAL}) WHERE rn <= 4 GROUP BY rn",
        "SELECT rn, COUNT(*) AS n, COUNT(DISTINCT v) AS m FROM (SELECT *, DENSE_RANK() OVER "
        "(PARTITION BY k ORDER BY v DESC NULLS LAST) AS rn FROM s) WHERE rn <= 4 GROUP BY rn",
    ),
    _changelog(
        "s_first_of_each",
        f"SELECT k, t, d FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY t, d) AS rn FROM s {_S} WHERE {_REAL}) WHERE rn = 1",
        "SELECT k, t, d FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY t, d) AS rn FROM s) WHERE rn = 1",
    ),
    _changelog(
        "s_last_of_each",
        f"SELECT k, t, d FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY t DESC, d) AS rn "
        f"FROM s {_S} WHERE {_REAL}) WHERE rn = 1",
        "SELECT k, t, d FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY t DESC, d) AS rn FROM s) WHERE rn = 1",
        exactly_once=True,
    ),
)

JOINS = (
    Template(
        "view_temporal",
        f"SELECT s.k AS k, s.v AS v, s.t AS t, e.twice AS twice FROM s {_S} JOIN even AS e ON s.k = e.k WHERE s.{_REAL}",
        "SELECT s.k, s.v, s.t, c.w * 2 AS twice FROM s ASOF JOIN c ON s.k = c.k AND s.t >= c.t WHERE c.w % 2 = 0",
        exactly_once=True,
        views=f"CREATE MATERIALIZED VIEW even AS SELECT k, w * 2 AS twice FROM c {_S} WHERE w % 2 = 0;",
    ),
    _changelog(
        "view_join",
        f"SELECT x.id AS id, p.n AS n, p.total AS total FROM x {_U} LEFT JOIN per_k AS p ON x.k = p.k",
        f"SELECT x.id, p.n, p.total FROM x LEFT JOIN ({_COUNTS.format('')}) AS p ON x.k = p.k",
        views=f"CREATE MATERIALIZED VIEW per_k AS {_COUNTS.format(_U)};",
    ),
    *(
        _changelog(
            f"u_{how.lower()}_join",
            f"SELECT u.id AS ui, x.id AS xi, u.w AS uw, x.w AS xw FROM u {_U} {how} JOIN x {_U} ON u.k = x.k AND u.w < x.w",
            f"SELECT u.id AS ui, x.id AS xi, u.w AS uw, x.w AS xw FROM u {how} JOIN x ON u.k = x.k AND u.w < x.w",
        )
        for how in ("INNER", "LEFT", "RIGHT", "FULL")
    ),
    _changelog(
        "u_join_by_key",
        f"SELECT u.id, u.k, x.k AS xk FROM u {_U} LEFT JOIN x {_U} ON u.id = x.id",
        "SELECT u.id, u.k, x.k AS xk FROM u LEFT JOIN x ON u.id = x.id",
        exactly_once=True,
    ),
    _changelog(
        "u_join_grouped",
        f"SELECT u.k, COUNT(*) AS n, SUM(x.w) AS total FROM u {_U}, x {_U} WHERE u.k = x.k GROUP BY u.k",
        "SELECT u.k, COUNT(*) AS n, SUM(x.w) AS total FROM u, x WHERE u.k = x.k GROUP BY u.k",
    ),
    _changelog(
        "u_in",
        f"SELECT id, k FROM u {_U} WHERE k IN (SELECT k FROM x {_U} WHERE w > 10)",
        "SELECT id, k FROM u WHERE k IN (SELECT k FROM x WHERE w > 10)",
    ),
    _changelog(
        "u_not_exists",
        f"SELECT id, k FROM u {_U} WHERE NOT EXISTS (SELECT 1 FROM x {_U} WHERE x.k = u.k AND x.w > 15)",
        "SELECT id, k FROM u WHERE NOT EXISTS (SELECT 1 FROM x WHERE x.k = u.k AND x.w > 15)",
    ),
    _changelog(
        "u_join_groups",
        f"SELECT u.id, g.n FROM u {_U} JOIN (SELECT k, COUNT(*) AS n FROM x {_U} GROUP BY k) g ON u.k = g.k",
        "SELECT u.id, g.n FROM u JOIN (SELECT k, COUNT(*) AS n FROM x GROUP BY k) g ON u.k = g.k",
    ),
    Template(
        "regular",
        f"SELECT a.t AS at, b.t AS bt, a.k FROM s a {_S} JOIN r b {_S} ON a.k = b.k AND a.v = b.v WHERE a.{_REAL} "
        "QUERY WITH ('state.ttl.millis' = 86400000)",
        "SELECT a.t AS at, b.t AS bt, a.k FROM s a JOIN r b ON a.k = b.k AND a.v = b.v",
    ),
    *(
        Template(
            f"interval_{how.lower()}",
            f"SELECT a.k AS ak, a.t AS at, b.k AS bk, b.t AS bt FROM s a {_S} {how} JOIN r b {_S} WITHIN 2 SECONDS ON a.k = b.k "
            f"WHERE COALESCE(a.k, b.k) <> '{END_KEY}'",
            f"SELECT a.k AS ak, a.t AS at, b.k AS bk, b.t AS bt FROM s a {how} JOIN r b ON a.k = b.k AND abs(a.t - b.t) <= 2000",
        )
        for how in ("LEFT", "RIGHT", "FULL")
    ),
    Template(
        "interval_twice",
        f"SELECT a.k AS k, a.t AS at, b.t AS bt, c.t AS ct FROM s a {_S} JOIN r b {_S} WITHIN 1 SECOND ON a.k = b.k "
        f"JOIN s c {_S} WITHIN 1 SECOND ON a.k = c.k WHERE a.{_REAL} AND a.v > c.v",
        "SELECT a.k, a.t AS at, b.t AS bt, c.t AS ct FROM s a JOIN r b ON a.k = b.k AND abs(a.t - b.t) <= 1000 "
        "JOIN s c ON a.k = c.k AND abs(greatest(a.t, b.t) - c.t) <= 1000 WHERE a.v > c.v",
    ),
    Template(
        "interval_then_temporal",
        f"SELECT a.k AS k, a.t AS at, b.t AS bt, c.w AS w FROM s a {_S} JOIN r b {_S} WITHIN 1 SECOND ON a.k = b.k "
        f"LEFT JOIN c {_S} ON c.k = a.k WHERE a.{_REAL}",
        "SELECT j.k, j.at, j.bt, c.w FROM (SELECT a.k AS k, a.t AS at, b.t AS bt, greatest(a.t, b.t) AS t "
        "FROM s a JOIN r b ON a.k = b.k AND abs(a.t - b.t) <= 1000) j ASOF LEFT JOIN c ON j.k = c.k AND j.t >= c.t",
    ),
)

WINDOWS = (
    _changelog(
        "hop",
        "SELECT window_start, window_end, k, COUNT(*) AS n FROM HOP(s, SIZE 10 SECONDS, ADVANCE BY 5 SECONDS) "
        f"{_S} GROUP BY window_start, window_end, k HAVING COUNT(*) > 1",
        "SELECT b AS window_start, b + INTERVAL 10 SECOND AS window_end, k, COUNT(*) AS n FROM "
        f"(SELECT k, {window(5)} - INTERVAL (5 * p) SECOND AS b FROM s, range(2) AS panes(p)) GROUP BY ALL HAVING COUNT(*) > 1",
    ),
    _changelog(
        "cumulate",
        "SELECT window_start, window_end, COUNT(*) AS n, SUM(v) AS total FROM CUMULATE(s, SIZE 20 SECONDS, STEP BY 5 SECONDS) "
        f"{_S} GROUP BY window_start, window_end",
        f"SELECT b AS window_start, e AS window_end, COUNT(*) AS n, SUM(v) AS total FROM (SELECT v, {window(20)} AS b, "
        f"{window(20)} + INTERVAL (5 * p) SECOND AS e, make_timestamp(t * 1000) AS moment "
        "FROM s, range(1, 5) AS steps(p)) WHERE moment < e GROUP BY ALL",
    ),
    Template(
        "session_rows",
        f"SELECT window_start, window_end, k, v, d FROM SESSION(s PARTITION BY k, GAP 3 SECONDS) {_S}",
        "SELECT make_timestamp(min(t) OVER w * 1000) AS window_start, make_timestamp(max(t) OVER w * 1000) + INTERVAL 3 SECOND AS "
        "window_end, k, v, d FROM (SELECT *, sum(CASE WHEN gap > 3000 THEN 1 ELSE 0 END) OVER (PARTITION BY k ORDER BY t, d, v) AS part "
        "FROM (SELECT *, t - lag(t, 1, t) OVER (PARTITION BY k ORDER BY t, d, v) AS gap FROM s)) WINDOW w AS (PARTITION BY k, part)",
    ),
    _changelog(
        "session",
        f"SELECT window_start, window_end, k, COUNT(*) AS n FROM SESSION(s, GAP 3 SECONDS) {_S} GROUP BY window_start, window_end, k",
        "SELECT make_timestamp(min(t) * 1000) AS window_start, make_timestamp(max(t) * 1000) + INTERVAL 3 SECOND AS window_end, k, "
        "COUNT(*) AS n FROM (SELECT *, sum(CASE WHEN gap > 3000 THEN 1 ELSE 0 END) OVER (PARTITION BY k ORDER BY t, d, v) AS part FROM "
        "(SELECT *, t - lag(t, 1, t) OVER (PARTITION BY k ORDER BY t, d, v) AS gap FROM s)) GROUP BY k, part",
    ),
    _changelog(
        "session_of_all",
        f"SELECT window_start, window_end, COUNT(*) AS n, MAX(v) AS most FROM SESSION(s, GAP 400 MILLISECONDS) {_S} "
        "GROUP BY window_start, window_end",
        "SELECT make_timestamp(min(t) * 1000) AS window_start, make_timestamp(max(t) * 1000) + INTERVAL 400 MILLISECOND AS window_end, "
        "COUNT(*) AS n, MAX(v) AS most FROM (SELECT *, sum(CASE WHEN gap > 400 THEN 1 ELSE 0 END) OVER (ORDER BY t, d, v) AS part FROM "
        "(SELECT *, t - lag(t, 1, t) OVER (ORDER BY t, d, v) AS gap FROM s)) GROUP BY part",
    ),
    _changelog(
        "window_again",
        f"SELECT window_start, window_end, MAX(n) AS most, COUNT(*) AS groups FROM ({_TUMBLED}) GROUP BY window_start, window_end",
        f"SELECT window_start, window_end, MAX(n) AS most, COUNT(*) AS groups FROM ({_windowed(10)}) GROUP BY ALL",
    ),
    _changelog(
        "window_of_windows",
        "SELECT window_start, window_end, SUM(n) AS n, MAX(total) AS most FROM "
        f"TUMBLE((SELECT k, n, total FROM ({_TUMBLED})), SIZE 30 SECONDS) GROUP BY window_start, window_end",
        "SELECT time_bucket(INTERVAL 30 SECOND, window_start) AS window_start, time_bucket(INTERVAL 30 SECOND, window_start) + "
        f"INTERVAL 30 SECOND AS window_end, SUM(n) AS n, MAX(total) AS most FROM ({_windowed(10)}) GROUP BY ALL",
    ),
    _changelog(
        "window_top",
        "SELECT window_start, window_end, k, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end "
        f"ORDER BY n DESC, k) AS rn FROM ({_TUMBLED})) WHERE rn <= 2",
        "SELECT window_start, window_end, k, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end "
        f"ORDER BY n DESC, k) AS rn FROM ({_windowed(10)})) WHERE rn <= 2",
        exactly_once=True,
    ),
    _changelog(
        "window_ranks",
        "SELECT window_start, window_end, k, n, rn FROM (SELECT *, RANK() OVER (PARTITION BY window_start, window_end "
        f"ORDER BY n) AS rn FROM ({_TUMBLED})) WHERE rn <= 2",
        "SELECT window_start, window_end, k, n, rn FROM (SELECT *, RANK() OVER (PARTITION BY window_start, window_end "
        f"ORDER BY n NULLS FIRST) AS rn FROM ({_windowed(10)})) WHERE rn <= 2",
    ),
    _changelog(
        "window_first",
        "SELECT window_start, window_end, k, t, d FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k "
        f"ORDER BY t, d) AS rn FROM TUMBLE(s, SIZE 10 SECONDS) {_S}) WHERE rn = 1",
        f"SELECT b AS window_start, b + INTERVAL 10 SECOND AS window_end, k, t, d FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY b, k "
        f"ORDER BY t, d) AS rn FROM (SELECT *, {window(10)} AS b FROM s)) WHERE rn = 1",
    ),
    _changelog(
        "window_join",
        f"SELECT a.window_start AS window_start, a.window_end AS window_end, a.k, a.n, b.m FROM ({_TUMBLED}) a JOIN "
        f"(SELECT window_start, window_end, k, COUNT(*) AS m FROM TUMBLE(r, SIZE 10 SECONDS) {_S} GROUP BY window_start, window_end, k) b "
        "ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.k = b.k",
        f"SELECT a.window_start, a.window_end, a.k, a.n, b.n AS m FROM ({_windowed(10)}) a JOIN ({_windowed(10, 'r')}) b "
        "ON a.window_start = b.window_start AND a.k = b.k",
    ),
    Template(
        "window_max_join",
        "SELECT a.window_start AS window_start, m.window_end AS window_end, a.k, a.v, a.d, a.t, m.most FROM "
        f"TUMBLE(s, SIZE 10 SECONDS) AS a {_S} JOIN (SELECT MAX(v) AS most, window_start, window_end FROM TUMBLE(s, SIZE 10 SECONDS) {_S} "
        "GROUP BY window_start, window_end) AS m ON a.window_start = m.window_start AND a.window_end = m.window_end AND a.v = m.most",
        "SELECT b AS window_start, b + INTERVAL 10 SECOND AS window_end, k, v, d, t, most FROM "
        f"(SELECT *, {window(10)} AS b FROM s) JOIN (SELECT {window(10)} AS c, MAX(v) AS most FROM s GROUP BY ALL) ON b = c AND v = most",
        exactly_once=True,
    ),
    Template(
        "window_min_join",
        "SELECT m.window_start AS window_start, m.window_end AS window_end, a.k, a.n, m.least FROM "
        "(SELECT MIN(n) AS least, window_start, window_end FROM (SELECT k, COUNT(*) AS n, window_start, window_end FROM "
        f"HOP(s, SIZE 20 SECONDS, ADVANCE BY 10 SECONDS) {_S} GROUP BY k, window_start, window_end) GROUP BY window_start, window_end) "
        "AS m JOIN (SELECT window_start, window_end, k, COUNT(*) AS n FROM "
        f"HOP(s, SIZE 20 SECONDS, ADVANCE BY 10 SECONDS) {_S} GROUP BY window_start, window_end, k) AS a "
        "ON a.window_start = m.window_start AND a.window_end = m.window_end AND a.n <= m.least WHERE a.k <> 'k1'",
        "WITH hops AS (SELECT w, k, COUNT(*) AS n FROM "
        f"(SELECT k, {window(10)} - INTERVAL 10 SECOND AS w FROM s UNION ALL SELECT k, {window(10)} AS w FROM s) GROUP BY ALL) "
        "SELECT a.w AS window_start, a.w + INTERVAL 20 SECOND AS window_end, k, n, least FROM hops AS a "
        "JOIN (SELECT w, MIN(n) AS least FROM hops GROUP BY ALL) AS m ON a.w = m.w AND n <= least WHERE k <> 'k1'",
        exactly_once=True,
    ),
    _changelog(
        "window_of_max_join",
        "SELECT window_start, window_end, COUNT(*) AS n, SUM(most) AS total FROM TUMBLE((SELECT a.k, m.most FROM "
        f"({_TUMBLED}) AS a JOIN (SELECT window_end, window_start, MAX(n) AS most FROM ({_TUMBLED}) GROUP BY window_start, window_end) "
        "AS m ON a.window_start = m.window_start AND a.window_end = m.window_end AND a.n = m.most), SIZE 30 SECONDS) "
        "GROUP BY window_start, window_end",
        "SELECT time_bucket(INTERVAL 30 SECOND, a.window_start) AS window_start, time_bucket(INTERVAL 30 SECOND, a.window_start) + "
        f"INTERVAL 30 SECOND AS window_end, COUNT(*) AS n, SUM(most) AS total FROM ({_windowed(10)}) AS a JOIN "
        f"(SELECT window_start, MAX(n) AS most FROM ({_windowed(10)}) GROUP BY ALL) AS m ON a.window_start = m.window_start AND n = most "
        "GROUP BY ALL",
    ),
    _changelog(
        "window_of_join",
        "SELECT window_start, window_end, COUNT(*) AS n FROM TUMBLE((SELECT a.k, a.v FROM s a "
        f"{_S} LEFT JOIN r b {_S} WITHIN 1 SECOND ON a.k = b.k WHERE a.{_REAL}), SIZE 10 SECONDS) GROUP BY window_start, window_end",
        f"SELECT b AS window_start, b + INTERVAL 10 SECOND AS window_end, COUNT(*) AS n FROM (SELECT {window(10)} AS b FROM "
        "(SELECT greatest(a.t, coalesce(b.t, a.t)) AS t FROM s a LEFT JOIN r b ON a.k = b.k AND abs(a.t - b.t) <= 1000)) GROUP BY ALL",
    ),
)

_HASTY = (
    "WITH ('starting.position' = 'earliest', 'source.allow.latency.millis' = 300, "
    f"'source.late.rows.handling' = LOG, 'source.late.rows.log.topic' = '{LATE_TOPIC}')"
)
_BY_WINDOW = "SELECT window_start, window_end, k, COUNT(*) AS n, SUM(v) AS total FROM {} {} GROUP BY window_start, window_end, k"
_FOUND = (
    "SELECT (row->>'window_start')::TIMESTAMP AS window_start, (row->>'window_end')::TIMESTAMP AS window_end, "
    "row->>'k' AS k, (row->>'n')::BIGINT AS n, (row->>'total')::BIGINT AS total FROM result"
)
_PER_KEY = "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM"
_ADDED = "SUM(n)::BIGINT AS n, SUM(total)::BIGINT AS total"

LATE = (
    _changelog(
        "late_tumble",
        _BY_WINDOW.format("TUMBLE(s, SIZE 2 SECONDS)", _HASTY),
        _windowed(2),
        streaming=f"SELECT window_start, window_end, k, {_ADDED} FROM ({_FOUND} UNION ALL {_windowed(2, 'late')}) GROUP BY ALL",
        exactly_once=True,
    ),
    _changelog(
        "late_cumulate",
        _BY_WINDOW.format("CUMULATE(s, SIZE 6 SECONDS, STEP BY 2 SECONDS)", _HASTY),
        _windowed(6),
        streaming=f"SELECT window_start, window_end, k, {_ADDED} FROM (SELECT * FROM ({_FOUND}) "
        f"WHERE window_end = window_start + INTERVAL 6 SECOND UNION ALL {_windowed(6, 'late')}) GROUP BY ALL",
    ),
    _changelog(
        "late_session",
        _BY_WINDOW.format("SESSION(s, GAP 1 SECOND)", _HASTY),
        f"{_PER_KEY} s GROUP BY k",
        streaming=f"SELECT k, {_ADDED} FROM (SELECT k, n, total FROM ({_FOUND}) UNION ALL {_PER_KEY} late GROUP BY k) GROUP BY k",
    ),
)
"""Rows come later than these queries wait: what is in a window and what is kept as late are together what a window should have."""

_ARRIVED = "WITH ('starting.position' = 'earliest', 'source.time' = ARRIVAL)"
ARRIVAL = tuple(
    _changelog(
        name,
        _BY_WINDOW.format(windows, _ARRIVED),
        f"SELECT k, {panes} * COUNT(*) AS n, {panes} * SUM(v) AS total FROM s GROUP BY k",
        streaming=f"SELECT k, {_ADDED} FROM ({_FOUND}) WHERE k <> '{END_KEY}' GROUP BY k",
    )
    for name, windows, panes in (
        ("arrival_tumble", "TUMBLE(s, SIZE 2 SECONDS)", 1),
        ("arrival_hop", "HOP(s, SIZE 4 SECONDS, ADVANCE BY 2 SECONDS)", 2),
        ("arrival_session", "SESSION(s, GAP 1 SECOND)", 1),
    )
)
"""When a row came is not to be foreseen, but it counts once in each pane, whatever dies."""

_IN_ORDER = "PARTITION BY k ORDER BY t, d, v"
_NUMBERED = f"(SELECT *, ROW_NUMBER() OVER ({_IN_ORDER} NULLS FIRST) AS place FROM s)"
_PAIRS = (
    "(SELECT k, t AS t1, v AS v1, t2, v2, t2 AS t FROM (SELECT *, LEAD(t) OVER next AS t2, LEAD(v) OVER next AS v2 "
    f"FROM s WINDOW next AS ({_IN_ORDER} NULLS FIRST)) WHERE v2 > v)"
)


def _matches(clauses: str, where: str = "") -> str:
    return (
        f"(SELECT k, v, d, t FROM s {_S} WHERE {_REAL}{where}) MATCH_RECOGNIZE ({_IN_ORDER} {clauses}) AS m"
    )


_PAIR = _matches("MEASURES a.t AS t1, a.v AS v1, b.t AS t2, b.v AS v2 PATTERN (a b) DEFINE b AS b.v > a.v")
PATTERNS = (
    Template(
        "match_pair", f"SELECT * FROM {_PAIR}", f"SELECT k, t1, v1, t2, v2 FROM {_PAIRS}", exactly_once=True
    ),
    Template(
        "match_within",
        "SELECT * FROM "
        + _matches(
            "MEASURES a.t AS t1, b.v AS v2, c.t AS t3 PATTERN (a b c) WITHIN 5 SECONDS DEFINE b AS b.v <> a.v, c AS v > 50"
        ),
        "SELECT k, t AS t1, v2, t3 FROM (SELECT *, LEAD(v) OVER next AS v2, LEAD(v, 2) OVER next AS v3, LEAD(t, 2) OVER next AS t3 "
        f"FROM s WINDOW next AS ({_IN_ORDER} NULLS FIRST)) WHERE v2 <> v AND v3 > 50 AND t3 - t < 5000",
    ),
    Template(
        "match_loop",
        "SELECT * FROM "
        + _matches(
            "MEASURES a.t AS t1, c.t AS t3, COUNT(b.v) AS n, SUM(b.v) AS total PATTERN (a b+ c) "
            "DEFINE a AS v < 50, b AS v >= 50, c AS v < 50",
            " AND v IS NOT NULL",
        ),
        "SELECT k, t AS t1, t3, c_place - place - 1 AS n, CAST(c_sum - c_v - total AS BIGINT) AS total FROM "
        "(SELECT *, LEAD(t) OVER low AS t3, LEAD(place) OVER low AS c_place, LEAD(total) OVER low AS c_sum, LEAD(v) OVER low AS c_v "
        f"FROM (SELECT *, ROW_NUMBER() OVER ({_IN_ORDER}) AS place, SUM(v) OVER ({_IN_ORDER} ROWS UNBOUNDED PRECEDING) AS total "
        "FROM s WHERE v IS NOT NULL) WHERE v < 50 WINDOW low AS (PARTITION BY k ORDER BY place)) WHERE c_place - place > 1",
        exactly_once=True,
    ),
    Template(
        "match_apart",
        "SELECT * FROM "
        + _matches("MEASURES a.t AS t1, LAST(b.t) AS t2 AFTER MATCH SKIP PAST LAST ROW PATTERN (a b{2})"),
        f"SELECT k, t AS t1, t2 FROM (SELECT *, LEAD(t, 2) OVER (PARTITION BY k ORDER BY place) AS t2 FROM {_NUMBERED}) "
        "WHERE place % 3 = 1 AND t2 IS NOT NULL",
    ),
    Template(
        "match_reluctant",
        "SELECT * FROM "
        + _matches(
            "MEASURES a.t AS t1, COUNT(b.t) AS n, c.t AS t3 PATTERN (a b*? c) DEFINE a AS v < 30, c AS v > 70"
        ),
        "SELECT x.k, x.t AS t1, c_place - x.place - 1 AS n, y.t AS t3 FROM (SELECT *, MIN(CASE WHEN v > 70 THEN place END) OVER "
        f"(PARTITION BY k ORDER BY place ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS c_place FROM {_NUMBERED}) x "
        f"JOIN {_NUMBERED} y ON x.k = y.k AND y.place = c_place WHERE x.v < 30",
    ),
    Template(
        "match_before",
        "SELECT * FROM "
        + _matches("MEASURES a.t AS t1, PREV(a.v) AS before PATTERN (a) DEFINE a AS a.v > PREV(a.v)"),
        f"SELECT k, t AS t1, before FROM (SELECT *, LAG(v) OVER ({_IN_ORDER} NULLS FIRST) AS before FROM s) WHERE v > before",
    ),
    _changelog(
        "match_window",
        f"SELECT window_start, window_end, k, COUNT(*) AS n, MAX(v2) AS most FROM TUMBLE((SELECT * FROM {_PAIR}), SIZE 10 SECONDS) "
        "GROUP BY window_start, window_end, k",
        f"SELECT {window(10)} AS window_start, {window(10)} + INTERVAL 10 SECOND AS window_end, k, COUNT(*) AS n, MAX(v2) AS most "
        f"FROM {_PAIRS} GROUP BY ALL",
    ),
    Template(
        "match_temporal",
        f"SELECT m.k AS k, m.t2 AS t2, m.v2 AS v2, c.w AS w FROM {_PAIR} JOIN c {_S} ON m.k = c.k",
        f"SELECT m.k, m.t2, m.v2, c.w FROM {_PAIRS} m ASOF JOIN c ON m.k = c.k AND m.t >= c.t",
        exactly_once=True,
    ),
)

_OVER_TIME = (
    "SELECT k, v, t, SUM(v) OVER k3 AS total, COUNT(*) OVER k3 AS n, COUNT(v) OVER k3 AS known, MIN(v) OVER k3 AS least, "
    "MAX(v) OVER k3 AS most, AVG(v) OVER k3 AS mean, SUM(v) OVER k0 AS so_far, MAX(d) OVER k0 AS highest FROM s"
)
_OVER_ROWS = (
    "SELECT k, t, SUM(t) OVER k3 AS total, MIN(t) OVER k3 AS least, FIRST_VALUE(t) OVER k3 AS first, LAST_VALUE(t) OVER k0 AS last, "
    "COUNT(*) OVER k3 AS n, LAG(t, 2, 0) OVER (PARTITION BY k ORDER BY t) AS before, ROW_NUMBER() OVER (PARTITION BY k ORDER BY t) "
    "AS place FROM s"
)
_OVER_ALL = (
    "SELECT k, t, SUM(v) OVER (ORDER BY t) AS total, COUNT(*) OVER (PARTITION BY k ORDER BY t) AS n FROM s"
)
_OVER_WINDOWS = (
    "SELECT k, n, SUM(n) OVER (PARTITION BY k ORDER BY {time} ROWS 2 PRECEDING) AS last_three, n - LAG(n) OVER (PARTITION BY k ORDER BY "
    "{time}) AS more FROM ({windows})"
)


def _framed(query: str, unit: str, preceding: int, rows: str = "") -> str:
    """Return a query with its windows `k3`, from so many rows or milliseconds before, and `k0`, from the first row."""
    frames = {"k3": f"{preceding} PRECEDING", "k0": "UNBOUNDED PRECEDING"}
    for name, start in frames.items():
        query = query.replace(f"OVER {name} ", f"OVER (PARTITION BY k ORDER BY t {unit} {start}) ")
    return query + rows


_STREAMED = f" {_S} WHERE {_REAL}"
OVER = (
    Template(
        "over_range",
        _framed(_OVER_TIME, "RANGE", 3000, _STREAMED),
        _framed(_OVER_TIME, "RANGE", 3000),
        exactly_once=True,
    ),
    Template(
        "over_long_range",
        _framed(_OVER_TIME, "RANGE", 60_000, _STREAMED),
        _framed(_OVER_TIME, "RANGE", 60_000),
    ),
    # Which of two rows of one time comes first is open, so results by rows are of nothing but the time.
    Template("over_rows", _framed(_OVER_ROWS, "ROWS", 3, _STREAMED), _framed(_OVER_ROWS, "ROWS", 3)),
    Template(
        "over_many_rows",
        _framed(_OVER_ROWS, "ROWS", 40, _STREAMED) + " QUERY WITH ('state.ttl.millis' = 86400000)",
        _framed(_OVER_ROWS, "ROWS", 40),
        exactly_once=True,
    ),
    Template(
        "in_order",
        f"SELECT k, v, t FROM s {_S} WHERE {_REAL} ORDER BY t",
        "SELECT k, v, t FROM s",
        exactly_once=True,
    ),
    Template("over_two_partitions", _OVER_ALL + _STREAMED, _OVER_ALL),
    Template(
        "over_filtered",
        f"SELECT k, v, t FROM (SELECT k, v, t, AVG(v) OVER (PARTITION BY k ORDER BY t) AS mean FROM s {_S}) WHERE v > mean AND {_REAL}",
        "SELECT k, v, t FROM (SELECT k, v, t, AVG(v) OVER (PARTITION BY k ORDER BY t) AS mean FROM s) WHERE v > mean",
    ),
    _changelog(
        "over_then_window",
        "SELECT window_start, window_end, k, MAX(total) AS most FROM TUMBLE((SELECT k, SUM(v) OVER (PARTITION BY k ORDER BY t) AS total "
        f"FROM s {_STREAMED}), SIZE 10 SECONDS) GROUP BY window_start, window_end, k",
        f"SELECT {window(10)} AS window_start, {window(10)} + INTERVAL 10 SECOND AS window_end, k, MAX(total) AS most FROM "
        "(SELECT k, t, SUM(v) OVER (PARTITION BY k ORDER BY t) AS total FROM s) GROUP BY ALL",
    ),
    Template(
        "over_of_windows",
        _OVER_WINDOWS.format(
            time="window_time",
            windows="SELECT window_start, window_end, window_time, k, COUNT(*) AS n "
            f"FROM TUMBLE(s, SIZE 10 SECONDS) {_STREAMED} GROUP BY window_start, window_end, window_time, k",
        ),
        _OVER_WINDOWS.format(time="window_start", windows=_windowed(10)),
    ),
    Template(
        "over_late",
        f"SELECT k, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY t) AS n FROM s {_HASTY} WHERE {_REAL}",
        f"{_PER_KEY} s GROUP BY k",
        streaming="SELECT k, COUNT(*) AS n, SUM(v)::BIGINT AS total FROM (SELECT row->>'k' AS k, (row->>'v')::BIGINT AS v FROM result "
        "UNION ALL SELECT k, v FROM late) GROUP BY k",
    ),
)

GROUPS = {
    "changes": (*CHANGES, *forms.CHANGES, *forms.GROUPS),
    "joins": (*JOINS, *forms.JOINS),
    "windows": (*WINDOWS, *LATE, *ARRIVAL, *forms.WINDOWS),
    "patterns": (*PATTERNS, *OVER),
}
