"""Types and partitions of Iceberg's table format, both ways."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from headrace.connectors.iceberg.glue import read_metadata
from headrace.connectors.iceberg.metadata import (
    check_read,
    check_written,
    first_metadata,
    new_table,
    our_type,
    table_of,
)
from headrace.core.errors import UserError
from headrace.core.schema import Column, Schema
from headrace.core.sqlstate import SqlState
from headrace.core.types import parse_type


def columns(text: str) -> tuple[Column, ...]:
    """`name TYPE; …`, with ! after what is not nullable."""
    parts = (part.strip().partition(" ") for part in text.split(";"))
    return tuple(
        Column(name, parse_type(kind.rstrip("!")), not kind.endswith("!")) for name, _, kind in parts
    )


def kept(schema: Schema, partition_by: str | None = None) -> Any:
    return table_of(
        first_metadata(new_table(schema, partition_by, {}), uuid="u", location="s3://b/t", moment_ms=1)
    )


def test_a_table_is_read_as_it_was_made() -> None:
    text = "id BIGINT!; v VARCHAR; d DECIMAL(38, 9); b BYTES; at TIMESTAMP_LTZ; t TIMESTAMP; f FLOAT; g DOUBLE; o BOOLEAN; y DATE"
    schema = Schema(
        (*columns(text), *columns("m MAP<VARCHAR, ARRAY<STRUCT<a INTEGER, s STRUCT<x DATE>>>>")), ("id",)
    )
    table = kept(schema, 'day(at), bucket(16, id), truncate(4, v), year(t), "y"')
    assert (table.columns, table.key) == (schema.columns, ("id",))
    assert table.partition_by == "day(at), bucket(16, id), truncate(4, v), year(t), y"
    assert table.snapshot is None


def test_what_iceberg_has_no_type_for_is_the_next_wider_one() -> None:
    table = kept(Schema(columns("a TINYINT; b SMALLINT; c VARCHAR(3); d TIMESTAMP(9); e TIMESTAMP_LTZ(3)")))
    assert [str(column.type) for column in table.columns] == [
        "INTEGER",
        "INTEGER",
        "VARCHAR",
        "TIMESTAMP",
        "TIMESTAMP_LTZ",
    ]


def test_each_field_has_a_number_of_its_own() -> None:
    schema = Schema(columns("a MAP<VARCHAR, STRUCT<x INTEGER, y ARRAY<INTEGER>>>; b INTEGER"))
    made = first_metadata(new_table(schema, None, {}), uuid="u", location="s3://b/t", moment_ms=1)
    assert made["last-column-id"] == 7
    assert [one["id"] for one in made["schemas"][0]["fields"]] == [1, 2]


@pytest.mark.parametrize(
    ("theirs", "ours"), [("uuid", "VARCHAR"), ("fixed[16]", "BYTES"), ("decimal(9,2)", "DECIMAL(9, 2)")]
)
def test_types_of_others_tables(theirs: str, ours: str) -> None:
    assert str(our_type(theirs, "c")) == ours


@pytest.mark.parametrize("theirs", ["time", "timestamp_ns", "variant", {"type": "new"}])
def test_a_type_that_is_not_read_is_refused_with_its_column(theirs: Any) -> None:
    with pytest.raises(UserError, match="the column c of the table") as caught:
        our_type(theirs, "c")
    assert caught.value.state is SqlState.FEATURE_NOT_SUPPORTED


@pytest.mark.parametrize(
    "text",
    [
        "nowhere",
        "day(nowhere)",
        "bucket(id)",
        "bucket(0, id)",
        "day(3, id)",
        "week(id)",
        "id)",
        "(id",
        "day(id",
        "id; DROP",
        "day(id) x",
    ],
)
def test_partitions_that_are_none(text: str) -> None:
    with pytest.raises(UserError, match="no partition of the table's columns") as caught:
        new_table(Schema(columns("id BIGINT")), text, {})
    assert caught.value.state is SqlState.INVALID_PARAMETER


TABLE = kept(
    Schema(columns("id BIGINT!; v VARCHAR; d DECIMAL(9, 2); at TIMESTAMP; s STRUCT<a INTEGER>"), ("id",))
)


def test_columns_that_fit() -> None:
    fits = Schema(columns("id INTEGER!; v VARCHAR(5); d DECIMAL(7, 2); s STRUCT<a SMALLINT>"), ("id",))
    check_written(TABLE, ("shop", "kept"), fits, upsert=True)
    wide = Schema(columns("id BIGINT!; d DECIMAL(12, 2); s STRUCT<a BIGINT>"))
    check_read(TABLE, ("shop", "kept"), wide)


@pytest.mark.parametrize(
    ("given", "key", "state", "message"),
    [
        ("v VARCHAR; n DATE; o DATE", "v", SqlState.UNDEFINED_COLUMN, "shop.kept has no column n, o"),
        (
            "v BIGINT; d DECIMAL(9, 3); at TIMESTAMP_LTZ; s STRUCT<b INTEGER>",
            "v",
            SqlState.INVALID_RELATION_DEFINITION,
            "v is VARCHAR, which does not accept BIGINT; d is DECIMAL(9, 2), which does not accept DECIMAL(9, 3); "
            "at is TIMESTAMP, which does not accept TIMESTAMP_LTZ; s is STRUCT<a INTEGER>, which does not accept STRUCT<b INTEGER>",
        ),
        (
            "v VARCHAR",
            "v",
            SqlState.INVALID_RELATION_DEFINITION,
            "needs a value of id, and the query has no such column",
        ),
        ("id BIGINT!; v VARCHAR", "v", SqlState.INVALID_RELATION_DEFINITION, "is (id), and rows are to be"),
    ],
)
def test_rows_that_do_not_fit(given: str, key: str, state: SqlState, message: str) -> None:
    with pytest.raises(UserError) as refused:
        check_written(TABLE, ("shop", "kept"), Schema(columns(given), (key,)), upsert=True)
    assert (refused.value.state, message in refused.value.message) == (state, True), refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize(
    ("declared", "state", "message"),
    [
        ("n DATE", SqlState.UNDEFINED_COLUMN, "shop.kept has no column n"),
        ("id INTEGER", SqlState.INVALID_RELATION_DEFINITION, "id is BIGINT, which is not an INTEGER"),
    ],
)
def test_columns_that_cannot_be_read(declared: str, state: SqlState, message: str) -> None:
    with pytest.raises(UserError) as refused:
        check_read(TABLE, ("shop", "kept"), Schema(columns(declared)))
    assert (refused.value.state, message in refused.value.message) == (state, True), refused.value.message


def test_a_file_of_metadata_may_be_compressed() -> None:
    assert read_metadata(b'{"location": "s3://b/t"}') == {"location": "s3://b/t"}
    assert read_metadata(gzip.compress(b'{"location": "s3://b/t"}')) == {"location": "s3://b/t"}


@pytest.mark.parametrize(
    "body", [b"", b"\x1f\x8b", b"Obj\x01", b"\xff\xfe", gzip.compress(b"{", mtime=0)[:-9]]
)
def test_what_is_no_metadata_is_refused(body: bytes) -> None:
    with pytest.raises(UserError, match="metadata cannot be read") as caught:
        read_metadata(body)
    assert (caught.value.state, bool(caught.value.hint)) == (SqlState.FEATURE_NOT_SUPPORTED, True)
