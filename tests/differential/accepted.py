"""Values of functions that differ in Flink, each with the first cell of the row of docs/differences-from-flink.md that explains it."""

from __future__ import annotations

NOT_ASKED: dict[str, str] = {
    "TRUNCATE(42.324, -400000000)": "Flink does not end: it computes a number of 400,000,000 digits",
    "REPEAT('ab', 10000000)": "Flink returns a text of 20 MB, which is longer than a text can be here",
    "LPAD('a', 20000000, 'b')": "Flink returns a text of 20 MB, which is longer than a text can be here",
    "RPAD('a', 20000000, 'b')": "Flink returns a text of 20 MB, which is longer than a text can be here",
    "PRINTF('%20000000s', 'a')": "Flink returns a text of 20 MB, which is longer than a text can be here",
    "PRINTF('%9000000s%9000000s', 'a', 'b')": "Flink returns a text of 20 MB, which is longer than a text can be here",
    "CAST(12.345 AS DECIMAL(4, 2))": "the literal of its value in Flink's plan does not fit its type",
    "CAST(CAST(1.005 AS DOUBLE) AS DECIMAL(10, 2))": "the literal of its value in Flink's plan does not fit its type",
    "CAST('x' AS DECIMAL(10, 2))": "the literal of its value in Flink's plan does not fit its type",
    "ARRAY[1, 2][3]": "the literal of its value in Flink's plan does not fit its type",
    "MAP['a', 1]['b']": "the literal of its value in Flink's plan does not fit its type",
    "TRUNCATE(1e-320, 400)": "the literal of its value in Flink's plan does not fit its type",
    "CAST(CAST(0.1 AS FLOAT) AS DOUBLE)": "the literal of its value in Flink's plan does not fit its type",
    "UPPER('straße')": "the literal of its value in Flink's plan does not fit its type",
    "NULLIF(CAST(0.1 AS FLOAT), 0.1)": "the literal of its value in Flink's plan does not fit its type",
}
"""Expressions that are not compared, and why."""

_CASES: dict[str, dict[str, str]] = {
    "`JSON_QUOTE(text)`": {
        "JSON_QUOTE(CONCAT('a', CHR(10), CHR(9), CHR(1)))": '"a\\n\\t\x01"',
        "JSON_QUOTE('é≠😀')": '"\\u00e9\\u2260\\u1f600\\ude00"',
    },
    "`JSON_UNQUOTE(text)` of a text that is not valid JSON": {
        'JSON_UNQUOTE(\'"a"b"\')': 'a"b',
        "JSON_UNQUOTE('\"\\ud800\"')": "?",
    },
    "Text after a JSON value, and half a character in it": {
        "'1 2' IS JSON": "true",
        "JSON_VALUE('{\"a\":1} x', '$.a')": "1",
        "JSON_VALUE('{\"a\":\"\\ud83d\"}', '$.a')": "?",
    },
    "Numbers in JSON": {
        "JSON_VALUE('{\"a\":1e2}', '$.a')": "1E+2",
        "JSON_VALUE('{\"a\":1e400}', '$.a')": "1E+400",
        'JSON_QUERY(\'{"a":{"b":1e400,"c":[12345678901234567890.120]}}\', \'$.a\')': '{"b":1E+400,"c":[12345678901234567890.120]}',
    },
    "Paths of `JSON_VALUE`, `JSON_QUERY` and `JSON_EXISTS`": {
        "JSON_QUERY('{}', '$.a' RETURNING ARRAY<VARCHAR> EMPTY ARRAY ON EMPTY)": "NULL",
        'JSON_QUERY(\'{"a":[{"c":1},{"c":2}]}\', \'$.a.c\' WITH CONDITIONAL WRAPPER)': "NULL",
        "JSON_QUERY('{}', '$.a' EMPTY ARRAY ON EMPTY ERROR ON ERROR)": "error",
        "JSON_QUERY('{}', '$.a' ERROR ON EMPTY)": "NULL",
        "JSON_VALUE('{\"a\":1}', '$.b' ERROR ON EMPTY)": "NULL",
        "JSON_VALUE('{\"a\":1}', '$.b' ERROR ON ERROR)": "error",
        "JSON_EXISTS('{\"a\":true}', '$.b' TRUE ON ERROR)": "true",
        "JSON_VALUE('{\"a b\":1}', '$.\"a b\"')": "NULL",
        "JSON_VALUE('{\"a\":1}', CONCAT('', 'a'))": "1",
        "JSON_VALUE('{\"a\":[{\"b\":7}]}', 'lax $.a.b')": "NULL",
        "JSON_VALUE('{\"a\":5}', '$.a[0]')": "NULL",
        "JSON_VALUE('{\"a\":[5]}', '$.a[*]')": "NULL",
        "JSON_VALUE('{\"a\":1}', '$.b' DEFAULT 'empty' ON EMPTY DEFAULT 'error' ON ERROR)": "error",
        "JSON_VALUE('{\"a\":null}', '$.a' DEFAULT 'empty' ON EMPTY DEFAULT 'error' ON ERROR)": "error",
        "JSON_VALUE('{\"a\":\"x\"}', '$.a' RETURNING INTEGER DEFAULT 0 ON EMPTY DEFAULT -1 ON ERROR)": "error",
        "JSON_VALUE('{\"a\":\"7\"}', '$.a' RETURNING INTEGER DEFAULT 0 ON EMPTY DEFAULT -1 ON ERROR)": "error",
        "JSON_VALUE('{}', '$.a' RETURNING INTEGER DEFAULT 0 ON EMPTY DEFAULT -1 ON ERROR)": "-1",
        "JSON_VALUE('{\"a\":\"x\"}', '$.a' RETURNING INTEGER)": "error",
        "JSON_EXISTS('{\"a\":null}', '$.a')": "false",
        "JSON_EXISTS('{\"a\":[]}', '$.a[*]')": "true",
        "JSON_EXISTS(CAST(NULL AS VARCHAR), '$.b')": "NULL",
    },
    "Times in `JSON_STRING`": {
        "JSON_STRING(ARRAY[CAST('2024-01-02 03:04:05.123456' AS TIMESTAMP(6))])": '["2024-01-02T03:04:05.123456"]',
    },
    "Overflow of integers, also in ABS, ROUND, TIMESTAMPDIFF, CAST of numbers and SUM": {
        "SUM(x) of BIGINT 9223372036854775807, 1": "-9223372036854775808",
        "SUM(x) of DECIMAL(38, 0) 99999999999999999999999999999999999999, 1": "NULL",
        "ABS(CAST(-2147483648 AS INTEGER))": "-2147483648",
        "ROUND(2147483647, -1)": "-2147483646",
        "2147483647 + 1": "-2147483648",
        "2147483647 * 2": "-2",
        "-2147483648 - 1": "2147483647",
        "9223372036854775807 + 1": "-9223372036854775808",
        "CAST(127 AS TINYINT) + CAST(1 AS TINYINT)": "-128",
        "CAST(CAST('NaN' AS DOUBLE) AS INTEGER)": "0",
        "CAST(CAST(1e10 AS DOUBLE) AS INTEGER)": "2147483647",
        "CAST(300 AS TINYINT)": "44",
        "TRY_CAST(300 AS TINYINT)": "44",
        "TIMESTAMPDIFF(SECOND, DATE '1900-01-01', DATE '2024-01-01')": "-381911296",
    },
    "CAST of texts to numbers": {
        "CAST('12.7' AS INTEGER)": "12",
        "TRY_CAST('12.7' AS INTEGER)": "12",
        "CAST('-inf' AS DOUBLE)": "error",
        "CAST('nan' AS DOUBLE)": "error",
    },
    "NaN and infinities": {
        "MAX(x) of DOUBLE 1.5, nan, -inf": "1.5",
        "ROUND(CAST('NaN' AS DOUBLE))": "error",
        "CAST('NaN' AS DOUBLE) > CAST('Infinity' AS DOUBLE)": "false",
        "CAST(CAST('NaN' AS DOUBLE) AS DECIMAL(10, 2))": "error",
        "TRUNCATE(1e20, 2)": "error",
        "TRUNCATE(CAST('NaN' AS DOUBLE), 1)": "error",
        "TRUNCATE(CAST('Infinity' AS DOUBLE))": "error",
    },
    "BOOLEAN and DOUBLE as texts": {
        "CAST(CAST('-0.0' AS DOUBLE) AS VARCHAR)": "0.0",
        "CAST(TRUE AS VARCHAR)": "TRUE",
        "CAST(' false ' AS BOOLEAN)": "error",
    },
    "FLOAT compared with a DECIMAL": {
        "CAST(0.1 AS FLOAT) = 0.1": "true",
    },
    "`LOG(0, x)`": {
        "LOG(0, 8)": "0E0",
    },
    "Characters beyond U+FFFF": {
        "SPLIT('😀a', '')": '["?","?","a"]',
        "REGEXP_INSTR('😀é1', '\\d')": "4",
        "LPAD('😀', 2, 'é')": "😀",
        "LPAD('é', 3, '😀')": "?é",
        "INITCAP('😀a éb')": "😀A éB",
    },
    "`ASCII(text)`": {
        "ASCII('😀')": "-16",
        "ASCII('é')": "-61",
    },
    "`SPLIT_INDEX(text, separator, n)`": {
        "SPLIT_INDEX('a😀', '', 1)": "NULL",
        "SPLIT_INDEX('abc', '', 0)": "abc",
        "SPLIT_INDEX('', ',', 0)": "NULL",
    },
    "SIMILAR TO": {
        "'abc' SIMILAR TO 'a.c'": "true",
        "'a^$b' SIMILAR TO 'a^$b'": "false",
        "'ABC' SIMILAR TO '(?i)abc'": "true",
    },
    "`LOWER('İ')`": {
        "LOWER('İ')": "i",
    },
    "`LOCATE(x, text, 0)`": {
        "LOCATE('b', 'abcb', 0)": "2",
    },
    "`REPLACE(text, '', x)`": {
        "REPLACE('abc', '', 'x')": "xaxbxcx",
    },
    "`REGEXP_REPLACE(text, pattern, x)`": {
        "REGEXP_REPLACE('john smith', '(\\w+) (\\w+)', '$2 $1')": "$2 $1",
        "REGEXP_REPLACE('abc', 'b', '\\$')": "a\\$c",
        "REGEXP_REPLACE('abc', 'b', '\\\\1')": "a\\\\1c",
        "REGEXP_REPLACE('abc', 'b', '$1')": "a$1c",
    },
    "`REGEXP_EXTRACT(text, pattern, n)`": {
        "REGEXP_EXTRACT('abc', '(x)?b', 1)": "NULL",
    },
    "`SUBSTRING(text, start, length)`": {
        "SUBSTRING('abcdef', -9, 4)": "",
        "SUBSTRING('abcdef', 3, -1)": "NULL",
    },
    "Bytes that are not valid": {
        "FROM_BASE64('!!')": "error",
        "DECODE(ENCODE('é', 'UTF-8'), 'US-ASCII')": "��",
    },
    "`IS_DECIMAL('1e5')`": {
        "IS_DECIMAL('1e5')": "true",
    },
    "`_` and `%` of LIKE": {
        "'a' || CHR(10) || 'b' LIKE 'a_b'": "false",
    },
    "`ELEMENT(array)` of several elements": {
        "ELEMENT(ARRAY[5, 6])": "error",
    },
    "`PRINTF('%f', decimal)`": {
        "PRINTF('%s has %d, %.2f%%', 'é', 42, 1.5)": "NULL",
    },
    "`PRINTF(format, x)`": {
        "PRINTF('%s', DATE '2026-01-31')": "20484",
        "PRINTF('%99999999999999999999s', 'a')": "NULL",
    },
    "`SECOND(time)` before 1970": {
        "SECOND(TIMESTAMP '1969-12-31 23:59:59.999')": "0",
    },
    "Formats and time zones that do not exist": {
        "TO_TIMESTAMP('2024', 'nonsense')": "NULL",
        "CONVERT_TZ('2024-07-01 12:00:00', 'UTC', 'Nowhere/Land')": "2024-07-01 12:00:00",
        "CONVERT_TZ('nope', 'UTC', 'Europe/Berlin')": "NULL",
    },
    "TIMESTAMPADD, FLOOR and CEIL of a DATE, and a DATE plus an INTERVAL": {
        "TIMESTAMPADD(MONTH, -1, DATE '2024-03-31')": "2024-02-29",
        "TIMESTAMPADD(WEEK, 1, DATE '2024-01-01')": "2024-01-08",
        "TIMESTAMPADD(DAY, -1, DATE '2024-03-01')": "2024-02-29",
        "FLOOR(DATE '2024-05-15' TO YEAR)": "2024-01-01",
        "CEIL(DATE '2024-05-15' TO WEEK)": "2024-05-19",
        "DATE '2024-01-31' + INTERVAL '1' HOUR": "2024-01-31",
    },
    "`TIMESTAMPDIFF(MONTH, a, b)`, QUARTER and YEAR": {
        "TIMESTAMPDIFF(MONTH, TIMESTAMP '2024-01-31 00:00:00', TIMESTAMP '2024-02-29 00:00:00')": "1",
        "TIMESTAMPDIFF(MONTH, TIMESTAMP '2024-02-29 00:00:00', TIMESTAMP '2024-01-31 00:00:00')": "-1",
        "TIMESTAMPDIFF(MONTH, TIMESTAMP '2024-02-15 09:00:00', TIMESTAMP '2024-01-15 10:00:00')": "-1",
        "TIMESTAMPDIFF(YEAR, DATE '2020-02-29', DATE '2021-02-28')": "1",
        "TIMESTAMPDIFF(QUARTER, DATE '2024-01-31', DATE '2024-04-30')": "1",
    },
    "`CEIL(time TO unit)` of a fraction of a unit below a second": {
        "CEIL(TIMESTAMP '2024-05-15 10:00:00.000001' TO SECOND)": "2024-05-15 10:00:00",
        "CEIL(TIMESTAMP '2026-01-01 00:00:00.001' TO YEAR)": "2026-01-01 00:00:00",
    },
    "`INTERVAL '1 01:00:00.5' DAY TO SECOND`": {
        "TIMESTAMP '2024-01-31 10:00:00' + INTERVAL '1 01:00:00.5' DAY TO SECOND": "2024-02-01 11:00:00",
    },
    "TIMESTAMP as text": {
        "CAST(TIMESTAMP '2024-01-02 03:04:05.678' AS VARCHAR)": "2024-01-02 03:04:05.678",
        "CAST(TO_TIMESTAMP_LTZ(1500, 3) AS VARCHAR)": "1970-01-01 00:00:01.500",
    },
    "CAST of texts to TIMESTAMP": {
        "CAST('2024-01-02 03:04' AS TIMESTAMP)": "error",
        "TRY_CAST('2024-01-02T03:04:05Z' AS TIMESTAMP)": "NULL",
        "TRY_CAST('2024-01-02 03:04:05+02:00' AS TIMESTAMP)": "NULL",
    },
    "Times beyond the year 9999, or before 0001": {
        "TO_TIMESTAMP_LTZ(9223372036854775807, 3)": "NULL",
        "TO_TIMESTAMP_LTZ(253402300800000, 3)": "NULL",
        "TO_TIMESTAMP_LTZ(253402300800, 0)": "NULL",
        "TIMESTAMP '9999-12-31 23:59:59' + INTERVAL '1' SECOND": "0000-01-01 00:00:00",
        "TIMESTAMP '0001-01-01 00:00:00' - INTERVAL '1' SECOND": "0000-12-31 23:59:59",
        "FROM_UNIXTIME(253402300800)": "10000-01-01 00:00:00",
        "FROM_UNIXTIME(253402300800, 'yyyy')": "10000",
    },
    "`TO_TIMESTAMP_LTZ(text)` of a text that is not a time": {
        "TO_TIMESTAMP_LTZ('nope')": "error",
        "TO_TIMESTAMP_LTZ('10000-01-01 00:00:00')": "error",
    },
    "`MAP[…]` and `MAP_FROM_ARRAYS` with the same key twice": {
        "MAP['a', 1, 'a', 2]": '{"a":2}',
        "MAP_FROM_ARRAYS(ARRAY['a', 'a'], ARRAY[1, 2])": '{"a":2}',
    },
    "`AVG`, `STDDEV` and `VARIANCE` of integers": {
        "AVG(x) of INTEGER 1, 2, 2, NULL": "1",
        "AVG(x) of BIGINT 9223372036854775807, 1": "-4611686018427387904",
        "STDDEV_SAMP(x) of INTEGER 1, 3, NULL": "1",
        "STDDEV(x) of INTEGER 1, 3, NULL": "1",
    },
    "`JSON_OBJECT` of a `JSON_ARRAYAGG`": {
        "JSON_OBJECT('all' VALUE JSON_ARRAYAGG(x)) of INTEGER 1, NULL, 2, 2": '{"all":"[1,2,2]"}',
    },
    "`JSON_OBJECTAGG` with a NULL key": {
        "JSON_OBJECTAGG(CASE WHEN x = 1 THEN 'é\"' END VALUE x) of INTEGER 1, NULL, 2, 2": "error",
        "JSON_OBJECTAGG(CASE WHEN x IS NULL THEN 'n' END VALUE x) of INTEGER 1, NULL, 2, 2": "error",
        "JSON_OBJECTAGG(CASE WHEN x IS NULL THEN 'n' END VALUE x ABSENT ON NULL) of INTEGER 1, NULL, 2, 2": "error",
    },
    "OVERLAPS with a NULL": {
        "(DATE '2026-01-01', CAST(NULL AS DATE)) OVERLAPS (DATE '2026-01-10', DATE '2026-01-20')": "false",
    },
}

ACCEPTED = {text: (value, case) for case, values in _CASES.items() for text, value in values.items()}
"""Expression of the corpus to its value in Flink and the first cell."""
