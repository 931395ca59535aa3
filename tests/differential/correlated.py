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
        "lateral_union",
        "SELECT x.owner, y.r, COUNT(*) AS n FROM (SELECT DISTINCT owner FROM o) AS x, LATERAL (SELECT DISTINCT COALESCE(amount, 0) % 3 AS "
        "r FROM a WHERE owner = x.owner UNION ALL SELECT COALESCE(amount, 0) % 5 FROM a WHERE owner = x.owner AND amount > 30) AS y "
        "GROUP BY x.owner, y.r",
        # Flink 2.3 fails to plan the statement as it is: "unexpected correlate variable".
        "SELECT x.owner, y.r, COUNT(*) AS n FROM (SELECT DISTINCT owner FROM o) AS x JOIN (SELECT DISTINCT owner, COALESCE(amount, 0) % 3 "
        "AS r FROM a UNION ALL SELECT owner, COALESCE(amount, 0) % 5 FROM a WHERE amount > 30) AS y ON y.owner = x.owner "
        "GROUP BY x.owner, y.r",
        key="owner, r",
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
        "having_value",
        "SELECT owner, SUM(amount) AS total FROM a GROUP BY owner HAVING SUM(amount) > (SELECT MAX(amount) * 2 FROM a)",
        key="owner",
    ),
    Case(
        "value_of_groups",
        "SELECT owner, COUNT(*) AS n, (SELECT COUNT(*) FROM o WHERE o.owner = a.owner) AS m FROM a GROUP BY owner",
        # Flink 2.3 fails to plan the statement as it is: it compares the count with the owner.
        "SELECT owner, n, (SELECT COUNT(*) FROM o WHERE o.owner = g.owner) AS m FROM (SELECT owner, COUNT(*) AS n FROM a "
        "GROUP BY owner) AS g",
        key="owner",
    ),
    Case(
        "exists_value",
        "SELECT id, EXISTS (SELECT 1 FROM o WHERE o.owner = a.owner AND o.region = 'r1') AS known FROM a",
        key="id",
    ),
    Case(
        "in_value",
        "SELECT id, amount NOT IN (SELECT CASE WHEN region = 'r2' THEN 40 END FROM o) AS other FROM a",
        key="id",
    ),
    Case(
        "in_case",
        "SELECT id, CASE WHEN owner IN (SELECT owner FROM o WHERE region = 'r1') THEN 'known' ELSE 'new' END AS kind FROM a",
        key="id",
    ),
    Case(
        "exists_on",
        "SELECT a.id, o.region FROM a JOIN o ON a.owner = o.owner AND EXISTS (SELECT 1 FROM a AS b WHERE "
        "b.owner = o.owner AND b.amount > 80)",
        # Flink 2.3 fails to plan the statement as it is: a NullPointerException.
        "SELECT a.id, o.region FROM a JOIN o ON a.owner = o.owner WHERE EXISTS (SELECT 1 FROM a AS b WHERE "
        "b.owner = o.owner AND b.amount > 80)",
        key="id",
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
