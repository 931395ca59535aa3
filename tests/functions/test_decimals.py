"""DECIMALs against exact arithmetic: every operator, function and aggregate, over random types, values and literals.

On both engines a result is the exact one, rounded half away from zero to the declared type, or the query ends for a value that has
no place in it. All results that exist are asked for in two queries, overflows one by one.
"""

from __future__ import annotations

import decimal
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.analyzer.expressions import Call, Expression
from headrace.analyzer.functions.array_aggregates import ARRAY_AGGREGATES
from headrace.core.errors import UserError
from headrace.core.types import Decimal, parse_type
from tests.functions.engines import Engines, Rows, in_parts

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::ResourceWarning")]

SEED = int(os.environ.get("HEADRACE_SEED", "20"))
PAIRS = int(os.environ.get("HEADRACE_DECIMAL_PAIRS", "24"))
ROWS = 12
OVERFLOWS = 12
Number = decimal.Decimal
EXACT = decimal.Context(prec=200, rounding=decimal.ROUND_HALF_UP)


@dataclass(frozen=True)
class Question:
    """An expression over `places` of a row, and its exact value from theirs; None where it has none (a division by zero)."""

    text: str
    places: tuple[int, ...]
    exact: Callable[..., Number | None]


def divided(left: Number, right: Number) -> Number | None:
    return EXACT.divide(left, right) if right else None


def remainder(left: Number, right: Number) -> Number | None:
    return EXACT.remainder(left, right) if right else None


OPERATORS: dict[str, Callable[[Number, Number], Number | None]] = {
    "+": EXACT.add,
    "-": EXACT.subtract,
    "*": EXACT.multiply,
    "/": divided,
    "%": remainder,
}


def rounded(value: Number, scale: int, rounding: str = decimal.ROUND_HALF_UP) -> Number:
    return value.quantize(Number(1).scaleb(-scale), context=EXACT, rounding=rounding)


def unary(column: str) -> dict[str, Callable[[Number], Number]]:
    return {
        f"-{column}": EXACT.minus,
        f"ABS({column})": EXACT.abs,
        f"SIGN({column})": lambda value: Number((value > 0) - (value < 0)),
        f"CEIL({column})": lambda value: rounded(value, 0, decimal.ROUND_CEILING),
        f"FLOOR({column})": lambda value: rounded(value, 0, decimal.ROUND_FLOOR),
        f"ROUND({column})": lambda value: rounded(value, 0),
        f"ROUND({column}, 1)": lambda value: rounded(value, 1),
        f"ROUND({column}, -1)": lambda value: rounded(value, -1),
        f"CAST({column} AS DECIMAL(12, 3))": lambda value: value,
        f"CAST({column} AS DECIMAL(38, 0))": lambda value: value,
    }


def alternatives(column: str) -> dict[str, Callable[[Number], Number]]:
    """All values become of one type, which must have room for both."""
    return {
        f"CASE WHEN {column} > 1.5 THEN {column} ELSE 0.25 END": lambda value: (
            max(value, Number("0.25")) if value > Number("1.5") else Number("0.25")
        ),
        f"COALESCE({column}, 3)": lambda value: value,
        f"GREATEST({column}, 1.05, 2)": lambda value: max(value, Number(2)),
        f"LEAST({column}, 7)": lambda value: min(value, Number(7)),
    }


class Table:
    """Columns a0, b0, a1, b1, … of random DECIMAL types (now and then a whole number), with values near and far from their limits."""

    def __init__(self, dice: random.Random) -> None:
        self.kinds = [self._kind(dice) for _ in range(2 * PAIRS)]
        self.rows = [[self._value(dice, kind) for kind in self.kinds] for _ in range(ROWS)]
        self.questions = list(self._questions(dice))

    @property
    def columns(self) -> str:
        return "; ".join(
            ["n INTEGER", *(f"{self.name(place)} {kind}" for place, kind in enumerate(self.kinds))]
        )

    @staticmethod
    def name(place: int) -> str:
        return f"{'ab'[place % 2]}{place // 2}"

    @staticmethod
    def _kind(dice: random.Random) -> str:
        if dice.random() < 0.2:
            return dice.choice(["TINYINT", "SMALLINT", "INTEGER", "BIGINT"])
        precision = dice.choice([1, 2, 4, 8, 10, 17, 18, 19, 20, 28, 37, 38, dice.randint(1, 38)])
        scale = dice.choice([0, 2, 18, precision, dice.randint(0, precision)])
        return f"DECIMAL({precision}, {min(scale, precision)})"

    @staticmethod
    def _value(dice: random.Random, kind: str) -> Number:
        digits, scale = {"TINYINT": (2, 0), "SMALLINT": (4, 0), "INTEGER": (9, 0), "BIGINT": (18, 0)}.get(
            kind, (0, 0)
        )
        if not digits:
            declared = parse_type(kind)
            assert isinstance(declared, Decimal)
            digits, scale = declared.precision, declared.scale
        most = 10**digits - 1
        whole = dice.choice(
            [0, 1, most, dice.randint(0, most), dice.randint(0, 10 ** dice.randint(1, digits) - 1)]
        )
        return Number(dice.choice([1, -1]) * whole).scaleb(-scale, context=EXACT)

    @staticmethod
    def places_for_two(kind: str) -> bool:
        declared = parse_type(kind)
        return isinstance(declared, Decimal) and declared.precision <= 35

    def _questions(self, dice: random.Random) -> Iterator[Question]:
        for left in range(0, 2 * PAIRS, 2):
            a, b = self.name(left), self.name(left + 1)
            decimals = "DECIMAL" in self.kinds[left] or "DECIMAL" in self.kinds[left + 1]
            if decimals:
                for sign, exact in OPERATORS.items():
                    yield Question(f"{a} {sign} {b}", (left, left + 1), exact)
                yield Question(f"MOD({a}, {b})", (left, left + 1), remainder)
            if "DECIMAL" not in self.kinds[left]:
                continue
            whole = dice.choice([3, 7, 10, 2147483647, 3000000000, 12345678901234567890])
            fraction = f"{dice.randint(0, 99)}.{dice.randint(0, 9999):04d}"
            for literal in (str(whole), fraction, "0.05", "1.0"):
                sign, exact = dice.choice(list(OPERATORS.items()))
                number = Number(literal)
                yield Question(f"{a} {sign} {literal}", (left,), lambda x, e=exact, y=number: e(x, y))
                yield Question(f"{literal} {sign} {a}", (left,), lambda x, e=exact, y=number: e(y, x))
            yield from (Question(text, (left,), exact) for text, exact in unary(a).items())
            if self.places_for_two(self.kinds[left]):
                yield from (Question(text, (left,), exact) for text, exact in alternatives(a).items())

    def total(self, place: int) -> Number:
        with decimal.localcontext(EXACT):
            return sum((row[place] for row in self.rows), Number(0))


def fits(value: Number | None, kind: Decimal) -> str | None:
    """The wire's text of an exact value at a type; None when it has no place in it."""
    if value is None:
        return None
    at = rounded(value, kind.scale)
    return (
        format(at if at else EXACT.abs(at), "f")
        if EXACT.abs(at) < Number(10) ** (kind.precision - kind.scale)
        else None
    )


@pytest.fixture(scope="module")
def table() -> Table:
    return Table(random.Random(SEED))


@pytest.fixture(scope="module")
def engines(spark: SparkSession, table: Table, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    numbers = [
        [
            n,
            *(
                value if "DECIMAL" in kind else int(value)
                for value, kind in zip(row, table.kinds, strict=True)
            ),
        ]
        for n, row in enumerate(table.rows)
    ]
    engines = Engines(spark, tmp_path_factory.mktemp("views"), table.columns, numbers)
    yield engines
    engines.views.close()


def expected_cells(engines: Engines, table: Table) -> list[list[str | None]]:
    """The answer of every question for every row."""
    kinds = engines.kinds(f"SELECT {', '.join(question.text for question in table.questions)} FROM v")
    cells = []
    for question, kind in zip(table.questions, kinds, strict=True):
        assert isinstance(kind, Decimal), question
        cells.append([fits(question.exact(*(row[i] for i in question.places)), kind) for row in table.rows])
    return cells


def test_every_result_is_exact_at_its_declared_type(engines: Engines, table: Table) -> None:
    expected = expected_cells(engines, table)
    asked = [
        f"CASE WHEN n IN ({', '.join(str(n) for n, cell in enumerate(cells) if cell is not None) or '-1'}) "
        f"THEN {question.text} END AS q{number}"
        for number, (question, cells) in enumerate(zip(table.questions, expected, strict=True))
    ]
    assert "\n".join(wrong(in_parts(engines.continuous, asked, 500), expected, table)) == ""
    assert "\n".join(wrong(in_parts(engines.snapshot, asked, 20), expected, table)) == ""


def wrong(rows: Rows, expected: list[list[str | None]], table: Table) -> list[str]:
    """Return the differences as texts."""
    return [
        f"{question.text} over {[(table.kinds[place], str(table.rows[n][place])) for place in question.places]}: "
        f"expected {cells[n]}, found {row[number]}"
        for n, row in enumerate(rows)
        for number, (question, cells) in enumerate(zip(table.questions, expected, strict=True))
        if row[number] != cells[n]
    ][:20]


def test_aggregates_are_exact_at_their_declared_types(engines: Engines, table: Table) -> None:
    places = [place for place, kind in enumerate(table.kinds) if "DECIMAL" in kind]
    asked: dict[str, Number] = {}
    for place in places:
        column, total = table.name(place), table.total(place)
        asked[f"SUM({column})"] = total
        asked[f"AVG({column})"] = EXACT.divide(total, Number(ROWS))
        asked[f"MIN({column})"] = min(row[place] for row in table.rows)
        asked[f"MAX({column})"] = max(row[place] for row in table.rows)
    kinds = engines.kinds(f"SELECT {', '.join(asked)} FROM v")
    answers = {
        text: fits(value, kind)
        for (text, value), kind in zip(asked.items(), kinds, strict=True)
        if isinstance(kind, Decimal)
    }
    overflowing = {
        f"{verb}({name})"
        for text, value in answers.items()
        if value is None
        for verb in ("SUM", "AVG")
        for name in [text[4:-1]]
    }
    asked_for = [text for text in answers if text not in overflowing]
    query = f"SELECT {', '.join(asked_for)} FROM v"
    (streamed,), (answered,) = engines.continuous(query), engines.snapshot(query)
    expected = [answers[text] for text in asked_for]
    for rows in (streamed, answered):
        assert [row for row in zip(asked_for, expected, rows, strict=True) if row[1] != row[2]] == []


def test_aggregates_of_arrays_are_exact_up_to_37_digits(engines: Engines, table: Table) -> None:
    """MATCH_RECOGNIZE, and DISTINCT over a time window, aggregate arrays."""
    asked: list[tuple[Expression, str | None]] = []
    for place, kind in enumerate(table.kinds):
        declared, (one, other) = parse_type(kind), (row[place] for row in table.rows[:2])
        if not isinstance(declared, Decimal) or declared.precision > 37:
            continue
        total = EXACT.add(one, other)
        if fits(total, Decimal(37, declared.scale)) is None:
            continue
        values = engines.bound(f"ARRAY[CAST('{one}' AS {kind}), CAST('{other}' AS {kind}), NULL]")
        for name, exact in ("SUM", total), ("AVG", EXACT.divide(total, Number(2))):
            of_group = engines.bound(f"{name}({table.name(place)})")
            assert isinstance(of_group, Call)
            assert isinstance(of_group.type, Decimal)
            of_array = replace(of_group, function=ARRAY_AGGREGATES[name], arguments=(values,))
            asked.append((of_array, fits(exact, of_group.type)))
    # Those that have no place in the type of AVG, which has more decimals than the values, end the query.
    asked = [(expression, cell) for expression, cell in asked if cell is not None]
    answers = engines.items("continuous", [expression for expression, _ in asked])[0]
    wrong = [row for row in zip(asked, answers, strict=True) if row[0][1] != row[1]]
    assert wrong == []
    assert len(asked) > PAIRS


def test_a_value_without_a_place_in_the_declared_type_ends_the_query(engines: Engines, table: Table) -> None:
    without_place = [
        (question.text, n)
        for question, cells in zip(table.questions, expected_cells(engines, table), strict=True)
        for n, cell in enumerate(cells)
        if cell is None
    ]
    for text, n in random.Random(SEED).sample(without_place, OVERFLOWS):
        query = f"SELECT CASE WHEN n = {n} THEN {text} END AS x FROM v"
        with pytest.raises(
            PySparkException, match=r"NUMERIC_VALUE_OUT_OF_RANGE|DIVIDE_BY_ZERO|REMAINDER_BY_ZERO"
        ):
            engines.continuous(query)
        with pytest.raises(UserError) as caught:
            engines.snapshot(query)
        assert caught.value.state.value in {"22003", "22012"}, (text, caught.value)


def test_literals_and_nested_arithmetic_keep_their_digits(engines: Engines) -> None:
    query = "SELECT CAST('12.35' AS DECIMAL(10, 2)) / 3 AS a, 1.0 / 3 AS b, CAST(n AS DECIMAL(10, 2)) / 3 AS c FROM v WHERE n = 1"
    expected = [["4.1166666666667", "0.333333333333", "0.3333333333333"]]
    assert engines.continuous(query) == expected
    assert engines.snapshot(query) == expected
    totals = "SELECT SUM(CAST(n AS DECIMAL(10, 2))) / 7 AS a, SUM(CAST(n AS DECIMAL(38, 18))) AS b FROM v"
    expected = [["9.428571", "66.000000000000000000"]]
    assert engines.continuous(totals) == expected
    assert engines.snapshot(totals) == expected
