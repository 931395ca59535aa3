"""Spellings of the SQL standard, of Flink and of PostgreSQL whose meaning is that of a form of ours."""

from __future__ import annotations

import pytest

from headrace.core.errors import UserError
from headrace.sql import parse

SYNONYMS = [
    ("SELECT a::BIGINT, -a->b::INT::VARCHAR, (a + b)::DECIMAL(3, 1)[1] FROM t",
     "SELECT CAST(a AS BIGINT), -CAST(CAST(a->b AS INTEGER) AS VARCHAR), CAST((a + b) AS DECIMAL(3, 1))[1] FROM t"),
    ("SELECT a FROM t FETCH FIRST 3 ROWS ONLY", "SELECT a FROM t LIMIT 3"),
    ("SELECT a FROM t AS x ORDER BY a OFFSET 1 ROW FETCH NEXT ROW ONLY", "SELECT a FROM t AS x ORDER BY a LIMIT 1 OFFSET 1"),
    ("SELECT a FROM t WHERE a BETWEEN ASYMMETRIC 1 AND 2", "SELECT a FROM t WHERE a BETWEEN 1 AND 2"),
    ("SELECT INTERVAL '1 10:00:00' DAY TO SECOND FROM t", "SELECT INTERVAL '122400000' MILLISECOND FROM t"),
    ("SELECT INTERVAL -'1 10' DAYS TO HOURS FROM t", "SELECT INTERVAL '-122400000' MILLISECOND FROM t"),
    ("SELECT INTERVAL '-10:30:00.25' HOUR TO SECOND FROM t", "SELECT INTERVAL '-37800250' MILLISECOND FROM t"),
    ("SELECT INTERVAL '1.5' SECOND, INTERVAL -'-5' DAY FROM t", "SELECT INTERVAL '1500' MILLISECOND, INTERVAL '5' DAY FROM t"),
    ("SELECT TUMBLE_START(ts, INTERVAL '1' HOUR), TUMBLE_END(ts, INTERVAL '1' HOUR) AS e, k, COUNT(*) AS n FROM t AS x WITH ('a' = 'b') "
     "WHERE a > 1 GROUP BY k, TUMBLE(ts, INTERVAL '1' HOUR) HAVING MAX(TUMBLE_ROWTIME(ts, INTERVAL '1' HOUR)) > 1",
     "SELECT window_start, window_end AS e, k, COUNT(*) AS n FROM TUMBLE(t, DESCRIPTOR(ts), SIZE 1 HOUR) AS x WITH ('a' = 'b') "
     "WHERE a > 1 GROUP BY window_start, window_end, k HAVING MAX(window_time) > 1"),
    ("SELECT k, HOP_END(x.ts, INTERVAL '1' HOUR, INTERVAL '1' DAY) FROM (SELECT * FROM t) AS x GROUP BY "
     "HOP(x.ts, INTERVAL '1' HOUR, INTERVAL '1' DAY), k",
     "SELECT k, window_end FROM HOP((SELECT * FROM t), DESCRIPTOR(x.ts), SIZE 1 DAY, ADVANCE BY 1 HOUR) AS x "
     "GROUP BY window_start, window_end, k"),
    ("SELECT TUMBLE_ROWTIME(ts, INTERVAL '1' HOUR) AS e, COUNT(*) FROM t GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)",
     "SELECT window_time AS e, COUNT(*) FROM TUMBLE(t, DESCRIPTOR(ts), SIZE 1 HOUR) GROUP BY window_start, window_end, window_time"),
    ("SELECT a FROM t WHERE a = ANY (SELECT b FROM u) AND (a = SOME (SELECT b FROM u) OR a <> ALL (WITH w AS (SELECT 1) SELECT * FROM w))",
     "SELECT a FROM t WHERE a IN (SELECT b FROM u) AND (a IN (SELECT b FROM u) OR a NOT IN (WITH w AS (SELECT 1) SELECT * FROM w))"),
    ("SELECT a FROM s JOIN c FOR SYSTEM_TIME AS OF s.ts x WITH ('a' = 'b') ON s.k = x.k",
     "SELECT a FROM s JOIN c FOR SYSTEM_TIME AS OF s.ts AS x WITH ('a' = 'b') ON s.k = x.k"),
    ("SELECT k FROM TABLE(SESSION(TABLE t PARTITION BY (k, a), DESCRIPTOR(ts), INTERVAL '90' SECOND))",
     "SELECT k FROM SESSION(t PARTITION BY k, a, DESCRIPTOR(ts), GAP 90 SECONDS)"),
    ("SELECT k FROM SESSION(DATA => TABLE t PARTITION BY k, TIMECOL => DESCRIPTOR(ts), GAP => INTERVAL '90' SECOND)",
     "SELECT k FROM SESSION(t PARTITION BY k, DESCRIPTOR(ts), GAP 90 SECONDS)"),
    ("SELECT k FROM t GROUP BY SESSION(ts, INTERVAL '90' SECOND), k",
     "SELECT k FROM SESSION(t, DESCRIPTOR(ts), GAP 90 SECONDS) GROUP BY window_start, window_end, k"),
    ("SELECT a[1].b, (a).b.c, ROW(1, 'x').f0, a->b.c, a[1].* FROM t",
     "SELECT a[1]->b, (a)->b->c, ROW(1, 'x')->f0, a->b->c, a[1]->* FROM t"),
    ("INSERT INTO r (a, \"B\") SELECT x, y FROM t PARTITION BY a",
     "INSERT INTO r SELECT * FROM (SELECT x, y FROM t) AS written(a, \"B\") PARTITION BY a"),
    ("CREATE CHANGELOG c (a INT, CONSTRAINT pk PRIMARY KEY (a) NOT ENFORCED) WITH ('b' = 'c')",
     "CREATE CHANGELOG c (a INTEGER, PRIMARY KEY (a)) WITH ('b' = 'c')"),
    ("CREATE STREAM s (constraint DOUBLE PRECISION, b NUMERIC(4, 2), c DEC(3), d TIMESTAMP(3) WITHOUT TIME ZONE, e ROW(x INT, y STRING)) "
     "WITH ('b' = 'c')",
     "CREATE STREAM s (constraint DOUBLE, b DECIMAL(4, 2), c DECIMAL(3, 0), "
     "d TIMESTAMP(3), e STRUCT<x INTEGER, y VARCHAR>) WITH ('b' = 'c')"),
    ("EXPLAIN PLAN FOR SELECT a FROM t", "EXPLAIN SELECT a FROM t"),
]  # fmt: skip

REFUSED = [
    ("SELECT INTERVAL '1 25:00:00' DAY TO SECOND", "42601", "a time span such as '1 10:30:00.250' DAY TO SECOND"),
    ("SELECT INTERVAL '1' HOUR TO DAY", "42601", "a time span such as"),
    ("SELECT INTERVAL '1-2' YEAR TO MONTH", "42601", "a time span such as"),
    ("SELECT INTERVAL '1.5' DAY", "42601", "a whole number"),
    ("SELECT a[1].5 FROM t", "42601", "',', a clause or the end of the query"),
    ("CREATE CHANGELOG c (a INT, PRIMARY KEY (a) ENFORCED) WITH ('b' = 'c')", "42601", "',' or ')' after a column"),
    ("SELECT a FROM t FETCH FIRST 3", "42601", "ROWS ONLY"),
    ("SELECT a FROM t ORDER BY a FETCH FIRST 3 ROWS WITH TIES", "0A000", "WITH TIES"),
    ("SELECT 1 FROM s JOIN t ON a = b GROUP BY TUMBLE(ts, INTERVAL '1' DAY)", "0A000", "over one relation"),
    ("SELECT 1 FROM s GROUP BY TUMBLE(t, INTERVAL '1' DAY), TUMBLE(t, INTERVAL '1' HOUR)", "0A000", "supported once"),
    ("SELECT 1 FROM s GROUP BY TUMBLE(ts, INTERVAL '9999' DAY)", "53000", "3660 days"),
    ("SELECT a FROM t WHERE a > ALL (SELECT b FROM u)", "0A000", "is not supported yet"),
    ("SELECT a FROM t WHERE ANY (SELECT b FROM u) = a", "0A000", "is not supported yet"),
    ("show create table t", "42601", "SHOW CREATE is not a statement"),
    ("LIST CREATE TABLE t", "42601", "LIST CREATE is not a statement"),
    ("SHOW NOTHING", "42601", "after SHOW, found"),
    ("SHOW METRICS INTEGRATIONS", "0A000", "SHOW METRICS INTEGRATIONS"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "ours"), SYNONYMS)
def test_a_synonym_is_our_form(text: str, ours: str) -> None:
    [written], [canonical] = parse(text), parse(ours)
    assert written.sql() == ours
    assert canonical.sql() == ours


@pytest.mark.parametrize(("text", "state", "message"), REFUSED)
def test_what_is_no_synonym_is_refused(text: str, state: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(text)
    assert (caught.value.state.value, caught.value.span is None) == (state, False)
    assert message in str(caught.value)


def test_symmetric_stays_a_name() -> None:
    [statement] = parse("SELECT a FROM t WHERE a BETWEEN symmetric AND 2 AND b BETWEEN SYMMETRIC 3 AND 2")
    assert (
        statement.sql() == 'SELECT a FROM t WHERE a BETWEEN "symmetric" AND 2 AND b BETWEEN SYMMETRIC 3 AND 2'
    )
