"""Types of expressions, and of whole select lists."""

from __future__ import annotations

import pytest

from headrace.analyzer.typing import assignable, castable, common, is_injective_cast
from headrace.core.types import parse_type
from tests.plans.world import bound, planned


def kind(expression: str) -> str:
    """Return the type of an expression in a query."""
    return str(bound(f"SELECT {expression} AS x FROM flights").schema.columns[0].type)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("distance", "INTEGER"),
        ("distance + 1", "INTEGER"),
        ("distance + 3000000000", "BIGINT"),
        ("distance / 2", "INTEGER"),
        ("distance * 0.5", "DECIMAL(12, 1)"),
        ("distance + delay", "DOUBLE"),
        ("fare + fare", "DECIMAL(9, 2)"),
        ("fare * fare", "DECIMAL(17, 4)"),
        ("fare / fare", "DECIMAL(19, 11)"),
        ("fare * delay", "DOUBLE"),
        ("CAST(distance AS FLOAT) + distance", "DOUBLE"),
        ("-distance", "INTEGER"),
        ("departed + INTERVAL '5' MINUTE", "TIMESTAMP(3)"),
        ("CAST(departed AS DATE) - INTERVAL '1' DAY", "TIMESTAMP"),
        ("departed + INTERVAL '5' MONTH", "TIMESTAMP(3)"),
        ("INTERVAL '1' YEAR + CAST(departed AS DATE)", "TIMESTAMP"),
        ("carrier || '-' || distance", "VARCHAR"),
        ("stops[1]", "VARCHAR"),
        ("tags['a']", "VARCHAR"),
        ("crew->count", "INTEGER"),
        ("crew.count", "INTEGER"),
        ("crew['captain']", "VARCHAR"),
        ("CASE WHEN cancelled THEN distance ELSE flight_time END", "BIGINT"),
        ("COALESCE(NULL, distance)", "INTEGER"),
        ("NULL", "VARCHAR"),
        ("carrier IN ('a', 'b')", "BOOLEAN"),
        ("CAST(carrier AS VARCHAR(2))", "VARCHAR(2)"),
        ("TO_TIMESTAMP_LTZ(flight_time, 3)", "TIMESTAMP_LTZ(3)"),
        ("rowtime()", "BIGINT"),
        ("rowkey()", "VARCHAR"),
        ("rowmeta()->partition", "INTEGER"),
        ("DECODE(rowheaders()['trace'], 'UTF-8')", "VARCHAR"),
        ("JSON_VALUE(note, '$.a' RETURNING BIGINT)", "BIGINT"),
        ("JSON_QUERY(note, '$' RETURNING ARRAY<VARCHAR>)[1]", "VARCHAR"),
        ("FLOOR(departed TO HOUR)", "TIMESTAMP(3)"),
        ("FLOOR(delay)", "DOUBLE"),
        ("EXTRACT(YEAR FROM departed)", "BIGINT"),
        ("ARRAY[1, 3000000000]", "ARRAY<BIGINT>"),
        ("MAP['a', 1]", "MAP<VARCHAR, INTEGER>"),
        ("COUNT(*)", "BIGINT"),
        ("SUM(distance)", "BIGINT"),
        ("SUM(fare)", "DECIMAL(38, 2)"),
        ("SUM(fare) / 3", "DECIMAL(38, 6)"),
        ("AVG(fare)", "DECIMAL(38, 6)"),
        ("ROUND(fare, 1)", "DECIMAL(9, 2)"),
        ("fare / 3", "DECIMAL(19, 13)"),
        ("1.0 / 3", "DECIMAL(13, 12)"),
        ("AVG(distance)", "DOUBLE"),
        ("MAX(carrier)", "VARCHAR"),
        ("SUM(distance) > 0", "BOOLEAN"),
        ("LISTAGG(carrier)", "VARCHAR"),
    ],
)
def test_an_expression_has_the_type_of_its_parts(expression: str, expected: str) -> None:
    assert kind(expression) == expected


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("INTEGER", "BIGINT", "BIGINT"),
        ("BIGINT", "DECIMAL(5, 2)", "DECIMAL(22, 2)"),
        ("DECIMAL(38, 10)", "DECIMAL(38, 0)", "DECIMAL(38, 6)"),
        ("VARCHAR(3)", "VARCHAR(5)", "VARCHAR(5)"),
        ("VARCHAR(3)", "VARCHAR", "VARCHAR"),
        ("DATE", "TIMESTAMP(3)", "TIMESTAMP(3)"),
        ("ARRAY<INTEGER>", "ARRAY<BIGINT>", "ARRAY<BIGINT>"),
        ("VARCHAR", "INTEGER", None),
        ("BOOLEAN", "INTEGER", None),
    ],
)
def test_two_types_have_the_narrowest_common_type(left: str, right: str, expected: str | None) -> None:
    common_type = common([parse_type(left), parse_type(right)])
    assert (str(common_type) if common_type is not None else None) == expected
    assert common([parse_type(right), parse_type(left)]) == common_type


@pytest.mark.parametrize(
    ("source", "target", "fits"),
    [
        ("INTEGER", "BIGINT", True),
        ("BIGINT", "INTEGER", False),
        ("INTEGER", "DECIMAL(10, 0)", True),
        ("INTEGER", "DECIMAL(10, 2)", False),
        ("DOUBLE", "DECIMAL(38, 2)", False),
        ("INTEGER", "DOUBLE", True),
        ("VARCHAR(3)", "VARCHAR", True),
        ("VARCHAR", "VARCHAR(3)", False),
        ("TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", True),
        ("INTEGER", "VARCHAR", False),
        ("STRUCT<a INTEGER>", "STRUCT<a BIGINT>", True),
        ("STRUCT<a INTEGER>", "STRUCT<b BIGINT>", False),
    ],
)
def test_a_value_is_stored_without_a_cast_only_if_nothing_is_lost(
    source: str, target: str, fits: bool
) -> None:
    assert assignable(parse_type(source), parse_type(target)) is fits


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("INTEGER", "BIGINT", True),
        ("INTEGER", "DOUBLE", True),
        ("BIGINT", "DOUBLE", False),
        ("INTEGER", "FLOAT", False),
        ("SMALLINT", "FLOAT", True),
        ("FLOAT", "DOUBLE", True),
        ("DOUBLE", "VARCHAR", False),
        ("BIGINT", "DECIMAL(19, 0)", True),
        ("BIGINT", "DECIMAL(18, 0)", False),
        ("BIGINT", "INTEGER", False),
        ("DECIMAL(10, 2)", "DECIMAL(12, 4)", True),
        ("DECIMAL(10, 2)", "DECIMAL(12, 1)", False),
        ("DECIMAL(16, 0)", "DOUBLE", False),
        ("DECIMAL(10, 0)", "BIGINT", True),
        ("BOOLEAN", "INTEGER", True),
        ("BOOLEAN", "DECIMAL(1, 1)", False),
        ("INTEGER", "BOOLEAN", False),
        ("BIGINT", "VARCHAR", True),
        ("BIGINT", "VARCHAR(5)", False),
        ("VARCHAR(3)", "VARCHAR(5)", True),
        ("VARCHAR", "VARCHAR(5)", False),
        ("VARCHAR", "INTEGER", False),
        ("DATE", "TIMESTAMP(0)", True),
        ("TIMESTAMP", "DATE", False),
        ("TIMESTAMP", "TIMESTAMP(3)", False),
        ("TIMESTAMP(9)", "TIMESTAMP_LTZ", True),
        ("ARRAY<INTEGER>", "ARRAY<BIGINT>", True),
        ("STRUCT<a BIGINT>", "STRUCT<a DOUBLE>", False),
    ],
)
def test_a_cast_keeps_a_key_only_if_no_two_values_become_one(
    source: str, target: str, expected: bool
) -> None:
    assert is_injective_cast(parse_type(source), parse_type(target)) is expected


def test_what_is_grouped_by_a_cast_has_the_cast_as_its_key() -> None:
    query = (
        "SELECT CAST(distance AS DOUBLE) AS d, COUNT(*) AS n FROM flights GROUP BY CAST(distance AS DOUBLE)"
    )
    assert bound(query).schema.primary_key == ("d",)
    wider = "SELECT CAST(CAST(distance AS VARCHAR(2)) AS VARCHAR) AS d, COUNT(*) AS n FROM flights GROUP BY CAST(distance AS VARCHAR(2))"
    assert bound(wider).schema.primary_key == ("d",)


def test_casts_between_kinds_that_mean_nothing_are_refused() -> None:
    assert castable(parse_type("VARCHAR"), parse_type("INTEGER"))
    assert castable(parse_type("TIMESTAMP"), parse_type("DATE"))
    assert not castable(parse_type("INTEGER"), parse_type("TIMESTAMP"))
    assert not castable(parse_type("BOOLEAN"), parse_type("DATE"))
    assert not castable(parse_type("VARCHAR"), parse_type("ARRAY<VARCHAR>"))


def test_columns_of_an_unmatched_side_may_be_null() -> None:
    plan = bound("SELECT f.carrier, p.tailnum FROM flights f LEFT JOIN planes p ON p.tailnum = f.tailnum")
    assert [column.nullable for column in plan.schema.columns] == [True, True]
    plan = bound("SELECT p.tailnum FROM flights f JOIN planes p ON p.tailnum = f.tailnum")
    assert [column.nullable for column in plan.schema.columns] == [False]


def test_months_are_added_as_by_timestampadd() -> None:
    plan, same = (
        planned(f"SELECT {items} FROM flights").to_json()
        for items in (
            "departed + INTERVAL '5' MONTH AS a, departed - INTERVAL '2' YEAR AS b, INTERVAL '-1' MONTHS + departed AS c",
            "TIMESTAMPADD(MONTH, 5, departed) AS a, TIMESTAMPADD(MONTH, -24, departed) AS b, TIMESTAMPADD(MONTH, -1, departed) AS c",
        )
    )
    assert plan == same
