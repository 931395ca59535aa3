"""Every data type goes into a function and comes back; scalar, table and aggregate functions; overloads and what does not fit."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any

import pytest

from headrace.core.types import parse_type
from headrace.engine.functions.protocol import CallError
from tests.user_functions.caller import Called

Declare = Callable[..., Called]
MOMENT = datetime.datetime(2026, 2, 28, 23, 59, 59, 123456)
VALUES: list[tuple[str, list[Any]]] = [
    ("BOOLEAN", [True, False]),
    ("TINYINT", [-128, 127]),
    ("SMALLINT", [-32768, 32767]),
    ("INTEGER", [-(2**31), 2**31 - 1]),
    ("BIGINT", [-(2**63), 2**63 - 1]),
    ("FLOAT", [1.5, float("inf")]),
    ("DOUBLE", [0.1, -1e300]),
    ("VARCHAR", ["", "héllo 𝄞", "x" * 100_000]),
    ("BYTES", [b"", b"\0\xff"]),
    ("DECIMAL(38, 10)", [decimal.Decimal("-1234567890123456789012345678.0123456789")]),
    ("DATE", [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
    ("TIMESTAMP(6)", [MOMENT, datetime.datetime(1600, 1, 1)]),
    ("TIMESTAMP_LTZ(6)", [MOMENT.replace(tzinfo=datetime.UTC)]),
    ("ARRAY<INTEGER>", [[], [1, None, 3]]),
    ("ARRAY<STRUCT<a BIGINT, b VARCHAR>>", [[{"a": 1, "b": None}, None], []]),
    ("MAP<VARCHAR, BIGINT>", [[], [("a", 1), ("b", None)]]),
    ("STRUCT<a BIGINT, b ARRAY<VARCHAR>>", [{"a": 1, "b": ["x", None]}, {"a": None, "b": None}]),
]


def test_values_of_all_types_come_back_as_they_went(called: Declare) -> None:
    for kind, values in VALUES:
        same = called("Same", [kind], kind)
        rows = [*values, None]
        assert same(*((value,) for value in rows)) == rows, kind


def test_a_table_function_returns_its_rows_and_an_aggregate_a_value_of_many(called: Declare) -> None:
    words = called("Words", ["VARCHAR"], "ARRAY<STRUCT<word VARCHAR, length INTEGER>>", kind="table")
    assert words(("a bc",), (None,)) == [[{"word": "a", "length": 1}, {"word": "bc", "length": 2}], []]
    average = called("WeightedAverage", ["DOUBLE", "INTEGER"], "DOUBLE", kind="aggregate")
    average.declare()
    average.parameters = [parse_type("ARRAY<STRUCT<f0 DOUBLE, f1 INTEGER>>")]
    group = [{"f0": 1.0, "f1": 1}, {"f0": 4.0, "f1": 2}, {"f0": None, "f1": 5}]
    assert average((group,), ([],), (None,)) == [3.0, None, None]


@pytest.mark.prove
def test_the_overload_of_the_declared_types_is_called(called: Declare) -> None:
    assert called("Shorten", ["VARCHAR", "INTEGER"], "VARCHAR")(("hello", 2), (None, 1)) == ["he", None]
    assert called("Shorten", ["VARCHAR"], "VARCHAR")(("hello",)) == ["hel"]
    # An INTEGER fits into a Long.
    assert called("Shorten", ["INTEGER"], "BIGINT")((7,)) == [7]
    assert called("Misfit", ["VARCHAR", "VARCHAR", "VARCHAR"], "VARCHAR")(("a", "b", "c")) == ["a+b+c"]
    assert called("Misfit", ["VARCHAR"] * 2, "VARCHAR")(("a", None), ("b", "c")) == ["a+null", "b+c"]
    # A static method; primitives of other types are widened.
    assert called("Misfit", ["DOUBLE", "SMALLINT"], "DOUBLE")((3.0, 2), (1.0, 4)) == [1.5, 0.25]
    assert called("Misfit", ["BIGINT"], "BIGINT").declare() is False
    assert called("Shorten", ["BIGINT"], "BIGINT").declare() is True


def test_libraries_are_in_a_jar_of_their_own_and_clash_with_none_of_the_worker(called: Declare) -> None:
    # The worker has a class of Jackson by that name, too.
    assert called("Greets", ["VARCHAR"], "VARCHAR")(("ann",)) == ["hello ann of its own Jackson"]


@pytest.mark.parametrize(
    ("name", "parameters", "result", "argument", "message"),
    [
        ("Shorten", ["BIGINT"], "BIGINT", -5, "IllegalArgumentException: -5 is negative"),
        ("Misfit", ["VARCHAR"], "INTEGER", "number", "1099511627776, which does not fit"),
        ("Misfit", ["VARCHAR"], "BIGINT", "text", "it returned java.lang.String"),
        ("Misfit", ["BIGINT"], "BIGINT", None, "its argument 1 is NULL, but eval takes long"),
        ("Shorten", ["DOUBLE"], "VARCHAR", 1.5, "it has eval(Long), eval(String), eval(String, Integer)"),
    ],
)
def test_what_does_not_fit_is_an_error_of_the_function(
    called: Declare, name: str, parameters: list[str], result: str, argument: Any, message: str
) -> None:
    function = called(name, parameters, result)
    with pytest.raises(CallError) as caught:
        function((argument,))
    assert message in caught.value.message
    if name == "Shorten" and argument == -5:
        assert caught.value.trace.startswith("at com.example.Shorten.eval(Shorten.java:")
        assert caught.value.row == 0


def test_each_row_that_fails_is_reported_and_the_others_have_their_results(called: Declare) -> None:
    natural = called("Shorten", ["BIGINT"], "BIGINT")
    first, failed, null, last = natural.attempts((1,), (-5,), (None,), (2,))
    assert (first, null, last) == ((1, None), (None, None), (2, None))
    assert failed[0] is None
    message, _, trace = failed[1].partition("\0")
    assert message == "java.lang.IllegalArgumentException: -5 is negative"
    assert trace.startswith("at com.example.Shorten.eval(Shorten.java:")
    misfit = called("Misfit", ["VARCHAR"], "ARRAY<VARCHAR>")
    # A value that fits in part leaves nothing behind.
    answers = misfit.attempts(("list",), ("mixed",), ("list",), ("text",))
    assert [result for result, _ in answers] == [["a", "b"], None, ["a", "b"], None]
    assert [bool(failure) for _, failure in answers] == [False, True, False, True]
