"""docs/differences-from-flink.md and the differential cases: a difference that a case calls documented is documented."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.differential.accepted import ACCEPTED, NOT_ASKED
from tests.differential.cases import CASES
from tests.differential.functions import (
    ERROR,
    Difference,
    OnFlink,
    Value,
    _is_equal,
    differences,
    expressions,
    outdated,
    planned,
)

PAGE = Path(__file__).resolve().parents[3] / "docs/differences-from-flink.md"


def test_a_documented_difference_has_its_heading() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    assert {case.documented for case in CASES if case.documented} == {
        line.removeprefix("## ")
        for line in lines
        if line.startswith("## ") and line != "## What is not compared"
    }


def test_an_accepted_value_of_a_function_is_one_of_the_corpus_and_is_explained() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert {*ACCEPTED, *NOT_ASKED} <= expressions().keys()
    assert [reason for _, reason in ACCEPTED.values() if f"| {reason} |" not in page] == []


def test_a_difference_is_accepted_for_the_value_of_flink_that_was_accepted() -> None:
    text, (value, reason) = next(iter(ACCEPTED.items()))
    assert Difference(text, "here", value).reason == reason
    assert Difference(text, "here", f"{value}0").reason is None


@pytest.mark.parametrize(
    ("kind", "item", "expected"),
    [
        ("VARCHAR(2147483647)", "'it''s (1)'", "it's (1)"),
        ("VARCHAR(2147483647) NOT NULL", "CAST('a' AS VARCHAR(2147483647))", "a"),
        ("DECIMAL(10, 2)", "null:DECIMAL(10, 2)", None),
        ("VARBINARY(3)", "X'666f6f'", "Zm9v"),
        ("DOUBLE", "1.5E0", "1.5E0"),
        ("BIGINT NOT NULL", "CAST(7 AS BIGINT)", "7"),
        ("TIMESTAMP(3)", "2024-01-02 03:04:05.5", "2024-01-02 03:04:05.5"),
    ],
)
def test_a_literal_in_a_plan_of_flink_is_read(kind: str, item: str, expected: str | None) -> None:
    plan = f"Calc(select=[{item} AS x])\n+- Values(tuples=[[{{ 0 }}]])"
    assert planned(kind, plan, "") == Value(kind, expected)


@pytest.mark.parametrize(
    "item", ["LN(-1)", "MOD(7, 0)", "CAST('x' AS INTEGER)", "ARRAY(1, 2)", "RAND_INTEGER(1)"]
)
def test_what_flink_leaves_in_a_plan_is_not_compared_unless_it_failed(item: str) -> None:
    plan, log = (
        f"Calc(select=[{item} AS x])\n",
        "java.lang.Exception\n\tat ExpressionReducer$3.map(Unknown Source)",
    )
    assert planned("INTEGER", plan, "") is None
    assert planned("INTEGER", plan, log) == Value("INTEGER", ERROR)
    assert planned("ARRAY<INTEGER>", plan, log) is None


@pytest.mark.parametrize(
    ("here", "there", "equal"),
    [
        ('["1.0","2.0"]', "[1.0,2]", True),
        ('{"a":[1,null]}', '{"a":[1.0,null]}', True),
        ('["1.0"]', '["1.1"]', False),
        ("[true]", "[1]", False),
        ("[]", "error", False),
    ],
)
def test_arrays_maps_and_rows_are_compared_by_value(here: str, there: str, equal: bool) -> None:
    assert _is_equal(here, there, "ARRAY<INTEGER>") is equal


def test_values_are_compared_in_one_spelling_and_the_rest_differs() -> None:
    there = {
        "ABS(-2.50)": Value("DECIMAL(3, 2) NOT NULL", "2.500"),
        "POWER(2, 10)": Value("DOUBLE NOT NULL", "1.024E3"),
        "LN(0)": Value("DOUBLE NOT NULL", None),
        "LOG2(8)": Value("DOUBLE NOT NULL", "3.1E0"),
        "ABS(-5)": Value("INT NOT NULL", ERROR),
    }
    differing = differences(OnFlink(there, 0, 0))
    assert differing == [Difference("ABS(-5)", "5", ERROR), Difference("LOG2(8)", "3.0", "3.1E0")]
    assert outdated([]) == sorted(ACCEPTED)


def test_the_names_of_cases_are_distinct() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))
    assert len(names) > 60, "the page says so"
