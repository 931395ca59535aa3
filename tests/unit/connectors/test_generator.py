"""Generated rows: the same for the same seed and offset, in the requested distributions."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from decimal import Decimal as Exact
from typing import Any

import numpy as np
import pytest

from headrace.connectors.base import PrintedRecord, PrintStart
from headrace.connectors.generator import distributions
from headrace.connectors.generator.options import COLUMNS, PROPERTIES, START, source_options
from headrace.connectors.generator.rows import GeneratedRows, check
from headrace.connectors.registry import connector
from headrace.core.errors import UserError
from headrace.core.properties import PropertyReader, Scope, of_scope, stored
from headrace.core.schema import Column
from headrace.core.types import BIGINT, parse_type

STARTED_MS = 1_700_000_000_000


def generated(columns: str, **given: str) -> GeneratedRows:
    """Return the rows of `name TYPE = distribution; …`; `given` has the properties with _ for dots."""
    specs, texts = [], {f"generator.{name.replace('_', '.')}": text for name, text in given.items()}
    for column in columns.split(";"):
        declared, _, distribution = column.partition("=")
        name, _, kind = declared.strip().partition(" ")
        specs.append(Column(name, parse_type(kind)))
        if distribution:
            texts[f"{COLUMNS.name}{name}"] = distribution.strip()
    reader = PropertyReader(stored(texts), of_scope(PROPERTIES, Scope.RELATION), what="a stream")
    options = source_options(reader)
    check(specs, options)
    return GeneratedRows(tuple(specs), options, STARTED_MS)


def column(rows: GeneratedRows, name: str, count: int = 10_000, split: int = 0) -> list[Any]:
    numbers = rows.numbers(split, 0, count)
    names = [column.name for column in rows.columns]
    return rows.values(numbers, rows.times_us(numbers))[names.index(name)].to_pylist()


EVERY_TYPE = (
    "a BOOLEAN; b TINYINT; c SMALLINT; d INTEGER; e BIGINT; f FLOAT; g DOUBLE; h DECIMAL(9, 2); i DATE; "
    "j TIMESTAMP(3); k TIMESTAMP_LTZ; l VARCHAR; m VARCHAR(4); n BYTES; o VARCHAR = text(3, 30) nulls 0.2; "
    "p DECIMAL(20, 4) = uniform(-1.5, 2); q VARCHAR = values('x': 3, 'it''s', 7); r BIGINT = time"
)


def test_a_row_depends_on_seed_and_offset_only() -> None:
    rows = generated(EVERY_TYPE, seed="7", splits="3", disorder_millis="500", late_ratio="0.1")
    numbers = rows.numbers(1, 0, 1000)
    whole = [values.to_pylist() for values in rows.values(numbers, rows.times_us(numbers))]
    for first, end in ((0, 1), (1, 400), (400, 1000)):
        part = rows.numbers(1, first, end)
        again = generated(EVERY_TYPE, seed="7", splits="3", disorder_millis="500", late_ratio="0.1")
        values = again.values(part, again.times_us(part))
        assert [column.to_pylist() for column in values] == [column[first:end] for column in whole]
    other = generated(EVERY_TYPE, seed="8", splits="3")
    assert column(other, "g", 1000, split=1) != whole[6]


def test_the_first_rows_of_a_seed_never_change() -> None:
    """A query that continues after an upgrade reads the rows that it had read."""
    rows = generated(
        "id BIGINT = sequence(1); u INTEGER = uniform(0, 999); t VARCHAR = text(12); z VARCHAR = zipf(9)"
    )
    assert [column(rows, name, 3) for name in ("id", "u", "t", "z")] == [
        [1, 2, 3],
        [524, 492, 832],
        ["fujcdxjpvnfr", "kvxapsimojbl", "utorsehvskkh"],
        ["z_4", "z_4", "z_2"],
    ]


def test_values_have_their_distribution() -> None:
    rows = generated(
        "u INTEGER = uniform(10, 19); d DOUBLE = uniform(-1, 1); z INTEGER = zipf(100, 1.2); "
        "v VARCHAR = values('a': 8, 'b': 2); t VARCHAR = text(2, 5); n BIGINT = sequence(5, -2); "
        "m DECIMAL(5, 2) = uniform(0.00, 0.99); w VARCHAR = uniform(1, 3) nulls 0.25"
    )
    uniform = Counter(column(rows, "u"))
    assert set(uniform) == set(range(10, 20))
    assert all(800 < count < 1200 for count in uniform.values())
    doubles = column(rows, "d")
    assert (min(doubles) >= -1, max(doubles) < 1, abs(sum(doubles)) < 250) == (True, True, True)
    ranks = Counter(column(rows, "z"))
    assert (min(ranks), max(ranks) <= 100) == (1, True)
    assert 2.0 < ranks[1] / ranks[2] < 2.6  # 2 to the power of 1.2 is 2.3
    assert 7700 < Counter(column(rows, "v"))["a"] < 8300
    texts = column(rows, "t")
    assert {len(text) for text in texts} == {2, 3, 4, 5}
    assert set("".join(texts)) == set("abcdefghijklmnopqrstuvwxyz")
    assert column(rows, "n", 3) == [5, 3, 1]
    decimals = column(rows, "m")
    assert {min(decimals), max(decimals)} == {Exact("0.00"), Exact("0.99")}
    words = Counter(column(rows, "w"))
    assert set(words) == {"w_1", "w_2", "w_3", None}
    assert 2200 < words[None] < 2800


def test_columns_are_independent_of_each_other() -> None:
    rows = generated("a DOUBLE; b DOUBLE; c VARCHAR = text(8) nulls 0.5; d VARCHAR = text(8) nulls 0.5")
    assert abs(float(np.corrcoef(column(rows, "a"), column(rows, "b"))[0, 1])) < 0.05
    both = sum(c is None and d is None for c, d in zip(column(rows, "c"), column(rows, "d"), strict=True))
    assert 2200 < both < 2800


def test_rows_are_ready_at_their_rate_and_splits_take_turns() -> None:
    rows = generated("a BIGINT = sequence", rows_per_second="2.5", splits="2")
    assert rows.end(STARTED_MS - 1) == {0: 0, 1: 0}
    assert rows.end(STARTED_MS) == {0: 1, 1: 0}
    assert rows.end(STARTED_MS + 1999) == {0: 3, 1: 2}
    assert rows.end(STARTED_MS + 2000) == {0: 3, 1: 3}
    assert rows.begin(STARTED_MS + 2000) == {0: 3, 1: 2}
    assert (column(rows, "a", 3, split=0), column(rows, "a", 3, split=1)) == ([0, 2, 4], [1, 3, 5])
    assert rows.times_us(rows.numbers(1, 2, 3)).tolist() == [(STARTED_MS + 2000) * 1000]
    assert rows.starts("earliest", 0) == {0: 0, 1: 0}
    assert rows.starts("latest", STARTED_MS + 2000) == {0: 3, 1: 3}
    bounded = generated("a BIGINT", rows_per_second="1000", rows="7", splits="3")
    assert bounded.end(STARTED_MS + 10_000_000) == {0: 3, 1: 2, 2: 2}
    started = generated("a BIGINT", start_timestamp="1000")
    assert started.times_us(started.numbers(0, 0, 2)).tolist() == [1_000_000, 1_100_000]


@pytest.mark.parametrize("rate", ["0.001", "0.3", "3", "7.7", "999983", "1000000"])
def test_the_end_at_a_time_and_the_times_of_rows_agree(rate: str) -> None:
    rows = generated("a BIGINT", rows_per_second=rate)
    for elapsed_ms in (0, 1, 999, 86_400_000, 86_400_000 * 365 * 5):
        now_ms = STARTED_MS + elapsed_ms
        end = rows.end(now_ms)[0]
        last, following = rows.ready_us(np.array([end - 1, end])).tolist()
        assert last <= now_ms * 1000 < following


def test_late_and_bad_rows_are_a_fraction() -> None:
    rows = generated(
        "a BIGINT", late_ratio="0.1", late_millis="5000", bad_ratio="0.02", disorder_millis="100"
    )
    numbers = rows.numbers(0, 0, 10_000)
    behind = rows.ready_us(numbers) - rows.times_us(numbers)
    late = behind >= 5_000_000
    assert 800 < late.sum() < 1200
    assert (behind.min() >= 0, behind[~late].max() <= 100_000, behind.max() <= 5_100_000) == (
        True,
        True,
        True,
    )
    assert 120 < rows.bad(numbers).sum() < 280


@pytest.mark.parametrize(
    "text",
    ["", "x", "uniform", "uniform(1)", "uniform(2, 1)", "uniform(1, 2", "zipf(0)", "zipf(1.5)", "zipf(10, 11)",
     "zipf(1000000)", "text(1001)", "text(3, 2)", "text(-1)", "values()", "values('a': 0)", "values('a)",
     "time(1)", "sequence(1, 2, 3)", "uniform(NaN, 1)", "uniform(1, 1e30)", "time nulls 2", "sequence(0.5)"],
)  # fmt: skip
def test_a_text_that_is_no_distribution_is_refused(text: str) -> None:
    with pytest.raises((ValueError, ArithmeticError)):
        distributions.parse(text)
    with pytest.raises(UserError, match=r"'generator\.columns\.a' must be sequence, uniform"):
        generated(f"a BIGINT = {text or ' '}")


@pytest.mark.parametrize(
    ("declared", "state", "reason"),
    [
        ("a TINYINT = uniform(0, 200)", "42804", "200 does not fit the type TINYINT"),
        ("a BOOLEAN = sequence", "42804", "sequence does not fit the type BOOLEAN"),
        ("a BIGINT = text(3)", "42804", "text does not fit the type BIGINT"),
        ("a VARCHAR = time", "42804", "time does not fit the type VARCHAR"),
        ("a DATE = values('2026-01-31')", "42804", "choices does not fit the type DATE"),
        ("a BIGINT = values(1, x)", "42804", "'x' is not a BIGINT"),
        ("a BOOLEAN = values(yes)", "42804", "'yes' is not a BOOLEAN"),
        ("a DECIMAL(3, 2) = uniform(0, 10)", "42804", "10 does not fit"),
        ("a VARCHAR(3) = text(4)", "42804", "4 characters does not fit"),
        ("a VARCHAR(1) = values(ab)", "42804", "'ab' is no"),
        ("a ARRAY<BIGINT>", "0A000", "single values only"),
        ("a STRUCT<b BIGINT>", "0A000", "single values only"),
    ],
)
def test_a_distribution_that_does_not_fit_is_refused(declared: str, state: str, reason: str) -> None:
    with pytest.raises(UserError, match=reason) as caught:
        generated(declared)
    assert (caught.value.state.value, bool(caught.value.hint)) == (state, True)


def test_a_distribution_of_no_column_or_with_nulls_where_none_may_be_is_refused() -> None:
    options = generated("a BIGINT").given
    with pytest.raises(UserError, match="a column that does not exist"):
        check([Column("a", BIGINT)], {**options, f"{COLUMNS.name}b": "sequence"})
    with pytest.raises(UserError, match="it is NOT NULL"):
        check([Column("a", BIGINT, nullable=False)], {**options, f"{COLUMNS.name}a": "sequence nulls 0.1"})


def test_the_size_of_a_row_is_known() -> None:
    rows = generated("a BIGINT; b VARCHAR = text(2, 1000); c VARCHAR = values('x', 'yyyy')")
    assert rows.row_bytes == 16 + 1016 + 20


def test_a_store_keeps_the_time_of_its_first_row() -> None:
    kind = connector("generator")

    def read(given: dict[str, str]) -> dict[str, str]:
        return kind.read(PropertyReader(stored(given), of_scope(PROPERTIES, Scope.STORE), what="a store"))

    assert int(read({})[START.name]) > STARTED_MS
    assert read({START.name: "5"}) == {START.name: "5"}


def test_printed_rows_are_those_that_queries_read() -> None:
    rows = generated(
        "id BIGINT = sequence; at TIMESTAMP_LTZ(3); d DECIMAL(4, 2)", splits="2", bad_ratio="0.1"
    )
    printer = connector("generator").printer
    assert printer is not None

    async def first(count: int, partitions: frozenset[int] | None) -> list[PrintedRecord]:
        start = PrintStart("earliest", rows.given, partitions, rows.columns)
        records = await printer.print_entity({START.name: "1000"}, ("g",), start=start)
        return [await anext(records) for _ in range(count)]

    printed = asyncio.run(first(700, frozenset({1})))
    assert [(record.partition, record.offset) for record in printed] == [(1, str(n)) for n in range(700)]
    good = [record for record in printed if record.value != "a bad record"]
    assert 600 < len(good) < 660
    assert json.loads(good[0].value or "") | {"d": ""} == {"id": 1, "at": "1970-01-01 00:00:01.100Z", "d": ""}
    with pytest.raises(UserError, match="no partition 2"):
        asyncio.run(first(1, frozenset({2})))
