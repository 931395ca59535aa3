"""Avro's object container files, as others write them: PyIceberg's writer, and a frame for records and codecs that it has not."""

from __future__ import annotations

import bz2
import json
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, IcebergType, LongType, NestedField, StringType

_TYPES: Mapping[pa.DataType, IcebergType] = {
    pa.int64(): LongType(),
    pa.string(): StringType(),
    pa.float64(): DoubleType(),
}
CODECS: Mapping[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": lambda data: zlib.compress(data)[2:-4],
    "snappy": lambda data: pa.compress(data, "snappy", asbytes=True) + zlib.crc32(data).to_bytes(4, "big"),
    "zstandard": lambda data: pa.compress(data, "zstd", asbytes=True),
    "bzip2": bz2.compress,
}


def written(table: pa.Table) -> bytes:
    """Long, double and text columns as PyIceberg writes them: each may be null, and blocks are deflated."""
    fields = [
        NestedField(number, field.name, _TYPES[field.type], required=False)
        for number, field in enumerate(table.schema, 1)
    ]
    with TemporaryDirectory() as folder:
        path = Path(folder, "file.avro")
        file = PyArrowFileIO().new_output(str(path))
        with AvroOutputFile[Record](file, Schema(*fields), "row") as output:
            output.write_block([Record(*row.values()) for row in table.to_pylist()])
        return path.read_bytes()


def framed(schema: str, blocks: Sequence[Sequence[bytes]], codec: str) -> bytes:
    """A file of blocks of records that are encoded already."""
    sync = os.urandom(16)
    metadata = {"avro.schema": schema.encode(), "avro.codec": codec.encode()}
    parts = [b"Obj\x01", number(len(metadata))]
    parts += [part for name, text in metadata.items() for part in (_sized(name.encode()), _sized(text))]
    parts += [number(0), sync]
    for records in blocks:
        parts += [number(len(records)), _sized(CODECS[codec](b"".join(records))), sync]
    return b"".join(parts)


def record_schema(**fields: object) -> str:
    """The schema of a record."""
    named = [{"name": name, "type": kind} for name, kind in fields.items()]
    return json.dumps({"type": "record", "name": "row", "fields": named})


def number(value: int) -> bytes:
    """A long as Avro writes it."""
    left = value << 1 if value >= 0 else (~value << 1) | 1
    parts = bytearray()
    while left > 0x7F:
        parts.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*parts, left])


def _sized(data: bytes) -> bytes:
    return number(len(data)) + data
