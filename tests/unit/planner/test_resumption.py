"""Parts of a plan that continue from copied checkpoints, and the obstacles."""

from __future__ import annotations

from headrace.planner.physical import Column, ReadEntity, SparkPlan, SqlTransform, WriteEntity, WriteView
from headrace.planner.resumption import names_of_parts, read_of_its_own, resumed


def part(name: str, *, source: str = "orders", where: str = "a > 1", sink: str | None = None) -> SparkPlan:
    """Return the plan of a query that writes a topic."""
    return SparkPlan(
        steps=[
            ReadEntity(id=f"read_{name}", store="k", connector="kafka", entity=(source,)),
            SqlTransform(id=f"result_{name}", inputs=[f"read_{name}"], sql=f"SELECT a FROM x WHERE {where}"),
            WriteEntity(
                id=f"sink_{name}",
                input=f"result_{name}",
                store="k",
                connector="kafka",
                entity=(sink or name,),
            ),
        ],
        outputs=[f"sink_{name}"],
        groupings=[],
    )


def view(name: str, identifier: str, *, where: str = "a > 1") -> SparkPlan:
    """Return the plan of a query that writes a view."""
    *steps, written = part(name, where=where).steps
    sink = WriteView(
        id=written.id,
        input=f"result_{name}",
        view=identifier,
        columns=[Column(name="a", type="BIGINT")],
        key_columns=["a"],
    )
    return part(name).model_copy(update={"steps": [*steps, sink]})


def both(*parts: SparkPlan) -> SparkPlan:
    """Return the plan of an application."""
    return SparkPlan(
        steps=[step for each in parts for step in each.steps],
        outputs=[output for each in parts for output in each.outputs],
        groupings=[],
    )


def test_parts_continue_from_those_with_the_same_sinks_in_any_order() -> None:
    old, new = both(part("a"), part("b")), both(part("b", where="a > 2"), part("a", sink="other"))

    resumption = resumed(old, new)

    assert resumption.obstacles == ()
    assert [(before.sink.id, after.sink.id) for before, after in resumption.parts] == [
        ("sink_b", "sink_b"),
        ("sink_a", "sink_a"),
    ]
    assert names_of_parts(old) == ["a", "b"]


def test_a_part_that_is_new_or_missing_is_an_obstacle() -> None:
    resumption = resumed(both(part("a"), part("b")), both(part("a"), part("c")))

    assert resumption.obstacles == (
        "it has no state of the queries of sink_c",
        "the statement lacks the queries of sink_b",
    )


def test_each_part_must_be_able_to_continue() -> None:
    (obstacle,) = resumed(both(part("a"), part("b")), both(part("a"), part("b", source="sales"))).obstacles

    assert obstacle == "the step read_b (read entity) changes"


def test_a_view_continues_with_the_rows_of_the_same_statement_only() -> None:
    assert resumed(view("v", "1"), view("v", "2")).views == {"1": "2"}
    assert resumed(view("v", "1"), view("v", "2")).obstacles == ()
    assert resumed(view("v", "1"), view("v", "2", where="a > 2")).obstacles == (
        "the rows of the materialized view are of another statement",
    )
    assert resumed(part("v"), view("v", "2")).obstacles == (
        "it wrote no materialized view, and so has no rows of one",
    )
    assert resumed(view("v", "1"), part("v")).obstacles == ()


def test_a_plan_that_reads_what_it_writes_is_recognised() -> None:
    assert read_of_its_own(both(part("a"), part("b"))) == []
    assert read_of_its_own(both(part("a"), part("b", source="a"))) == [("a",)]
