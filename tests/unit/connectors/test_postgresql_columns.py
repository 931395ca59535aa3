"""PostgreSQL's texts as columns."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from headrace.connectors.arrow_types import arrow_type
from headrace.connectors.postgresql.columns import column, json_row
from headrace.connectors.postgresql.types import changes
from headrace.core.types import parse_type

LONG = "12345678901234567890.123456789012345678"


@pytest.mark.parametrize(
    ("kind", "texts", "values"),
    [
        ("BIGINT", ["-9223372036854775808", None], [-(2**63), None]),
        ("SMALLINT", ["7"], [7]),
        ("DOUBLE", ["-Infinity", "1e-7"], [float("-inf"), 1e-7]),
        ("DECIMAL(5, 2)", ["-1.5", "100"], [Decimal("-1.50"), Decimal("100.00")]),
        ("BOOLEAN", ["t", "f", None], [True, False, None]),
        ("BYTES", ["\\x00ff", "\\x"], [b"\x00\xff", b""]),
        ("DATE", ["2026-01-02"], [date(2026, 1, 2)]),
        ("TIMESTAMP", ["2026-01-02 03:04:05.678"], [datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)]),
        ("TIMESTAMP_LTZ", ["2026-01-02 03:04:05+00"], [datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)]),
        ("VARCHAR", ["{not an array", None], ["{not an array", None]),
        ("ARRAY<INT>", ["{1,NULL,3}", "{}", None], [[1, None, 3], [], None]),
        ("ARRAY<VARCHAR>", ['{"a b",c,"x\\"y\\\\","NULL"}'], [["a b", "c", 'x"y\\', "NULL"]]),
        ("ARRAY<ARRAY<INT>>", ["{{1,2},{3,4}}"], [[[1, 2], [3, 4]]]),
        ("ARRAY<DOUBLE>", ["[1, 2.5]"], [[1.0, 2.5]]),
        ("MAP<VARCHAR, BIGINT>", ['{"a": 1}', None], [[("a", 1)], None]),
        (
            "STRUCT<a DECIMAL(9, 4), b STRUCT<c BOOLEAN>, d VARCHAR>",
            ['{"a": 1.10, "b": {"c": true}, "d": {"e": 1, "f": 2.5}}', None],
            [{"a": Decimal("1.1000"), "b": {"c": True}, "d": '{"e": 1, "f": 2.5}'}, None],
        ),
        # Digits that no DOUBLE has, in objects and lists inside of others, as values and as text.
        (
            "STRUCT<a STRUCT<n DECIMAL(38, 18)>, l ARRAY<STRUCT<n DECIMAL(38, 18)>>, t VARCHAR, huge VARCHAR>",
            [
                f'{{"a": {{"n": {LONG}}}, "l": [{{"n": {LONG}}}], "t": {{"n": [{LONG}, "ü", null, true]}}, '
                f'"huge": [1e400, {"9" * 5000}]}}'
            ],
            [
                {
                    "a": {"n": Decimal(LONG)},
                    "l": [{"n": Decimal(LONG)}],
                    "t": f'{{"n": [{LONG}, "ü", null, true]}}',
                    "huge": f"[1e400, {'9' * 5000}]",
                }
            ],
        ),
        ("MAP<VARCHAR, ARRAY<DECIMAL(38, 18)>>", [f'{{"a": [{LONG}]}}'], [[("a", [Decimal(LONG)])]]),
    ],
)
def test_texts_become_values(kind: str, texts: list[str | None], values: list[object]) -> None:
    array = column(texts, parse_type(kind))
    assert array.to_pylist() == values
    assert array.type == arrow_type(parse_type(kind))
    assert column([], parse_type(kind)).type == arrow_type(parse_type(kind))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("INTEGER", "2147483648"),
        ("INTEGER", "1.5"),
        ("DECIMAL(5, 2)", "1.234"),
        ("DECIMAL(5, 2)", "NaN"),
        ("BOOLEAN", "yes"),
        ("TIMESTAMP", "infinity"),
        ("DATE", "0044-03-15 BC"),
        ("BYTES", "text"),
        ("ARRAY<INT>", "1"),
        ("ARRAY<INT>", "{a}"),
        ("STRUCT<a INT>", "[1]"),
        ("MAP<VARCHAR, INT>", "not json"),
    ],
)
def test_what_is_none_is_refused(kind: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        column([text], parse_type(kind))


def test_a_row_as_json_keeps_numbers_exact() -> None:
    row = json_row(
        ("id", "n", "nan", 'a "b"', "flag", "none"),
        (20, 1700, 701, 25, 16, 23),
        ("1", "1.50", "NaN", 'x\n"ü"', "f", None),
    )
    assert row == '{"id":1,"n":1.50,"nan":"NaN","a \\"b\\"":"x\\n\\"ü\\"","flag":false,"none":null}'


@pytest.mark.parametrize(
    ("ours", "theirs", "changed"),
    [
        ("DECIMAL(10, 2)", "numeric", False),
        ("DECIMAL(10, 2)", "numeric(50,2)", False),
        ("DECIMAL(10, 3)", "numeric(50,2)", True),
        ("DOUBLE", "numeric(50,2)", True),
        ("BIGINT", "numeric(50,2)", False),
        ("BIGINT", "numeric(5,-3)", True),
        ("VARCHAR", "numeric(50,2)", False),  # as its own text
        ("DECIMAL(10, 2)", "money", False),
        ("DECIMAL(10, 3)", "money", True),
        ("FLOAT", "money", True),
        ("TIMESTAMP", "time without time zone", True),
        ("TIMESTAMP_LTZ", "time(3) with time zone", True),
        ("VARCHAR", "time without time zone", False),
        ("TIMESTAMP", "timestamp(3) without time zone", False),
        ("VARCHAR", "name", True),
        ("VARCHAR", '"char"', True),
        ("VARCHAR", "character varying(3)", False),  # too long a text is refused
        ("VARCHAR", "shop.money", False),
        ("ARRAY<DECIMAL(10, 3)>", "numeric(50,2)[]", True),
        ("ARRAY<ARRAY<TIMESTAMP>>", "time without time zone[]", True),
        ("ARRAY<VARCHAR>", "name[]", True),
        ("ARRAY<VARCHAR>", "text[]", False),
        ("ARRAY<TIMESTAMP>", "text", False),
    ],
)
def test_types_that_store_some_values_as_others(ours: str, theirs: str, changed: bool) -> None:
    assert changes(parse_type(ours), theirs) is changed
