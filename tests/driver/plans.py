"""Plans by hand, as the planner would write them."""

from __future__ import annotations

from typing import Any

from headrace.planner.physical import (
    AssignWatermark,
    Column,
    DecodeRows,
    EncodeRows,
    ReadEntity,
    SparkPlan,
    SqlTransform,
    Step,
    WriteEntity,
    WriteResults,
    WriteView,
)

STORE = "store"


def columns(text: str) -> list[Column]:
    """`"id BIGINT; name VARCHAR"` as columns."""
    return [Column(name=part.split()[0], type=part.split(None, 1)[1].strip()) for part in text.split(";")]


def read(
    entity: str, declared: str, *, start: str = "earliest", name: str = "a", **decode: Any
) -> list[Step]:
    """Steps `<name>0` (read) and `<name>` (decode)."""
    return [
        ReadEntity(id=f"{name}0", store=STORE, connector="kafka", entity=(entity,), starting_position=start),  # type: ignore[arg-type]
        DecodeRows(id=name, input=f"{name}0", columns=columns(declared), **decode),
    ]


def watermark(name: str, of: str, **settings: Any) -> AssignWatermark:
    """A watermark on a decoded source."""
    return AssignWatermark(id=name, input=of, source=of, **settings)


def sql(name: str, inputs: list[str], text: str) -> SqlTransform:
    """Spark SQL over earlier steps."""
    return SqlTransform(id=name, inputs=inputs, sql=text)


def write(
    entity: str,
    of: str,
    declared: str,
    *,
    guarantee: str = "at_least_once",
    name: str = "sink",
    **encode: Any,
) -> list[Step]:
    """Steps `encoded_<name>` and `<name>`."""
    encoded = f"encoded_{name}"
    return [
        EncodeRows(id=encoded, input=of, columns=columns(declared), **encode),
        WriteEntity(
            id=name, input=encoded, store=STORE, connector="kafka", entity=(entity,), guarantee=guarantee
        ),  # type: ignore[arg-type]
    ]


def results(of: str, declared: str, limit: int | None = None) -> WriteResults:
    """Rows to the reader."""
    return WriteResults(id="sink", input=of, columns=columns(declared), limit=limit)


def view(of: str, declared: str, **more: Any) -> WriteView:
    """Rows to a view."""
    return WriteView(id="sink", input=of, view="view", columns=columns(declared), **more)


def plan(*steps: Step, **more: Any) -> SparkPlan:
    """A plan."""
    return SparkPlan(steps=list(steps), outputs=[steps[-1].id], **more)
