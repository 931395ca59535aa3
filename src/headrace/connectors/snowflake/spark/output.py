"""Batches of a query into a table: Spark writes them into files, and the driver sends these."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from pyarrow import parquet
from pyspark.sql import DataFrame

from headrace.connectors.batch_files import write_files
from headrace.connectors.checkpoint_store import LocalFolder
from headrace.connectors.marks import is_begun
from headrace.connectors.snowflake import types
from headrace.connectors.snowflake.client import Snowflake
from headrace.connectors.snowflake.writing import DELETED, Output, Target
from headrace.connectors.streaming import RowSinkRequest, tasks
from headrace.core import internal_columns

ROWS_PER_FILE = 500_000
_FOLDER = "snowflake"


def writer(request: RowSinkRequest) -> Callable[[DataFrame, int], None]:
    """See `write_rows` of `connectors.streaming`."""
    target = Target(
        request.entity,
        request.columns,
        request.key if request.upsert else (),
        request.query_id if request.guarantee == "exactly_once" else None,
        is_begun(request.checkpoint),
    )
    output = Output(request.resources.enter_context(Snowflake(request.properties)), target)
    selected = [
        f"{types.carried_sql(column.name, column.type)} AS C{number}"
        for number, column in enumerate(request.columns)
    ]
    if request.upsert:
        selected.append(f"{internal_columns.DELETED} AS {DELETED}")
    # Nothing in it outlives a batch: only tasks on other machines need a folder that the driver sees too.
    place = request.checkpoint.at(_FOLDER)
    # The files of a driver that ended inside a batch.
    place.remove()
    if isinstance(place, LocalFolder):
        folder = place.path
    else:
        folder = Path(
            request.resources.enter_context(TemporaryDirectory(prefix="headrace-snowflake-")), _FOLDER
        )

    def write(batch: DataFrame, epoch: int) -> None:
        if output.contains(epoch):
            return
        # A file for each of a query's many small tasks would be a request each.
        rows = batch.selectExpr(*selected).coalesce(tasks(batch.sparkSession))
        shared, is_shared = place.at(str(epoch)), False
        try:
            is_shared = write_files(rows, folder, shared, rows_per_file=ROWS_PER_FILE)
            counted = {
                file: parquet.read_metadata(file).num_rows for file in sorted(folder.glob("*.parquet"))
            }
            files = {file: count for file, count in counted.items() if count}
            if files:
                output.write(epoch, files)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            if is_shared:
                shared.remove()

    return write
