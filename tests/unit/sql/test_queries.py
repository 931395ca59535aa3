"""Queries: the shapes of real pipelines, and the tree that they read to."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from headrace.core.types import DataType, parse_type
from headrace.sql import parse
from headrace.sql.ast import (
    JsonCall,
    Select,
    TimeWindow,
    properties_of,
    span_of,
    type_of,
    within_of,
)
from headrace.sql.statements.query import SelectStatement


def query(text: str) -> Select:
    [statement] = parse(text)
    assert isinstance(statement, SelectStatement)
    return statement.select


def item(expression: str) -> exp.Expr:
    """The tree of one expression."""
    return query(f"SELECT {expression} FROM t").expression.selects[0]


SHAPES = [
    "SELECT *, f(x) AS y FROM s",
    'SELECT * EXCEPT (a, "B"), r.* EXCLUDE (c) FROM s CROSS JOIN r',
    'SELECT s.*, t."A".* EXCEPT (x), f(y)->*, a->b->* EXCLUDE ("C") FROM t',
    "select all a from s t",
    "SELECT DISTINCT a FROM s",
    "SELECT r.*, s.a b FROM s s JOIN r ON s.id = r.id",
    "SELECT o.id FROM orders o WITH ('timestamp'='t') LEFT JOIN c AS b\n WITH ('source.idle.timeout.millis' = 1000)\n ON o.k = b.k",
    "SELECT * FROM a JOIN f AS f WITH ('timestamp'='t') WITHIN 30 SECONDS ON a.ip = f.ip",
    "SELECT * FROM a FULL OUTER JOIN f WITHIN 1 DAY WITH ('timestamp'='t') ON a.ip = f.ip",
    "SELECT * FROM a INNER JOIN z WITHIN 24 HOURS ON a.b = z.c JOIN y ON y.d = a.b",
    "SELECT * FROM TUMBLE(db.s.rel, SIZE 1 MINUTE) WITH ('a'='b') GROUP BY window_start, window_end",
    "SELECT * FROM HOP (rel, SIZE 1 hour, ADVANCE BY 1 minute) AS w GROUP BY window_start, window_end HAVING count(*) > 1",
    "SELECT * FROM CUMULATE(rel, SIZE 1 DAY, STEP 1 HOUR)",
    "SELECT * FROM CUMULATE(rel, SIZE 1 DAY, ADVANCE BY 1 HOUR)",
    "SELECT * FROM SESSION(rel, GAP 90 SECONDS)",
    "SELECT * FROM SESSION(rel PARTITION BY a, rel.b, DESCRIPTOR(t), GAP 90 SECONDS) AS s",
    "SELECT * FROM SESSION((SELECT a FROM rel) PARTITION BY a, GAP 90 SECONDS)",
    """SELECT x, y FROM rel MATCH_RECOGNIZE ( PARTITION BY p ORDER BY t MEASURES MATCH_ROWTIME () AS m, L.x AS y
    ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW
    PATTERN (A L + F) DEFINE A AS A.k = 'AIM', F AS k = 'F' ) WITH ('timestamp'='t') WHERE y > 1""",
    "SELECT * FROM (SELECT a FROM b) MATCH_RECOGNIZE (ORDER BY t ASC, u DESC MEASURES SUM(A.x) AS y AFTER MATCH SKIP TO LAST b "
    "PATTERN (A b*? C{2} D{2,}? E{2,4} F?? G) WITHIN INTERVAL '10' SECOND DEFINE A AS x > 1) AS m JOIN c ON m.y = c.y",
    "SELECT * FROM b MATCH_RECOGNIZE (ORDER BY t MEASURES FINAL LAST(U.x) AS y, RUNNING COUNT(*) AS n, CLASSIFIER(u) AS c ALL ROWS PER "
    "MATCH AFTER MATCH SKIP TO FIRST u PATTERN ((A | B+? C)+ {- D (E | F)* -} PERMUTE(G, H I){2}?) SUBSET u = (a, b), w = (c))",
    "SELECT * FROM b MATCH_RECOGNIZE (ORDER BY t ALL ROWS PER MATCH OMIT EMPTY MATCHES PATTERN (A | B C{,2}?))",
    "SELECT * FROM b MATCH_RECOGNIZE (ORDER BY t MEASURES A.x AS y AFTER MATCH SKIP PAST LAST ROW PATTERN (A{,3} B+?) WITHIN 2 HOURS)",
    """SELECT t.id FROM g CROSS JOIN UNNEST( JSON_QUERY(g."ids", '$' RETURNING ARRAY<VARCHAR>) ) WITH ORDINALITY AS t(id, pos)""",
    "SELECT JSON_QUERY(g.o, '$' RETURNING ARRAY<VARCHAR>)[pos] FROM g",
    """SELECT ("data"->"request"->"headers"['trace-id'])[1], e.prefs->seat AS x, contact -> zipcode FROM e""",
    """SELECT a FROM s WITH ('starting.position'='earliest') WHERE "type" LIKE 'com.x.%'""",
    "SELECT SUM(CASE WHEN a THEN 1 ELSE 0 END) > 0 AS flag, CASE k WHEN 1 THEN 'x' END FROM t",
    "SELECT CAST(x AS DECIMAL(38, 18)), CAST(x AS STRING), CAST(REPLACE(x,'T',' ') AS TIMESTAMP(3)) FROM t",
    'SELECT TRY_CAST(x AS STRUCT<"A b" INT, c ARRAY<MAP<VARCHAR, BIGINT>>>) FROM t',
    "SELECT CAST(x AS TIMESTAMP(3) WITH LOCAL TIME ZONE) FROM t",
    "SELECT udf('text ' || col || '…') AS p FROM c WHERE a = TRUE AND b = false OR NOT (c <> 1 AND d != 2)",
    "SELECT UUID() AS id FROM t WHERE a IN ('A','B') AND b NOT IN (1, 2)",
    "SELECT a FROM t WHERE r.n BETWEEN l.n AND l.n + 2 AND x NOT BETWEEN 1 AND 2",
    'SELECT rowtime(p), rowmeta(p)->"partition", rowkey(p)->id FROM s p',
    'SELECT after->id AS id, `after`->name AS name FROM c WHERE "after" IS NOT NULL',
    "SELECT 1000*UNIX_TIMESTAMP(CAST(w AS STRING)) + EXTRACT(MILLISECOND FROM w) FROM t",
    "SELECT TRIM(LEADING 'p' FROM x), TRIM(x), TRIM(BOTH FROM x), TRIM('a' FROM x) FROM t",
    r"SELECT REPLACE(x, '\', ''), REGEXP_EXTRACT(x, 'id1\.[a-z]+', 0) FROM t",
    "SELECT COUNT(DISTINCT x), -1, - -1, 1 - -2, +3, a % 2, .5, 1e-3 FROM t",
    "SELECT status, type, source->x, id, name, line, volume, period, format, offset, value, key, date, timestamp, "
    "first, last, row, rows, groups, time, interval, filter, left FROM t",
    """SELECT relation_type, "owner" FROM deltastream.sys."relations" WHERE fqn = '"d"."s"."r"' ORDER BY a DESC, b LIMIT 10 OFFSET 2""",
    "with a as (select 1 as x from t), b (y) as (select * from a) select * from b union all select * from c order by x limit 1",
    "select f as failures, f <> 0 as e from ( select count(*) as f from (select a from t limit 3) x ) y",
    "SELECT a FROM x UNION SELECT a FROM y UNION ALL (SELECT a FROM z LIMIT 1)",
    "SELECT ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC NULLS LAST) AS n FROM t",
    "SELECT SUM(a) OVER (ORDER BY b ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM t",
    "SELECT SUM(a) FILTER (WHERE b > 1) FROM t",
    "SELECT DATE '2020-01-01', TIMESTAMP '2020-01-01 00:00:00', INTERVAL '5' MINUTES, INTERVAL -1 DAY FROM t",
    "SELECT CURRENT_TIMESTAMP, LOCALTIMESTAMP, ARRAY[1,2], ARRAY[], MAP['a',1], FLOOR(ts TO HOUR), CEIL(1.5) FROM t",
    "SELECT JSON_VALUE(a, '$.x' RETURNING BIGINT NULL ON EMPTY DEFAULT 0 ON ERROR), JSON_VALUE(a, '$.y') FROM t",
    "SELECT LEFT(a, 2), RIGHT(a, 1), IF(a, b, c), SUBSTRING(a FROM 1 FOR 2), POSITION('a' IN b) FROM t",
    "SELECT TIMESTAMPDIFF(MINUTE, a, b), TIMESTAMPADD(DAY, 1, a), LISTAGG(x, ','), COALESCE(a, b, 0) FROM t",
    "SELECT a IS NULL, b IS NOT TRUE, c IS UNKNOWN, d IS DISTINCT FROM e, d IS NOT DISTINCT FROM NULL FROM t",
    "SELECT a LIKE 'x!%' ESCAPE '!', a SIMILAR TO 'x', (SELECT 1), b IN (SELECT c FROM d) FROM t",
    "SELECT a BETWEEN SYMMETRIC 2 AND 1, a NOT BETWEEN ASYMMETRIC 1 AND 2, a IS JSON, a IS NOT JSON ARRAY FROM t",
    "SELECT (a, b) OVERLAPS (c, INTERVAL '1' DAY), (a, b, c), ((a)), OVERLAY(a PLACING b FROM 2 FOR 1) FROM t",
    "SELECT ARRAY_AGG(a), ARRAY_AGG(a RESPECT NULLS), ARRAY_AGG(DISTINCT a IGNORE NULLS) FILTER (WHERE b) FROM t",
    "SELECT JSON_OBJECT(), JSON_OBJECT('a' VALUE 1, KEY b VALUE (c) ABSENT ON NULL), JSON_OBJECTAGG(a VALUE b) FROM t",
    "SELECT JSON_ARRAY(), JSON_ARRAY(NULL ON NULL), JSON_ARRAY(a, NULL), JSON_ARRAYAGG(a ABSENT ON NULL) FROM t",
    "SELECT JSON_EXISTS(a, '$'), JSON_EXISTS(a, '$.b' UNKNOWN ON ERROR), JSON_QUERY(a, '$' WITH WRAPPER) FROM t",
    "SELECT JSON_QUERY(a, '$' RETURNING ARRAY<VARCHAR> WITHOUT ARRAY WRAPPER EMPTY ARRAY ON EMPTY ERROR ON ERROR) FROM t",
    "SELECT a FROM s AS x(b, c)",
    "SELECT X'0fA0', x'', x, X AS x FROM s",
    "SELECT a within, b query, c AS \"select\", d AS end FROM s QUERY WITH ('state.ttl.millis' = 86400000)",
    "SELECT a FROM s GROUP -- why not\n BY a ORDER /* really */ BY a",
    'SELECT "my""name", `tick``ed`, "Straße".größe FROM "Straße"',
    "(SELECT a FROM s)",
    "SELECT * FROM a, b AS x WITH ('k' = 1), (SELECT 1 AS one FROM c), TUMBLE(d, SIZE 1 DAY) w WHERE a.i = x.i",
    "SELECT * FROM a, b JOIN c ON b.i = c.i, UNNEST(a.l) AS t(e) CROSS JOIN d",
    "SELECT * FROM a NATURAL JOIN b AS x (c, d) NATURAL FULL JOIN e WITHIN 5 MINUTES",
    'SELECT * FROM a JOIN b USING (x, "Y") LEFT JOIN c WITHIN 5 MINUTES USING (x)',
    "SELECT * FROM TUMBLE((SELECT a FROM s WHERE b > 1), SIZE 1 MINUTE) AS w",
    "SELECT * FROM HOP(((SELECT a FROM s) UNION ALL SELECT a FROM r), SIZE 1 HOUR, ADVANCE BY 1 MINUTE)",
    "SELECT * FROM TUMBLE(c, SIZE 1 MINUTE) AS w (a, b)",
    "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.x = t.x) AND NOT EXISTS (WITH w AS (SELECT 1) SELECT * FROM w)",
    "SELECT a FROM t WHERE a NOT IN (SELECT b FROM u) OR NOT (a IN (SELECT b FROM u))",
    "SELECT * FROM a, LATERAL (SELECT a.x + 1) AS l(y) LEFT JOIN LATERAL (SELECT z FROM b WHERE b.y = l.y LIMIT 1) m ON TRUE",
    "SELECT lateral FROM t CROSS JOIN LATERAL ((SELECT 1)) AS x WHERE (a, b) NOT IN (SELECT 1, 2) OR (a, b) IN ((1, 2), (3, NULL))",
    "SELECT a FROM x INTERSECT SELECT a FROM y UNION SELECT a FROM z EXCEPT ALL SELECT a FROM u INTERSECT ALL SELECT a FROM v",
    "(SELECT a FROM x UNION SELECT a FROM y) INTERSECT (SELECT a FROM z ORDER BY a LIMIT 1) ORDER BY 1",
    "SELECT LAG(a, 1, 0) OVER (PARTITION BY b, c ORDER BY d + 1 DESC NULLS LAST, e), COUNT(*) OVER () FROM t",
    "SELECT AVG(a) OVER (ORDER BY b RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND UNBOUNDED FOLLOWING) FROM t",
    "SELECT COUNT(DISTINCT a) FILTER (WHERE b), LISTAGG(a, '|') FILTER (WHERE b > 1 AND c) FROM t",
    "SELECT SUM(a) OVER w, COUNT(*) OVER v FROM t GROUP BY a WINDOW w AS (PARTITION BY b ORDER BY c, d DESC NULLS LAST), v AS ()",
    "SELECT a qualify, b AS window FROM t AS x WHERE a > 1 WINDOW w AS (ORDER BY b) QUALIFY SUM(x.a) OVER w > 1 AND qualify < 3 LIMIT 1",
    "SELECT * FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) = 1 UNION ALL SELECT * FROM u WITH ('k' = 1) QUALIFY a > 1",
]


@pytest.mark.parametrize("text", SHAPES)
def test_a_query_reads_and_its_canonical_text_reads_to_the_same(text: str) -> None:
    tree = query(text)
    printed = tree.sql()
    again = query(printed)
    assert again == tree
    assert again.sql() == printed


def test_names_are_folded_unless_quoted() -> None:
    column = item('MyTable."MyColumn"')
    assert isinstance(column, exp.Column)
    assert (column.table, column.name) == ("mytable", "MyColumn")


def test_a_source_carries_its_properties_and_a_join_its_span_of_time() -> None:
    tree = query(
        "SELECT 1 FROM a x WITH ('timestamp' = ts) JOIN b WITH ('k' = 1) WITHIN 2 MINUTES ON x.i = b.i"
    ).expression
    source, [join] = tree.args["from_"].this, tree.args["joins"]
    assert source.alias == "x"
    assert properties_of(source).get("timestamp") == "ts"
    assert properties_of(join.this).get("k") == "1"
    assert within_of(join) == 120_000
    assert not properties_of(exp.Table(this=exp.Identifier(this="t")))


@pytest.mark.parametrize(
    ("text", "kind", "size", "advance"),
    [
        ("TUMBLE(a.b.c, SIZE 90 SECONDS)", "TUMBLE", 90_000, None),
        ("hop(c, size 1 day, advance by 1 hour)", "HOP", 86_400_000, 3_600_000),
        ("CUMULATE(c, SIZE 1 WEEK, STEP BY 1 DAY)", "CUMULATE", 604_800_000, 86_400_000),
        ("SESSION(c, GAP 5 MILLISECONDS)", "SESSION", 5, None),
    ],
)
def test_a_window_function_is_a_node_of_its_own(text: str, kind: str, size: int, advance: int | None) -> None:
    window = query(f"SELECT 1 FROM {text} AS w WITH ('timestamp' = 't')").expression.args["from_"].this
    assert isinstance(window, TimeWindow)
    assert (window.kind, window.size_ms, window.advance_ms, window.alias) == (kind, size, advance, "w")
    assert window.this.name == "c"
    assert properties_of(window).get("timestamp") == "t"


def test_fields_and_elements_read_from_left_to_right() -> None:
    access = item("a->b->\"C d\"['k'][1]")
    assert isinstance(access, exp.Bracket)
    assert access.expressions[0].name == "1"
    inner = access.this.this
    assert isinstance(inner, exp.Dot)
    assert (inner.name, inner.this.name, inner.this.this.name) == ("C d", "b", "a")


def test_an_arrow_in_an_argument_is_a_field_and_not_a_lambda() -> None:
    call = item("F(a->b)")
    assert isinstance(call, exp.Anonymous)
    assert call.name == "f"
    assert isinstance(call.expressions[0], exp.Dot)


@pytest.mark.parametrize(
    "text", ["count(*)", "sum(a)", "COALESCE(a, b)", "date_format(a, 'yyyy')", "concat(a)"]
)
def test_calls_are_plain_whatever_their_name(text: str) -> None:
    call = item(text)
    assert type(call) is exp.Anonymous
    assert call.name == text.partition("(")[0].lower()


def test_negations_stand_outside() -> None:
    for text in ("a NOT LIKE b", "a NOT IN (1)", "a NOT BETWEEN 1 AND 2", "a IS NOT NULL"):
        node = item(text)
        assert isinstance(node, exp.Not), text
        assert not node.this.args.get("negate")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("CAST(a AS string)", "VARCHAR"),
        ('CAST(a AS STRUCT<"X y" INT, z ARRAY<DOUBLE>>)', 'STRUCT<"X y" INT, z ARRAY<DOUBLE>>'),
        ("DATE '2020-02-02'", "DATE"),
        ("JSON_VALUE(a, '$' RETURNING BIGINT)", "BIGINT"),
    ],
)
def test_types_inside_expressions_are_our_types(text: str, kind: str) -> None:
    actual: DataType = type_of(item(text))
    assert actual == parse_type(kind)


def test_json_clauses_are_kept() -> None:
    call = item("JSON_VALUE(a, '$' NULL ON EMPTY DEFAULT b ON ERROR)")
    assert isinstance(call, JsonCall)
    assert call.args["on_empty"] == "NULL"
    assert isinstance(call.args["on_error"], exp.Column)


def test_places_point_into_the_original_text() -> None:
    text = 'LIST STORES;\n-- query\nSELECT abs(\n  first_column + "Second") FROM t'
    [_, statement] = parse(text)
    assert isinstance(statement, SelectStatement)
    call = statement.select.expression.selects[0]
    span = span_of(call)
    assert span is not None
    assert text[span.start : span.end] == 'abs(\n  first_column + "Second"'
    assert (span.line, span.column) == (3, 8)
    second = span_of(call.expressions[0].expression)
    assert second is not None
    assert (text[second.start : second.end], second.line, second.column) == ('"Second"', 4, 18)
    assert span_of(exp.Null()) is None


def test_the_dialect_is_known_to_sqlglot_and_changes_nothing_for_others() -> None:
    tree = sqlglot.parse_one("SELECT a->b FROM TUMBLE(t, SIZE 1 HOUR)", read="headrace")
    assert tree.sql(dialect="headrace") == "SELECT a->b FROM TUMBLE(t, SIZE 1 HOUR)"
    assert sqlglot.parse_one("SELECT SUM(a) FROM t").find(exp.Sum) is not None
