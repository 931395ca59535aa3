"""Avro's files: headers, blocks in every compression, and invalid files."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest

from harness.avro_files import CODECS, framed, number, record_schema, written
from harness.s3 import S3Client
from headrace.connectors.s3 import avro_files, reading
from headrace.connectors.s3.client import files
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState

SCHEMA = record_schema(id="long", who=["null", "string"])
BLOCKS = [[number(1) + b"\x00", number(-2) + b"\x02\x02x"], [], [number(3) + b"\x00"]]


def blocks(data: bytes) -> list[tuple[bytes, int, int]]:
    source = io.BufferedReader(io.BytesIO(data))  # type: ignore[arg-type]  # it reads as a raw file does
    header = avro_files.header(source)
    return [(block.data, block.count, block.first) for block in avro_files.blocks(source, header)]


@pytest.mark.parametrize("codec", CODECS)
def test_blocks_come_whole_and_counted(codec: str) -> None:
    expected = [(b"\x02\x00\x03\x02\x02x", 2, 0), (b"\x06\x00", 1, 2)]
    assert blocks(framed(SCHEMA, BLOCKS, codec)) == expected


def test_a_file_says_its_columns(s3: S3Client, seed: str) -> None:
    s3.put(f"{seed}/a", written(pa.table({"id": [1, None], "who": ["Ann", None], "far": [0.5, 1.5]})))
    (file,) = files(s3.boto, s3.bucket, f"{seed}/")
    content = reading.content_of(s3.boto, s3.bucket, file)
    kind, columns = content.format, content.columns
    assert kind == "avro"
    assert [(column.name, str(column.type), column.nullable) for column in columns] == [
        ("id", "BIGINT", True),
        ("who", "VARCHAR", True),
        ("far", "DOUBLE", True),
    ]
    s3.put(f"{seed}/b", framed(record_schema(id="long", either=["int", "string"]), [], "null"))
    _, other = files(s3.boto, s3.bucket, f"{seed}/")
    assert reading.content_of(s3.boto, s3.bucket, other) == reading.Content("avro")
    ((schema, block),) = reading.blocks(s3.boto, s3.bucket, file)
    assert (block.count, '"who"' in schema) == (2, True)


_GOOD = framed(SCHEMA, BLOCKS, "snappy")
_BOMB = framed(SCHEMA, [[bytes(avro_files._BLOCK_MAX + 1)]], "deflate")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"PAR1", "not an Avro file"),
        (b"Obj\x01" + number(1) + number(2**40), r"declares \d+ bytes"),
        (b"Obj\x01" + number(2**60), "contains more than"),
        (b"Obj\x01" + b"\xff" * 20, "longer than 64 bits"),
        (framed(SCHEMA, [], "null").replace(b"avro.schema", b"avro.scheme"), "no schema"),
        (framed(SCHEMA, [], "null").replace(b"null", b"lzma", 2).replace(b"lzma", b"null", 1), "compressed by 'lzma'"),
        (_GOOD[:-1], "within a block"),
        (_GOOD[:-20], "within a block"),
        (_GOOD[:-1] + b"x", "does not end at its declared size"),
        (_GOOD[:-17] + b"\0" + _GOOD[-16:], "checksum of a block does not match|not compressed"),
        (_BOMB, "larger than 64 MiB"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",  # not by a file, whose marker is random: each worker needs the same name
)  # fmt: skip
def test_what_is_no_file_is_told(s3: S3Client, seed: str, data: bytes, why: str) -> None:
    s3.put(f"{seed}/bad", data)
    (file,) = files(s3.boto, s3.bucket, f"{seed}/")
    with pytest.raises(UserError, match=f"cannot read the file {seed}/bad: .*({why})") as caught:
        list(reading.blocks(s3.boto, s3.bucket, file))
    assert caught.value.state is SqlState.INVALID_RECORD
