"""Data types print what they read."""

from __future__ import annotations

import datetime
import decimal

import pytest

from headrace.core.errors import UserError
from headrace.core.resultset import cell
from headrace.core.sqlstate import SqlState
from headrace.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DOUBLE,
    TIMESTAMP,
    VARCHAR,
    Array,
    Struct,
    Timestamp,
    parse_type,
)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("string", "VARCHAR"),
        ("Int", "INTEGER"),
        ("decimal", "DECIMAL(10, 0)"),
        ("DECIMAL(38,18)", "DECIMAL(38, 18)"),
        ("timestamp with local time zone", "TIMESTAMP_LTZ"),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP_LTZ(3)"),
        (
            'struct<a int, "B-c" array<map<varchar, bigint>>>',
            'STRUCT<a INTEGER, "B-c" ARRAY<MAP<VARCHAR, BIGINT>>>',
        ),
        ("varchar(2147483647)", "VARCHAR"),
    ],
)
def test_a_type_prints_in_one_form_that_it_reads_again(text: str, printed: str) -> None:
    assert str(parse_type(text)) == printed
    assert parse_type(printed) == parse_type(text)


@pytest.mark.parametrize(
    "text", ["", "money", "ARRAY<", "DECIMAL(39)", "DECIMAL(5, 6)", "BIGINT x", "MAP<INT>", "a;b"]
)
def test_what_is_no_type_is_a_syntax_error(text: str) -> None:
    with pytest.raises(UserError) as failure:
        parse_type(text)
    assert failure.value.state is SqlState.SYNTAX_ERROR


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, BIGINT, None),
        (12, BIGINT, "12"),
        (True, BOOLEAN, "true"),
        (1.5, DOUBLE, "1.5"),
        (float("nan"), DOUBLE, "NaN"),
        (decimal.Decimal("25.00"), parse_type("DECIMAL(10, 2)"), "25.00"),
        (b"howdy", BYTES, "aG93ZHk="),
        (datetime.datetime(2007, 4, 30, 13, 10, 2, 47000), TIMESTAMP, "2007-04-30 13:10:02.047"),
        (datetime.datetime(2007, 4, 30, 13, 10, 2, 47123), TIMESTAMP, "2007-04-30 13:10:02.047123"),
        (
            datetime.datetime(2007, 4, 30, 15, 10, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
            Timestamp(3, local=True),
            "2007-04-30 13:10:00.000Z",
        ),
        (
            {"a": 1, "b": [True, None]},
            Struct((("a", BIGINT), ("b", Array(BOOLEAN)))),
            '{"a":1,"b":[true,null]}',
        ),
        ("東", VARCHAR, "東"),
    ],
)
def test_a_value_becomes_the_text_that_the_clients_decode(
    value: object, kind: object, text: str | None
) -> None:
    assert cell(value, kind) == text  # type: ignore[arg-type]
