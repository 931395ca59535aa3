"""Tables as sources: a snapshot's rows for a TABLE, and for a STREAM the rows that each commit appends."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession

from headrace.connectors.checkpoint_store import has_offsets
from headrace.connectors.iceberg.options import AS_OF, METADATA, SKIP_CHANGES, SNAPSHOT
from headrace.connectors.iceberg.spark.catalog import table_name
from headrace.connectors.streaming import RowRequest, TableRequest
from headrace.core.errors import UserError
from headrace.core.internal_columns import DELETED, ENTITY, ROW_KEY, ROW_METADATA, ROW_TIME, SEQUENCE, SPLIT
from headrace.core.names import path_text
from headrace.core.schema import Column
from headrace.core.sqlstate import SqlState
from headrace.formats.types import name_sql, spark_type, text_sql

_FIRST_START = "first-start-ms"


def frame(session: SparkSession, request: TableRequest) -> DataFrame:
    """See `table` of `connectors.streaming`. Raises UserError 3D008 for a snapshot or a time that the table does not have."""
    table = table_name(session, request.properties, request.entity)
    try:
        rows = session.sql(f"SELECT * FROM {table}{_time(request.options)}")  # noqa: S608 - the names are quoted
    except IllegalArgumentException as error:
        if "snapshot" not in str(error):
            raise
        snapshot_options = ", ".join(request.options.values())
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"the table {path_text(request.entity)} has no such snapshot, or was not there at that time: {snapshot_options}",
            hint="The snapshot may have expired. DESCRIBE ENTITY shows the id of the newest snapshot.",
        ) from None
    return rows.selectExpr(*_columns(request.columns))


def appended(session: SparkSession, request: RowRequest) -> DataFrame:
    """See `rows` of `connectors.streaming`: each commit's rows, from the first commit or from the present.

    Raises UserError 0A000 for a table whose first snapshots have been removed.
    """
    table = table_name(session, request.properties, request.entity)
    reader = session.readStream
    if request.starting_position == "latest":
        reader = reader.option("stream-from-timestamp", str(_first_start_ms(request)))
    elif not _resumes(request):
        _check_whole(session, table, request)
    if request.records_per_batch is not None:
        reader = reader.option("streaming-max-rows-per-micro-batch", str(request.records_per_batch))
    for kind in ("delete", "overwrite"):
        reader = reader.option(f"streaming-skip-{kind}-snapshots", request.options[SKIP_CHANGES.name])
    return reader.table(table).selectExpr(
        *_columns(request.columns),
        f"current_timestamp() AS {ROW_TIME}",
        f"CAST(NULL AS STRING) AS {ROW_KEY}",
        f"FALSE AS {DELETED}",
        f"{text_sql(path_text(request.entity))} AS {ENTITY}",
        f"0 AS {SPLIT}",
        f"_pos AS {SEQUENCE}",
        f"CAST(named_struct('file', _file, 'position', _pos) AS {spark_type(METADATA)}) AS {ROW_METADATA}",
    )


def _first_start_ms(request: RowRequest) -> int:
    """Return the time of the query's first start. Until the first commit, the query's offset is this time, not a snapshot."""
    now = time.time_ns() // 1_000_000
    if request.kept is None:
        return now
    known = request.kept.read(_FIRST_START)
    if known is not None:
        return int(known)
    request.kept.write(_FIRST_START, str(now))
    return now


def _resumes(request: RowRequest) -> bool:
    """True if the query has a checkpoint, which holds its position."""
    return request.checkpoint is not None and has_offsets(request.checkpoint)


def _check_whole(session: SparkSession, table: str, request: RowRequest) -> None:
    # For the oldest remaining snapshot, Iceberg's reader returns the added rows, which are none after a compaction.
    java: Any = session.sparkContext._jvm
    if not java.io.headrace.iceberg.StoreTables.isWhole(session._jsparkSession, table):
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"the first snapshots of {path_text(request.entity)} have been removed: a stream from the start would miss their rows",
            hint="Start at 'starting.position' = 'latest', and read the existing rows as a TABLE.",
        )


def _columns(columns: Sequence[Column]) -> list[str]:
    return [
        f"CAST({name_sql(column.name)} AS {spark_type(column.type)}) AS {name_sql(column.name)}"
        for column in columns
    ]


def _time(options: Mapping[str, str]) -> str:
    if SNAPSHOT.name in options:
        return f" VERSION AS OF {int(options[SNAPSHOT.name])}"
    if AS_OF.name in options:
        return f" TIMESTAMP AS OF timestamp_millis({int(options[AS_OF.name])})"
    return ""
