"""Avro schemas and columns, both ways."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import UserError
from headrace.core.schema import Column
from headrace.core.sqlstate import SqlState
from headrace.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    SMALLINT,
    TINYINT,
    VARCHAR,
    Array,
    DataType,
    Decimal,
    Map,
    Struct,
    Timestamp,
    Varchar,
    parse_type,
)
from headrace.formats.avro_schema import columns_of, record_schema, type_of, value_schema

# What Avro holds as it is; the rest becomes one of these.
KEPT = st.one_of(
    st.sampled_from(
        [BOOLEAN, INTEGER, BIGINT, FLOAT, DOUBLE, DATE, BYTES, VARCHAR, Timestamp(3), Timestamp(6)]
    ),
    st.integers(1, 38).flatmap(lambda most: st.builds(Decimal, st.just(most), st.integers(0, most))),
)
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)


def nested(inner: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    fields = st.lists(st.tuples(NAMES, inner), min_size=1, max_size=4, unique_by=lambda field: field[0])
    return st.one_of(
        st.builds(Array, inner),
        st.builds(lambda value: Map(VARCHAR, value), inner),
        st.builds(lambda pairs: Struct(tuple(pairs)), fields),
    )


TYPES = st.recursive(KEPT, nested, max_leaves=8)
COLUMNS = st.lists(
    st.builds(Column, NAMES, TYPES, st.booleans()),
    min_size=1,
    max_size=6,
    unique_by=lambda column: column.name,
)


def record(*fields: dict[str, Any], **others: Any) -> str:
    return json.dumps({"type": "record", "name": "r", "fields": list(fields), **others})


def field(kind: Any, name: str = "f") -> dict[str, Any]:
    return {"name": name, "type": kind}


@given(COLUMNS, st.text(max_size=20))
def test_columns_come_back_from_their_schema(columns: list[Column], name: str) -> None:
    assert columns_of(record_schema(columns, name)) == tuple(columns)


@given(TYPES)
def test_a_single_value_comes_back_from_its_schema(kind: DataType) -> None:
    assert type_of(value_schema(kind, "topic-key")) == kind


@given(COLUMNS)
def test_no_two_records_of_a_schema_have_one_name(columns: list[Column]) -> None:
    names: list[str] = []

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if node.get("type") == "record":
                names.append(f"{node.get('namespace', '')}.{node['name']}")
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(json.loads(record_schema(columns, "topic")))
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("declared", "kept"),
    [
        (TINYINT, INTEGER),
        (SMALLINT, INTEGER),
        (Varchar(10), VARCHAR),
        (Timestamp(0), Timestamp(3)),
        (Timestamp(9, local=True), Timestamp(6)),
    ],
)
def test_what_avro_holds_only_in_part(declared: DataType, kept: DataType) -> None:
    assert type_of(value_schema(declared, "v")) == kept


@pytest.mark.parametrize(
    ("avro", "ours"),
    [
        ("long", "BIGINT"),
        ({"type": "string"}, "VARCHAR"),
        ({"type": {"type": "string", "avro.java.string": "String"}}, "VARCHAR"),
        ({"type": "string", "logicalType": "uuid"}, "VARCHAR"),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, "VARCHAR"),
        ({"type": "fixed", "name": "x", "size": 16}, "BYTES"),
        ({"type": "fixed", "name": "x", "size": 8, "logicalType": "decimal", "precision": 9}, "DECIMAL(9, 0)"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3}, "DECIMAL(12, 3)"),
        # Not valid, and so to be ignored, as the specification says.
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}, "BYTES"),
        ({"type": "string", "logicalType": "date"}, "VARCHAR"),
        ({"type": "int", "logicalType": "date"}, "DATE"),
        ({"type": "int", "logicalType": "time-millis"}, "INTEGER"),
        ({"type": "long", "logicalType": "timestamp-millis"}, "TIMESTAMP(3)"),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, "TIMESTAMP"),
        ({"type": "long", "logicalType": "timestamp-nanos"}, "BIGINT"),
        ({"type": "map", "values": ["null", "int"]}, "MAP<VARCHAR, INTEGER>"),
        ({"type": "array", "items": {"type": "record", "name": "n", "fields": [{"name": "A", "type": "int"}]}},
         'ARRAY<STRUCT<"A" INTEGER>>'),
    ],
)  # fmt: skip
def test_an_avro_type_is_a_data_type(avro: Any, ours: str) -> None:
    assert type_of(json.dumps(avro)) == parse_type(ours)
    assert columns_of(record(field(avro))) == (Column("f", parse_type(ours), nullable=False),)
    assert columns_of(record(field([avro, "null"]))) == (Column("f", parse_type(ours), nullable=True),)


def test_types_are_found_by_their_names_here_and_in_references() -> None:
    money = {"type": "record", "name": "Money", "namespace": "shop", "fields": [field("long", "cents")]}
    price = record(
        field("Money", "net"), field(["null", "shop.Money"], "gross"), namespace="shop", name="Price"
    )
    order = record(
        field("shop.Price", "price"),
        field({"type": "fixed", "name": "Id", "size": 4}, "id"),
        field("Id", "parent"),
        name="other.Order",
    )
    struct = "STRUCT<net STRUCT<cents BIGINT>, gross STRUCT<cents BIGINT>>"
    assert [str(column.type) for column in columns_of(order, [json.dumps(money), price])] == [
        struct,
        "BYTES",
        "BYTES",
    ]


@pytest.mark.parametrize(
    ("schema", "state", "words"),
    [
        ("{", SqlState.DATA_EXCEPTION, "not JSON"),
        ("[" * 100_000, SqlState.CONFIGURATION_LIMIT_EXCEEDED, "levels"),
        ('"string"', SqlState.FEATURE_NOT_SUPPORTED, "single value"),
        (record(), SqlState.FEATURE_NOT_SUPPORTED, "no fields"),
        (record(field("Nope")), SqlState.DATA_EXCEPTION, "'Nope', which is not defined"),
        (record({"name": "f"}), SqlState.DATA_EXCEPTION, "'f'"),
        (record(field(["null", "int", "string"])), SqlState.FEATURE_NOT_SUPPORTED, "'f' is a union"),
        (record(field("null")), SqlState.FEATURE_NOT_SUPPORTED, "always null"),
        (record(field(["null", "r"])), SqlState.FEATURE_NOT_SUPPORTED, "contains itself"),
        (
            record(field({"type": "bytes", "logicalType": "decimal", "precision": 39})),
            SqlState.FEATURE_NOT_SUPPORTED,
            "39 digits",
        ),
        (record(field("int", "a\u200bb")), SqlState.SYNTAX_ERROR, "visible"),
    ],
)
def test_what_no_columns_can_be_made_of_is_said(schema: str, state: SqlState, words: str) -> None:
    with pytest.raises(UserError) as caught:
        columns_of(schema)
    assert caught.value.state is state
    assert words in caught.value.message


def test_a_schema_cannot_grow_by_naming_its_types_again_and_again() -> None:
    doubled = [
        record(field(f"r{n - 1}" if n else "int", "a"), field(f"r{n - 1}" if n else "int", "b"), name=f"r{n}")
        for n in range(20)
    ]
    with pytest.raises(UserError) as caught:
        columns_of(doubled[-1], doubled[:-1])
    assert caught.value.state is SqlState.CONFIGURATION_LIMIT_EXCEEDED


def test_named_types_do_not_nest_deeper_than_a_data_type_may() -> None:
    chain = [record(field(f"r{n - 1}" if n else "int"), name=f"r{n}") for n in range(60)]
    with pytest.raises(UserError) as caught:
        columns_of(chain[-1], chain[:-1])
    assert caught.value.state is SqlState.CONFIGURATION_LIMIT_EXCEEDED


@pytest.mark.parametrize(
    ("column", "state"),
    [
        (Column("first name", BIGINT), SqlState.INVALID_RELATION_DEFINITION),
        (Column("m", Map(BIGINT, BIGINT)), SqlState.FEATURE_NOT_SUPPORTED),
    ],
)
def test_columns_that_avro_cannot_name_or_hold_are_refused(column: Column, state: SqlState) -> None:
    with pytest.raises(UserError) as caught:
        record_schema([column], "topic")
    assert caught.value.state is state
