"""Columns of samples: each row of the tables is a sample and the columns, or the remark, that it must have."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

import pytest

from headrace.core.types import NESTING_MAX, parse_type
from headrace.formats.sampling import SampledColumns, csv_columns, csv_fields, json_columns


def columns(sampled: SampledColumns) -> str:
    return ", ".join(
        f"{column.name} {column.type}{'' if column.nullable else ' NOT NULL'}" for column in sampled.columns
    )


def sample(*records: str) -> SampledColumns:
    return json_columns(record.encode() for record in records)


@pytest.mark.parametrize(
    ("records", "expected", "remark"),
    [
        (['{"a": 1}', '{"a": -9223372036854775808}'], "a BIGINT", None),
        (['{"a": 9223372036854775808}'], "a DECIMAL(38, 0)", "does not fit into a BIGINT"),
        (['{"a": 1}', '{"a": 1.5}'], "a DOUBLE", None),
        (['{"a": 1e3}'], "a DOUBLE", None),
        (['{"a": 0.1}', '{"a": 12345678901234567.89}'], "a DECIMAL(38, 2)", "does not keep all digits"),
        ([f'{{"a": {"9" * 50}}}'], "a DOUBLE", None),
        ([f'{{"a": {"9" * 5000}}}'], "a DOUBLE", None),
        (['{"a": true}', '{"a": null}'], "a BOOLEAN", None),
        (['{"a": null}'], "a VARCHAR", "has no value for it"),
        (['{"a": 1}', '{"a": "x"}'], "a VARCHAR", "several kinds: number, text"),
        (['{"a": {"b": 1}}', '{"a": [1]}'], "a VARCHAR", "several kinds: array, object"),
        (['{"a": "12"}'], "a VARCHAR", None),
        (['{"a": "2026-01-31"}'], "a DATE", None),
        (['{"a": "2026-02-30"}'], "a VARCHAR", None),
        (['{"a": "2026-01-31 10:00:00.5"}', '{"a": "2026-01-31T10:00"}'], "a TIMESTAMP(3)", None),
        (['{"a": "2026-01-31 10:00:00.123456"}'], "a TIMESTAMP", None),
        (['{"a": "2026-01-31T10:00:00Z"}', '{"a": "2026-01-31T10:00:00+05:30"}'], "a TIMESTAMP_LTZ(3)", None),
        (
            ['{"a": "2026-01-31T10:00:00Z"}', '{"a": "2026-01-31T10:00:00"}'],
            "a TIMESTAMP_LTZ(3)",
            "1 of 2 texts has no time zone",
        ),
        (['{"a": "2026-01-31T10:00:00"}', '{"a": "2026-01-31"}'], "a VARCHAR", "some texts are dates"),
        (['{"a": "2026-01-31T25:00:00"}'], "a VARCHAR", None),
        (['{"a": "2026-01-31T10:00:00"}', '{"a": ""}'], "a VARCHAR", None),
        (['{"ts": 1769853600000}'], "ts BIGINT", "looks like milliseconds since 1970; 'timestamp' = 'ts'"),
        (['{"ts": 1769853600}'], "ts BIGINT", "looks like seconds since 1970"),
        (['{"a": {"b": {"c": 1}, "d": ["x"]}}'], "a STRUCT<b STRUCT<c BIGINT>, d ARRAY<VARCHAR>>", None),
        (['{"a": [1, 2.5, null]}'], "a ARRAY<DOUBLE>", None),
        (['{"a": [{"x": 1}, {"y": "z"}]}'], "a ARRAY<STRUCT<x BIGINT, y VARCHAR>>", None),
        (['{"a": []}'], "a ARRAY<VARCHAR>", "has no value for it"),
        (['{"a": {}}'], "a MAP<VARCHAR, VARCHAR>", "no fields in the sample"),
        (['{"a": {"1001": 5, "1002": 6}}'], "a MAP<VARCHAR, BIGINT>", "differ from record to record"),
        (
            [f'{{"a": {{"k{number}": {{"n": {number}}}}}}}' for number in range(30)],
            "a MAP<VARCHAR, STRUCT<n BIGINT>> NOT NULL",
            "differ from record to record",
        ),
        (['{"A": 1, "a": 2}'], "A BIGINT, a BIGINT", "differ only in case"),
        (['{"": 1, "b\\u0000": 2, "c": 3}'], "c BIGINT", "2 fields are left out"),
        (
            ['{"a": 1}', "{oops", '{"a": 2}'],
            "a BIGINT",
            "1 of 3 sampled records cannot be read: a record is not JSON",
        ),
    ],
)
def test_the_columns_of_a_sample_of_json(records: Sequence[str], expected: str, remark: str | None) -> None:
    sampled = sample(*records)
    assert columns(sampled) == expected
    assert (remark or "") in "; ".join(sampled.notes)
    assert bool(sampled.notes) is (remark is not None)
    for column in sampled.columns:
        assert parse_type(str(column.type)) == column.type


def test_a_column_with_a_value_in_each_of_enough_records_is_not_null() -> None:
    records = [json.dumps({"id": number, "name": "x" if number else None}) for number in range(20)]
    assert columns(sample(*records)) == "id BIGINT NOT NULL, name VARCHAR"
    assert columns(sample(*records[:19])) == "id BIGINT, name VARCHAR"


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ("[1]", "not an object"),
        ("1", "not an object"),
        ("{}", "without fields"),
        ('{"a": NaN}', "not JSON"),
        ("", "not JSON"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_sample_without_columns_is_refused(record: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        sample(record)
    with pytest.raises(ValueError, match="not UTF-8"):
        json_columns([b'{"a": "\xff"}'])


def test_hostile_records_have_bounded_types_and_take_bounded_time() -> None:
    started = time.process_time()
    deep = sample('{"a": ' * 500 + "1" + "}" * 500)
    assert str(deep.columns[0].type).count("STRUCT") < NESTING_MAX
    assert "nested deeper" in deep.notes[0]
    wide = sample(*(json.dumps({f"k{record}_{number}": 1 for number in range(500)}) for record in range(10)))
    assert len(wide.columns) == 1000
    assert "more fields than fit" in wide.notes[0]
    assert len(wide.notes) <= 31
    nested = sample(json.dumps({"a": {f"key number {number}": {"b": number} for number in range(5000)}}))
    assert columns(nested) == "a MAP<VARCHAR, STRUCT<b BIGINT>>"
    assert columns(sample(json.dumps({"x" * 100_000: 1, "b": 2}))) == "b BIGINT"
    injected = sample('{"a\\n DROP STREAM s; --": 1, "b": null}')
    assert all("\n" not in note for note in injected.notes)
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["1,x,2.5", "2,,3"], "column_1 BIGINT, column_2 VARCHAR, column_3 DOUBLE"),
        (
            ["007,true,2026-01-31", "008,FALSE,2026-02-01"],
            "column_1 VARCHAR, column_2 BOOLEAN, column_3 DATE",
        ),
        (['"a,b","say ""x""",""'], "column_1 VARCHAR, column_2 VARCHAR, column_3 VARCHAR"),
        (["2026-01-31 10:00:00,1", "2026-01-31T10:00:01,"], "column_1 TIMESTAMP(3), column_2 BIGINT"),
    ],
)
def test_the_columns_of_a_sample_of_csv(lines: Sequence[str], expected: str) -> None:
    sampled = csv_columns([line.encode() for line in lines], ",")
    assert columns(sampled) == expected
    assert "placeholders" in sampled.notes[0]


def test_a_header_names_the_columns_of_csv() -> None:
    sampled = csv_columns([b"1;x", b"2;y;z"], ";", b'\xef\xbb\xbfid;"Full name"')
    assert columns(sampled) == "id BIGINT, Full name VARCHAR"
    assert sampled.notes == (
        "1 of 2 sampled records cannot be read: a record has 3 fields, and others have 2",
    )
    unnamed = csv_columns([b"1,2,3,4"], ",", b"a,,a,b")
    assert columns(unnamed) == "a BIGINT, column_2 BIGINT, column_3 BIGINT, b BIGINT"
    with pytest.raises(ValueError, match="closing quote"):
        csv_fields('"a', ",")
    with pytest.raises(ValueError, match="without quotes contains a quote"):
        csv_fields('a"b', ",")
