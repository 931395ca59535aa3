"""Batches as files, on Spark: reading returns the written rows in every format, and a repeated batch is written once."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from harness.avro_files import framed, record_schema
from harness.s3 import S3Client
from harness.spark import spark_session
from headrace.connectors.checkpoint_store import LocalFolder
from headrace.connectors.s3.client import files
from headrace.connectors.s3.spark.reading import Folder, parts_of_files, rows_of
from headrace.connectors.s3.spark.writing import writer
from headrace.connectors.streaming import RowSinkRequest
from headrace.core.schema import Column
from headrace.core.types import Struct, parse_type
from headrace.formats.avro import Avro, generated_schema
from headrace.formats.types import name_sql, spark_type
from tests.s3.conftest import Store

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::ResourceWarning")]

COLUMNS = tuple(
    Column(name, parse_type(text))
    for name, text in (
        ("id", "BIGINT"),
        ("country", "VARCHAR"),
        ("price", "DECIMAL(10, 2)"),
        ("ts", "TIMESTAMP"),
        ("at", "TIMESTAMP_LTZ"),
        ("day", "DATE"),
        ("tags", "ARRAY<VARCHAR>"),
        ("page", "STRUCT<url VARCHAR, n INT>"),
        ("data", "BYTES"),
    )
)
ROWS = """VALUES
(1, 'at', 1.25, TIMESTAMP '2026-01-31 23:30:00.5', TIMESTAMP '2026-01-31 23:30:00.5', DATE '2026-01-31', array('a', NULL),
 named_struct('url', '/ä', 'n', 1), X'00FF'),
(2, 'it''s/=', NULL, TIMESTAMP '2026-02-01 00:30:00', NULL, NULL, array(), NULL, NULL),
(3, NULL, 2, NULL, NULL, NULL, NULL, named_struct('url', 'x', 'n', NULL), X'')"""
SINGLE = 6
"""The columns before those that CSV cannot hold."""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


def typed(frame: DataFrame, columns: tuple[Column, ...]) -> DataFrame:
    """Return rows as a query does."""
    kinds = [f"CAST(col{number} AS {spark_type(column.type)})" for number, column in enumerate(COLUMNS, 1)]
    named = [f"{kind} AS {name_sql(column.name)}" for kind, column in zip(kinds, COLUMNS, strict=True)]
    return frame.selectExpr(*named[: len(columns)])


@pytest.mark.parametrize(
    ("kind", "by"),
    [("parquet", None), ("parquet", "country, day(ts)"), ("json", "month(day)"), ("csv", None)],
)
def test_rows_and_back(
    spark: SparkSession, s3: S3Client, store: Store, seed: str, tmp_path: Path, kind: str, by: str | None
) -> None:
    columns = COLUMNS[:SINGLE] if kind == "csv" else COLUMNS
    options = {"value.format": kind, "csv.header": "TRUE", "s3.commit.interval.millis": "0"}
    options |= {"s3.partition.by": by} if by else {}
    request = RowSinkRequest(
        "q-1", (s3.bucket, seed), columns, (), False, store, options=options, checkpoint=LocalFolder(tmp_path)
    )
    batch = typed(spark.sql(ROWS), columns)
    writer(request)(batch, 0)
    written = s3.keys(f"{seed}/")
    if by == "country, day(ts)":
        assert sorted({key.removeprefix(f"{seed}/").rpartition("/")[0] for key in written}) == [
            "country=__HIVE_DEFAULT_PARTITION__/ts_day=__HIVE_DEFAULT_PARTITION__",
            "country=at/ts_day=2026-01-31",
            "country=it%27s%2F%3D/ts_day=2026-02-01",
        ]
    # The driver died before Spark knew: the same batch comes again, in another process.
    writer(request)(batch, 0)
    assert s3.keys(f"{seed}/") == written

    parts_table = parts_of_files(list(enumerate(files(s3.boto, s3.bucket, f"{seed}/"))))
    parts = spark.createDataFrame(
        parts_table.to_pylist(), "file STRING, number BIGINT, start BIGINT, end BIGINT"
    )
    folder = Folder.of(store, s3.bucket, f"{s3.bucket}.{seed}", columns, options)
    read = rows_of(parts, folder, on_error="terminate").select(*(name_sql(column.name) for column in columns))
    assert rows(read) == rows(batch)


@pytest.mark.parametrize("codec", ["snappy", pytest.param("deflate", marks=pytest.mark.prove)])
def test_avro_of_others(spark: SparkSession, s3: S3Client, store: Store, seed: str, codec: str) -> None:
    """Every type; a record that is another, and what is left of a block that ends too soon, are bad records."""
    schema = generated_schema(Struct(tuple((column.name, column.type) for column in COLUMNS)), "row")
    value = Avro(registry="r", schema_text=schema, schema_id=1)
    fields = [(column.name, name_sql(column.name), column.type) for column in COLUMNS]
    batch = typed(spark.sql(ROWS), COLUMNS)
    encoded = batch.orderBy("id").selectExpr(f"{value.written(fields)} AS value").collect()
    one, two, three = (bytes(row["value"])[5:] for row in encoded)
    s3.put(f"{seed}/a.avro", framed(schema, [[one, two], [three]], codec))
    options = {"value.format": "avro"}
    parts_table = parts_of_files(list(enumerate(files(s3.boto, s3.bucket, f"{seed}/"))))
    kinds = "file STRING, number BIGINT, start BIGINT, end BIGINT"
    folder = Folder.of(store, s3.bucket, f"{s3.bucket}.{seed}", COLUMNS, options)
    read = rows_of(spark.createDataFrame(parts_table.to_pylist(), kinds), folder, on_error="terminate")
    assert rows(read.select(*(name_sql(column.name) for column in COLUMNS))) == rows(batch)
    places = read.selectExpr(
        "id", "__headrace_metadata.position AS at", "__headrace_sequence AS number"
    ).collect()
    assert sorted(tuple(row) for row in places) == [(1, 0, 0), (2, 1, 1), (3, 2, 2)]

    s3.put(f"{seed}/b.avro", framed(record_schema(id="string"), [[b"\x02x"]], codec))
    s3.put(f"{seed}/c.avro", framed("[", [[b"x"]], codec))
    s3.put(f"{seed}/d.avro", framed(schema, [[one], [two[:-1]]], codec))
    parts_table = parts_of_files(list(enumerate(files(s3.boto, s3.bucket, f"{seed}/"))))
    parts = spark.createDataFrame(parts_table.to_pylist(), kinds)
    kept = rows_of(parts, folder, on_error="ignore").select("id").collect()
    assert sorted(row["id"] for row in kept) == [1, 1, 2, 3]
    for name, reason in (
        ("b", "the file's schema: column id expects BIGINT, found string"),
        ("c", "schema cannot be read"),
    ):
        bad = parts.where(f"file LIKE '%{name}.avro%'")
        with pytest.raises(Py4JJavaError, match="HEADRACE_BAD_RECORD") as caught:
            rows_of(bad, folder, on_error="terminate").collect()
        match = re.search("HEADRACE_BAD_RECORD:([^:]+):", str(caught.value))
        assert match is not None
        assert reason in json.loads(base64.b64decode(match[1]))["reason"]


def rows(frame: DataFrame) -> list[Any]:
    return sorted((row.asDict(recursive=True) for row in frame.collect()), key=lambda row: int(row["id"]))


def test_an_empty_batch_writes_nothing(
    spark: SparkSession, s3: S3Client, store: Store, seed: str, tmp_path: Path
) -> None:
    options = {"value.format": "json", "csv.header": "FALSE", "s3.commit.interval.millis": "0"}
    request = RowSinkRequest(
        "q-1", (s3.bucket, seed), COLUMNS, (), False, store, options=options, checkpoint=LocalFolder(tmp_path)
    )
    writer(request)(typed(spark.sql(ROWS), COLUMNS).where("id > 5"), 0)
    assert s3.keys(f"{seed}/") == []
