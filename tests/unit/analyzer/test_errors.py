"""Mistakes of users in queries: SQLSTATE, message, hint and the position of the error.

The relations are those of `tests/plans/world.py`.
"""

from __future__ import annotations

import pytest

from headrace.core.errors import UserError
from tests.plans.world import planned

F = "FROM flights"

NAMES = [
    ("SELECT carier FROM flights", "42703", "carier", "Did you mean carrier"),
    ("SELECT f.carier FROM flights f", "42703", "f.carier", "Did you mean f.carrier?"),
    ("SELECT carrier FROM fligths", "3D020", "fligths", "Did you mean flights?"),
    (
        "SELECT * FROM arline.public.flights",
        "3D020",
        "arline.public.flights",
        "Did you mean airline.public.flights?",
    ),
    (
        "SELECT * FROM airline.pubic.flights",
        "3D020",
        "airline.pubic.flights",
        "Did you mean airline.public.flights?",
    ),
    ("SELECT * FROM a.airline.public.flights", "42601", None, "double quotes"),
    ("SELECT x.carrier FROM flights f", "3D020", "x.carrier", "FROM has f."),
    (
        "SELECT tailnum FROM flights f JOIN planes p ON p.tailnum = f.tailnum",
        "42702",
        "tailnum",
        "Write f.tailnum.",
    ),
    ("SELECT f.carrier FROM flights f JOIN planes f ON f.tailnum = f.tailnum", "42P16", None, "AS"),
    ("SELECT crew->pilot FROM flights", "42703", "crew->pilot", "It has captain, count."),
    ("SELECT note->x FROM flights", "42804", "note", "JSON_VALUE"),
    ("SELECT note.* FROM flights", "42804", "note", "JSON_VALUE"),
    ("SELECT crew->captain->* FROM flights", "42804", "crew->captain", None),
    ("SELECT crw.* FROM flights", "3D020", "crw.*", None),
    ("SELECT carrier FROM flights WHERE crew->* = 1", "42703", "crew->*", "It has captain, count."),
    ("SELECT UPPER(crew->*) AS x FROM flights", "42703", "crew->*", "It has captain, count."),
    (
        "SELECT crew.* FROM flights f JOIN flights g WITHIN 1 MINUTE ON f.tailnum = g.tailnum",
        "42702",
        None,
        None,
    ),
    ("SELECT carrier, origin AS carrier FROM flights", "42P16", "origin", "AS"),
    ("SELECT carrier AS __headrace_x FROM flights", "42601", "__headrace_x", "another name"),
    (
        "SELECT rowtime() FROM flights f JOIN planes p ON p.tailnum = f.tailnum",
        "42702",
        "rowtime",
        "Write rowtime(f).",
    ),
    ("SELECT * EXCEPT (carier) FROM flights", "42703", "carier", "Did you mean carrier"),
    ("SELECT * EXCEPT (code, city) FROM airports", "42601", "* EXCEPT (code, city", "fewer columns"),
    ("SELECT f.* AS x FROM flights f", "42601", "AS", None),
    ("SELECT uper(carrier) FROM flights", "3D017", "uper", "Did you mean UPPER"),
    ("SELECT read_csv('x') FROM flights", "3D017", "read_csv", None),
    (
        "SELECT cuont(carrier) OVER (ORDER BY flight_time) FROM flights",
        "3D017",
        "cuont",
        "Did you mean COUNT",
    ),
    ('SELECT "Carrier" FROM flights', "42703", '"Carrier"', "Did you mean carrier?"),
    ('SELECT carrier FROM flights WHERE carrier = "aa"', "42703", '"aa"', "Use single quotes for text"),
    ('SELECT Made FROM (SELECT carrier AS "Made" FROM flights)', "42703", "Made", 'Did you mean "Made"?'),
]

REPLACED = [
    "SELECT uper(carrier) FROM flights",
    "SELECT f.carier FROM flights f",
    "SELECT flihts.carrier FROM flights",
    "SELECT flihts.* FROM flights",
    "SELECT carrier FROM arline.public.flights",
    "SELECT carrier FROM airline.pubic.flights",
    "SELECT carrier FROM pubic.flights",
    "SELECT carrier FROM public.fligths",
    'SELECT Made FROM (SELECT carrier AS "Made" FROM flights)',
    "SELECT * EXCEPT (carier) FROM flights",
]
"""Mistakes whose first replacement, put where the error points, mends the statement."""

TYPES = [
    (f"SELECT distance + 'x' {F}", "42804", "'x'", "CAST"),
    (f"SELECT carrier {F} WHERE distance + 'x' > 3", "42804", "'x'", None),
    (f"SELECT departed - departed {F}", "42804", "departed", "TIMESTAMPDIFF(SECOND, earlier, later)"),
    (f"SELECT departed + distance {F}", "42804", "distance", "INTERVAL '5' MINUTE"),
    (f"SELECT flight_time + INTERVAL '1' MONTH {F}", "42804", None, None),
    (f"SELECT stops[1].name {F}", "42804", None, None),
    (f"SELECT carrier {F} WHERE carrier", "42804", "carrier", "IS NOT NULL"),
    (f"SELECT carrier {F} WHERE distance AND cancelled", "42804", "distance", None),
    (f"SELECT carrier {F} WHERE distance = 'far'", "42804", "'far'", "CAST"),
    (f"SELECT carrier {F} WHERE distance IN (1, 'x')", "42804", "'x'", "CAST"),
    (f"SELECT carrier {F} WHERE departed > 'yesterday'", "42804", "'yesterday'", None),
    (f"SELECT JSON_VALUE(note, 'a') AS x {F}", "42601", "'a'", "lax or strict"),
    (f"SELECT JSON_EXISTS(note, '$.a[') AS x {F}", "42601", "'$.a['", "lax or strict"),
    (f"SELECT JSON_QUERY(note, '$..a' DEFAULT '' ON EMPTY) AS x {F}", "42601", "'$..a'", "lax or strict"),
    (f"SELECT JSON_VALUE(note, '$' EMPTY ARRAY ON ERROR) AS x {F}", "42804", None, "JSON_VALUE"),
    (
        f"SELECT JSON_QUERY(note, '$' RETURNING ARRAY<INT> EMPTY OBJECT ON EMPTY) AS x {F}",
        "42804",
        None,
        "NULL or ERROR",
    ),
    (f"SELECT JSON_OBJECT(note VALUE 1) AS x {F}", "42804", "note", "JSON_OBJECT('key' VALUE"),
    (f"SELECT JSON_OBJECTAGG(distance VALUE 1) AS x {F}", "42804", "distance", "CAST(key AS VARCHAR)"),
    (f"SELECT JSON_ARRAYAGG() AS x {F}", "42804", None, "JSON_ARRAYAGG(any)"),
    (f"SELECT ARRAY_AGG(carrier, origin) AS x {F}", "42804", None, "ARRAY_AGG(any)"),
    (f"SELECT ARRAY_AGG(COUNT(*)) AS x {F}", "42803", None, "subquery"),
    (f"SELECT PERCENTILE(distance, 1.5) AS x {F}", "42804", "1.5", "0.5"),
    (f"SELECT PERCENTILE(distance, ARRAY[0.5, -1]) AS x {F}", "42804", "1", "0.5"),
    (f"SELECT PERCENTILE(distance, distance) AS x {F}", "42804", "distance", "0.5"),
    (f"SELECT PERCENTILE(carrier, 0.5) AS x {F}", "42804", "carrier", "PERCENTILE(number"),
    (f"SELECT RAND_INTEGER(delay, 5) AS x {F}", "42804", None, "RAND_INTEGER"),
    (f"SELECT (departed, carrier) OVERLAPS (departed, departed) AS x {F}", "42804", None, "CAST"),
    (f"SELECT (delay, delay) OVERLAPS (departed, departed) AS x {F}", "42804", None, "(start, end)"),
    (f"SELECT (departed, departed) OVERLAPS departed AS x {F}", "42601", None, None),
    (f"SELECT ABS(COUNT(*)) FILTER (WHERE cancelled) AS x {F}", "42601", None, None),
    (f"SELECT CURRENT_DATABASE(1) AS x {F}", "42804", None, "CURRENT_DATABASE()"),
    (f"SELECT ARRAY_SORT(ARRAY[MAP['a', 1]]) AS x {F}", "42804", None, "ARRAY_SORT"),
    (f"SELECT MAP_UNION(MAP['a', 1], MAP[1, 1]) AS x {F}", "42804", None, "MAP_UNION"),
    (f"SELECT ELT(1, 'a', 2) AS x {F}", "42804", "2", "ELT"),
    (f"SELECT carrier LIKE 'a' ESCAPE '!!' AS x {F}", "22000", "'!!'", "ESCAPE '!'"),
    (f"SELECT carrier LIKE 'a' ESCAPE '' AS x {F}", "22000", "''", "ESCAPE '!'"),
    (f"SELECT carrier LIKE 'a' ESCAPE NULL AS x {F}", "22000", None, "ESCAPE '!'"),
    (f"SELECT carrier LIKE 'a' ESCAPE '😀' AS x {F}", "22000", "'😀'", "ESCAPE '!'"),
    (f"SELECT SUM(carrier) {F}", "42804", "carrier", "SUM(number)"),
    (f"SELECT PROCTIME() {F}", "3D017", "PROCTIME", "'source.time' = ARRIVAL"),
    (f"SELECT TUMBLE_START(departed, INTERVAL '1' DAY) {F}", "3D017", None, "Use window_start."),
    (f"SELECT COUNT(*) {F} GROUP BY TUMBLE(departed, INTERVAL '1' DAY)", "0A000", "departed", "'timestamp'"),
    (
        "SELECT COUNT(*) FROM flights WITH ('source.time' = ARRIVAL) GROUP BY TUMBLE(flight_time, INTERVAL '1' DAY)",
        "0A000",
        "flight_time",
        "'timestamp'",
    ),
    (
        f"SELECT carrier {F} WHERE TRUE BETWEEN SYMMETRIC (1 BETWEEN SYMMETRIC 2 AND 3) AND FALSE",
        "0A000",
        None,
        "in a subquery",
    ),
    (f"SELECT COUNT(*) {F} GROUP BY CUBE (CUBE (carrier), dest)", "3D017", None, None),
    (f"SELECT upper(distance) {F}", "42804", "distance", "UPPER(text)"),
    (f"SELECT substring(carrier) {F}", "42804", "substring(carrier", "SUBSTRING(text, integer [, integer])"),
    (f"SELECT round(delay, distance) {F}", "42804", "distance", None),
    (f"SELECT CAST(distance AS TIMESTAMP) {F}", "42804", None, "TO_TIMESTAMP_LTZ"),
    (f"SELECT CASE WHEN cancelled THEN 1 ELSE 'x' END {F}", "42804", "'x'", "CAST"),
    (
        f"SELECT CASE WHEN cancelled THEN 1 WHEN distance > 3 THEN carrier || 'x' ELSE 2 END {F}",
        "42804",
        "carrier || 'x'",
        None,
    ),
    (f"SELECT COALESCE(distance, 1, 'x') {F}", "42804", "'x'", "CAST"),
    (f"SELECT t.x {F} f CROSS JOIN UNNEST(f.stops) AS t(x, y)", "42601", None, "t(element)"),
    (
        f"SELECT t.x {F} f CROSS JOIN UNNEST(f.stops) WITH ORDINALITY AS t(x)",
        "42601",
        None,
        "t(element, position)",
    ),
    (
        f"SELECT t.x {F} f CROSS JOIN UNNEST(JSON_QUERY(note, '$' RETURNING ARRAY<STRUCT<a BIGINT, b BIGINT>>)) AS t(x, y, z)",
        "42601",
        None,
        "t(element)",
    ),
    (f"SELECT carrier {F} f CROSS JOIN UNNEST(carrier) AS t(x)", "42804", "carrier", "SPLIT"),
    ("SELECT x FROM UNNEST(stops) AS t(x)", "42703", "stops", None),
    ("SELECT x FROM UNNEST(ARRAY[1])", "42601", None, "t(element)"),
    (f"SELECT INTERVAL '5' MINUTE {F}", "42804", None, "TIMESTAMPDIFF"),
    ("SELECT carrier FROM flights UNION ALL SELECT distance FROM arrivals", "42804", None, "CAST"),
    (
        "SELECT carrier, note FROM flights UNION ALL SELECT note FROM arrivals",
        "42804",
        None,
        "CAST(NULL AS type)",
    ),
    ("SELECT 1 FROM flights f JOIN flights g ON f.tags = g.tags", "42804", "g.tags", None),
    ("SELECT 1 FROM flights f JOIN flights g ON ARRAY[f.tags] = ARRAY[g.tags]", "42804", None, None),
    (f"SELECT tags, COUNT(*) AS n {F} GROUP BY tags", "42804", "tags", "column['key']"),
    (f"SELECT DISTINCT carrier, tags {F}", "42804", "tags", "column['key']"),
    (f"SELECT COUNT(*) AS n {F} GROUP BY ARRAY[tags]", "42804", None, None),
    (f"SELECT COUNT(*) AS n {F} GROUP BY INTERVAL '1' DAY", "42804", None, None),
    (f"SELECT tags {F} UNION SELECT tags {F}", "42804", None, None),
    (
        f"SELECT delay FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY carrier ORDER BY tags) AS n {F}) WHERE n = 1",
        "42804",
        "tags",
        None,
    ),
    (
        f"SELECT d {F} MATCH_RECOGNIZE (PARTITION BY tags ORDER BY flight_time MEASURES a.delay AS d PATTERN (a b))",
        "42804",
        "tags",
        None,
    ),
    (
        f"SELECT d {F} MATCH_RECOGNIZE (ORDER BY flight_time, tags MEASURES a.delay AS d PATTERN (a b))",
        "42804",
        "tags",
        None,
    ),
    ("SELECT 1 FROM flights f JOIN bookings b USING (tailnum, seat)", "42703", "seat", None),
    ("SELECT 1 FROM flights f JOIN flights g USING (tags)", "42804", "tags", None),
    ("SELECT 1 FROM flights f, bookings b WHERE f.crew = b.tailnum", "42804", "b.tailnum", None),
    ("SELECT 1 FROM flights f JOIN planes p ON f.distance = p.tailnum", "42804", "p.tailnum", None),
    (
        "SELECT 1 FROM delays d JOIN carriers c WITHIN 1 DAY ON d.carrier = c.carrier",
        "42601",
        None,
        "Compare columns",
    ),
    (
        "SELECT 1 FROM flights f JOIN planes p WITHIN 1 DAY ON f.tailnum = p.tailnum",
        "42601",
        None,
        "Leave WITHIN out",
    ),
    (
        "SELECT 1 FROM flights f JOIN bookings b ON f.tailnum = b.tailnum AND rowtime(b) BETWEEN rowtime(f) + 5 AND rowtime(f) - 5",
        "42601",
        "rowtime(b) BETWEEN rowtime(f) + 5 AND rowtime(f) - 5",
        "BETWEEN",
    ),
    (
        "SELECT 1 FROM flights f JOIN bookings b ON f.tailnum = b.tailnum AND rowtime(b) BETWEEN rowtime(f) - 999999999999 AND rowtime(f)",
        "53000",
        None,
        None,
    ),
    ("SELECT x FROM (SELECT carrier FROM flights) AS t(x, y)", "42P16", "x", "carrier"),
    ("WITH t(x, y) AS (SELECT carrier FROM flights) SELECT x FROM t", "42P16", "x", "carrier"),
    ("WITH t AS (SELECT carier FROM flights) SELECT 1", "42703", "carier", "carrier"),
    (
        "WITH t AS (SELECT carrier FROM flights) SELECT carrier FROM t WITH ('starting.position' = earliest)",
        "3D008",
        "'starting.position' = earliest",
        "inside",
    ),
    (
        "SELECT carrier FROM (SELECT carrier FROM delays), (SELECT carrier FROM carriers)",
        "42702",
        "carrier",
        "the subqueries with AS",
    ),
    (f"SELECT DISTINCT carrier {F} ORDER BY origin", "42703", "origin", "Select it AS a column"),
]

GROUPS = [
    (f"SELECT carrier, origin, COUNT(*) {F} GROUP BY carrier", "42803", "origin", "Add origin to GROUP BY"),
    (f"SELECT carrier, COUNT(*) {F}", "42803", "carrier", None),
    (f"SELECT carrier {F} WHERE COUNT(*) > 1", "42803", "COUNT(*", "HAVING"),
    (f"SELECT SUM(COUNT(*)) {F}", "42803", "COUNT(*", None),
    (f"SELECT carrier, COUNT(*) {F} GROUP BY carrier HAVING delay > 1", "42803", "delay", None),
    (
        "SELECT carrier, COUNT(*) FROM TUMBLE(flights, SIZE 1 MINUTE) GROUP BY carrier",
        "42803",
        "flights",
        "window_start",
    ),
    (
        "SELECT window_start, COUNT(*) FROM TUMBLE(flights, SIZE 1 MINUTE) GROUP BY window_start",
        "42803",
        "flights",
        "window_end",
    ),
    (f"SELECT carrier, COUNT(*) {F} GROUP BY 3", "42601", "3", None),
    (f"SELECT carrier, COUNT(*) {F} GROUP BY 2", "42803", "COUNT(*", None),
    (f"SELECT COUNT(*) AS n {F} GROUP BY n", "42803", "COUNT(*", None),
]

LIMITS = [
    (
        "SELECT carrier FROM HOP(flights, SIZE 1 DAY, ADVANCE BY 1 SECOND)",
        "53000",
        "ADVANCE BY 1 SECOND",
        "ADVANCE BY 87 SECONDS or more",
    ),
    (
        "SELECT carrier FROM HOP(flights, SIZE 1 DAY, ADVANCE BY 2 DAYS)",
        "42601",
        "ADVANCE BY 2 DAYS",
        "use TUMBLE",
    ),
    (
        "SELECT carrier FROM CUMULATE(flights, SIZE 1 DAY, STEP BY 1 SECOND)",
        "53000",
        "STEP BY 1 SECOND",
        "STEP BY 87 SECONDS or more",
    ),
    (
        "SELECT carrier FROM CUMULATE(flights, SIZE 1 HOUR, STEP BY 7 MINUTES)",
        "42601",
        "STEP BY 7 MINUTES",
        "must end with SIZE",
    ),
    ("SELECT carrier FROM HOP(flights, SIZE 1 DAY, ADVANCE BY 0 DAYS)", "42601", "0", None),
    (
        "WITH a AS (SELECT carrier FROM flights), b AS (SELECT x.carrier FROM a x, a y WHERE x.carrier = y.carrier), "
        "c AS (SELECT x.carrier FROM b x, b y WHERE x.carrier = y.carrier), d AS (SELECT x.carrier FROM c x, c y "
        "WHERE x.carrier = y.carrier), e AS (SELECT x.carrier FROM d x, d y WHERE x.carrier = y.carrier), "
        "f AS (SELECT x.carrier FROM e x, e y WHERE x.carrier = y.carrier), g AS (SELECT x.carrier FROM f x, f y "
        "WHERE x.carrier = y.carrier), h AS (SELECT x.carrier FROM g x, g y WHERE x.carrier = y.carrier), "
        "i AS (SELECT x.carrier FROM h x, h y WHERE x.carrier = y.carrier) SELECT x.carrier FROM i x, i y "
        "WHERE x.carrier = y.carrier",
        "53000",
        None,
        "as a relation",
    ),
    ("SELECT carrier FROM TUMBLE(flights, SIZE 0 DAYS)", "42601", "0", None),
    ("SELECT carrier FROM TUMBLE(flights, SIZE -1 DAYS)", "42601", "-", None),
    (f"SELECT departed + INTERVAL '9999999999' DAY {F}", "53000", "INTERVAL '9999999999' DAY", None),
    (f"SELECT carrier {F} LIMIT 99999999999999999999", "53000", "99999999999999999999", None),
]

NOT_SUPPORTED = [
    (f"SELECT LEAD(carrier) OVER (PARTITION BY dest ORDER BY flight_time) {F}", None, "MATCH_RECOGNIZE"),
    (
        "SELECT * FROM TUMBLE(planes, SIZE 1 MINUTE)",
        "planes",
        "GROUP BY the time, such as FLOOR(time TO HOUR)",
    ),
    (f"SELECT carrier {F} ORDER BY carrier", "carrier", "MATERIALIZED VIEW"),
    ("SELECT 1 FROM planes p, airports a FULL JOIN routes r ON r.origin = a.code", None, "JOIN … ON"),
    (
        "SELECT f.carrier FROM flights f JOIN bookings b WITHIN 1 DAY ON f.tailnum > b.tailnum",
        None,
        "a.x = b.x",
    ),
    ("SELECT t.x FROM flights f JOIN UNNEST(stops) AS t(x) ON t.x = f.dest", None, "CROSS JOIN UNNEST"),
    ("SELECT a.c FROM TUMBLE(flights, SIZE 1 MINUTE) AS a(c)", "c", "SELECT column AS name"),
    ("SELECT f.carrier FROM flights f NATURAL JOIN UNNEST(stops) AS t(x)", None, "CROSS JOIN UNNEST"),
    ("SELECT * FROM numbers(1, 3)", "(", "Write a relation, UNNEST, or one of TUMBLE"),
    (
        "SELECT window_start FROM TUMBLE(flights PARTITION BY carrier, SIZE 1 MINUTE)",
        "PARTITION BY",
        "GROUP BY",
    ),
    (
        "SELECT COUNT(*) FROM SESSION(flights, GAP 1 MINUTE) GROUP BY window_start, window_end, CONCAT(carrier, window_end)",
        "CONCAT(carrier, window_end",
        "compute the value in SELECT",
    ),
    ("SELECT * FROM TUMBLE((SELECT maker FROM planes), SIZE 1 MINUTE)", None, "inside it"),
    (f"CREATE STREAM s AS SELECT carrier {F} LIMIT 0", None, None),
]

BAD = "source.deserialization.error"
PROPERTIES = [
    (
        f"SELECT carrier {F} WITH ('{BAD}.log.topic' = 'bad')",
        "3D008",
        f"'{BAD}.log.topic' = 'bad'",
        None,
    ),
    (
        f"SELECT carrier {F} WITH ('source.late.rows.log.topic' = 'late')",
        "3D008",
        "'source.late.rows.log.topic' = 'late'",
        None,
    ),
    (
        f"SELECT carrier {F} WITH ('{BAD}.handling' = DEAD_LETTER, '{BAD}.log.store' = 'nowhere')",
        "3D006",
        f"'{BAD}.log.store' = 'nowhere'",
        "LIST STORES",
    ),
    (
        f"SELECT carrier {F} WITH ('{BAD}.handling' = DEAD_LETTER, '{BAD}.log.topic.partitions' = 0)",
        "3D008",
        f"'{BAD}.log.topic.partitions' = 0",
        None,
    ),
    (
        f"SELECT carrier {F} WITH ('kafka.consumer.bootstrap.servers' = 'evil')",
        "3D008",
        "'kafka.consumer.bootstrap.servers' = 'evil'",
        None,
    ),
    (
        f"CREATE STREAM s WITH ('kafka.producer.sasl.jaas.config' = 'x') AS SELECT carrier {F}",
        "3D008",
        "'kafka.producer.sasl.jaas.config' = 'x'",
        None,
    ),
    (
        f"SELECT carrier {F} WITH ('starting.postion' = earliest)",
        "3D008",
        "'starting.postion' = earliest",
        "starting.position",
    ),
    (f"SELECT carrier {F} WITH ('starting.position' = first)", "3D008", "'starting.position' = first", None),
    (f"SELECT carrier {F} WITH ('starting.position' = 'timestamp')", "3D021", None, None),
    (f"SELECT carrier {F} WITH ('source.idle.timeout.millis' = '1s')", "3D008", None, None),
    (f"SELECT carrier {F} WITH ('timestamp' = 'flighttime')", "42703", None, "flight_time"),
    (f"SELECT carrier {F} WITH ('timestamp' = 'carrier')", "42804", None, "leave 'timestamp' out"),
    (f"SELECT carrier {F} QUERY WITH ('state.tll.millis' = 1)", "3D008", None, "state.ttl.millis"),
    (
        f"CREATE STREAM s WITH ('value.formt' = JSON) AS SELECT carrier {F}",
        "3D008",
        "'value.formt' = JSON",
        "value.format",
    ),
    (
        f"CREATE STREAM s WITH ('value.format' = PROTOBUF) AS SELECT carrier {F}",
        "3D009",
        None,
        "value.descriptor.name",
    ),
    (f"CREATE STREAM s WITH ('value.format' = AVRO) AS SELECT carrier {F}", "3D009", None, "UPDATE STORE"),
    (f"CREATE STREAM s WITH ('key.columns' = 'carier') AS SELECT carrier {F}", "42703", None, "carrier"),
    (
        f"CREATE STREAM s WITH ('key.columns' = 'carrier') AS SELECT carrier {F} PARTITION BY carrier",
        "3D008",
        "carrier",
        None,
    ),
    (f"CREATE STREAM s AS SELECT carrier {F} PARTITION BY carier", "42703", "carier", "carrier"),
    (
        f"CREATE STREAM s WITH ('key.format' = PRIMITIVE, 'key.columns' = 'carrier,note') AS SELECT carrier, note {F}",
        "3D008",
        None,
        "JSON",
    ),
    (f"CREATE STREAM s WITH ('topic.partitions' = many) AS SELECT carrier {F}", "3D008", None, None),
    (f"CREATE STREAM s WITH ('timestamp' = 'x') AS SELECT carrier {F}", "42703", None, None),
    (f"CREATE STREAM s WITH ('delivery.guarantee' = 'twice') AS SELECT carrier {F}", "3D008", None, None),
]

SINKS = [
    (f"SELECT carrier {F} PARTITION BY carrier", "42601", "PARTITION BY"),
    (
        "CREATE CHANGELOG s AS SELECT x.maker FROM (SELECT maker FROM planes) x",
        "42P16",
        "have no key",
    ),
    (
        "CREATE CHANGELOG s AS SELECT tailnum FROM planes UNION ALL SELECT tailnum FROM planes",
        "42P16",
        "have no key",
    ),
    (
        f"CREATE STREAM s AS SELECT carrier, COUNT(*) AS n {F} GROUP BY carrier",
        "42P16",
        "Expected CHANGELOG but got STREAM.",
    ),
    (f"CREATE CHANGELOG s AS SELECT carrier {F}", "42P16", "Expected STREAM but got CHANGELOG."),
    ("CREATE CHANGELOG s AS SELECT maker FROM planes", "42P16", "primary key (tailnum)"),
    (
        f"CREATE CHANGELOG s AS SELECT COUNT(*) AS n {F} GROUP BY carrier",
        "42P16",
        "GROUP BY columns are the primary key",
    ),
    (
        "CREATE CHANGELOG s AS SELECT CAST(tailnum AS VARCHAR(3)) AS tailnum, seats FROM planes",
        "42P16",
        "primary key (tailnum)",
    ),
    (
        f"CREATE MATERIALIZED VIEW s AS SELECT CAST(flight_time AS DOUBLE) AS t, COUNT(*) AS n {F} GROUP BY flight_time",
        "42P16",
        "GROUP BY columns are the primary key",
    ),
    (
        f"CREATE CHANGELOG s AS SELECT CAST(departed AS TIMESTAMP(0)) AS t, COUNT(*) AS n {F} GROUP BY departed",
        "42P16",
        "GROUP BY columns are the primary key",
    ),
    (f"CREATE CHANGELOG s AS SELECT COUNT(*) AS n {F}", "42P16", "without GROUP BY"),
    (f"CREATE MATERIALIZED VIEW v AS SELECT stops {F}", "42P16", "primitive types"),
    (
        f"INSERT INTO arrivals SELECT carrier, COUNT(*) AS distance {F} GROUP BY carrier",
        "42P16",
        "INSERT_INTO",
    ),
    (
        "INSERT INTO arrivals SELECT carrier, COUNT(*) AS distance FROM TUMBLE(flights, SIZE 1 DAY) "
        "GROUP BY window_start, window_end, carrier",
        None,
        None,
    ),
    (
        f"INSERT INTO arrivals SELECT carrier {F} WHERE distance > 1 QUERY WITH ('state.ttl.millis' = 5)",
        None,
        None,
    ),
    (f"INSERT INTO arrivals SELECT delay AS distance {F}", "42804", "BIGINT"),
    (f"INSERT INTO arrivals SELECT carrier AS x, distance AS y {F}", "42804", "2 columns"),
    (f"INSERT INTO totals SELECT distance AS flights {F}", "42804", "NOT NULL"),
    ("INSERT INTO delays SELECT carrier FROM flights", "0A000", "materialized view"),
]


@pytest.mark.parametrize("text", REPLACED)
def test_a_replacement_mends_the_statement(text: str) -> None:
    with pytest.raises(UserError) as caught:
        planned(text)
    error = caught.value
    assert error.span is not None
    planned(text[: error.span.start] + error.replacements[0] + text[error.span.end :])


@pytest.mark.parametrize(("text", "state", "place", "hint"), [*NAMES, *TYPES, *GROUPS, *LIMITS, *PROPERTIES])
def test_a_mistake_is_named_and_placed(text: str, state: str, place: str | None, hint: str | None) -> None:
    _check(text, state, place, hint)


@pytest.mark.parametrize(("text", "place", "hint"), NOT_SUPPORTED)
def test_what_is_not_supported_says_so(text: str, place: str | None, hint: str | None) -> None:
    _check(text, "0A000", place, hint)


@pytest.mark.parametrize(("text", "state", "message"), SINKS)
def test_a_sink_takes_what_fits(text: str, state: str | None, message: str | None) -> None:
    if state is None:
        planned(text)
        return
    with pytest.raises(UserError) as caught:
        planned(text)
    assert caught.value.state.value == state
    assert message is not None
    assert message in caught.value.message
    assert caught.value.span is not None


def _check(text: str, state: str, place: str | None, hint: str | None) -> None:
    with pytest.raises(UserError) as caught:
        planned(text)
    error = caught.value
    assert error.state.value == state, error.text()
    assert error.span is not None, error.text()
    if place is not None:
        assert text[error.span.start : error.span.end] == place
    if hint is not None:
        assert hint in (error.hint or ""), error.text()
