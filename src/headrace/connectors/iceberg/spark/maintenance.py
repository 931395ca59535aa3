"""Maintenance of tables by Iceberg's actions: compaction of small files and delete files, and removal of unneeded snapshots."""

from __future__ import annotations

import re
import time
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from headrace.connectors.checkpoint_store import INTERACTIVE, LocalFolder, folders_of
from headrace.connectors.iceberg.options import RETENTION
from headrace.connectors.iceberg.spark.catalog import table_name
from headrace.connectors.iceberg.spark.writing import QUERY
from headrace.connectors.marks import writer_of
from headrace.connectors.streaming import OptimizeRequest
from headrace.core.errors import ExternalError
from headrace.core.names import path_text
from headrace.core.sqlstate import SqlState

_ATTEMPTS = 5
_CONFLICT = re.compile(r"Cannot commit rewrite because|CommitFailedException|ValidationException")
_SNAPSHOT = re.compile(r'"snapshot_id":(\d+)')
_OFFSETS_NEEDED = 2
"""A batch that is not committed begins where the one before ended."""


def optimized(session: SparkSession, request: OptimizeRequest) -> tuple[int, ...]:
    """See `optimize` of `connectors.streaming`. Raises ExternalError 57015 where other writers change the table all the time."""
    table = table_name(session, request.properties, request.entity)
    context: Any = session.sparkContext
    maintenance, java_session = context._jvm.io.headrace.iceberg.StoreMaintenance, session._jsparkSession
    data_before, deletes_before = maintenance.files(java_session, table)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            maintenance.compact(java_session, table)
            break
        except Py4JJavaError as error:
            if not _CONFLICT.search(str(error)):
                raise
            if attempt == _ATTEMPTS:
                raise ExternalError(
                    SqlState.REMOTE_UNAVAILABLE,
                    f"another writer changed {path_text(request.entity)} each of {_ATTEMPTS} times that its files were put together",
                    hint="Repeat the statement at a quieter time, or raise 'iceberg.commit.interval.ms' of the queries that upsert.",
                ) from None
    removed = kept = 0
    if RETENTION.name in request.options:
        older_than_ms = time.time_ns() // 1_000_000 - int(request.options[RETENTION.name])
        queries, snapshots = context._jvm.java.util.ArrayList(), context._jvm.java.util.ArrayList()
        for writer in writers(request):
            queries.add(writer)
        for snapshot in read_snapshots(request):
            snapshots.add(snapshot)
        removed, kept = maintenance.expire(java_session, table, older_than_ms, QUERY, queries, snapshots)
    data, deletes = maintenance.files(java_session, table)
    return data_before, data, deletes_before, deletes, removed, kept


def writers(request: OptimizeRequest) -> set[str]:
    """Return the names under which queries mark their snapshots: a query that was started anew has another one than its id."""
    started = {
        writer_of(query, LocalFolder(checkpoint))
        for query in request.queries
        for folder in request.checkpoints
        for checkpoint in folders_of(query, folder)
    }
    return {*request.queries, *started}


def read_snapshots(request: OptimizeRequest) -> set[str]:
    """Return the ids of the snapshots at which streams continue, for all tables, from Spark's checkpoints."""
    return {
        snapshot
        for query in (*request.queries, INTERACTIVE)
        for folder in request.checkpoints
        for checkpoint in folders_of(query, folder)
        for offsets in (checkpoint / "offsets", *checkpoint.glob("parts/*/offsets"))
        for batch in sorted(offsets.glob("[0-9]*"), key=lambda path: int(path.name))[-_OFFSETS_NEEDED:]
        for snapshot in _SNAPSHOT.findall(batch.read_text())
    }
