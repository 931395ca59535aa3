"""The number of partitions of a query's state: that of a new checkpoint, and a change of an existing one. ADR 97."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.connectors.checkpoint_bucket import S3Folder
from headrace.connectors.checkpoint_store import CheckpointStore
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.core.wording import counted
from headrace.engine.checkpoint_copy import DIVIDED, STATE_PARTITIONS, border, state_partitions
from headrace.engine.driver.jvm import jvm

_REPLACED = ("offsets", "state")
"""The folders of a checkpoint that name the number of partitions, or depend on it."""
_dividing = threading.Lock()
"""Held during a change in a bucket: a run of a query that was stopped meanwhile ends it before the next run looks."""


def divide_state(session: SparkSession, checkpoint: CheckpointStore, partitions: int | None) -> None:
    """Let the state of a query that is started in a session have that many partitions; None: as many as it has. Blocks while the state is
    written anew.

    Raises UserError 0A000 for a checkpoint whose last batch is not finished and has another number, and HeadraceError as S3Folder.
    """
    if partitions is None:
        return
    session.conf.set(STATE_PARTITIONS, str(partitions))
    last = border(checkpoint)
    if last is None:
        return
    present = state_partitions(checkpoint, last.batch)
    if present != partitions and last.is_interrupted:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"the query has started a batch with {counted(present, 'partition')} of its state, and cannot end it with {partitions}",
            hint="RESTART it with the version that it had before, and then continue from a savepoint.",
        )
    # Also with that number: the driver before may have ended while it wrote it.
    if isinstance(checkpoint, S3Folder):
        with _dividing:
            _divide_in_bucket(session, checkpoint, last.batch, partitions)
    else:
        _divide_in_folder(session, checkpoint.uri, last.batch, partitions)


def _divide_in_folder(session: SparkSession, folder: str, batch: int, partitions: int) -> None:
    state = jvm(session).org.apache.spark.sql.execution.streaming.state.headrace.StatePartitions
    state.change(session._jsparkSession, folder, batch, partitions)


def _divide_in_bucket(session: SparkSession, checkpoint: S3Folder, batch: int, partitions: int) -> None:
    """Divide a copy on this machine, and upload what differs. A bucket has no rename: a mark makes the new state complete."""
    divided = checkpoint.at("divided")
    _finish(checkpoint, divided)
    if state_partitions(checkpoint, batch) == partitions:
        return
    with checkpoint.reading(Path(tempfile.gettempdir())) as folder:
        _divide_in_folder(session, str(folder), batch, partitions)
        for checksum in folder.rglob(".*.crc"):
            checksum.unlink()
        with divided.writing(folder) as written:
            for name in _REPLACED:
                (folder / name).rename(written / name)
    checkpoint.write(f"{DIVIDED}{partitions}", "")
    _finish(checkpoint, divided)


def _finish(checkpoint: S3Folder, divided: S3Folder) -> None:
    """Put what is complete into its place, and remove what is not. May be repeated after an end at any point."""
    for mark in checkpoint.names(""):
        if mark.startswith(DIVIDED):
            checkpoint.at("state").remove()
            divided.copy_to(checkpoint)
            checkpoint.delete(mark)
    divided.remove()
