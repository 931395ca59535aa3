"""Batches of a query into a table: tasks write them as rows of Python's values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from headrace.connectors.marks import is_begun
from headrace.connectors.oracle import writing
from headrace.connectors.oracle.client import Row
from headrace.connectors.oracle.writing import Output, Target
from headrace.connectors.streaming import RowSinkRequest
from headrace.connectors.transaction_task import WRITTEN, in_a_transaction
from headrace.core.internal_columns import DELETED
from headrace.core.types import Array, DataType, Map, Struct
from headrace.formats.json import nested_sql
from headrace.formats.types import name_sql


def writer(request: RowSinkRequest) -> Callable[[DataFrame, int], None]:
    """See `write_rows` of `connectors.streaming`."""
    target = Target(
        dict(request.properties),
        request.entity,
        request.columns,
        request.key if request.upsert else (),
        request.query_id if request.guarantee == "exactly_once" else None,
        is_begun(request.checkpoint),
    )
    output = writing.prepare(target)
    selected = [
        f"{sent_sql(column.name, column.type)} AS C{number}" for number, column in enumerate(target.columns)
    ]
    if request.upsert:
        selected.append(DELETED)

    def write(batch: DataFrame, epoch: int) -> None:
        rows = batch.selectExpr(*selected)
        if target.query is not None:
            # One transaction is one session.
            rows = rows.repartition(1)
        task = in_a_transaction(partial(rows_of, output), partial(writing.write, output, epoch))
        rows.mapInArrow(task, WRITTEN).collect()

    return write


def sent_sql(name: str, kind: DataType) -> str:
    """Return Spark SQL of a column as a task takes it: nested values are JSON."""
    value = name_sql(name)
    return nested_sql(value) if isinstance(kind, Array | Map | Struct) else value


def rows_of(output: Output, batch: pa.RecordBatch) -> tuple[list[Row], list[Row]]:
    """Return a batch for the driver: rows in the target's columns, and ended keys."""
    columns = [
        _values(batch.column(number), boolean=boolean) for number, boolean in enumerate(output.booleans)
    ]
    rows = list(zip(*columns, strict=True))
    if not output.target.key:
        return rows, []
    ended = batch.column(len(columns)).to_pylist()
    places = [n for n, column in enumerate(output.target.columns) if column.name in output.target.key]
    return (
        [row for row, deleted in zip(rows, ended, strict=True) if not deleted],
        [tuple(row[n] for n in places) for row, deleted in zip(rows, ended, strict=True) if deleted],
    )


def _values(values: pa.Array, *, boolean: bool) -> list[Any]:
    if pa.types.is_timestamp(values.type):
        # In UTC, of which the driver must not know: it would leave it out.
        values = values.cast(pa.timestamp("us"))
    elif pa.types.is_boolean(values.type) and not boolean:
        values = values.cast(pa.int8())
    return list(values.to_pylist())
