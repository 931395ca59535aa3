"""Rows of a query that ends, which are stored once before its first batch: see `physical.Spool`.

A table may change while its rows are written, and a batch that is repeated must have the rows that it had.
"""

from __future__ import annotations

import shutil
import uuid
from contextlib import suppress

from pyspark.sql import DataFrame

from headrace.connectors.batch_files import IN_PLACE, NAMES, PROTOCOL
from headrace.connectors.checkpoint_bucket import S3Folder
from headrace.connectors.checkpoint_store import CheckpointStore, LocalFolder

FOLDER = "spool"
"""The folder in a checkpoint. It has a folder of rows for each step: in a local folder under the id of the step, in S3 under a random name,
which is in the file of the step. So rows are found in either form where the checkpoint was moved."""


def spooled(frame: DataFrame, checkpoint: CheckpointStore, step: str, rows_per_batch: int) -> DataFrame:
    """Store the rows of `frame` in a checkpoint unless they are there, and return them as a stream.

    They are there as a whole or not at all. If two runs of a query store rows at once, because the earlier one was stopped meanwhile,
    both use the rows of the one that is ready first.
    """
    session = frame.sparkSession
    parallelism = session.sparkContext.defaultParallelism
    # Names of columns may be such as files do not have.
    numbered = frame.toDF(*(f"c{number}" for number in range(len(frame.columns))))
    spool = checkpoint.at(FOLDER)
    place = _place(spool, step)
    if place is None:
        rows_per_file = max(1, rows_per_batch // parallelism)
        if isinstance(spool, S3Folder):
            _store_in_bucket(numbered, spool, step, rows_per_file)
        elif isinstance(spool, LocalFolder):
            _store_in_folder(numbered, spool, step, rows_per_file)
        place = _place(spool, step)
    assert place is not None  # noqa: S101 - whoever was first has stored them
    # A file is known by its name: the checkpoint may be moved, and its path with it.
    files = session.readStream.schema(numbered.schema).option("fileNameOnly", "true")
    return files.option("maxFilesPerTrigger", parallelism).parquet(place.uri).toDF(*frame.columns)


def clear_spool(checkpoint: CheckpointStore) -> None:
    """Delete the stored rows of a query that has written them. Their folder stays: a later start finds no rows in it."""
    spool = checkpoint.at(FOLDER)
    for folder in spool.names(""):
        for name in spool.names(folder):
            if "part-" in name:
                spool.delete(f"{folder}/{name}")


def _place(spool: CheckpointStore, step: str) -> CheckpointStore | None:
    """Return the folder with the rows of a step; None if they are not stored."""
    name = spool.read(_file(step))
    if name is not None:
        return spool.at(name.decode())
    return spool.at(step) if step in spool.names("") else None


def _file(step: str) -> str:
    return f"{step}.place"


def _store_in_folder(rows: DataFrame, spool: LocalFolder, step: str, rows_per_file: int) -> None:
    folder = spool.path / step
    copy = folder.with_name(f"{step}-{uuid.uuid4()}")
    try:
        rows.write.option("maxRecordsPerFile", rows_per_file).parquet(str(copy))
        with suppress(OSError):
            copy.rename(folder)
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def _store_in_bucket(rows: DataFrame, spool: S3Folder, step: str, rows_per_file: int) -> None:
    """Store rows in S3, where nothing is renamed. Files of attempts that failed are left where all were written; those that count are
    copied, with their list, by which the folder is there without rows too."""
    name = f"{step}-{uuid.uuid4()}"
    written, counted, settings = spool.at(f"{name}.written"), spool.at(name), rows.sparkSession.conf
    try:
        settings.set(PROTOCOL, IN_PLACE)
        rows.write.option("maxRecordsPerFile", rows_per_file).mode("append").parquet(written.uri)
        names = (written.read(NAMES) or b"").decode().split()
        written.copy_to(counted, (*names, NAMES))
        if not spool.create(_file(step), name):
            counted.remove()
    finally:
        settings.unset(PROTOCOL)
        written.remove()
