"""Conversion between Protobuf's descriptors and columns. `shop.desc` is protoc's output for `shop.proto`."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet

from headrace.core.errors import UserError
from headrace.core.schema import Column
from headrace.core.sqlstate import SqlState
from headrace.core.types import Struct, parse_type
from headrace.formats.protobuf_schema import Descriptors, decoded, of_set, of_text, proto_text

SHOP = Path(__file__).parents[3] / "harness" / "protobuf"
COMPILED = (SHOP / "shop.desc").read_bytes()
MONEY = ("money.proto", (SHOP / "money.proto").read_text())


def columns(**types: str) -> Struct:
    return Struct(tuple((name, parse_type(kind)) for name, kind in types.items()))


def plain(descriptors: Descriptors, message: str) -> DescriptorProto:
    """Return a message without details that do not affect the bytes."""
    made = DescriptorProto()
    descriptors.message(message).CopyToProto(made)

    def strip(descriptor: DescriptorProto) -> None:
        for field in descriptor.field:
            field.ClearField("json_name")
            field.ClearField("default_value")
            if not field.options.HasField("packed"):
                field.ClearField("options")
        descriptor.options.ClearField("deprecated")
        if not descriptor.options.map_entry:
            descriptor.ClearField("options")
        for nested in descriptor.nested_type:
            strip(nested)

    strip(made)
    return made


def test_a_proto_file_is_read_as_protoc_reads_it() -> None:
    compiled, read = of_set(COMPILED), of_text((SHOP / "shop.proto").read_text(), [MONEY])
    assert read.messages == ("shop.Order", "shop.Order.Item", "shop.Other")
    assert set(compiled.messages) == {*read.messages, "m.Money"}
    for message in compiled.messages:
        assert plain(read, message) == plain(compiled, message)


def test_a_message_has_these_columns() -> None:
    item = "STRUCT<d DOUBLE, size VARCHAR, raw_data MAP<INTEGER, BYTES>>"
    shop = of_set(COMPILED)
    assert {column.name: str(column.type) for column in shop.columns("shop.Order")} == {
        "id": "BIGINT", "who": "VARCHAR", "counts": "ARRAY<INTEGER>", "by_name": f"MAP<VARCHAR, {item}>", "text": "VARCHAR",
        "item": item, "at": "TIMESTAMP", "kind": "VARCHAR", "wrapped": "BIGINT",
        "price": "STRUCT<cents BIGINT, currency VARCHAR>", "items": f"ARRAY<{item}>", "last": item,
    }  # fmt: skip
    assert [(column.name, column.nullable) for column in shop.columns("m.Money")] == [
        ("cents", False),
        ("currency", True),
    ]


def test_a_message_is_found_by_what_is_enough_of_its_name() -> None:
    text = 'syntax = "proto3"; package p; message A { int64 a = 1; message B { int64 b = 1; } } message C { message B { int64 b = 1; } }'
    schema = of_text(text)
    assert [schema.named(name) for name in (None, "A", "A.B", "p.C.B")] == ["p.A", "p.A", "p.A.B", "p.C.B"]
    assert [schema.indexes(name) for name in ("p.A", "p.A.B", "p.C", "p.C.B")] == [(0,), (0, 0), (1,), (1, 0)]
    for name, said in (("D", "no message 'D'"), ("B", "several messages 'B'")):
        with pytest.raises(UserError, match=said) as caught:
            schema.named(name)
        assert caught.value.state is SqlState.DESCRIPTOR_NOT_FOUND


def test_what_a_plan_carries_is_a_message_with_all_that_it_needs() -> None:
    shop = of_set(COMPILED)
    assert decoded(shop.encoded("m.Money")).messages == ("m.Money",)
    assert decoded(shop.encoded("shop.Other")).columns("shop.Order") == shop.columns("shop.Order")
    assert decoded(shop.encoded("shop.Order")).indexes("shop.Order.Item") == (0, 0)


TYPES = {
    "a": "BOOLEAN", "b": "TINYINT", "c": "SMALLINT", "d": "INTEGER", "e": "BIGINT", "f": "FLOAT", "g": "DOUBLE", "h": "DECIMAL(9, 2)",
    "i": "VARCHAR", "j": "BYTES", "k": "DATE", "l": "TIMESTAMP(3)", "m": "TIMESTAMP_LTZ", "n": "ARRAY<TIMESTAMP>", "o": "MAP<BIGINT, DATE>",
    "p": "STRUCT<x INTEGER, p STRUCT<p ARRAY<STRUCT<y BYTES>>>>", "pEntry": "MAP<VARCHAR, STRUCT<z BIGINT>>",
}  # fmt: skip


def test_columns_are_written_as_a_message_that_holds_them() -> None:
    every = columns(**TYPES)
    text = proto_text([Column(name, kind) for name, kind in every.fields], "shop.t_value")
    made = of_text(text)
    assert made.messages[0] == "shop.t_value"
    assert made.misfit("shop.t_value", every) is None
    assert [str(column.type) for column in made.columns("shop.t_value")][:9] == [
        "BOOLEAN", "INTEGER", "INTEGER", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "VARCHAR", "VARCHAR",
    ]  # fmt: skip


def test_the_next_version_of_a_message_keeps_its_numbers() -> None:
    first = of_text(
        'syntax = "proto3"; message t { reserved 3, 7 to 9; int64 a = 2; P p = 5; string gone = 6; message P { int32 x = 4; } }'
    )
    more = columns(c="BIGINT", p="STRUCT<y INTEGER, x INTEGER>", a="BIGINT")
    text = proto_text([Column(name, kind) for name, kind in more.fields], "t", before=first)
    second = of_text(text)
    assert {field.name: field.number for field in second.message("t").fields} == {"c": 1, "p": 5, "a": 2}
    assert {field.name: field.number for field in second.message("t.P").fields} == {"y": 1, "x": 4}
    assert "reserved 3, 6, 7 to 9;" in text


@pytest.mark.parametrize(
    "kind", ["ARRAY<ARRAY<BIGINT>>", "MAP<DOUBLE, BIGINT>", "MAP<VARCHAR, MAP<VARCHAR, BIGINT>>"]
)
def test_what_protobuf_cannot_say_is_refused(kind: str) -> None:
    with pytest.raises(UserError) as caught:
        proto_text([Column("a", parse_type(kind))], "t")
    assert caught.value.state is SqlState.FEATURE_NOT_SUPPORTED
    with pytest.raises(UserError, match="letters, digits and _"):
        proto_text([Column("ä", parse_type("BIGINT"))], "t")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"id": "INTEGER"}, "has int64 in its field id, which does not fit an INTEGER"),
        ({"counts": "INTEGER"}, "has repeated int32 in its field counts, which does not fit an INTEGER"),
        ({"by_name": "ARRAY<BIGINT>"}, "has a map in its field by_name, which does not fit an ARRAY<BIGINT>"),
        ({"at": "BIGINT"}, "has google.protobuf.Timestamp in its field at, which does not fit a BIGINT"),
        ({"price": "STRUCT<euros BIGINT>"}, "has no field price.euros in the message m.Money"),
        ({"items": "ARRAY<STRUCT<d FLOAT>>"}, "has double in its field items.d, which does not fit a FLOAT"),
        ({"id": "BIGINT", "wrapped": "STRUCT<value BIGINT>", "at": "STRUCT<nanos INTEGER>", "kind": "VARCHAR"}, None),
    ],
)  # fmt: skip
def test_columns_without_fields_are_reported(given: dict[str, str], said: str | None) -> None:
    assert of_set(COMPILED).misfit("shop.Order", columns(**given)) == said


@pytest.mark.parametrize(
    ("text", "state", "said"),
    [
        ("no proto", "22000", "line 1: expected a definition, found 'no'"),
        ("message M {\n int64 a = 1\n}", "22000", "line 3: expected ';', found '}'"),
        ("message M { optional X a = 1; }", "22000", "couldn't resolve name 'X'"),
        ('syntax = "proto3"; message M { int64 a = 1; int64 b = 1; }', "22000", "duplicate field number"),
        ("message M { optional int64 a = 99999999999; }", "22000", "too large"),
        ('edition = "2023"; message M { int64 a = 1; }', "0A000", "editions"),
        ("message M { optional group G = 1 { } }", "0A000", "groups"),
        ('import "x.proto"; message M { }', "3D010", "the file x.proto, which schema.proto imports"),
        ('import "schema.proto"; message M { }', "22000", "imports itself"),
        ("message M { " * 50, "53000", "40 levels"),
        ('syntax = "proto3"; message M { "', "22000", "unexpected"),
        ("message M { optional M m = 1; }", "0A000", "contains itself"),
        ("message M { }", "0A000", "has no fields"),
        ('syntax = "proto3";', "3D010", "no message"),
        (
            " ".join(f"message M{n} {{ {' '.join(f'optional M{n + 1} f{i} = {i + 1};' for i in range(20))} }}" for n in range(20))
            + " message M20 { optional int64 a = 1; }",
            "53000",
            "10000 fields",
        ),
    ],
)  # fmt: skip
def test_a_schema_that_is_no_use_says_why(text: str, state: str, said: str) -> None:
    def read() -> None:
        schema = of_text(text)
        schema.columns(schema.named(None))

    with pytest.raises(UserError, match=said) as caught:
        read()
    assert caught.value.state.value == state


def test_a_file_without_its_imports_or_of_other_bytes_is_refused() -> None:
    alone = FileDescriptorSet(file=[FileDescriptorSet.FromString(COMPILED).file[-1]])
    with pytest.raises(UserError, match=r"money.proto, which shop.proto imports, is missing") as caught:
        of_set(alone.SerializeToString())
    assert "--include_imports" in (caught.value.hint or "")
    for data in (b"", b'{"id": 1}', COMPILED[:-9], (SHOP / "shop.proto").read_bytes()):
        with pytest.raises(UserError, match="expected compiled descriptors"):
            of_set(data)


@pytest.mark.parametrize(
    ("file", "kind", "column"),
    [
        ("google/protobuf/field_mask.proto", "google.protobuf.FieldMask", "STRUCT<paths ARRAY<VARCHAR>>"),
        (
            "google/protobuf/source_context.proto",
            "google.protobuf.SourceContext",
            "STRUCT<file_name VARCHAR>",
        ),
        ("google/protobuf/api.proto", "google.protobuf.Mixin", "STRUCT<name VARCHAR, root VARCHAR>"),
        ("google/protobuf/type.proto", "google.protobuf.Syntax", "VARCHAR"),
        ("google/protobuf/descriptor.proto", "", None),
        (
            "confluent/meta.proto",
            "confluent.Meta",
            "STRUCT<doc VARCHAR, params MAP<VARCHAR, VARCHAR>, tags ARRAY<VARCHAR>>",
        ),
        (
            "confluent/type/decimal.proto",
            "confluent.type.Decimal",
            "STRUCT<value BYTES, precision INTEGER, scale INTEGER>",
        ),
    ],
)
def test_files_that_need_no_reference(file: str, kind: str, column: str | None) -> None:
    field = f"{kind} v = 1;" if column else "int32 v = 1;"
    text = f'syntax = "proto3"; import "{file}"; message M {{ {field} }}'
    descriptors = of_text(text)
    assert descriptors.messages == ("M",)
    assert column in (None, str(descriptors.columns("M")[0].type))
    assert decoded(descriptors.encoded("M")).columns("M") == descriptors.columns("M")


def test_a_given_file_of_confluents_counts_before_the_known_one() -> None:
    given = 'syntax = "proto3"; package confluent; message Meta { string other = 1; }'
    text = 'syntax = "proto3"; import "confluent/meta.proto"; message M { confluent.Meta v = 1; }'
    (column,) = of_text(text, [("confluent/meta.proto", given)]).columns("M")
    assert str(column.type) == "STRUCT<other VARCHAR>"
