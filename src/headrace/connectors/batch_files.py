"""Files of a batch that Spark writes and the driver sends to a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.connectors.checkpoint_store import CheckpointStore, LocalFolder

PROTOCOL, IN_PLACE = "spark.sql.sources.commitProtocolClass", "io.headrace.spark.FilesInPlace"
"""The setting by which Spark writes files at their places, without a rename."""
NAMES = "_files"
"""The file in which `FilesInPlace` lists the files of the tasks that count."""


def write_files(rows: Any, folder: Path, shared: CheckpointStore, *, rows_per_file: int) -> bool:
    """Let Spark write the rows of a DataFrame as Parquet files of at most so many rows into a `folder` on this machine.

    Tasks on other machines need a folder that they share with the driver. If `shared`, which is to be empty, is in a bucket, they write
    there, and this process downloads the files. Returns True then: the files are in both places.
    """
    session = rows.sparkSession
    is_shared = not isinstance(shared, LocalFolder) and not session.sparkContext.master.startswith("local")
    writer = rows.write.option("maxRecordsPerFile", rows_per_file)
    if not is_shared:
        writer.parquet(str(folder))
        return False
    # The session belongs to the query, whose other sinks have the same place for such files.
    session.conf.set(PROTOCOL, IN_PLACE)
    writer.mode("append").parquet(shared.uri)
    with shared.reading(folder.parent) as copy:
        folder.mkdir(parents=True, exist_ok=True)
        for name in (copy / NAMES).read_text().split():
            (copy / name).rename(folder / name)
    return True
