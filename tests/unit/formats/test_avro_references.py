"""Schemas that name types of others, as one."""

from __future__ import annotations

import json

import pytest

from headrace.core.errors import UserError
from headrace.formats.avro_references import self_contained
from headrace.formats.avro_schema import columns_of

MONEY = {
    "type": "record",
    "name": "Money",
    "namespace": "shop",
    "fields": [{"name": "cents", "type": "long"}],
}
KIND = {"type": "enum", "name": "Kind", "symbols": ["A"]}


def record(*fields: tuple[str, object], **more: object) -> dict[str, object]:
    return {
        "type": "record",
        "name": "Sale",
        "fields": [{"name": name, "type": kind} for name, kind in fields],
        **more,
    }


@pytest.mark.parametrize("namespace", [{}, {"namespace": "shop"}, {"namespace": "other"}])
def test_a_type_is_written_out_where_it_is_named_first(namespace: dict[str, str]) -> None:
    schema = record(
        ("price", ["null", "shop.Money"]),
        ("all", {"type": "array", "items": "shop.Money"}),
        ("by", {"type": "map", "values": {"type": "shop.Money"}}),
        ("kind", "Kind"),
        **namespace,
    )
    texts = [json.dumps(MONEY), json.dumps(KIND)]
    made = self_contained(json.dumps(schema), texts)
    assert columns_of(made) == columns_of(json.dumps(schema), texts)
    assert made.count('"cents"') == made.count('"symbols"') == 1


def test_a_reference_may_need_another_and_hold_several() -> None:
    line = record(
        ("price", "Money"), ("more", record(("n", "int"), name="More")), name="Line", namespace="shop"
    )
    schema = record(("more", "shop.More"), ("lines", {"type": "array", "items": "shop.Line"}), namespace="x")
    texts = [json.dumps(MONEY), json.dumps(line)]
    made = self_contained(json.dumps(schema), texts)
    assert columns_of(made) == columns_of(json.dumps(schema), texts)
    assert made.count('"n"') == 1


def test_without_references_nothing_is_changed() -> None:
    assert self_contained("{ }", []) == "{ }"


def test_what_is_too_deep_is_refused() -> None:
    deep = "[" * 100_000 + "]" * 100_000
    with pytest.raises(UserError, match="levels"):
        self_contained(deep, [json.dumps(MONEY)])
