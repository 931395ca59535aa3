"""A SELECT over tables: the columns and rows that it reads, and the work that Spark does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.analyzer import LogicalPlan, bind
from headrace.catalog.objects import Relation, RelationKind
from headrace.core.errors import UserError
from headrace.core.names import RelationName
from headrace.planner.explain import explain
from headrace.planner.physical import ReadTable, SparkPlan
from headrace.planner.sinks import ResultSink
from headrace.planner.table_queries import plan_table_query
from tests.plans.world import BINDING, SHOP, World, relation, schema, select_of

SOLD = replace(
    relation("sold", RelationKind.TABLE, schema("id BIGINT; item VARCHAR; price DECIMAL(10, 2)", "id")),
    store=SHOP.name,
    entity=("public", "sold"),
)


class Shop(World):
    """The world, and a table."""

    def relation(self, name: RelationName, /) -> Relation | None:
        return SOLD if name == SOLD.name else super().relation(name)


def bound(text: str) -> LogicalPlan:
    return bind(select_of(text), replace(BINDING, catalog=Shop()))


def reads(plan: SparkPlan) -> list[tuple[str, list[str]]]:
    return [
        (step.id, [column.name for column in step.columns])
        for step in plan.steps
        if isinstance(step, ReadTable)
    ]


def test_only_what_is_needed_is_read_and_the_plan_survives_storage() -> None:
    plan = plan_table_query(bound("SELECT a.item FROM sold a JOIN sold b ON a.id = b.id WHERE b.price > 1"))
    assert reads(plan) == [("table_1", ["id", "item"]), ("table_2", ["id", "price"])]
    assert plan.bounded
    assert SparkPlan.from_json(plan.to_json()) == plan


def test_rows_are_counted_by_some_column() -> None:
    assert reads(plan_table_query(bound("SELECT count(*) AS n FROM sold"))) == [("table_1", ["id"])]


def test_a_view_beside_a_table_is_refused() -> None:
    with pytest.raises(UserError, match="carriers is a materialized view") as caught:
        plan_table_query(bound("SELECT s.id FROM sold s JOIN carriers c ON c.name = s.item"))
    assert caught.value.span is not None


def test_explain_says_that_it_ends() -> None:
    logical = bound("SELECT item FROM sold WHERE id = 1")
    text = explain(logical, plan_table_query(logical), ResultSink())
    assert "Mode: batch\n  because every source is a table" in text
    assert "  1. table_1: read the rows of public.sold of store shop (postgresql)\n" in text
    assert "     WHERE (`sold`.`id` = 1)\n" in text
