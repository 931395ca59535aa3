"""Content of files: rows of Parquet, lines of text; read from S3 by ranges, so that no file has to fit into memory."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from headrace.connectors.arrow_types import arrow_type
from headrace.connectors.s3 import avro_files
from headrace.connectors.s3.casting import cast
from headrace.connectors.s3.client import File
from headrace.connectors.s3.partitions import values_of
from headrace.connectors.s3.types import of_arrow
from headrace.connectors.sampling import RECORDS_MAX
from headrace.core.errors import UserError
from headrace.core.schema import Column
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT, VARCHAR, Struct
from headrace.core.wording import counted, with_article
from headrace.formats import avro_schema
from headrace.formats.sampling import json_columns

METADATA = Struct((("bucket", VARCHAR), ("file", VARCHAR), ("position", BIGINT)))
"""Where a row stands: the byte at which its line begins, or its number in a file of Parquet or Avro."""
_WHOLE = 16 << 20
"""A file up to this size comes in one answer."""
_CHUNK = 4 << 20
_ROWS = 10_000
_LINE_MAX = 64 << 20
_SAMPLE = 1 << 20
_CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_MAGIC = b"PAR1"
_BYTE_ORDER_MARK = codecs.BOM_UTF8


@dataclass(frozen=True)
class Part:
    """The bytes of a file from `start` to `end`; a reader returns the rows that start in this range."""

    file: File
    start: int
    end: int


class ObjectFile(io.RawIOBase):
    """An object's bytes, as a file: each read is a request. It must still be the object that was found."""

    def __init__(self, client: Any, bucket: str, file: File) -> None:
        self._client, self._bucket, self._file = client, bucket, file
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._file.size}[whence]
        self._position = start + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        end = self._file.size if size < 0 else min(self._position + size, self._file.size)
        if end <= self._position:
            return b""
        with closing(body(self._client, self._bucket, self._file, self._position, end)) as answer:
            data: bytes = answer.read()
        self._position = end
        return data


def body(client: Any, bucket: str, file: File, start: int = 0, end: int | None = None) -> Any:
    """Return the bytes of an object as a stream; raises botocore's errors."""
    last = (file.size if end is None else end) - 1
    return client.get_object(Bucket=bucket, Key=file.key, Range=f"bytes={start}-{last}", IfMatch=file.etag)[
        "Body"
    ]


def is_compressed(key: str) -> bool:
    """True if the name of a text file says that it is: such a file is read from its beginning."""
    return _codec(key) is not None


# --- lines


def lines(client: Any, bucket: str, part: Part) -> Iterator[tuple[list[bytes], list[int]]]:
    """Yield the non-empty lines that start in a part, in chunks, with the position of each line.

    Positions in a compressed file are positions in its uncompressed content. Raises UserError 22P02, and botocore's errors.
    """
    codec = _codec(part.file.key)
    begin = max(0, part.start - 1)
    with closing(body(client, bucket, part.file, begin)) as raw:
        source = raw if codec is None else pa.CompressedInputStream(pa.PythonFile(raw, "r"), codec)
        # Except in the first part, the text before the first line break is the last line of the previous part.
        yield from _lines(source, begin, part, skip=part.start > 0)


def _lines(source: Any, at: int, part: Part, *, skip: bool) -> Iterator[tuple[list[bytes], list[int]]]:
    left = b""
    end = None if is_compressed(part.file.key) else part.end
    while True:
        chunk = _read(source, part.file)
        text = left + chunk
        cut = text.rfind(b"\n") + 1 if chunk else len(text)
        if cut == 0 and len(text) > _LINE_MAX:
            raise _unreadable(part.file, f"a line is longer than {_LINE_MAX >> 20} MiB")
        whole, left = text[:cut], text[cut:]
        pieces = whole.split(b"\n")
        if not pieces[-1]:
            pieces.pop()
        places = list(accumulate((len(line) + 1 for line in pieces), initial=at))
        if at == 0 and pieces:
            pieces[0] = pieces[0].removeprefix(_BYTE_ORDER_MARK)
        at += cut
        if skip and pieces:
            pieces, places, skip = pieces[1:], places[1:], False
        if end is not None and pieces and places[len(pieces) - 1] >= end:
            count = next(number for number, place in enumerate(places) if place >= end)
            yield from _some(pieces[:count], places)
            return
        yield from _some(pieces, places)
        if not chunk:
            return


def _some(texts: Sequence[bytes], places: Sequence[int]) -> Iterator[tuple[list[bytes], list[int]]]:
    for first in range(0, len(texts), _ROWS):
        numbered_lines = [
            (line.rstrip(b"\r"), place)
            for line, place in zip(texts[first : first + _ROWS], places[first : first + _ROWS], strict=False)
            if line.strip()
        ]
        if numbered_lines:
            yield [line for line, _ in numbered_lines], [place for _, place in numbered_lines]


def _read(source: Any, file: File) -> bytes:
    try:
        data: bytes = source.read(_CHUNK)
    except OSError as error:
        if not is_compressed(file.key):
            raise
        raise _unreadable(file, f"its name does not match its compression ({error})") from None
    return data


def _codec(key: str) -> str | None:
    return next((codec for ending, codec in _CODECS.items() if key.endswith(ending)), None)


# --- Avro


def blocks(client: Any, bucket: str, file: File) -> Iterator[tuple[str, avro_files.Block]]:
    """Yield the schema of a file's records, and the blocks of them. Raises UserError 22P02, and botocore's errors."""
    with closing(body(client, bucket, file)) as answer:
        source = io.BufferedReader(answer, _CHUNK)
        try:
            header = avro_files.header(source)
            for block in avro_files.blocks(source, header):
                yield header.schema, block
        except ValueError as error:
            raise _unreadable(file, str(error)) from None


# --- Parquet


def rows(
    client: Any, bucket: str, part: Part, columns: Sequence[Column]
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield the declared columns of the row groups that begin in a part, some rows at a time, and the place of the first of them.

    A column that the file lacks has the value in the file's folder names, else NULL. Raises UserError 22P02 for a file that is not
    Parquet, 42804 for a column of another type, 22003 for a value that does not fit its column.
    """
    reader = _opened(client, bucket, part.file)
    schema = reader.schema_arrow
    given = values_of(part.file.key)
    known = [column for column in columns if column.name in schema.names]
    # A field of a STRUCT has a path of its own, which begins with the column's name.
    position = 0
    for number in range(reader.num_row_groups):
        group = reader.metadata.row_group(number)
        if part.start <= _begin(group) < part.end:
            batches = reader.iter_batches(
                _ROWS, row_groups=[number], columns=[column.name for column in known]
            )
            at = position
            for batch in batches:
                yield _declared(batch, columns, given, part.file, at), at
                at += batch.num_rows
        position += group.num_rows


def _begin(group: Any) -> int:
    """Return where a row group begins; one without columns or rows is in the first part."""
    if not group.num_columns:
        return 0
    chunk = group.column(0)
    return int(chunk.dictionary_page_offset or chunk.data_page_offset)


def _declared(
    batch: pa.RecordBatch, columns: Sequence[Column], given: dict[str, str | None], file: File, at: int
) -> pa.RecordBatch:
    declared: dict[str, pa.Array] = {}
    for column in columns:
        kind = arrow_type(column.type)
        if column.name in batch.schema.names:
            declared[column.name] = _cast(batch.column(column.name), kind, column, file, at)
        elif column.name in given:
            text = pa.array([given[column.name]], pa.string())
            declared[column.name] = pa.repeat(_cast(text, kind, column, file, at)[0], batch.num_rows)
        else:
            declared[column.name] = pa.nulls(batch.num_rows, kind)
    return pa.RecordBatch.from_pydict(declared)


def _cast(values: pa.Array, kind: pa.DataType, column: Column, file: File, at: int) -> pa.Array:
    try:
        return cast(values, kind)
    except NotImplementedError:
        raise UserError(
            SqlState.DATATYPE_MISMATCH,
            f"the column {column.name} is {column.type}, and in the file {file.key} it is {of_arrow(values.type)}",
            hint="DESCRIBE ENTITY shows the columns of the newest file. Declare the column so, or as VARCHAR, and convert it in the query.",
        ) from None
    except ValueError:
        row, why = _misfit(values, kind)
        raise UserError(
            SqlState.NUMERIC_VALUE_OUT_OF_RANGE,
            f"a value of the column {column.name} in row {at + row} of the file {file.key} is not {with_article(str(column.type))}: {why}",
            hint="Declare a wider type.",
        ) from None


def _misfit(values: pa.Array, kind: pa.DataType) -> tuple[int, str]:
    """Return the number of the first value that does not fit a type, and the reason."""
    for row in range(len(values)):
        try:
            cast(values.slice(row, 1), kind)
        except ValueError as error:
            return row, str(error)
    raise AssertionError("every value fits alone")


def _opened(client: Any, bucket: str, file: File) -> parquet.ParquetFile:
    source: Any = ObjectFile(client, bucket, file)
    if file.size <= _WHOLE:
        source = pa.BufferReader(source.read())
    try:
        # In nanoseconds, Arrow's default for INT96, times before 1678 and after 2262 become others.
        return parquet.ParquetFile(source, pre_buffer=True, coerce_int96_timestamp_unit="us")
    except pa.ArrowInvalid as error:
        raise _unreadable(file, f"it is not a Parquet file ({error})") from None


# --- columns of files


@dataclass(frozen=True)
class Content:
    """Format of a file and its columns: all columns of Parquet and Avro, the columns in the first lines of JSON, none for other formats.

    `notes` are remarks on the columns of JSON, which are inferred.
    """

    format: str
    columns: tuple[Column, ...] = ()
    notes: tuple[str, ...] = ()


def head_of(client: Any, bucket: str, file: File) -> bytes:
    """Return the first bytes of a file, decompressed. Raises UserError 22P02."""
    with closing(body(client, bucket, file, 0, min(file.size, _SAMPLE))) as answer:
        codec = _codec(file.key)
        try:
            source = answer if codec is None else pa.CompressedInputStream(pa.PythonFile(answer, "r"), codec)
            head: bytes = source.read(_SAMPLE)
        except OSError as error:
            raise _unreadable(file, f"its name does not match its compression ({error})") from None
    return head


def lines_of(head: bytes) -> list[bytes]:
    """Return the complete, non-empty lines at the start of a file."""
    head = head.removeprefix(_BYTE_ORDER_MARK)
    if len(head) >= _SAMPLE - len(_BYTE_ORDER_MARK):
        head = head[: head.rfind(b"\n") + 1]
    return [line.rstrip(b"\r") for line in head.split(b"\n") if line.strip()]


def content_of(client: Any, bucket: str, file: File) -> Content:
    """Return the format and the columns of a file. Raises UserError 22P02, and 22000 for an invalid schema of Avro."""
    head = head_of(client, bucket, file)
    if head.startswith(_MAGIC):
        schema = _opened(client, bucket, file).schema_arrow
        return Content(
            "parquet", _columns([Column(field.name, of_arrow(field.type)) for field in schema], file)
        )
    if head.startswith(avro_files.MAGIC):
        try:
            header = avro_files.header(io.BufferedReader(io.BytesIO(head)))
        except ValueError as error:
            raise _unreadable(file, str(error)) from None
        return Content("avro", _columns_of_schema(header.schema))
    if not head.removeprefix(_BYTE_ORDER_MARK).lstrip().startswith(b"{"):
        return Content("csv" if ".csv" in file.key else "text")
    try:
        sampled = json_columns(lines_of(head)[:RECORDS_MAX])
    except ValueError as error:
        raise _unreadable(file, f"its first lines are not JSON objects: {error}") from None
    columns = [replace(column, nullable=True) for column in sampled.columns]
    notes = (f"inferred from {counted(sampled.records, 'record')}", *sampled.notes)
    return Content("json", _columns(columns, file), notes)


def _columns_of_schema(schema: str) -> tuple[Column, ...]:
    """Return the columns of Avro's schema; none if a type has no counterpart: a user who lists the columns need not list it."""
    try:
        return avro_schema.columns_of(schema)
    except UserError as error:
        if error.state is not SqlState.FEATURE_NOT_SUPPORTED:
            raise
        return ()


def _columns(own: Sequence[Column], file: File) -> tuple[Column, ...]:
    names = {column.name for column in own}
    folders = [Column(name, VARCHAR) for name in values_of(file.key) if name not in names]
    return (*own, *folders)


def _unreadable(file: File, why: str) -> UserError:
    return UserError(
        SqlState.INVALID_RECORD,
        f"cannot read the file {file.key}: {why}",
        hint="Check 'value.format'; files whose names start with '_' or '.' are not read.",
    )
