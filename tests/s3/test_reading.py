"""What is read of files: every line and every row group once, however a file is divided; and what files say of their columns."""

from __future__ import annotations

import bz2
import datetime
import gzip
import itertools
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headrace.connectors.s3 import reading
from headrace.connectors.s3.client import File, files, s3
from headrace.connectors.s3.reading import Part
from headrace.core.errors import UserError
from headrace.core.schema import Column
from headrace.core.sqlstate import SqlState
from headrace.core.types import (
    BIGINT,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    TIMESTAMP,
    TIMESTAMP_LTZ,
    VARCHAR,
    parse_type,
)
from tests.harness.s3 import S3Client
from tests.s3.conftest import Store


def found(s3: S3Client, key: str) -> File:
    (file,) = [file for file in files(s3.boto, s3.bucket, key) if file.key == key]
    return file


def parts(file: File, cuts: list[int]) -> list[Part]:
    ends = [0, *sorted(cuts), file.size]
    return [Part(file, start, end) for start, end in itertools.pairwise(ends)]


def test_every_line_is_in_one_part(s3: S3Client, seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_CHUNK", 17)
    monkeypatch.setattr(reading, "_ROWS", 3)
    chance = random.Random(7)
    wanted = [str(number).encode() * chance.randrange(1, 9) for number in range(100)]
    text = b"\n".join(b"\n" + line if chance.random() < 0.1 else line for line in wanted)
    for ending in (b"", b"\n", b"\r\n"):
        s3.put(f"{seed}/lines", text + ending)
        file = found(s3, f"{seed}/lines")
        for _ in range(6):
            cuts = [chance.randrange(1, file.size) for _ in range(chance.randrange(4))]
            taken = [
                (line, place)
                for part in parts(file, cuts)
                for lines, places in reading.lines(s3.boto, s3.bucket, part)
                for line, place in zip(lines, places, strict=True)
            ]
            assert [line for line, _ in taken] == wanted, cuts
            assert all((text + ending)[place:].startswith(line) for line, place in taken)


@pytest.mark.parametrize(("name", "packed"), [("a.gz", gzip.compress), ("a.bz2", bz2.compress)])
def test_compressed_lines(s3: S3Client, seed: str, name: str, packed: Any) -> None:
    # Two members one after the other, as tools that append write them.
    s3.put(f"{seed}/{name}", packed(b"a\nb\n") + packed(b"c\n"))
    file = found(s3, f"{seed}/{name}")
    (read,) = reading.lines(s3.boto, s3.bucket, Part(file, 0, file.size))
    assert read == ([b"a", b"b", b"c"], [0, 2, 4])
    s3.put(f"{seed}/{name}", b"no such thing")
    file = found(s3, f"{seed}/{name}")
    with pytest.raises(UserError, match="not compressed as its name says"):
        list(reading.lines(s3.boto, s3.bucket, Part(file, 0, file.size)))


@pytest.mark.parametrize("whole", [1 << 30, 0], ids=["in one answer", "by ranges"])
def test_every_row_group_is_in_one_part(
    s3: S3Client, seed: str, whole: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_WHOLE", whole)
    s3.put_parquet(f"{seed}/rows", pa.table({"id": range(1000), "x": ["x" * 50] * 1000}), row_group_size=70)
    file = found(s3, f"{seed}/rows")
    chance = random.Random(7)
    for _ in range(5):
        cuts = [chance.randrange(1, file.size) for _ in range(3)]
        taken = [
            (value, first + number)
            for part in parts(file, cuts)
            for batch, first in reading.rows(s3.boto, s3.bucket, part, [Column("id", BIGINT)])
            for number, value in enumerate(batch.column("id").to_pylist())
        ]
        assert taken == [(number, number) for number in range(1000)], cuts


def test_types_of_parquet(s3: S3Client, seed: str) -> None:
    moment = datetime.datetime(2026, 1, 31, 10, 0, 0, 123456)
    arrays = {
        "i8": (pa.array([1], pa.int8()), "TINYINT"),
        "u32": (pa.array([2**32 - 1], pa.uint32()), "BIGINT"),
        "f": (pa.array([1.5], pa.float32()), "FLOAT"),
        "d": (pa.array([Decimal("1.50")], pa.decimal128(10, 2)), "DECIMAL(10, 2)"),
        "b": (pa.array([b"\x00\xff"], pa.binary()), "BYTES"),
        "s": (pa.array(["ä"], pa.large_string()), "VARCHAR"),
        "e": (pa.array(["x"]).dictionary_encode(), "VARCHAR"),
        "day": (pa.array([moment.date()]), "DATE"),
        "ms": (pa.array([moment.replace(microsecond=123000)], pa.timestamp("ms")), "TIMESTAMP(3)"),
        "utc": (pa.array([moment], pa.timestamp("us", "UTC")), "TIMESTAMP_LTZ"),
        "l": (pa.array([[1, None]]), "ARRAY<BIGINT>"),
        "m": (pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())), "MAP<VARCHAR, INTEGER>"),
        "st": (pa.array([{"a": 1, "B": "x"}]), 'STRUCT<a BIGINT, "B" VARCHAR>'),
    }
    s3.put_parquet(f"{seed}/types", pa.table({name: array for name, (array, _) in arrays.items()}))
    file = found(s3, f"{seed}/types")
    kind, columns = reading.columns_of(s3.boto, s3.bucket, file)
    assert kind == "parquet"
    assert {column.name: str(column.type) for column in columns} == {
        name: text for name, (_, text) in arrays.items()
    }
    ((batch, _),) = reading.rows(s3.boto, s3.bucket, Part(file, 0, file.size), columns)
    (row,) = batch.to_pylist()
    expected = {name: array.to_pylist()[0] for name, (array, _) in arrays.items()}
    for name in ("ms", "utc"):
        expected[name] = expected[name].replace(tzinfo=datetime.UTC)
        row[name] = row[name].replace(tzinfo=datetime.UTC)
    assert row == expected


def test_declared_types(s3: S3Client, seed: str) -> None:
    """Wider ones and texts are fine; what does not fit is told with column and file."""
    key = f"{seed}/day=2026-01-31/n=7/data"
    s3.put_parquet(key, pa.table({"id": [1, 2**40], "name": ["1", "x"]}))
    part = Part(found(s3, key), 0, 1 << 20)

    def read(**kinds: Any) -> list[dict[str, Any]]:
        columns = [Column(name, kind) for name, kind in kinds.items()]
        return [
            row for batch, _ in reading.rows(s3.boto, s3.bucket, part, columns) for row in batch.to_pylist()
        ]

    assert read(id=VARCHAR, day=DATE, n=INTEGER, none=DOUBLE)[1] == {
        "id": str(2**40),
        "day": datetime.date(2026, 1, 31),
        "n": 7,
        "none": None,
    }
    assert read(day=TIMESTAMP)[0]["day"] == read(day=TIMESTAMP_LTZ)[0]["day"]
    for kinds, state in (
        ({"id": INTEGER}, SqlState.NUMERIC_VALUE_OUT_OF_RANGE),
        ({"name": BIGINT}, SqlState.NUMERIC_VALUE_OUT_OF_RANGE),
        ({"name": parse_type("ARRAY<INT>")}, SqlState.DATATYPE_MISMATCH),
        ({"id": BYTES}, SqlState.DATATYPE_MISMATCH),
    ):
        with pytest.raises(UserError, match=f"column {next(iter(kinds))}.*{key}") as caught:
            read(**kinds)
        assert caught.value.state is state


def test_what_is_no_parquet(s3: S3Client, seed: str) -> None:
    s3.put(f"{seed}/bad", "id,name\n")
    file = found(s3, f"{seed}/bad")
    with pytest.raises(UserError, match=f"cannot read the file {seed}/bad: it is no Parquet") as caught:
        list(reading.rows(s3.boto, s3.bucket, Part(file, 0, file.size), [Column("id", BIGINT)]))
    assert caught.value.state is SqlState.INVALID_RECORD


def test_columns_of_lines(s3: S3Client, seed: str) -> None:
    s3.put(f"{seed}/a.json.gz", gzip.compress(b'{"a": 1, "b": {"c": [1.5]}}\n{"a": 2, "d": null}\n'))
    kind, columns = reading.columns_of(s3.boto, s3.bucket, found(s3, f"{seed}/a.json.gz"))
    assert (kind, [str(column.type) for column in columns]) == (
        "json",
        ["BIGINT", "STRUCT<c ARRAY<DOUBLE>>", "VARCHAR"],
    )
    s3.put(f"{seed}/a.csv", "a,b\n")
    assert reading.columns_of(s3.boto, s3.bucket, found(s3, f"{seed}/a.csv")) == ("csv", ())


def test_what_is_no_data_is_not_found(s3: S3Client, store: Store, seed: str) -> None:
    for key in ("a", "b/c", "_SUCCESS", ".hidden", "_temporary/x", "_day=1/x", "empty"):
        s3.put(f"{seed}/{key}", "" if key == "empty" else "x")
    names = [file.key.removeprefix(f"{seed}/") for file in files(s3_client(store), s3.bucket, f"{seed}/")]
    assert names == ["_day=1/x", "a", "b/c"]


def s3_client(store: Store) -> Any:
    return s3(store)
