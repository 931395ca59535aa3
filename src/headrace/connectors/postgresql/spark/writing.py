"""Writes of a query's batches to a table: Spark converts values that Arrow's CSV writer does not support to text, and tasks write them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pyarrow as pa
from pyarrow import csv
from pyspark.sql import DataFrame

from headrace.connectors import table_fit
from headrace.connectors.carried_errors import carried_text
from headrace.connectors.marks import is_begun
from headrace.connectors.postgresql import writing
from headrace.connectors.postgresql.writing import Target
from headrace.connectors.streaming import RowSinkRequest
from headrace.connectors.transaction_task import WRITTEN, in_a_transaction
from headrace.core.errors import UserError
from headrace.core.internal_columns import DELETED
from headrace.core.names import path_text
from headrace.core.schema import Column
from headrace.core.sqlstate import SqlState
from headrace.core.types import Array, DataType, Map, Primitive, Struct, Varchar
from headrace.formats.json import nested_sql
from headrace.formats.types import name_sql, text_sql

# Texts stand in quotes, so that an empty one is not NULL.
_CSV = csv.WriteOptions(include_header=False, quoting_style="needed")


def writer(request: RowSinkRequest) -> Callable[[DataFrame, int], None]:
    """See `write_rows` of `connectors.streaming`. Raises UserError 42P16 for a MAP that JSON cannot hold."""
    table_fit.check_json(request.entity, request.columns)
    target = Target(
        dict(request.properties),
        request.entity,
        tuple(column.name for column in request.columns),
        request.key if request.upsert else (),
        request.query_id if request.guarantee == "exactly_once" else None,
        is_begun(request.checkpoint),
    )
    writing.prepare(target)
    expressions = [selected(column, request) for column in request.columns]
    if request.upsert:
        expressions.append(DELETED)

    def write(batch: DataFrame, epoch: int) -> None:
        rows = batch.selectExpr(*expressions)
        if target.query is not None:
            # One transaction is one connection.
            rows = rows.repartition(1)
        task = in_a_transaction(_lines, partial(writing.write, target, epoch))
        rows.mapInArrow(task, WRITTEN).collect()

    return write


def _lines(batch: pa.RecordBatch) -> bytes:
    buffer = pa.BufferOutputStream()
    csv.write_csv(batch, buffer, _CSV)
    return bytes(buffer.getvalue())


def selected(column: Column, request: RowSinkRequest) -> str:
    """Return Spark SQL of a column of CSV that fails for a value that PostgreSQL would store as another one without an error."""
    name = name_sql(column.name)
    value, refused = value_sql(name, column.type), refused_sql(name, column.type)
    if refused is not None:
        refusal = carried_text(
            UserError(
                SqlState.DATA_EXCEPTION,
                f"a value of the column {column.name} has an empty array in an array, which "
                f"the table {path_text(request.entity)} would hold as one empty array",
                hint="Exclude such rows with WHERE, or add elements to the inner arrays.",
            )
        )
        ended = f" AND NOT {DELETED}" if request.upsert else ""
        value = f"IF({refused}{ended}, raise_error({text_sql(refusal)}), {value})"
    return f"{value} AS {name}"


def refused_sql(value: str, kind: DataType, depth: int = 0) -> str | None:
    """Return Spark SQL that is true for arrays with empty ones inside, None if there can be none.

    PostgreSQL stores `{{},{}}` as `{}` from version 17 on, and refuses it before.
    """
    if not (isinstance(kind, Array) and isinstance(kind.element, Array)):
        return None
    item = f"item{depth}"
    deeper = refused_sql(item, kind.element, depth + 1)
    empty = f"size({item}) = 0"
    return f"exists({value}, {item} -> {empty if deeper is None else f'({empty} OR {deeper})'})"


def value_sql(value: str, kind: DataType) -> str:
    """Return Spark SQL for what stands in a column of CSV: the value itself where Arrow writes it as PostgreSQL reads it, else its text."""
    nested = isinstance(kind, Array | Map | Struct) or kind == Primitive("BYTES")
    return _text_sql(value, kind) if nested else value


def _text_sql(value: str, kind: DataType) -> str:
    match kind:
        case Varchar():
            return value
        case Primitive("BYTES"):
            return f"concat({text_sql(chr(92) + 'x')}, hex({value}))"
        case Map() | Struct():
            return nested_sql(value)
        case Array(element):
            item = _element_sql("item", element)
            return (
                f"concat('{{', array_join(transform({value}, item -> coalesce({item}, 'NULL')), ','), '}}')"
            )
    return f"CAST({value} AS STRING)"


def _element_sql(item: str, kind: DataType) -> str:
    """Return an element as PostgreSQL's text of an array has it: in quotes, unless it is an array itself."""
    text = _text_sql(item, kind)
    if isinstance(kind, Array):
        return text
    slash, quote = chr(92), '"'
    for mark in (slash, quote):
        text = f"replace({text}, {text_sql(mark)}, {text_sql(slash + mark)})"
    return f"concat({text_sql(quote)}, {text}, {text_sql(quote)})"
