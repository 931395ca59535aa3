"""The function catalogue as a table: every function can be called, is documented, and can be looked up."""

from __future__ import annotations

import pytest

from headrace.analyzer.functions import CATALOGUE, OPERATORS_BY_NAME, SYNONYMS, lookup
from headrace.analyzer.functions.signature import Function
from headrace.analyzer.logical import Aggregate, Project
from headrace.core.errors import UserError
from headrace.planner.display import SHOWN
from tests.plans.world import bound

ROWS = [*CATALOGUE.values(), *OPERATORS_BY_NAME.values()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_is_documented_in_a_sentence(row: Function) -> None:
    assert row.doc.endswith(".")
    assert row.signature.startswith(row.name)
    assert row.required <= len(row.parameters)


@pytest.mark.parametrize(("synonym", "name"), SYNONYMS.items())
def test_a_synonym_means_a_function(synonym: str, name: str) -> None:
    assert name in CATALOGUE
    assert synonym not in CATALOGUE
    assert lookup(synonym.lower()).name == name


@pytest.mark.parametrize(
    "name",
    ["read_csv", "read_text", "glob", "getenv", "reflect", "java_method", "read_files", "from_avro", "query"],
)
def test_a_function_of_an_engine_that_we_do_not_list_is_unknown(name: str) -> None:
    with pytest.raises(UserError) as caught:
        lookup(name)
    assert caught.value.state.value == "3D017"


def test_every_family_of_the_dialect_is_there() -> None:
    expected = """
        ABS POWER SQRT LN LOG10 LOG2 LOG EXP CEIL FLOOR SIN COS TAN COT ASIN ACOS ATAN ATAN2 SINH COSH TANH DEGREES RADIANS
        SIGN ROUND PI E RAND RAND_INTEGER MOD BIN HEX UUID CHAR_LENGTH UPPER LOWER POSITION TRIM LTRIM RTRIM REPEAT
        REGEXP_REPLACE OVERLAY SUBSTRING REPLACE REGEXP_EXTRACT INITCAP CONCAT CONCAT_WS LPAD RPAD FROM_BASE64 TO_BASE64
        ASCII CHR DECODE ENCODE INSTR LEFT RIGHT LOCATE PARSE_URL REGEXP REVERSE SPLIT_INDEX STR_TO_MAP CURRENT_DATE
        CURRENT_TIMESTAMP LOCALTIMESTAMP NOW YEAR QUARTER MONTH WEEK DAYOFYEAR DAYOFMONTH DAYOFWEEK HOUR MINUTE SECOND
        DATE_FORMAT TIMESTAMPADD TIMESTAMPDIFF CONVERT_TZ FROM_UNIXTIME UNIX_TIMESTAMP TO_DATE TO_TIMESTAMP
        TO_TIMESTAMP_LTZ NULLIF COALESCE IF IFNULL IS_ALPHA IS_DECIMAL IS_DIGIT GREATEST LEAST CARDINALITY ELEMENT ARRAY MAP
        JSON_EXISTS JSON_VALUE JSON_QUERY JSON_STRING MD5 SHA1 SHA224 SHA256 SHA384 SHA512 SHA2 COUNT AVG SUM MAX MIN
        STDDEV_POP STDDEV_SAMP STDDEV VAR_POP VAR_SAMP VARIANCE COLLECT LISTAGG FIRST_VALUE LAST_VALUE
        TRUNCATE UNHEX TRANSLATE REGEXP_COUNT REGEXP_INSTR REGEXP_SUBSTR REGEXP_EXTRACT_ALL PRINTF ELT URL_ENCODE URL_DECODE
        INET_ATON INET_NTOA JSON_QUOTE JSON_UNQUOTE ARRAY_APPEND ARRAY_PREPEND ARRAY_SLICE ARRAY_SORT ARRAY_EXCEPT
        ARRAY_INTERSECT ARRAY_UNION ARRAY_CONCAT MAP_UNION MAP_ENTRIES MAP_FROM_ARRAYS STARTSWITH ENDSWITH
    """
    missing = set(expected.split()) - set(CATALOGUE)
    assert not missing


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("note IS NOT JSON ARRAY", "(NOT (flights.note IS JSON ARRAY))"),
        ("note SIMILAR TO 'a%'", "(flights.note SIMILAR TO 'a%')"),
        ("note SIMILAR TO 'a!%' ESCAPE '!'", "(flights.note SIMILAR TO 'a!%' ESCAPE '!')"),
        ("ARRAY_AGG(note)", "ARRAY_AGG(COLLECT(ROW(flights.note)))"),
        ("ARRAY_AGG(DISTINCT note IGNORE NULLS)", "ARRAY_AGG(COLLECT(DISTINCT flights.note))"),
        ("APPROX_COUNT_DISTINCT(note)", "COUNT(DISTINCT flights.note)"),
        ("JSON_ARRAYAGG(note)", "JSON_ARRAYAGG(COLLECT(JSON_STRING(flights.note)))"),
        ("CURRENT_DATABASE()", "'airline'"),
    ],
)
def test_explain_shows_a_call_as_it_was_bound(text: str, shown: str) -> None:
    root = bound(f"SELECT {text} AS x FROM flights").root
    assert isinstance(root, Project | Aggregate)
    assert SHOWN.text(root.items[0].expression) == shown
