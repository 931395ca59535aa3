"""The ends of a plan: an entity of a store, a table, a materialized view, or the reader of an interactive query."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import pyarrow
import pyarrow.compute
from pyarrow import compute
from pyspark.sql import DataFrame, Row, functions
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headrace.connectors.checkpoint_bucket import Login
from headrace.connectors.checkpoint_store import CheckpointStore, store_at
from headrace.connectors.marks import writer_of
from headrace.connectors.streaming import OptimizeRequest, RowSinkRequest, SinkRequest
from headrace.core.errors import HeadraceError, InternalError
from headrace.core.internal_columns import DELETED, PREFIX
from headrace.core.resultset import LiveRows, encoder
from headrace.core.types import Timestamp, parse_type
from headrace.engine.driver.border import BatchBorder
from headrace.engine.driver.builder import Build, add_steps, connector_module, schema_columns
from headrace.engine.driver.changes import ChangeReader
from headrace.engine.driver.channel import Outgoing
from headrace.engine.protocol import Ack, ApplyView, Rows
from headrace.formats.spark import measured
from headrace.formats.types import name_sql
from headrace.planner import physical
from headrace.runtime.fail_points import fail_point

ROWS_PER_MESSAGE = 1000
_ROW, _LAST = f"{PREFIX}row", f"{PREFIX}last"
Batch = Callable[[DataFrame, int], None]


class QueryStoppedError(Exception):
    """Raised inside a batch to end it without a commit, because the query is to stop."""


@dataclass
class SinkContext:
    """Context of a sink: the channel to the server, and the events of the query's end.

    `stopping` is set from outside when the query is to stop; a sink calls `finish` when it needs no more rows. `is_behind` tells
    whether more rows wait than the batch before could take. `border` is entered with each batch. `compare_tables` raises UserError
    22000 when a table was created again. `resources` are closed when the query has ended. `error` is the one that `batches` raised.
    """

    channel: Outgoing
    query_id: str
    checkpoint: CheckpointStore
    border: BatchBorder
    stopping: threading.Event = field(default_factory=threading.Event)
    finish: Callable[[], None] = lambda: None
    is_behind: Callable[[], bool] = lambda: False
    compare_tables: Callable[[], None] = lambda: None
    resources: ExitStack = field(default_factory=ExitStack)
    error: HeadraceError | None = None

    def batches(self, records: DataFrame, write: Batch) -> DataStreamWriter:
        """Return a writer that passes each batch to `write`. An error of `write` is kept in `error`, since Spark keeps only its text."""

        def attempt(batch: DataFrame, epoch: int) -> None:
            self.border.enter(epoch)
            if self.stopping.is_set():
                raise QueryStoppedError
            try:
                write(batch, epoch)
            except Exception as error:
                if self.stopping.is_set():
                    # Spark matches the error of a stopped query with a regular expression, whose recursion overflows on a long text.
                    raise QueryStoppedError from None
                if isinstance(error, HeadraceError):
                    self.error = error
                raise

        return records.writeStream.foreachBatch(attempt)


def sink(work: Build, context: SinkContext) -> DataStreamWriter:
    """Return a writer for the plan's sinks, without trigger, output mode, name and checkpoint."""
    sinks = work.start.plan.sinks
    if len(sinks) > 1:
        return _write_apart(work, sinks, context)
    writer: DataStreamWriter = SINKS[sinks[0].step](work, sinks[0], context)
    return writer


def _write_apart(work: Build, sinks: Sequence[Any], context: SinkContext) -> DataStreamWriter:
    """Return a writer for several sinks whose rows are computed row by row from one source.

    A batch of the source is read once, and kept until all sinks have written it. Each sink marks its epochs by itself: when a batch
    is repeated, the sinks that wrote it skip it.
    """
    plan = work.start.plan
    reads = (physical.ReadEntity, physical.ReadRows, physical.DecodeRows)
    (source,) = [step.id for step in plan.steps if isinstance(step, physical.ReadRows | physical.DecodeRows)]
    steps = [step for step in plan.steps if step.id not in plan.outputs and not isinstance(step, reads)]
    writes = [
        (
            step.input,
            *BATCHES[step.step](work, step, replace(context, query_id=f"{context.query_id}-{step.id}")),
        )
        for step in sinks
    ]

    def deliver(batch: DataFrame, epoch: int) -> None:
        rows = batch.persist()
        try:
            frames = add_steps(replace(work, session=rows.sparkSession, frames={source: rows}), steps).frames
            for rows_of, selected, write in writes:
                write(frames[rows_of].selectExpr(*selected), epoch)
        finally:
            rows.unpersist()

    return context.batches(work.frames[source], deliver)


def _entity_batches(work: Build, step: physical.WriteEntity, context: SinkContext) -> tuple[list[str], Batch]:
    write: Batch = connector_module(step.connector).write(work.session, _sink_request(work, step, context))
    return ["*"], write


def _write_entity(work: Build, step: physical.WriteEntity, context: SinkContext) -> DataStreamWriter:
    records = measured(work.frames[step.input], "output_bytes")
    request = _sink_request(work, step, context)
    writer: DataStreamWriter | Batch = connector_module(step.connector).sink(records, request)
    return writer if isinstance(writer, DataStreamWriter) else context.batches(records, writer)


def _sink_request(work: Build, step: physical.WriteEntity, context: SinkContext) -> SinkRequest:
    return SinkRequest(
        query_id=writer_of(context.query_id, context.checkpoint),
        entity=step.entity,
        properties=work.properties(step.store),
        guarantee=step.guarantee,
        options=step.options,
        checkpoint=context.checkpoint,
        resources=context.resources,
    )


def _write_rows(work: Build, step: physical.WriteRows, context: SinkContext) -> DataStreamWriter:
    selected, apply = _row_batches(work, step, context)
    return context.batches(work.frames[step.input].selectExpr(*selected), apply)


def _row_batches(work: Build, step: physical.WriteRows, context: SinkContext) -> tuple[list[str], Batch]:
    upsert = bool(step.key_columns)
    request = RowSinkRequest(
        query_id=writer_of(context.query_id, context.checkpoint),
        entity=step.entity,
        columns=schema_columns(step.columns),
        key=tuple(step.key_columns),
        upsert=upsert,
        properties=work.properties(step.store),
        guarantee=step.guarantee,
        options=step.options,
        checkpoint=context.checkpoint,
        resources=context.resources,
        stopping=context.stopping,
        is_behind=context.is_behind,
    )
    write: Batch = connector_module(step.connector).write_rows(request)
    selected = [name_sql(column.name) for column in step.columns]
    if upsert:
        selected.append(
            f"{name_sql(step.deleted)} IS TRUE AS {DELETED}" if step.deleted else f"false AS {DELETED}"
        )

    def apply(batch: DataFrame, epoch: int) -> None:
        context.compare_tables()
        write(_newest(batch, step.key_columns) if upsert else batch, epoch)
        fail_point("after_sink_before_commit")

    return selected, apply


def _newest(batch: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return the last row of each key in the stream: all rows of a key come from one task, which numbers its rows in ascending order."""
    row = functions.struct(*map(name_sql, batch.columns))
    numbered = batch.withColumn(_ROW, functions.monotonically_increasing_id())
    last = numbered.groupBy(*map(name_sql, keys)).agg(functions.max_by(row, _ROW).alias(_LAST))
    return last.select(f"{_LAST}.*")


def _write_view(work: Build, step: physical.WriteView, context: SinkContext) -> DataStreamWriter:
    selected, apply = _view_batches(work, step, context)
    return context.batches(work.frames[step.input].selectExpr(*selected), apply)


def _view_batches(_work: Build, step: physical.WriteView, context: SinkContext) -> tuple[list[str], Batch]:
    names = [column.name for column in step.columns]
    selected = list(dict.fromkeys(name for name in (*names, step.deleted, step.sign) if name is not None))
    local = {column.name: parse_type(column.type) for column in step.columns}

    def apply(batch: DataFrame, epoch: int) -> None:
        table = batch.toArrow()
        if not table.num_rows:
            return
        table = _without_zone(last_of_each(table, step.key_columns), local)
        ack = context.channel.ask(
            lambda sequence: ApplyView(
                sequence=sequence,
                query_id=context.query_id,
                view=step.view,
                epoch=epoch,
                key_columns=step.key_columns,
                deleted=step.deleted,
                sign=step.sign,
            ),
            _arrow_stream(table),
            stopped=context.stopping,
        )
        _check(ack)
        fail_point("after_sink_before_commit")

    return list(map(name_sql, selected)), apply


def _write_results(work: Build, step: physical.WriteResults, context: SinkContext) -> DataStreamWriter:
    columns, read = _row_reader(step)
    left = step.limit

    def deliver(batch: DataFrame, epoch: int) -> None:
        nonlocal left
        # Some rows of a changelog are not shown, and the limit counts only rows that are.
        limited = batch if left is None or step.changes else batch.limit(left)
        live = read(limited.collect()).part(0, left)
        for first in range(0, len(live.cells), ROWS_PER_MESSAGE):
            part = vars(live.part(first, first + ROWS_PER_MESSAGE))
            payload = json.dumps(part, ensure_ascii=False, separators=(",", ":")).encode()
            ack = context.channel.ask(
                lambda sequence: Rows(sequence=sequence, query_id=context.query_id, batch_id=epoch),
                payload,
                stopped=context.stopping,
            )
            if ack.stop and not ack.error and not context.stopping.is_set():
                left = 0
                break
            _check(ack)
        if left is not None:
            left = max(0, left - len(live.cells))
            if left == 0:
                context.finish()

    return context.batches(work.frames[step.input].selectExpr(*map(name_sql, columns)), deliver)


def insert_rows(work: Build, step: physical.WriteRows, context: SinkContext) -> None:
    """Write the rows of a plan without a stream into a table, as one batch."""
    selected, write = _row_batches(work, step, context)
    write(work.frames[step.input].selectExpr(*selected), 0)


def send_answer(
    work: Build, step: physical.WriteResults | physical.OptimizeEntity, context: SinkContext
) -> None:
    """Send all rows of a bounded result to its reader, who may leave early."""
    rows: Iterator[Any]
    columns, read = _row_reader(step)
    if isinstance(step, physical.OptimizeEntity):
        rows = iter([_optimized(work, step)])
    else:
        rows = work.frames[step.input].selectExpr(*map(name_sql, columns)).toLocalIterator()
    while part := list(islice(rows, ROWS_PER_MESSAGE)):
        payload = json.dumps(vars(read(part)), ensure_ascii=False, separators=(",", ":")).encode()
        ack = context.channel.ask(
            lambda sequence: Rows(sequence=sequence, query_id=context.query_id, batch_id=0),
            payload,
            stopped=context.stopping,
        )
        if ack.stop and not ack.error:
            return
        _check(ack)


def _optimized(work: Build, step: physical.OptimizeEntity) -> Sequence[Any]:
    request = OptimizeRequest(
        entity=step.entity,
        properties=work.properties(step.store),
        queries=tuple(step.queries),
        checkpoints=tuple(store_at(place, Login.of(work.start.bucket)) for place in step.checkpoints),
        options=step.options,
    )
    row: Sequence[Any] = connector_module(step.connector).optimize(work.session, request)
    return row


def _row_reader(
    step: physical.WriteResults | physical.OptimizeEntity,
) -> tuple[list[str], Callable[[Sequence[Row]], LiveRows]]:
    """Return the columns to collect, and a function that converts their rows to wire text."""
    names = [column.name for column in step.columns]
    encode = encoder([parse_type(column.type) for column in step.columns])
    if isinstance(step, physical.OptimizeEntity) or step.changes is None:
        return names, lambda rows: LiveRows([encode(row) for row in rows])
    reader = ChangeReader(names, encode, step.changes)
    return reader.columns, reader.read


def _check(ack: Ack) -> None:
    if ack.error is not None:
        raise InternalError(ack.error)
    if ack.stop:
        raise QueryStoppedError


def last_of_each(table: pyarrow.Table, keys: list[str]) -> pyarrow.Table:
    """Return the last row of each key, in order. Rows of one key come from one task, so that their order is the stream's.

    A key of -0.0 equals 0.0, as in SQL; Arrow and ClickHouse distinguish them.
    """
    if not keys:
        return table
    for name in keys:
        column = table[name]
        if pyarrow.types.is_floating(column.type):
            zero = pyarrow.scalar(0.0, column.type)
            table = table.set_column(table.schema.get_field_index(name), name, compute.add(column, zero))
    numbered = table.select(keys).append_column(_ROW, pyarrow.array(range(table.num_rows), pyarrow.int64()))
    last = numbered.group_by(keys).aggregate([(_ROW, "max")])[f"{_ROW}_max"]
    if len(last) == table.num_rows:
        return table
    return table.take(last.combine_chunks().sort())


def _without_zone(table: pyarrow.Table, kinds: dict[str, Any]) -> pyarrow.Table:
    """Return a table whose TIMESTAMPs have no zone, since Spark sets one; only a TIMESTAMP_LTZ has one."""
    fields = []
    for column in table.schema:
        kind = kinds.get(column.name)
        plain = isinstance(kind, Timestamp) and not kind.local and pyarrow.types.is_timestamp(column.type)
        fields.append(column.with_type(pyarrow.timestamp("us")) if plain else column)
    return table.cast(pyarrow.schema(fields))


def _arrow_stream(table: pyarrow.Table) -> bytes:
    buffer = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(buffer, table.schema) as writer:
        writer.write_table(table)
    return bytes(buffer.getvalue())


SINKS: dict[str, Callable[[Build, Any, SinkContext], DataStreamWriter]] = {
    "write_entity": _write_entity,
    "write_rows": _write_rows,
    "write_view": _write_view,
    "write_results": _write_results,
}
"""Kind of a plan's last step to its function."""

BATCHES: dict[str, Callable[[Build, Any, SinkContext], tuple[list[str], Batch]]] = {
    "write_entity": _entity_batches,
    "write_view": _view_batches,
}
"""Kind of a last step of several to a function that returns the columns to select and a writer of batches."""
