"""Cases of subqueries that read the outer query, of NOT IN of several columns, and of INTERSECT ALL and EXCEPT ALL; see `cases`."""

from __future__ import annotations

from tests.differential.case import LIVE, Case

CORRELATED = (
    Case(
        "not_in_rows",
        "SELECT id, amount FROM a WHERE (owner, amount % 5) NOT IN (SELECT owner, CHAR_LENGTH(region) FROM o)",
        key="id",
        documented="Subqueries over changelogs",
    ),
    Case(
        "not_in_or",
        "SELECT id, amount FROM a WHERE amount > 80 OR owner NOT IN (SELECT owner FROM o WHERE region <> 'r1')",
        key="id",
    ),
    Case(
        "intersect_all",
        "SELECT owner, COUNT(*) AS n FROM (SELECT owner FROM a WHERE amount > 30 INTERSECT ALL SELECT owner FROM a WHERE amount < 70) AS x "
        "GROUP BY owner",
        key="owner",
    ),
    Case(
        "except_all",
        "SELECT owner, COUNT(*) AS n FROM (SELECT owner FROM a EXCEPT ALL SELECT owner FROM o) AS x GROUP BY owner",
        key="owner",
    ),
    Case(
        "lateral_top_n",
        "SELECT y.id, x.owner, y.amount FROM (SELECT DISTINCT owner FROM o) AS x, "
        "LATERAL (SELECT id, amount FROM a WHERE owner = x.owner ORDER BY amount DESC, id LIMIT 2) AS y",
        # Flink 2.3 fails to plan the statement as it is: "unexpected correlate variable".
        "SELECT y.id, x.owner, y.amount FROM (SELECT DISTINCT owner FROM o) AS x JOIN (SELECT id, owner, amount FROM ("
        "SELECT id, owner, amount, ROW_NUMBER() OVER (PARTITION BY owner ORDER BY amount DESC, id) AS n FROM a"
        ") WHERE n <= 2) AS y ON y.owner = x.owner",
        key="id",
    ),
    Case(
        "value_of_row",
        "SELECT id, amount FROM a WHERE amount = (SELECT MAX(b.amount) FROM a AS b WHERE b.owner = a.owner)",
        key="id",
    ),
    Case(
        "count_of_row",
        "SELECT o.owner, (SELECT COUNT(*) FROM a WHERE a.owner = o.owner AND a.amount > 40) AS n FROM o",
        key="owner",
    ),
    Case(
        "in_any",
        "SELECT id, amount FROM a WHERE owner = ANY (SELECT owner FROM o WHERE region = 'r2')",
        key="id",
    ),
    Case(
        "in_list_of_rows",
        f"SELECT n, k, v FROM s WHERE (g, v % 3) IN (('g1', 1), ('g2', 2)) AND {LIVE}",
    ),
    Case(
        "group_window_rowtime",
        f"SELECT TUMBLE_ROWTIME(t, INTERVAL '10' SECOND) AS last, TUMBLE_END(t, INTERVAL '10' SECOND) AS ended, k, "
        f"COUNT(*) AS n FROM s WHERE {LIVE} "
        "GROUP BY TUMBLE(t, INTERVAL '10' SECOND), k",
        f"SELECT CAST(TUMBLE_ROWTIME(ts, INTERVAL '10' SECOND) AS TIMESTAMP(3)) AS last, TUMBLE_END(ts, INTERVAL '10' SECOND) AS ended, k, "
        f"COUNT(*) AS n FROM s WHERE {LIVE} "
        "GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), k",
        key="ended, k",
    ),
)
