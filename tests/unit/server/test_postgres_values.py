"""Values, parameters and settings, without a connection."""

from __future__ import annotations

import datetime
import decimal
import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.resultset import ResultColumn, cell
from headrace.core.types import BYTES, DOUBLE, TIMESTAMP_LTZ, Array, Decimal, parse_type
from headrace.server.postgres import types
from headrace.server.postgres.catalog.choice import concerns_catalog
from headrace.server.postgres.errors import PostgresError
from headrace.server.postgres.messages import decoded
from headrace.server.postgres.own_words import setting_of
from headrace.server.postgres.parameters import Bound, literal, placeholders, prepared, substituted
from headrace.server.postgres.variables import startup_options
from headrace.sql import parse
from headrace.sql.statements.query import SelectStatement


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**20), max_value=10**20))
def test_numbers_survive_the_binary_format(value: decimal.Decimal) -> None:
    encode = types.encoders([types.Column("n", types.NUMERIC)], [1])[0][1]
    assert types.parameter(types.NUMERIC, 1, encode(format(value, "f")), decoded) == value


@given(
    st.lists(
        st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), max_size=4
    )
)
def test_arrays_survive_both_formats(items: list[str | None]) -> None:
    array = types.KINDS[types.TEXT].array
    text, binary = (types.encoders([types.Column("a", array)], [form])[0][1](items) for form in (0, 1))
    assert types.parameter(array, 0, text, decoded) == items
    assert types.parameter(array, 1, binary, decoded) == items


@pytest.mark.parametrize("form", [0, 1])
@given(content=st.binary(max_size=40), oid=st.sampled_from([*types.KINDS, *types.ELEMENTS, 0, 600]))
def test_any_bytes_are_a_value_or_an_error_of_the_client(form: int, content: bytes, oid: int) -> None:
    with suppress(PostgresError):
        types.parameter(oid, form, content, decoded)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_a_text_is_one_literal(text: str) -> None:
    statement = substituted("SELECT $1 AS a", [Bound(0, text)]).text
    (parsed,) = parse(statement)
    assert isinstance(parsed, SelectStatement)
    assert [item.this.name for item in parsed.select.expression.expressions] == [text]


def test_placeholders_outside_of_texts() -> None:
    text = "SELECT $1, '$2', \"$3\", a$4 /* $5 */ FROM t -- $6\nWHERE b = $7::character varying(3) LIMIT $8"
    assert [(place.number, place.cast, place.is_count) for place in placeholders(text)] == [
        (1, 0, False),
        (7, types.VARCHAR, False),
        (8, 0, True),
    ]
    assert prepared(text, [types.DATES]).oids == (types.DATES, 0, 0, 0, 0, 0, types.VARCHAR, types.INT8)


def test_positions_are_those_of_the_clients_text() -> None:
    text = "SELECT $1 AS a, $2 AS b, c"
    done = substituted(text, [Bound(0, "a long text"), Bound(types.INT4, 5)])
    assert text[done.original(done.text.index("c", done.text.index("AS b")))] == "c"
    assert text[done.original(done.text.index("AS b"))] == "A"
    assert done.original(done.text.index("long")) == text.index("$1")


@pytest.mark.parametrize(
    ("value", "oid", "text"),
    [
        (None, 0, "NULL"),
        (None, types.INT8, "CAST(NULL AS BIGINT)"),
        (True, types.BOOL, "TRUE"),
        (-5, types.INT4, "-5"),
        (float("nan"), types.FLOAT8, "CAST('nan' AS DOUBLE)"),
        (decimal.Decimal("1E+2"), types.NUMERIC, "100"),
        (datetime.date(2020, 1, 2), types.DATES, "DATE '2020-01-02'"),
        ("a'b", types.TEXT, "'a''b'"),
    ],
)
def test_literals(value: types.Value, oid: int, text: str) -> None:
    assert literal(Bound(oid, value)) == text


@pytest.mark.parametrize("value", [b"a", ["a"], "a\0", decimal.Decimal("NaN"), decimal.Decimal("1E+900")])
def test_values_without_a_literal(value: types.Value) -> None:
    with pytest.raises(PostgresError):
        literal(Bound(0, value))


@pytest.mark.parametrize(
    ("kind", "value", "oid", "text", "binary"),
    [
        (BYTES, b"\0\xff", types.BYTEA, b"\\x00ff", b"\0\xff"),
        (DOUBLE, float("inf"), types.FLOAT8, b"Infinity", struct.pack("!d", float("inf"))),
        (
            Decimal(5, 2),
            decimal.Decimal("1.5"),
            types.NUMERIC,
            b"1.50",
            struct.pack("!hhHhhh", 2, 0, 0, 2, 1, 5000),
        ),
        (Array(DOUBLE), [1.5, None], types.JSON, b"[1.5,null]", b"[1.5,null]"),
        (
            parse_type("STRUCT<a MAP<VARCHAR, BIGINT>>"),
            {"a": {"k": 1}},
            types.JSON,
            b'{"a":{"k":1}}',
            b'{"a":{"k":1}}',
        ),
        (
            TIMESTAMP_LTZ,
            datetime.datetime(2000, 1, 1, 0, 0, 1, tzinfo=datetime.UTC),
            types.TIMESTAMPTZ,
            b"2000-01-01 00:00:01.000+00",
            struct.pack("!q", 1_000_000),
        ),
    ],
)
def test_results(kind: object, value: object, oid: int, text: bytes, binary: bytes) -> None:
    column = types.column_of(ResultColumn("c", kind))  # type: ignore[arg-type] # of `parametrize`
    assert column.oid == oid
    wire = cell(value, kind)  # type: ignore[arg-type]
    assert wire is not None
    for form, expected in ((0, text), (1, binary)):
        convert, encode = types.encoders([column], [form])[0]
        assert encode(convert(wire) if convert else wire) == expected


@pytest.mark.parametrize(
    ("text", "is_of_catalog"),
    [
        ("SELECT 1", False),
        ("SELECT * FROM pg_class", True),
        ("SELECT * FROM information_schema.tables", True),
        ("SELECT * FROM shop.information_schema.tables", False),
        ("SELECT version FROM t", False),
        ("SELECT version()", True),
        ("SELECT pg_id, 'pg_class' FROM t -- pg_class", False),
        ("SELECT 1::int", True),
        ("SELECT a::int FROM t", False),
        ("SELECT current_schema()", True),
    ],
)
def test_the_choice_of_the_catalog(text: str, is_of_catalog: bool) -> None:
    assert concerns_catalog(text) is is_of_catalog


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("SET a TO 'b''c'", "a", "b'c"),
        ("SET SESSION x.y = 1", "x.y", "1"),
        ('SET search_path = a, "b"', "search_path", 'a, "b"'),
        ("SET TIME ZONE 'UTC'", "timezone", "UTC"),
        ("SET NAMES 'utf8'", "client_encoding", "utf8"),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "", None),
        ("SET ROLE analyst", "role", "analyst"),
        ("SET a TO DEFAULT", "a", None),
        ("RESET a", "a", None),
    ],
)
def test_settings_are_read(text: str, name: str, value: str | None) -> None:
    setting = setting_of(text, text.upper().split())
    assert setting is not None
    assert (setting.name, setting.value) == (name, value)


def test_startup_options() -> None:
    assert startup_options(r"-c a=b\ c --d-e=f -cg=h") == {"a": "b c", "d_e": "f", "g": "h"}
    for text in ("-x", "a=b", "-c a", "-c"):
        with pytest.raises(PostgresError):
            startup_options(text)
