"""Batches of a query into a table: one commit each, which carries the epoch in the summary of its snapshot."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from headrace.connectors.commit_interval import CommitInterval
from headrace.connectors.iceberg.options import COMMIT_INTERVAL
from headrace.connectors.iceberg.spark.catalog import stored_type, table_name
from headrace.connectors.marks import BEFORE_ANY, is_written
from headrace.connectors.streaming import RowSinkRequest
from headrace.core.internal_columns import DELETED
from headrace.core.names import path_text
from headrace.formats.types import name_sql

QUERY, EPOCH = "headrace.query", "headrace.epoch"
_SUMMARY = "spark.sql.iceberg.snapshot-property."
_BATCH = "headrace_batch"
_COMMIT_INTERVAL_MS = 10_000


def writer(request: RowSinkRequest) -> Callable[[DataFrame, int], None]:
    """See `write_rows` of `connectors.streaming`."""
    started = time.time()
    interval = CommitInterval(request, int(request.options.get(COMMIT_INTERVAL.name, _COMMIT_INTERVAL_MS)))
    columns = [
        f"CAST({name_sql(column.name)} AS {stored_type(column.type)}) AS {name_sql(column.name)}"
        for column in request.columns
    ]

    def write(batch: DataFrame, epoch: int) -> None:
        interval.wait()
        session = batch.sparkSession
        table = table_name(session, request.properties, request.entity)
        if request.guarantee == "exactly_once" and _is_written(batch, table, request, epoch, started):
            return
        session.conf.set(_SUMMARY + QUERY, request.query_id)
        session.conf.set(_SUMMARY + EPOCH, str(epoch))
        if request.upsert:
            # MERGE looks at its rows more than once.
            rows = batch.selectExpr(*columns, DELETED).persist()
            try:
                rows.createOrReplaceTempView(_BATCH)
                session.sql(merge_sql(request, table))
            finally:
                rows.unpersist()
        else:
            batch.selectExpr(*columns).writeTo(table).option("fanout-enabled", "true").append()
        interval.committed()

    return write


def _is_written(batch: DataFrame, table: str, request: RowSinkRequest, epoch: int, started: float) -> bool:
    """Return True if the table's history contains a query's epoch. Raises UserError 22000 when the history was cut off.

    A new epoch was never written. An epoch that is repeated may have been written by a snapshot that has expired since.
    """
    session: Any = batch.sparkSession
    tables = session.sparkContext._jvm.io.headrace.iceberg.StoreTables
    history = f"the snapshots of {path_text(request.entity)}"
    last = int(tables.lastEpoch(session._jsparkSession, table, QUERY, EPOCH, request.query_id))
    if last != BEFORE_ANY:
        return is_written(last, epoch, history)
    offsets_at = Path(request.checkpoint, "offsets", str(epoch)).stat().st_mtime
    if offsets_at < started and not tables.reaches(session._jsparkSession, table, int(offsets_at * 1000)):
        return is_written(None, epoch, history)
    return False


def merge_sql(request: RowSinkRequest, table: str) -> str:
    """Return the MERGE that upserts and deletes by the key; each key is in a batch once."""
    names = [name_sql(column.name) for column in request.columns]
    same = " AND ".join(f"t.{name_sql(name)} = s.{name_sql(name)}" for name in request.key)
    return (
        f"MERGE INTO {table} AS t USING {_BATCH} AS s ON {same} "  # noqa: S608 - the names are quoted
        f"WHEN MATCHED AND s.{DELETED} THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {', '.join(f't.{name} = s.{name}' for name in names)} "
        f"WHEN NOT MATCHED AND NOT s.{DELETED} THEN "
        f"INSERT ({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})"
    )
