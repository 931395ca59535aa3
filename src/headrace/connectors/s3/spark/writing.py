"""Batches of a query as files: tasks write and upload them, and the driver commits them together."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
from pyarrow import compute, parquet
from pyspark import TaskContext
from pyspark.sql import DataFrame

from headrace.connectors.carried_errors import carrying_errors
from headrace.connectors.commit_interval import CommitInterval
from headrace.connectors.s3 import commits
from headrace.connectors.s3.client import s3
from headrace.connectors.s3.commits import Commits, Upload
from headrace.connectors.s3.failures import classified
from headrace.connectors.s3.options import COMMIT_INTERVAL, DELIMITER, FORMAT, HEADER, PARTITIONS, folder_of
from headrace.connectors.s3.partitions import folder_sql, parts_of
from headrace.connectors.s3.spark.reading import client_of
from headrace.connectors.s3.types import stored_type
from headrace.connectors.streaming import RowSinkRequest, tasks
from headrace.core.internal_columns import PREFIX
from headrace.core.schema import Column
from headrace.formats.csv import Csv
from headrace.formats.json import Json
from headrace.formats.types import name_sql

_FILE_BYTES = 128 << 20
"""A file that grows larger is closed, and another begun."""
_GROUP_ROWS = 128_000
_FOLDER, _VALUE = f"{PREFIX}folder", f"{PREFIX}value"


@dataclass(frozen=True)
class Target:
    """Description of the files for tasks that write them: Parquet with these columns, or the lines of `_VALUE` under a header."""

    store: Mapping[str, str]
    bucket: str
    prefix: str
    name: str
    ending: str
    columns: tuple[Column, ...]
    header: bytes


def writer(request: RowSinkRequest) -> Callable[[DataFrame, int], None]:
    """See `write_rows` of `connectors.streaming`. Each batch is committed once, for either delivery guarantee."""
    options, store = request.options, dict(request.properties)
    bucket, prefix = folder_of(store, request.entity)
    parts = parts_of(options[PARTITIONS.name]) if PARTITIONS.name in options else ()
    kind = options[FORMAT.name]
    in_folders = {part.column for part in parts if part.unit is None}
    columns = tuple(column for column in request.columns if column.name not in in_folders)
    mark = f"-{request.query_id}-"
    interval = CommitInterval(request, int(options[COMMIT_INTERVAL.name]))
    written = [f"{folder_sql(parts)} AS {_FOLDER}", *_written(request.columns, columns, kind, options)]
    header = _header(request.columns, options) if kind == "csv" and options[HEADER.name] == "TRUE" else b""
    with classified(store, bucket):
        committed = Commits(s3(store), bucket, request.checkpoint.at("files"))
        committed.recover(prefix, mark)

    def write(batch: DataFrame, epoch: int) -> None:
        if committed.contains(epoch):
            return
        interval.wait()
        target = Target(store, bucket, prefix, f"part{mark}{epoch:08d}", kind, columns, header)
        rows = batch.selectExpr(*written).coalesce(tasks(batch.sparkSession))
        uploads = rows.mapInArrow(_task(target), "upload STRING").collect()
        with classified(store, bucket):
            committed.commit(epoch, (Upload(**json.loads(row["upload"])) for row in uploads))
        interval.committed()

    return write


def _written(
    every: tuple[Column, ...], columns: tuple[Column, ...], kind: str, options: Mapping[str, str]
) -> list[str]:
    """Return Spark SQL of what tasks get. Lines have all columns; a Parquet file lacks those that its folders say, as everybody expects."""
    if kind == "parquet":
        return [name_sql(column.name) for column in columns]
    layout = Json() if kind == "json" else Csv(delimiter=options.get(DELIMITER.name, ","))
    fields = [(column.name, name_sql(column.name), column.type) for column in every]
    return [f"{layout.written(fields)} AS {_VALUE}"]


def _header(columns: tuple[Column, ...], options: Mapping[str, str]) -> bytes:
    delimiter = options.get(DELIMITER.name, ",")
    names = (column.name.replace('"', '""') for column in columns)
    return (delimiter.join(f'"{name}"' for name in names) + "\n").encode()


def _task(target: Target) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        task = context.partitionId() if context is not None else 0
        with carrying_errors(), classified(target.store, target.bucket):
            files = _Files(target, client_of(target.store), task)
            for batch in batches:
                for folder, rows in _by_folder(batch):
                    files.add(folder, rows)
            uploads = [json.dumps(asdict(item)) for item in files.finish()]
        yield pa.RecordBatch.from_pydict({"upload": pa.array(uploads, pa.string())})

    return write


def _by_folder(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    folders = batch.column(_FOLDER)
    rows = batch.drop_columns([_FOLDER])
    for folder in compute.unique(folders).to_pylist():
        mine = compute.equal(folders, folder)
        yield folder, rows if compute.all(mine).as_py() else rows.filter(mine)


class _Files:
    """Files of a task, one open file in each folder."""

    def __init__(self, target: Target, client: Any, task: int) -> None:
        self._target = target
        self._client = client
        self._task = task
        self._open: dict[str, _Parquet | _Lines] = {}
        self._done: list[Upload] = []

    def add(self, folder: str, rows: pa.RecordBatch) -> None:
        """Add rows of a folder, "" being the table's own."""
        if folder not in self._open:
            kind = _Parquet if self._target.ending == "parquet" else _Lines
            self._open[folder] = kind(self._target)
        file = self._open[folder]
        file.add(rows)
        if file.size() >= _FILE_BYTES:
            self._close(folder)

    def finish(self) -> list[Upload]:
        """Upload all files and return the uploads."""
        for folder in list(self._open):
            self._close(folder)
        return self._done

    def _close(self, folder: str) -> None:
        target = self._target
        name = f"{target.name}-{self._task:03d}-{len(self._done):03d}.{target.ending}"
        data = self._open.pop(folder).close()
        self._done.append(commits.upload(self._client, target.bucket, f"{target.prefix}{folder}{name}", data))


class _Parquet:
    def __init__(self, target: Target) -> None:
        self._buffer = io.BytesIO()
        self._schema = pa.schema([(column.name, stored_type(column.type)) for column in target.columns])
        self._writer = parquet.ParquetWriter(self._buffer, self._schema)
        self._group: list[pa.RecordBatch] = []

    def add(self, rows: pa.RecordBatch) -> None:
        columns = [
            compute.cast(column, field.type) for column, field in zip(rows.columns, self._schema, strict=True)
        ]
        self._group.append(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        if sum(batch.num_rows for batch in self._group) >= _GROUP_ROWS:
            self._end_group()

    def size(self) -> int:
        return self._buffer.tell()

    def close(self) -> bytes:
        self._end_group()
        self._writer.close()
        return self._buffer.getvalue()

    def _end_group(self) -> None:
        if self._group:
            self._writer.write_table(pa.Table.from_batches(self._group))
            self._group = []


class _Lines:
    def __init__(self, target: Target) -> None:
        self._buffer = io.BytesIO(target.header)
        self._buffer.seek(0, io.SEEK_END)

    def add(self, rows: pa.RecordBatch) -> None:
        self._buffer.write(b"\n".join(rows.column(_VALUE).to_pylist()) + b"\n")

    def size(self) -> int:
        return self._buffer.tell()

    def close(self) -> bytes:
        return self._buffer.getvalue()
