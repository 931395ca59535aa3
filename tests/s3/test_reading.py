"""Reading of files: every line and every row group once, however a file is divided; and the columns of files."""

from __future__ import annotations

import bz2
import datetime
import gzip
import itertools
import random
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from harness.s3 import S3Client
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
from tests.s3.conftest import Store


def stored_file(s3: S3Client, key: str) -> File:
    (file,) = [file for file in files(s3.boto, s3.bucket, key) if file.key == key]
    return file


def parts(file: File, cuts: list[int]) -> list[Part]:
    ends = [0, *sorted(cuts), file.size]
    return [Part(file, start, end) for start, end in itertools.pairwise(ends)]


def test_every_line_is_in_one_part(s3: S3Client, seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_CHUNK", 17)
    monkeypatch.setattr(reading, "_ROWS", 3)
    chance = random.Random(7)
    expected = [str(number).encode() * chance.randrange(1, 9) for number in range(100)]
    text = b"\n".join(b"\n" + line if chance.random() < 0.1 else line for line in expected)
    for ending in (b"", b"\n", b"\r\n"):
        s3.put(f"{seed}/lines", text + ending)
        file = stored_file(s3, f"{seed}/lines")
        for _ in range(6):
            cuts = [chance.randrange(1, file.size) for _ in range(chance.randrange(4))]
            taken = [
                (line, place)
                for part in parts(file, cuts)
                for lines, places in reading.lines(s3.boto, s3.bucket, part)
                for line, place in zip(lines, places, strict=True)
            ]
            assert [line for line, _ in taken] == expected, cuts
            assert all((text + ending)[place:].startswith(line) for line, place in taken)


@pytest.mark.parametrize(("name", "packed"), [("a.gz", gzip.compress), ("a.bz2", bz2.compress)])
def test_compressed_lines(s3: S3Client, seed: str, name: str, packed: Any) -> None:
    # Two members one after the other, as tools that append write them.
    s3.put(f"{seed}/{name}", packed(b"a\nb\n") + packed(b"c\n"))
    file = stored_file(s3, f"{seed}/{name}")
    (read,) = reading.lines(s3.boto, s3.bucket, Part(file, 0, file.size))
    assert read == ([b"a", b"b", b"c"], [0, 2, 4])
    s3.put(f"{seed}/{name}", b"no such thing")
    file = stored_file(s3, f"{seed}/{name}")
    with pytest.raises(UserError, match="its name does not match its compression"):
        list(reading.lines(s3.boto, s3.bucket, Part(file, 0, file.size)))


@pytest.mark.parametrize("whole", [1 << 30, 0], ids=["in one answer", "by ranges"])
def test_every_row_group_is_in_one_part(
    s3: S3Client, seed: str, whole: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_WHOLE", whole)
    s3.put_parquet(f"{seed}/rows", pa.table({"id": range(1000), "x": ["x" * 50] * 1000}), row_group_size=70)
    file = stored_file(s3, f"{seed}/rows")
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
    file = stored_file(s3, f"{seed}/types")
    content = reading.content_of(s3.boto, s3.bucket, file)
    kind, columns = content.format, content.columns
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
    """Wider types and texts are read; the error of a value that does not fit names column and file."""
    key = f"{seed}/day=2026-01-31/n=7/data"
    s3.put_parquet(key, pa.table({"id": [1, 2**40], "name": ["1", "x"]}))
    part = Part(stored_file(s3, key), 0, 1 << 20)

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


UNIT = uuid.UUID("6f9619ff-8b86-d011-b42d-00cf4fc964ff")
NOON = datetime.datetime(2026, 1, 31, 12)


def _column(s3: S3Client, key: str, values: pa.Array, kind: str, **options: Any) -> list[Any]:
    s3.put_parquet(key, pa.table({"v": values}), **options)
    file = stored_file(s3, key)
    batches = reading.rows(s3.boto, s3.bucket, Part(file, 0, file.size), [Column("v", parse_type(kind))])
    return [row["v"] for batch, _ in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("year", [1, 1600, 1677, 2263, 9999])
def test_times_of_int96_are_not_wrapped(s3: S3Client, seed: str, year: int) -> None:
    moment = datetime.datetime(year, 1, 1, 12, tzinfo=datetime.UTC)
    values = pa.array([moment.replace(tzinfo=None)], pa.timestamp("us"))
    key = f"{seed}/int96"
    assert _column(s3, key, values, "TIMESTAMP", use_deprecated_int96_timestamps=True) == [moment]
    assert reading.content_of(s3.boto, s3.bucket, stored_file(s3, key)).columns[0].type == TIMESTAMP


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (pa.array([UNIT.bytes, None], pa.uuid()), "VARCHAR", [str(UNIT), None]),
        (pa.array([UNIT.bytes], pa.uuid()), "BYTES", [UNIT.bytes]),
        (pa.array([[1, None], None, [], [2]]), "ARRAY<VARCHAR>", [["1", None], None, [], ["2"]]),
        (pa.array([[1.5]], pa.list_(pa.float64(), 1)), "ARRAY<FLOAT>", [[1.5]]),
        (
            pa.array([[("a", 1)], None, [("b", None)]], pa.map_(pa.string(), pa.int32())),
            "MAP<VARCHAR, BIGINT>",
            [[("a", 1)], None, [("b", None)]],
        ),
        (
            pa.array([{"a": 1, "gone": 1}, None]),
            "STRUCT<a VARCHAR, b INTEGER>",
            [{"a": "1", "b": None}, None],
        ),
        (pa.array([0.1, None, 1e300]), "DOUBLE", [0.1, None, 1e300]),
        (pa.array(["Infinity", "1.5"]), "FLOAT", [float("inf"), 1.5]),
        (pa.array([Decimal("0.1")]), "DOUBLE", [0.1]),
        (pa.array([0.1]), "DECIMAL(5, 2)", [Decimal("0.10")]),
        (pa.array([NOON.replace(hour=0)], pa.timestamp("ms")), "DATE", [NOON.date()]),
        (pa.array([NOON.date()]), "TIMESTAMP", [NOON.replace(hour=0, tzinfo=datetime.UTC)]),
    ],
)
def test_values_that_fit(s3: S3Client, seed: str, values: pa.Array, kind: str, expected: list[Any]) -> None:
    assert _column(s3, f"{seed}/fits", values, kind) == expected


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([1.5, 1e300]), "FLOAT"),
        (pa.array([1.5, 1e-300]), "FLOAT"),
        (pa.array([[1.5], [1e300]]), "ARRAY<FLOAT>"),
        (pa.array([{"a": 1.5}, {"a": 1e300}]), "STRUCT<a FLOAT>"),
        (pa.array([[("a", 1.5)], [("a", 1e300)]], pa.map_(pa.string(), pa.float64())), "MAP<VARCHAR, FLOAT>"),
        (pa.array(["1.5", "1e400"]), "DOUBLE"),
        (pa.array([0.25, 0.125]), "DECIMAL(5, 2)"),
        (pa.array([Decimal("1.25"), Decimal("12345678901234567890.25")]), "DOUBLE"),
        (pa.array([NOON.replace(hour=0), NOON], pa.timestamp("ms")), "DATE"),
        (pa.array([0, 10**17], pa.timestamp("ms")), "TIMESTAMP"),
    ],
)
def test_values_that_do_not_fit_end_with_file_and_row(
    s3: S3Client, seed: str, values: pa.Array, kind: str
) -> None:
    with pytest.raises(UserError, match=f"column v in row 1 of the file {seed}/misfit is no") as caught:
        _column(s3, f"{seed}/misfit", values, kind)
    assert caught.value.state is SqlState.NUMERIC_VALUE_OUT_OF_RANGE


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([1_700_000_000_000]), "TIMESTAMP"),
        (pa.array([1_700_000_000_000]), "TIMESTAMP_LTZ(3)"),
        (pa.array([[1_700_000_000_000]]), "ARRAY<TIMESTAMP>"),
        (pa.array([18_000], pa.int32()), "DATE"),
        (pa.array([NOON], pa.timestamp("ms")), "BIGINT"),
        (pa.array([NOON.date()]), "INTEGER"),
        (pa.array([NOON.time()], pa.time64("us")), "BIGINT"),
        (pa.array([2]), "BOOLEAN"),
    ],
)
def test_numbers_and_times_are_not_taken_for_each_other(
    s3: S3Client, seed: str, values: pa.Array, kind: str
) -> None:
    with pytest.raises(UserError, match="the column v is") as caught:
        _column(s3, f"{seed}/unit", values, kind)
    assert caught.value.state is SqlState.DATATYPE_MISMATCH


@pytest.mark.parametrize("text", ["\ufeff1,a\n2,b\n", "\ufeff\n1,a\n2,b\n"])
def test_a_byte_order_mark_is_no_value(s3: S3Client, seed: str, text: str) -> None:
    s3.put(f"{seed}/mark", text.encode())
    file = stored_file(s3, f"{seed}/mark")
    ((lines, places),) = reading.lines(s3.boto, s3.bucket, Part(file, 0, file.size))
    assert (lines, places[1]) == ([b"1,a", b"2,b"], text.encode().index(b"2,b"))


def test_what_is_no_parquet(s3: S3Client, seed: str) -> None:
    s3.put(f"{seed}/bad", "id,name\n")
    file = stored_file(s3, f"{seed}/bad")
    with pytest.raises(
        UserError, match=f"cannot read the file {seed}/bad: it is not a Parquet file"
    ) as caught:
        list(reading.rows(s3.boto, s3.bucket, Part(file, 0, file.size), [Column("id", BIGINT)]))
    assert caught.value.state is SqlState.INVALID_RECORD


def test_columns_of_lines(s3: S3Client, seed: str) -> None:
    s3.put(f"{seed}/a.json.gz", gzip.compress(b'{"a": 1, "b": {"c": [1.5]}}\n{"a": 2, "d": null}\n'))
    content = reading.content_of(s3.boto, s3.bucket, stored_file(s3, f"{seed}/a.json.gz"))
    kind, columns = content.format, content.columns
    assert (kind, [str(column.type) for column in columns]) == (
        "json",
        ["BIGINT", "STRUCT<c ARRAY<DOUBLE>>", "VARCHAR"],
    )
    s3.put(f"{seed}/a.csv", "a,b\n")
    assert reading.content_of(s3.boto, s3.bucket, stored_file(s3, f"{seed}/a.csv")) == reading.Content("csv")


def test_what_is_no_data_is_not_found(s3: S3Client, store: Store, seed: str) -> None:
    for key in ("a", "b/c", "_SUCCESS", ".hidden", "_temporary/x", "_day=1/x", "empty"):
        s3.put(f"{seed}/{key}", "" if key == "empty" else "x")
    names = [file.key.removeprefix(f"{seed}/") for file in files(s3_client(store), s3.bucket, f"{seed}/")]
    assert names == ["_day=1/x", "a", "b/c"]


def s3_client(store: Store) -> Any:
    return s3(store)
