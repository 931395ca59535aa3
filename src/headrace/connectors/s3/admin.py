"""The control-plane half of the S3 store type. An entity is a folder (a prefix of keys) or a file: `bucket.folder.…`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from botocore.exceptions import ClientError

from headrace.connectors.base import (
    EntityDescription,
    PrintedRecord,
    PrintStart,
    RowSink,
    RowSource,
    Sample,
    StoreDescriptor,
    TableSource,
)
from headrace.connectors.s3 import options, partitions, reading
from headrace.connectors.s3.client import File, files, s3
from headrace.connectors.s3.failures import classified
from headrace.connectors.s3.reading import Part
from headrace.connectors.s3.types import stored_type
from headrace.connectors.sampling import RECORDS_MAX
from headrace.connectors.table_printing import SAMPLE_ROWS, refuse_time
from headrace.core.errors import UserError
from headrace.core.names import EntityPath
from headrace.core.properties import PropertyReader
from headrace.core.schema import Column, Schema
from headrace.core.sqlstate import SqlState
from headrace.core.types import is_primitive

_LISTED = 10_000
_DELETED_AT_ONCE = 1000


def asks(store: Mapping[str, str]) -> Callable[[], None]:
    """Return a function that requests a store's bucket, or the list of all. The error names the failed step: DNS, TLS, network, keys,
    bucket, permission."""
    bucket = options.bucket_of(store)
    with classified(store, bucket):
        client = s3(store)

    def ask() -> None:
        with classified(store, bucket):
            if bucket is None:
                client.list_buckets()
            else:
                client.list_objects_v2(Bucket=bucket, MaxKeys=1)

    return ask


def test(store: Mapping[str, str]) -> None:
    """Asks once; see `asks`."""
    asks(store)()


class S3Folders:
    """Folders and files. `connectors.base` describes the contract of each method."""

    def list_entities(self, store: Mapping[str, str], within: EntityPath) -> list[tuple[str, bool]]:
        """List buckets; in one of them, or in a folder, folders and files: the first `_LISTED`."""
        own = options.bucket_of(store)
        if not within:
            if own is not None:
                return [(own, False)]
            with classified(store):
                return [(item["Name"], False) for item in s3(store).list_buckets()["Buckets"]]
        bucket, prefix = options.folder_of(store, within)
        with classified(store, bucket):
            pages = (
                s3(store)
                .get_paginator("list_objects_v2")
                .paginate(Bucket=bucket, Prefix=prefix, Delimiter="/")
            )
            names = (
                key.removeprefix(prefix).rstrip("/")
                for page in pages
                for key in (
                    *(item["Prefix"] for item in page.get("CommonPrefixes", ())),
                    *(item["Key"] for item in page.get("Contents", ())),
                )
            )
            return [(name, True) for name in islice((name for name in names if name), _LISTED)]

    def describe_entity(self, store: Mapping[str, str], path: EntityPath) -> EntityDescription:
        """Return number and size of the files, and the format and columns of the newest."""
        bucket, prefix = options.folder_of(store, path)
        with classified(store, bucket):
            client = s3(store)
            count, size, newest = 0, 0, None
            for file in _files(client, bucket, prefix):
                count, size = count + 1, size + file.size
                if newest is None or _age(file) > _age(newest):
                    newest = file
            if newest is None:
                raise _missing(path)
            content = reading.content_of(client, bucket, newest)
        configs = {"format": content.format, "files": str(count), "bytes": str(size), "newest": newest.key}
        return EntityDescription(path, configs=configs, columns=content.columns, notes=content.notes)

    def sample(
        self, store: Mapping[str, str], path: EntityPath, reader: PropertyReader, *, from_start: bool
    ) -> Sample:
        """Return the first lines of the newest or the oldest file."""
        bucket, prefix = options.folder_of(store, path)
        with classified(store, bucket):
            client = s3(store)
            listed = sorted(_files(client, bucket, prefix), key=_age)
            if not listed:
                raise _missing(path)
            lines = reading.lines_of(reading.head_of(client, bucket, listed[0 if from_start else -1]))
        if reader.take(options.HEADER) and lines:
            return Sample(tuple(lines[1 : RECORDS_MAX + 1]), lines[0])
        return Sample(tuple(lines[:RECORDS_MAX]))

    def create_entity(
        self,
        store: Mapping[str, str],  # noqa: ARG002
        path: EntityPath,  # noqa: ARG002
        options: PropertyReader,  # noqa: ARG002
    ) -> EntityDescription:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "cannot create a folder of S3: the first file creates it",
            hint="CREATE TABLE … AS SELECT writes files.",
        )

    def drop_entity(self, store: Mapping[str, str], path: EntityPath) -> None:
        """Deletes the files of a folder, or one file."""
        bucket, prefix = options.folder_of(store, path)
        if not prefix:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                "a bucket is not dropped here",
                hint="Drop a folder of the bucket, or drop the bucket in AWS.",
            )
        with classified(store, bucket):
            client = s3(store)
            keys = [key for folder in (prefix, prefix.rstrip("/")) for key in _keys(client, bucket, folder)]
            if not keys:
                raise _missing(path)
            for first in range(0, len(keys), _DELETED_AT_ONCE):
                objects = [{"Key": key} for key in keys[first : first + _DELETED_AT_ONCE]]
                answer = client.delete_objects(Bucket=bucket, Delete={"Objects": objects, "Quiet": True})
                for error in answer.get("Errors", ()):
                    raise ClientError({"Error": error}, "DeleteObjects")

    async def print_entity(
        self, store: Mapping[str, str], path: EntityPath, *, start: PrintStart
    ) -> AsyncGenerator[PrintedRecord]:
        """Yield the present rows: all of them from the beginning, otherwise a sample of the first ones."""
        refuse_time(start, "folder")
        await asyncio.to_thread(self.describe_entity, store, path)
        return _printed(store, path, None if start.at == "earliest" else SAMPLE_ROWS)


async def _printed(
    store: Mapping[str, str], path: EntityPath, limit: int | None
) -> AsyncGenerator[PrintedRecord]:
    rows = islice(_rows(store, path), limit)
    while (row := await asyncio.to_thread(next, rows, None)) is not None:
        yield row


def _rows(store: Mapping[str, str], path: EntityPath) -> Iterator[PrintedRecord]:
    bucket, prefix = options.folder_of(store, path)
    with classified(store, bucket):
        client = s3(store)
        for file in _files(client, bucket, prefix):
            whole = Part(file, 0, file.size)
            content = reading.content_of(client, bucket, file)
            if content.format == "avro":
                raise UserError(
                    SqlState.FEATURE_NOT_SUPPORTED,
                    f"the file {file.key} is an AVRO file, whose records only queries read",
                    hint="CREATE STREAM over the folder, and SELECT.",
                )
            rows = (
                _of_parquet(client, bucket, whole, content.columns)
                if content.format == "parquet"
                else _of_lines(client, bucket, whole)
            )
            for text, position in rows:
                yield PrintedRecord(None, text, f"file {file.key}, position {position}")


def _of_parquet(
    client: Any, bucket: str, whole: Part, columns: tuple[Column, ...]
) -> Iterator[tuple[str, int]]:
    for batch, first in reading.rows(client, bucket, whole, columns):
        for number, row in enumerate(batch.to_pylist(), first):
            yield json.dumps(row, ensure_ascii=False, default=_shown), number


def _of_lines(client: Any, bucket: str, whole: Part) -> Iterator[tuple[str, int]]:
    for lines, places in reading.lines(client, bucket, whole):
        for line, place in zip(lines, places, strict=True):
            yield line.decode(errors="replace"), place


def _shown(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else str(value)


def _age(file: File) -> tuple[int, str]:
    return file.modified_ms, file.key


def _files(client: Any, bucket: str, prefix: str) -> Iterator[File]:
    """Yield the files of a folder, or the one file of that name."""
    is_listed = False
    for file in files(client, bucket, prefix):
        is_listed = True
        yield file
    if not is_listed and prefix:
        key = prefix.rstrip("/")
        yield from (file for file in files(client, bucket, key) if file.key == key)


def _keys(client: Any, bucket: str, prefix: str) -> Iterator[str]:
    """Yield the keys below a folder; for a name without a slash at its end only that name."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    for page in pages:
        for item in page.get("Contents", ()):
            if prefix.endswith("/") or item["Key"] == prefix:
                yield item["Key"]


def _missing(path: EntityPath) -> UserError:
    return UserError(
        SqlState.ENTITY_NOT_FOUND,
        f"there is no file in {'/'.join(path)}",
        hint="LIST ENTITIES IN lists the folders of a bucket; a folder exists once it contains a file.",
    )


def _create(store: Mapping[str, str], path: EntityPath, schema: Schema, reader: PropertyReader) -> None:
    """Check that a table can be written: its first file creates it."""
    _check_layout(schema, reader.take(options.FORMAT) or "parquet", reader.take(options.PARTITIONS))
    _reach(store, path)


def _reach(store: Mapping[str, str], path: EntityPath) -> None:
    """Raise UserError 3D007 if the bucket does not exist."""
    bucket, prefix = options.folder_of(store, path)
    with classified(store, bucket):
        s3(store).list_objects_v2(Bucket=bucket, Prefix=prefix, MaxKeys=1)


def _check(
    store: Mapping[str, str], path: EntityPath, schema: Schema, given: Mapping[str, str], upsert: bool
) -> None:
    """True if files of these columns fit to those that are there; a table that was declared has none yet."""
    kind = given[options.FORMAT.name]
    _check_layout(schema, kind, given.get(options.PARTITIONS.name), keyed=upsert)
    try:
        description = S3Folders().describe_entity(store, path)
    except UserError as error:
        if error.state is not SqlState.ENTITY_NOT_FOUND:
            raise
        _reach(store, path)
        return
    actual_format = description.configs["format"]
    if actual_format != kind:
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            f"the files of {'/'.join(path)} are {actual_format.upper()}, and the table's would be {kind.upper()}",
            hint="Set 'value.format' to the files' format, or name another folder with 's3.uri'.",
        )
    types = {column.name: column.type for column in description.columns}
    for column in schema.columns if kind == "parquet" else ():
        other = types.get(column.name)
        in_folder = f"/{column.name}=" in description.configs["newest"]
        if other is not None and not in_folder and stored_type(other) != stored_type(column.type):
            raise UserError(
                SqlState.INVALID_RELATION_DEFINITION,
                f"the column {column.name} is {column.type}, and {other} in the files of {'/'.join(path)}",
                hint="CAST it, or take another folder with 's3.uri'.",
            )


def _check_table(store: Mapping[str, str], path: EntityPath, _schema: Schema) -> None:
    """Accept only AVRO, which no query writes: its files contain their columns. Otherwise raise the writer's error."""
    kind = S3Folders().describe_entity(store, path).configs["format"]
    if kind != "avro":
        raise UserError(SqlState.INVALID_RELATION_DEFINITION, f"files of {kind.upper()} can be written too")


def _check_layout(schema: Schema, kind: str, by: str | None, *, keyed: bool = False) -> None:
    if keyed or schema.primary_key:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "files have no primary key: rows are appended, and never updated",
            hint="Leave PRIMARY KEY out, or write to a store of tables, which takes updates and deletes.",
        )
    if kind == "avro":
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "AVRO files can be read, but not written",
            hint="Write PARQUET or JSON.",
        )
    if by is not None:
        partitions.check(partitions.parts_of(by), schema)
    nested = next((column for column in schema.columns if not is_primitive(column.type)), None)
    if kind == "csv" and nested is not None:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"CSV cannot hold the column {nested.name}, which is {nested.type}",
            hint="Use 'value.format' = PARQUET or JSON.",
        )


_folders = S3Folders()
S3 = StoreDescriptor(
    type="s3",
    label="S3",
    properties=options.PROPERTIES,
    read=options.read_store,
    test=test,
    path=options.read_path,
    row_source=RowSource(
        metadata=reading.METADATA,
        options=options.source_options,
        formats=("json", "csv", "parquet", "avro"),
        changes=False,
        skips=True,
    ),
    row_sink=RowSink(create=_create, check=_check, options=options.sink_options, exactly_once=True),
    table_source=TableSource(options=options.table_options, check=_check_table),
    entities=_folders,
    printer=_folders,
    sampler=_folders,
    on_clusters="python",
    tested_unasked=True,
)
