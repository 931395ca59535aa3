"""Maintenance of tables by Iceberg's actions: compaction of small files and delete files, and removal of unneeded snapshots."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from headrace.connectors.checkpoint_store import INTERACTIVE, CheckpointStore, LocalFolder
from headrace.connectors.iceberg.options import RETENTION
from headrace.connectors.iceberg.spark.catalog import table_name
from headrace.connectors.iceberg.spark.writing import QUERY
from headrace.connectors.streaming import OptimizeRequest
from headrace.core.errors import ExternalError, UserError
from headrace.core.names import path_text
from headrace.core.sqlstate import SqlState

_ATTEMPTS = 5
_CONFLICT = re.compile(r"Cannot commit rewrite because|CommitFailedException|ValidationException")
_SNAPSHOT = re.compile(r'"snapshot_id":(\d+)')
_OFFSETS_NEEDED = 2
"""A batch that is not committed begins where the one before ended."""


def optimized(session: SparkSession, request: OptimizeRequest) -> tuple[int, ...]:
    """See `optimize` of `connectors.streaming`. Raises ExternalError 57015 where other writers change the table all the time, and the
    errors of `read_snapshots`."""
    if RETENTION.name in request.options:
        # Its errors come before anything is changed.
        read_snapshots(request)
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
        for query in request.queries:
            queries.add(query)
        for snapshot in read_snapshots(request):
            snapshots.add(snapshot)
        removed, kept = maintenance.expire(java_session, table, older_than_ms, QUERY, queries, snapshots)
    data, deletes = maintenance.files(java_session, table)
    return data_before, data, deletes_before, deletes, removed, kept


def read_snapshots(request: OptimizeRequest) -> set[str]:
    """Return the ids of the snapshots at which streams continue, for all tables, from Spark's checkpoints.

    Raises UserError 0A000 for a folder that this machine does not have: queries with checkpoints there would lose their snapshots.
    """
    prefixes = (*request.queries, INTERACTIVE)
    return {
        snapshot
        for folder in request.checkpoints
        for checkpoint in _inside(folder)
        if checkpoint.startswith(prefixes)
        for text in _offsets(folder.at(checkpoint))
        for snapshot in _SNAPSHOT.findall(text)
    }


def _inside(folder: CheckpointStore) -> list[str]:
    if isinstance(folder, LocalFolder) and not folder.exists():
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"cannot determine which snapshots queries need: the compute pool's driver does not have the folder {folder.uri} with their "
            "checkpoints",
            hint="Use a compute pool whose driver has the folder, mount it where it is missing, or omit 'iceberg.snapshot.retention.ms'.",
        )
    return folder.names("")


def _offsets(checkpoint: CheckpointStore) -> Iterator[str]:
    """Yield the offsets of the last batches of a query, or of each part of an application."""
    for place in (checkpoint, *(checkpoint.at("parts", part) for part in checkpoint.names("parts"))):
        batches = sorted(int(name) for name in place.names("offsets") if name.isdecimal())
        for batch in batches[-_OFFSETS_NEEDED:]:
            yield (place.read(f"offsets/{batch}") or b"").decode()
