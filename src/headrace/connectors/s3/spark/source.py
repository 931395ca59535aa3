"""The files of a folder as a Python streaming source of Spark, in one worker of its query. It returns names of files, and
tasks read the files (`spark.reading`). ADR 26.

An offset is a number of lines of the log of files.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from headrace.connectors.carried_errors import carrying_errors
from headrace.connectors.checkpoint_store import store_of
from headrace.connectors.s3.client import File, files, s3
from headrace.connectors.s3.discovery import FileLog, open_log
from headrace.connectors.s3.failures import classified
from headrace.connectors.s3.spark.reading import PART_FIELDS, parts_of_files

READING = "credentials"
"""The one option, as JSON. It holds the secrets of two stores, and Spark masks an option of that name wherever it shows one."""
_POLL_S = 0.05
_FILES_PER_BATCH = 1000
_BYTES_PER_BATCH = 256 << 20

Offset = dict[str, Any]


@dataclass(frozen=True)
class Watching:
    """Folder to watch, polling interval, whether existing files count, and the facts of the place of the log of found files."""

    store: Mapping[str, str]
    bucket: str
    prefix: str
    interval_s: int
    with_present: bool
    kept: Mapping[str, str] | None


class FolderSource(DataSource):
    """A folder, by the request that is its one option."""

    @classmethod
    def name(cls) -> str:
        return "headrace_s3"

    def schema(self) -> str:
        return PART_FIELDS

    def simpleStreamReader(self, schema: object) -> SimpleDataSourceStreamReader:  # noqa: ARG002, N802 - Spark's names
        return FolderStream(Watching(**json.loads(self.options[READING])))


class FolderStream(SimpleDataSourceStreamReader):
    """Finds files for as long as its query runs, older ones first."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self._waiting: list[File] = []
        self._looked = float("-inf")

    # Made where they are used: a reader is sent from process to process before it reads.
    @cached_property
    def _log(self) -> FileLog:
        kept = self._watching.kept
        return open_log(store_of(kept) if kept is not None else None)

    @cached_property
    def _client(self) -> Any:
        return s3(self._watching.store)

    def initialOffset(self) -> Offset:  # noqa: N802
        """Return the empty offset. The first batch has no files: it records the starting position, which must be known after a kill."""
        return {"files": 0}

    def read(self, start: Offset) -> tuple[Iterator[pa.RecordBatch], Offset]:
        with carrying_errors():
            at = int(start["files"])
            self._log.rewind(at)
            if at == 0:
                self._log.begin()
                present = [] if self._watching.with_present else self._listed()
                return iter([]), {"files": self._log.append(present)}
            batch = self._next()
            if not batch:
                time.sleep(_POLL_S)
                return iter([]), start
            end = self._log.append(batch)
            return iter([parts_of_files(self._log.between(at, end))]), {"files": end}

    def readBetweenOffsets(self, start: Offset, end: Offset) -> Iterator[pa.RecordBatch]:  # noqa: N802
        """Yield the files of a batch that began before the query stopped: the same ones."""
        with carrying_errors():
            if start["files"]:
                yield parts_of_files(self._log.between(int(start["files"]), int(end["files"])))

    def commit(self, end: Offset) -> None:
        """Do nothing: the log keeps all files, since each is read once."""

    def stop(self) -> None:
        self._log.close()

    def _next(self) -> list[File]:
        if not self._waiting and time.monotonic() >= self._looked + self._watching.interval_s:
            self._waiting = self._listed()
            self._looked = time.monotonic()
        size, count = 0, 0
        for file in self._waiting[:_FILES_PER_BATCH]:
            size += file.size
            count += 1
            if size >= _BYTES_PER_BATCH:
                break
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        return batch

    def _listed(self) -> list[File]:
        watching = self._watching
        with classified(watching.store, watching.bucket):
            listed = files(self._client, watching.bucket, watching.prefix)
            new = [file for file in listed if file not in self._log]
        return sorted(new, key=lambda file: (file.modified_ms, file.key))
