"""Queries of tables: the columns and rows that they read, the work that Spark does, and queries that write the result and end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.analyzer import LogicalPlan, bind
from headrace.catalog.objects import Relation, RelationKind
from headrace.core.errors import UserError
from headrace.core.names import RelationName
from headrace.planner import state_warning
from headrace.planner.explain import explain, explain_running
from headrace.planner.physical import ReadTable, SparkPlan
from headrace.planner.sinks import ResultSink
from headrace.planner.table_queries import plan_table_query
from tests.plans.world import BINDING, SHOP, World, planned, relation, schema, select_of, sink_of

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


STREAM = "CREATE STREAM s WITH ('value.format' = JSON) AS SELECT"
CHANGELOG = "CREATE CHANGELOG c WITH ('value.format' = JSON) AS SELECT"


def test_a_query_of_tables_stores_their_rows_and_ends() -> None:
    plan = planned(f"{STREAM} code, tax FROM cities WHERE people > 5")
    assert (plan.bounded, plan.mode, plan.output_mode) == (True, "micro_batch", "append")
    assert [step.step for step in plan.steps] == [
        "read_table",
        "sql_transform",
        "spool",
        "encode_rows",
        "write_entity",
    ]
    assert SparkPlan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize(
    "query",
    [
        f"{STREAM} code FROM cities ORDER BY people DESC LIMIT 3",
        f"{STREAM} SUM(people) AS people FROM cities",
        f"{STREAM} a.code, b.city FROM cities a LEFT JOIN cities b ON a.code = b.country",
        f"{STREAM} code, RANK() OVER (PARTITION BY country ORDER BY people) AS place, NOW() AS at FROM cities PARTITION BY code",
        f"{STREAM} code FROM cities WHERE code IN (SELECT country FROM cities) UNION ALL SELECT country FROM cities",
        f"{CHANGELOG} country, COUNT(*) AS n FROM cities GROUP BY country",
        "CREATE MATERIALIZED VIEW v AS SELECT country, COUNT(*) AS n FROM cities GROUP BY country",
        "INSERT INTO totals SELECT country, COUNT(*) FROM cities GROUP BY country",
        "INSERT INTO totals SELECT code, people FROM cities",
        "INSERT INTO arrivals SELECT country, COUNT(*), 'counted' FROM cities GROUP BY country",
    ],
)
def test_it_may_be_any_query_of_tables_and_keeps_no_state(query: str) -> None:
    logical, sink = sink_of(query)
    assert planned(query).bounded
    assert state_warning(logical, sink) is None


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (f"{STREAM} code, city AS code FROM cities", "two output columns are named code"),
        (
            f"{STREAM} country, COUNT(*) AS n FROM cities GROUP BY country",
            "Expected CHANGELOG but got STREAM",
        ),
        (f"{CHANGELOG} code FROM cities", "Expected STREAM but got CHANGELOG"),
        (f"{STREAM} code FROM cities QUERY WITH ('execution.mode' = 'real_time')", "real-time mode"),
        (f"{STREAM} code FROM cities UNION ALL SELECT carrier FROM flights", "only in a join"),
        (f"{STREAM} window_end FROM TUMBLE(cities, SIZE 1 DAY)", "TUMBLE takes a STREAM"),
    ],
)
def test_a_sink_of_another_kind_and_streams_beside_the_table_are_refused(query: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        planned(query)
    assert caught.value.span is not None


def test_explain_shows_the_rows_that_are_stored() -> None:
    query = f"{CHANGELOG} country, COUNT(*) AS n FROM cities GROUP BY country"
    logical, sink = sink_of(query)
    text = explain(logical, planned(query), sink)
    assert "Output: CHANGELOG (insert, primary key (country))\n" in text
    assert "the query ends when they are written\nDelivery: at-least-once" in text
    assert "  3. rows: store the rows of result once, and read them in batches\n" in text


ROWS = "FROM (VALUES ('a', 1), ('b', 2)) AS t(k, n)"


@pytest.mark.parametrize(
    "query",
    [
        f"{STREAM} k, n + 1 AS m {ROWS} WHERE n > 0",
        f"{STREAM} 1 AS n, 'x' AS name",
        f"{STREAM} k {ROWS} UNION ALL SELECT 'c' AS k",
        f"{STREAM} k {ROWS} PARTITION BY k",
        f"{CHANGELOG} k, SUM(n) AS total {ROWS} GROUP BY k",
        f"CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n {ROWS} GROUP BY k",
        f"INSERT INTO totals SELECT k, n {ROWS}",
        f"{STREAM} x, n FROM UNNEST(ARRAY['a', 'b']) WITH ORDINALITY AS t(x, n)",
        f"{STREAM} a, b FROM UNNEST(ARRAY[ROW(1, 'a')]) AS t(a, b)",
        # A function without a spelling for queries of views.
        f"{STREAM} JSON_QUERY('[1]', '$' RETURNING ARRAY<INTEGER>) AS x {ROWS}",
    ],
)
def test_a_query_of_constants_stores_them_and_ends(query: str) -> None:
    plan = planned(query)
    assert plan.bounded
    assert [step.step for step in plan.steps][:2] == ["sql_transform", "spool"]
    assert "because the query has no source: its rows are constants" in explain_running(plan)
    assert SparkPlan.from_json(plan.to_json()) == plan


def test_a_select_of_constants_is_answered_at_once_as_before() -> None:
    logical = bound(f"SELECT k, n {ROWS}")
    assert (logical.snapshot, logical.of_tables, logical.has_end) == (True, False, False)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("CREATE STREAM s AS SELECT 1 AS n", "requires the property 'value.format'"),
        (f"{CHANGELOG} k {ROWS}", "Expected STREAM but got CHANGELOG"),
        (f"{STREAM} k, COUNT(*) AS n {ROWS} GROUP BY k", "Expected CHANGELOG but got STREAM"),
        (f"{STREAM} k {ROWS} QUERY WITH ('execution.mode' = 'real_time')", "real-time mode"),
    ],
)
def test_what_a_query_of_constants_lacks_is_requested(query: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        planned(query)
