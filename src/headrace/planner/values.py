"""Rows of constants: a plan that ends, whose result is the key and the value of each record, or which writes the rows into a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Never

from headrace.analyzer.logical import Scan
from headrace.analyzer.plan import LogicalPlan
from headrace.catalog.objects import EntityFormat
from headrace.core.errors import InternalError
from headrace.core.schema import Column, Schema
from headrace.core.types import VARCHAR
from headrace.planner import physical
from headrace.planner.sink_steps import sink_steps
from headrace.planner.sinks import TableSink, physical_columns
from headrace.planner.snapshot import spark_query
from headrace.planner.user_functions import user_functions

RECORD = tuple(Column(name, VARCHAR, True) for name in ("key", "value"))
_RECORDS = "printed"


def plan_values(rows: Sequence[LogicalPlan], schema: Schema, layout: EntityFormat) -> physical.SparkPlan:
    """Return the plan of rows with the columns of `schema`, in order. Its result has `key` and `value` in hexadecimal digits."""
    steps: list[physical.Step] = [
        _constants(rows),
        physical.EncodeRows(
            id="records",
            input="rows",
            columns=physical_columns(schema),
            value=layout.value,
            key=layout.key,
            key_columns=list(layout.key_columns),
        ),
        physical.SqlTransform(
            id=_RECORDS,
            inputs=["records"],
            sql="SELECT hex(key) AS key, hex(value) AS value FROM records",
        ),
        physical.WriteResults(id="sink", input=_RECORDS, columns=physical_columns(Schema(RECORD))),
    ]
    return _bounded("constants are encoded once", steps, rows)


def plan_insert(rows: Sequence[LogicalPlan], sink: TableSink) -> physical.SparkPlan:
    """Return the plan that writes rows with the columns of a table into it, in order."""
    constants = _constants(rows)
    steps = [constants, *sink_steps(sink, "sink", constants.id, lambda word: word)]
    return _bounded("constants are written once", steps, rows)


def _constants(rows: Sequence[LogicalPlan]) -> physical.SqlTransform:
    sql = "\nUNION ALL\n".join(spark_query(row.root, _no_table) for row in rows)
    return physical.SqlTransform(id="rows", inputs=[], sql=sql)


def _bounded(reason: str, steps: list[physical.Step], rows: Sequence[LogicalPlan]) -> physical.SparkPlan:
    functions = {function.id: function for row in rows for function in user_functions(row)}
    return physical.SparkPlan(
        reasons=[reason],
        bounded=True,
        steps=steps,
        outputs=["sink"],
        functions=list(functions.values()),
    )


def encoded_step(plan: physical.SparkPlan) -> physical.Step:
    """Return the step that reads the encoded records of `plan_values`."""
    return next(step for step in plan.steps if step.id == _RECORDS)


def _no_table(scan: Scan) -> Never:
    raise InternalError(f"a row of constants reads {scan.relation.name}")
