"""Every function, operator and aggregate has a documented value, and both engines give it: of literals, and of columns.

A continuous query and a query of views cannot differ where this corpus looks; a function that it does not look at fails the last test.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.analyzer.expressions import Call, Expression, walk
from headrace.analyzer.functions import CATALOGUE, OPERATORS_BY_NAME
from headrace.core.errors import HeadraceError, UserError
from headrace.core.resultset import Cell
from headrace.engine.driver.failures import spark_error
from tests.functions.corpus import Lifting, Line, aggregate_groups, scalar_lines
from tests.functions.engines import Engines, bound_item, is_in_views

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::ResourceWarning")]

SPARK_AT_ONCE, VIEWS_AT_ONCE = 50, 20
SPARK_ERRORS = (PySparkException, Py4JJavaError)
WITHOUT_SYNTAX = {"RLIKE"}
OF_STREAMS = {"CURRENT_WATERMARK"}
"""Functions without a value by themselves."""
LINES = scalar_lines()
GROUPS = aggregate_groups()


@dataclass(frozen=True)
class Case:
    """A line of the corpus, its expression in a form, and whether queries of views have what it needs."""

    line: Line
    expression: Expression
    views: bool


@pytest.fixture(scope="module")
def corpus(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Engines, list[Case]]]:
    """Evaluate in both engines over one row, whose columns contain the values of the literals."""
    lifting, cases = Lifting(), []
    for line in LINES:
        expression = bound_item(line.text, view=False)
        assert expression is not None, line.text
        views = bound_item(line.text, view=True) is not None
        forms = [lifting.lifted(expression)] if line.error else [expression, lifting.lifted(expression)]
        cases.extend(Case(line, form, views) for form in forms)
    columns = "; ".join(["n INTEGER", *(f"l{place} {kind}" for place, kind in enumerate(lifting.kinds))])
    engines = Engines(spark, tmp_path_factory.mktemp("views"), columns, [[1, *lifting.values]])
    yield engines, cases
    engines.views.close()


@pytest.mark.parametrize("engine", ["continuous", "snapshot"])
def test_an_expression_is_what_it_is_documented_to_be(
    corpus: tuple[Engines, list[Case]], engine: str
) -> None:
    engines, cases = corpus
    size = SPARK_AT_ONCE if engine == "continuous" else VIEWS_AT_ONCE
    asked = [case for case in cases if not case.line.error and (case.views or engine == "continuous")]
    wrong = []
    for first in range(0, len(asked), size):
        part = asked[first : first + size]
        for case, answer in zip(part, answers(engines, engine, part), strict=True):
            if answer != case.line.expected:
                wrong.append(f"{case.line.text}: expected {case.line.expected!r}, found {answer!r}")
    assert "\n".join(wrong) == ""


def answers(engines: Engines, engine: str, cases: Sequence[Case]) -> list[Cell]:
    """All at once; one by one when one of them fails, to see which."""
    try:
        return engines.items(engine, [case.expression for case in cases])[0]
    except (*SPARK_ERRORS, HeadraceError) as error:
        if len(cases) == 1:
            return [f"failed: {str(error)[:200]}"]
        return [answers(engines, engine, [case])[0] for case in cases]


# Each error is a query of its own.
@pytest.mark.parametrize("engine", [pytest.param("continuous", marks=pytest.mark.prove), "snapshot"])
def test_what_has_no_value_ends_a_query_with_the_same_error(
    corpus: tuple[Engines, list[Case]], engine: str
) -> None:
    engines, cases = corpus
    errors = {
        case.line.text: failure(engines, engine, case.expression)
        for case in cases
        if case.line.error and (case.views or engine == "continuous")
    }
    expected = {line.text: line.error for line in LINES if line.text in errors}
    assert errors == expected


def test_an_array_of_structs_is_unnested_whole_or_into_its_fields(corpus: tuple[Engines, list[Case]]) -> None:
    array = """JSON_QUERY('[{"a":"x","b":1},null]', '$' RETURNING ARRAY<STRUCT<a VARCHAR, b BIGINT>>)"""
    unnested = f"FROM v CROSS JOIN UNNEST({array})"
    answer = corpus[0].continuous
    assert answer(f"SELECT t.p, t.y, t.x {unnested} WITH ORDINALITY AS t(x, y, p)") == [
        ["1", "1", "x"],
        ["2", None, None],
    ]
    assert answer(f"SELECT t.y, t.x {unnested} AS t(x, y)") == [["1", "x"], [None, None]]
    assert answer(f"SELECT t.e.b AS b, t.p {unnested} WITH ORDINALITY AS t(e, p)") == [
        ["1", "1"],
        [None, "2"],
    ]


def failure(engines: Engines, engine: str, expression: Expression) -> str:
    """Return the SQLSTATE of the error, or the value if there is no error."""
    try:
        return f"no error but {engines.items(engine, [expression])[0][0]!r}"
    except UserError as error:
        return error.state.value
    except SPARK_ERRORS as error:
        classified = spark_error(str(error))
        return classified.state.value if isinstance(classified, UserError) else f"XX000: {str(error)[:200]}"


@pytest.fixture(scope="module")
def groups(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    """A column x0, x1, … for the values of each group."""
    rows = [
        [g, *(value if other == g else None for other in range(len(GROUPS)))]
        for g, group in enumerate(GROUPS)
        for value in group.values
    ]
    columns = "; ".join(["g INTEGER", *(f"x{g} {group.kind}" for g, group in enumerate(GROUPS))])
    engines = Engines(spark, tmp_path_factory.mktemp("views"), columns, rows)
    yield engines
    engines.views.close()


@pytest.mark.parametrize("engine", ["continuous", "snapshot"])
def test_an_aggregate_is_what_it_is_documented_to_be(groups: Engines, engine: str) -> None:
    ask = groups.continuous if engine == "continuous" else groups.snapshot
    wrong: list[str] = []
    for g, group in enumerate(GROUPS):
        texts = {line: re.sub(r"\bx\b", f"x{g}", line.text) for line in group.lines}
        known = [line for line in group.lines if engine == "continuous" or is_in_views(line.text, group.kind)]
        values = [line for line in known if not line.error]
        if values:
            (row,) = ask(f"SELECT {', '.join(texts[line] for line in values)} FROM v WHERE g = {g}")
            wrong.extend(
                f"{line.text} of {group.values}: {line.expected!r}, found {value!r}"
                for line, value in zip(values, row, strict=True)
                if value != line.expected
            )
        for line in known:
            if line.error:
                with pytest.raises((*SPARK_ERRORS, UserError)) as caught:
                    ask(f"SELECT {texts[line]} AS x FROM v WHERE g = {g}")
                classified = (
                    caught.value if isinstance(caught.value, UserError) else spark_error(str(caught.value))
                )
                assert isinstance(classified, UserError)
                assert classified.state.value == line.error, line.text
    assert "\n".join(wrong) == ""


def test_every_function_has_a_documented_value() -> None:
    scalars = [bound_item(line.text, view=False) for line in LINES]
    used = {
        node.function.name
        for expression in scalars
        if expression is not None
        for node in walk(expression)
        if isinstance(node, Call)
    }
    used |= {
        name for group in GROUPS for line in group.lines for name in re.findall(r"\b([A-Z_]+)\(", line.text)
    }
    # IF and COALESCE of one type become a CASE and a value.
    used |= {name for line in LINES for name in re.findall(r"\b([A-Z_0-9]+)\(", line.text)}
    missing = {*CATALOGUE, *OPERATORS_BY_NAME} - used - WITHOUT_SYNTAX - OF_STREAMS
    assert missing == set()
