"""Conversion of files to rows on Spark: each task reads parts of files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headrace.connectors.carried_errors import carrying_errors
from headrace.connectors.s3 import reading
from headrace.connectors.s3.client import File, files, s3
from headrace.connectors.s3.failures import classified
from headrace.connectors.s3.options import DELIMITER, FORMAT, HEADER, folder_of
from headrace.connectors.s3.reading import METADATA, Part
from headrace.connectors.streaming import TableRequest, tasks
from headrace.core.errors import UserError
from headrace.core.internal_columns import DELETED, ENTITY, ROW_KEY, ROW_METADATA, ROW_TIME, SEQUENCE, SPLIT
from headrace.core.names import path_text, printed
from headrace.core.schema import Column
from headrace.core.sqlstate import SqlState
from headrace.formats.avro import FROM_FILES, Avro
from headrace.formats.base import HIDDEN_COLUMNS, DecodeSpec, Format
from headrace.formats.csv import Csv
from headrace.formats.json import Json
from headrace.formats.spark import decode
from headrace.formats.types import name_sql, spark_type

PART_FIELDS = "file STRING, number BIGINT, start BIGINT, end BIGINT"
_PART_BYTES = 64 << 20
_POSITION_BITS = 38
"""Rows of a key are in the order of their files, and in it of their places."""

Read = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Folder:
    """Description of the files for tasks that read them."""

    store: Mapping[str, str]
    bucket: str
    entity: str
    format: str
    columns: tuple[Column, ...]
    delimiter: str
    header: bool

    @classmethod
    def of(
        cls,
        store: Mapping[str, str],
        bucket: str,
        entity: str,
        columns: tuple[Column, ...],
        options: Mapping[str, str],
    ) -> Folder:
        """Return the folder of a relation with its options."""
        return cls(
            dict(store),
            bucket,
            entity,
            options[FORMAT.name],
            columns,
            options.get(DELIMITER.name, ","),
            options.get(HEADER.name) == "TRUE",
        )


def parts_of_files(numbered: Sequence[tuple[int, File]]) -> pa.RecordBatch:
    """Return files with their numbers as rows of `PART_FIELDS`, large ones in parts."""
    parts = [
        (
            json.dumps([file.key, file.size, file.etag, file.modified_ms]),
            number,
            start,
            min(start + _PART_BYTES, file.size),
        )
        for number, file in numbered
        for start in range(0, 1 if reading.is_compressed(file.key) else file.size, _PART_BYTES)
    ]
    names, numbers, starts, ends = zip(*parts, strict=True) if parts else ((), (), (), ())
    return pa.RecordBatch.from_pydict(
        {
            "file": pa.array(names, pa.string()),
            "number": pa.array(numbers, pa.int64()),
            "start": pa.array(starts, pa.int64()),
            "end": pa.array(ends, pa.int64()),
        }
    )


def frame(session: SparkSession, request: TableRequest) -> DataFrame:
    """See `table` of `connectors.streaming`. A file that is written over or deleted before it is read ends the query."""
    store = dict(request.properties)
    bucket, prefix = folder_of(store, request.entity)
    with classified(store, bucket):
        present = list(files(s3(store), bucket, prefix))
    numbered = session.createDataFrame(pa.Table.from_batches([parts_of_files(list(enumerate(present)))]))
    folder = Folder.of(store, bucket, path_text(request.entity), request.columns, request.options)
    return rows_of(numbered, folder, on_error="terminate").select(
        *(name_sql(column.name) for column in request.columns)
    )


def rows_of(parts: DataFrame, folder: Folder, *, on_error: str) -> DataFrame:
    """Return the declared and hidden columns of the rows of some parts of files."""
    spread = parts.repartition(tasks(parts.sparkSession))
    metadata = spark_type(METADATA)
    if folder.format == "parquet":
        columns = "".join(f"{name_sql(column.name)} {spark_type(column.type)}, " for column in folder.columns)
        hidden = f"{ROW_TIME} TIMESTAMP, {ROW_KEY} STRING, {DELETED} BOOLEAN, {ENTITY} STRING, {SPLIT} INT, {SEQUENCE} BIGINT"
        return spread.mapInArrow(_reads(folder, _rows), f"{columns}{hidden}, {ROW_METADATA} {metadata}")
    records = f"value BINARY, timestamp TIMESTAMP, entity STRING, split INT, sequence BIGINT, key BINARY, metadata {metadata}"
    if folder.format == "avro":
        value: Format = Avro(registry=FROM_FILES)
        blocks = spread.mapInArrow(_reads(folder, _blocks), f"{records}, schema STRING, count BIGINT")
        lines = blocks.selectExpr(
            "* EXCEPT (value)", "posexplode(headrace_avro_records(value, count, schema)) AS (at, value)"
        ).selectExpr(
            "value",
            "timestamp",
            "entity",
            "split",
            "sequence + at AS sequence",
            "key",
            "named_struct('bucket', metadata.bucket, 'file', metadata.file, 'position', metadata.position + at) AS metadata",
        )
    else:
        value = Json() if folder.format == "json" else Csv(delimiter=folder.delimiter)
        lines = spread.mapInArrow(_reads(folder, _lines), records)
    return decode(lines, DecodeSpec(columns=folder.columns, value=value, on_error=on_error))


def _reads(folder: Folder, read: Callable[[Any, Folder, Part, int], Iterator[pa.RecordBatch]]) -> Read:
    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carrying_errors():
            for batch in batches:
                for item in batch.to_pylist():
                    part = Part(File(*json.loads(item["file"])), item["start"], item["end"])
                    with classified(folder.store, folder.bucket):
                        yield from read(client_of(folder.store), folder, part, item["number"])

    return task


def client_of(store: Mapping[str, str]) -> Any:
    """Return a client that is kept: a worker process serves many tasks."""
    return _client(json.dumps(dict(store)))


@cache
def _client(store: str) -> Any:
    return s3(json.loads(store))


def _rows(client: Any, folder: Folder, part: Part, number: int) -> Iterator[pa.RecordBatch]:
    for batch, first in reading.rows(client, folder.bucket, part, folder.columns):
        count = batch.num_rows
        own = dict(zip(batch.schema.names, batch.columns, strict=True))
        place = _places(folder, part, number, pa.array(range(first, first + count), pa.int64()))
        hidden = {
            ROW_TIME: place["timestamp"],
            ROW_KEY: pa.nulls(count, pa.string()),
            DELETED: pa.repeat(False, count),
            ENTITY: place["entity"],
            SPLIT: place["split"],
            SEQUENCE: place["sequence"],
            ROW_METADATA: place["metadata"],
        }
        yield pa.RecordBatch.from_pydict({**own, **{name: hidden[name] for name in HIDDEN_COLUMNS}})


def _lines(client: Any, folder: Folder, part: Part, number: int) -> Iterator[pa.RecordBatch]:
    for lines, places in reading.lines(client, folder.bucket, part):
        if folder.format == "csv" and folder.header and places[0] == 0:
            _check_header(folder, part.file, lines.pop(0).decode(errors="replace"))
            del places[0]
        yield pa.RecordBatch.from_pydict(_records(folder, part, number, lines, places))


def _blocks(client: Any, folder: Folder, part: Part, number: int) -> Iterator[pa.RecordBatch]:
    """Yield the blocks of a file, with the first part all of them: the number of records before a later part is unknown."""
    for schema, block in reading.blocks(client, folder.bucket, part.file) if part.start == 0 else ():
        yield pa.RecordBatch.from_pydict(
            {
                **_records(folder, part, number, [block.data], [block.first]),
                "schema": pa.array([schema], pa.string()),
                "count": pa.array([block.count], pa.int64()),
            }
        )


def _records(
    folder: Folder, part: Part, number: int, values: list[bytes], places: list[int]
) -> dict[str, pa.Array]:
    place = _places(folder, part, number, pa.array(places, pa.int64()))
    return {
        "value": pa.array(values, pa.binary()),
        **{name: place[name] for name in ("timestamp", "entity", "split", "sequence")},
        "key": pa.nulls(len(values), pa.binary()),
        "metadata": place["metadata"],
    }


def _places(folder: Folder, part: Part, number: int, positions: pa.Array) -> dict[str, pa.Array]:
    count = len(positions)
    metadata = [pa.repeat(folder.bucket, count), pa.repeat(part.file.key, count), positions]
    base = number << _POSITION_BITS
    return {
        "timestamp": pa.repeat(pa.scalar(part.file.modified_ms * 1000, pa.timestamp("us", "UTC")), count),
        "entity": pa.repeat(folder.entity, count),
        "split": pa.repeat(pa.scalar(0, pa.int32()), count),
        "sequence": pa.compute.add(positions, base),
        "metadata": pa.StructArray.from_arrays(metadata, [name for name, _ in METADATA.fields]),
    }


def _check_header(folder: Folder, file: File, line: str) -> None:
    header_names = [name.strip().strip('"') for name in line.split(folder.delimiter)]
    names = [column.name for column in folder.columns]
    if [name.lower() for name in header_names] != [name.lower() for name in names]:
        raise UserError(
            SqlState.INVALID_RECORD,
            f"the first line of the file {file.key} names other columns: {', '.join(map(printed, header_names))}",
            hint=f"Expected {', '.join(map(printed, names))}. Files without such a line need 'csv.header' = FALSE.",
        )
