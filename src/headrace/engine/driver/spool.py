"""Rows of a query that ends, which are stored once before its first batch: see `physical.Spool`.

A table may change while its rows are written, and a batch that is repeated must have the rows that it had.
"""

from __future__ import annotations

import shutil
import uuid
from contextlib import suppress
from pathlib import Path

from pyspark.sql import DataFrame

FOLDER = "spool"
"""The folder in a checkpoint."""


def spooled(frame: DataFrame, folder: Path, rows_per_batch: int) -> DataFrame:
    """Store the rows of `frame` in `folder` unless they are there, and return them as a stream.

    The folder is complete as soon as it has its name. If two runs of a query store rows at once, because the earlier one was stopped
    meanwhile, both use the rows of the one that is ready first.
    """
    session = frame.sparkSession
    parallelism = session.sparkContext.defaultParallelism
    # Names of columns may be such as files do not have.
    numbered = frame.toDF(*(f"c{number}" for number in range(len(frame.columns))))
    if not folder.exists():
        copy = folder.with_name(f"{folder.name}-{uuid.uuid4()}")
        try:
            numbered.write.option("maxRecordsPerFile", max(1, rows_per_batch // parallelism)).parquet(
                str(copy)
            )
            with suppress(OSError):
                copy.rename(folder)
        finally:
            shutil.rmtree(copy, ignore_errors=True)
    # A file is known by its name: the checkpoint may be moved, and its path with it.
    files = session.readStream.schema(numbered.schema).option("fileNameOnly", "true")
    return files.option("maxFilesPerTrigger", parallelism).parquet(str(folder)).toDF(*frame.columns)


def clear_spool(checkpoint: Path) -> None:
    """Delete the stored rows of a query that has written them. Their folder stays: a later start finds no rows in it."""
    for file in checkpoint.glob(f"{FOLDER}/*/*part-*"):
        file.unlink()
