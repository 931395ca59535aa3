"""Round trips of formats: random rows, with the odd values of each type among them."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import os
import random
import re
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import Row, SparkSession

from harness.authority import Authority
from harness.registry_front import RegistryFront
from headrace.connectors.iceberg.spark.writing import malformed_uuid_sql
from headrace.core.types import DataType, Struct, Timestamp, parse_type
from headrace.formats.avro import Avro, generated_schema
from headrace.formats.base import Format
from headrace.formats.csv import Csv
from headrace.formats.json import Json
from headrace.formats.primitive import Primitive
from headrace.formats.raw import Raw
from headrace.formats.types import name_sql, spark_type

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::ResourceWarning")]

SEED = int(os.environ.get("HEADRACE_SEED", "20"))
ROWS = 200
LETTERS = string.ascii_letters + string.digits + " ,;|:\"'\\\r\n\t{}[]äß漢🙂\0"
Value = Callable[[random.Random], Any]


def number(bits: int) -> Value:
    odd = (0, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)))
    return lambda chance: chance.choice((*odd, chance.randrange(odd[3], odd[2])))


def text(chance: random.Random) -> str:
    return "".join(chance.choices(LETTERS, k=chance.choice((0, 0, 1, 2, 20))))


def moment(chance: random.Random) -> datetime.datetime:
    return datetime.datetime(1, 1, 1) + datetime.timedelta(
        microseconds=chance.randrange(315_000_000_000_000_000)
    )


VALUES: dict[str, Value] = {
    "BOOLEAN": lambda chance: chance.random() < 0.5,
    "TINYINT": number(8),
    "SMALLINT": number(16),
    "INTEGER": number(32),
    "BIGINT": number(64),
    "DOUBLE": lambda chance: chance.choice((0.0, -0.5, 5e-324, 1.7e308, float("inf"), chance.gauss(0, 1e6))),
    "DECIMAL(38, 10)": lambda chance: decimal.Decimal(chance.randrange(-(10**38), 10**38)).scaleb(-10, decimal.Context(prec=38)),
    "VARCHAR": text,
    "BYTES": lambda chance: bytearray(chance.randbytes(chance.choice((0, 1, 8)))),
    "DATE": lambda chance: datetime.date(1, 1, 1) + datetime.timedelta(days=chance.randrange(3_652_058)),
    "TIMESTAMP": moment,
    "TIMESTAMP_LTZ": moment,
}  # fmt: skip


def rows(columns: dict[str, DataType], seed: int = SEED) -> list[tuple[Any, ...]]:
    chance = random.Random(seed)
    return [
        tuple(None if chance.random() < 0.1 else VALUES[str(kind)](chance) for kind in columns.values())
        for _ in range(ROWS)
    ]


SINGLE = {f"c{number}": parse_type(kind) for number, kind in enumerate(VALUES)}
LAYOUTS: list[tuple[Format, dict[str, DataType]]] = [
    *((Json(timestamps=times), SINGLE) for times in ("sql", "iso8601", None)),
    *((Csv(delimiter=delimiter), SINGLE) for delimiter in (",", "\t", ".", " ")),
    (Csv(timestamps="iso8601"), SINGLE),
    (Csv(), {"only": parse_type("VARCHAR")}),
    *((Primitive(), {"only": parse_type(kind)}) for kind in ("SMALLINT", "INTEGER", "BIGINT", "DOUBLE", "VARCHAR")),
    (Raw(), {"only": parse_type("BYTES")}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("layout", "columns"), LAYOUTS, ids=lambda part: repr(part) if isinstance(part, Format) else ""
)
def test_what_is_written_is_read_back(
    spark: SparkSession, layout: Format, columns: dict[str, DataType]
) -> None:
    struct = Struct(tuple(columns.items()))
    assert layout.refusal(struct) is None
    given = rows(columns)
    types = ", ".join(f"{name} {spark_type(kind)}" for name, kind in columns.items())
    frame = spark.createDataFrame(given, types)
    records = frame.selectExpr(
        f"{layout.written([(name, name_sql(name), kind) for name, kind in columns.items()])} AS record"
    )
    read = records.selectExpr(f"{layout.read('record', struct)} AS decoded").collect()
    assert [row.decoded.reason for row in read] == [None] * ROWS
    assert [tuple(row.decoded.value) for row in read] == given


NESTED = {
    "a": parse_type("ARRAY<BIGINT>"),
    "m": parse_type("MAP<VARCHAR, DOUBLE>"),
    "s": parse_type('STRUCT<x INTEGER, "Y" ARRAY<STRUCT<z VARCHAR>>>'),
}


def test_json_holds_what_is_nested(spark: SparkSession) -> None:
    given = [
        ([1, None], {"k": 1.5, "": None}, Row(x=None, Y=[Row(z='"'), None])),
        (None, None, None),
        ([], {}, Row(x=1, Y=[])),
    ]
    types = ", ".join(f"{name} {spark_type(kind)}" for name, kind in NESTED.items())
    fields = [(name, name_sql(name), kind) for name, kind in NESTED.items()]
    records = spark.createDataFrame(given, types).selectExpr(f"{Json().written(fields)} AS record")
    read = records.selectExpr(f"{Json().read('record', Struct(tuple(NESTED.items())))} AS decoded").collect()
    assert [(row.decoded.reason, tuple(row.decoded.value)) for row in read] == [(None, row) for row in given]


def test_json_writes_a_time_within_others_as_it_writes_one_alone(spark: SparkSession) -> None:
    times = parse_type(
        'STRUCT<"a b" TIMESTAMP, z TIMESTAMP_LTZ(3), l ARRAY<STRUCT<t TIMESTAMP>>, m MAP<VARCHAR, TIMESTAMP_LTZ>>'
    )
    moment = datetime.datetime(2026, 1, 31, 10, 0, 0, 250)
    given = [
        (
            Row(
                **{
                    "a b": moment,
                    "z": moment,
                    "l": [Row(t=moment), None, Row(t=None)],
                    "m": {"k": moment, "n": None},
                }
            ),
        ),
        (Row(**{"a b": None, "z": None, "l": None, "m": None}),),
        (None,),
    ]
    frame = spark.createDataFrame(given, f"at {spark_type(times)}")
    for layout, divider in (("sql", " "), ("iso8601", "T")):
        micros, millis = f"2026-01-31{divider}10:00:00.000250", f"2026-01-31{divider}10:00:00.000Z"
        records = frame.selectExpr(
            f"{Json(timestamps=layout).written([('at', 'at', times)])} AS record"
        ).collect()
        assert [json.loads(row.record)["at"] for row in records] == [
            {
                "a b": micros,
                "z": millis,
                "l": [{"t": micros}, None, {"t": None}],
                "m": {"k": f"{micros}Z", "n": None},
            },
            {"a b": None, "z": None, "l": None, "m": None},
            None,
        ]


@pytest.mark.parametrize(
    ("layout", "kinds", "record", "reason"),
    [
        (Csv(), ("BIGINT", "VARCHAR"), b"1", "expected 2 fields, found 1"),
        (Csv(), ("BIGINT", "VARCHAR"), b"1,a,b", "expected 2 fields, found 3"),
        (Csv(delimiter=";"), ("BIGINT",), b"1,5", 'column c0 expects BIGINT, found the text "1,5"'),
        (Csv(), ("SMALLINT",), b"40000", 'column c0 expects SMALLINT, found the text "40000"'),
        (Csv(), ("BOOLEAN",), b"yes", 'column c0 expects BOOLEAN, found the text "yes"'),
        (Csv(), ("DECIMAL(4, 2)",), b"100.00", 'column c0 expects DECIMAL(4, 2), found the text "100.00"'),
        (Csv(), ("INTEGER",), b" 1", 'column c0 expects INTEGER, found the text " 1"'),
        (Csv(), ("INTEGER",), b'""', 'column c0 expects INTEGER, found the text ""'),
        (Csv(timestamps="sql"), ("TIMESTAMP",), b"2026-01-31T10:00:00",
         'column c0 expects TIMESTAMP, found the text "2026-01-31T10:00:00"'),
        (Csv(), ("VARCHAR",), b'"open', "field 1 has no closing quote"),
        (Csv(), ("VARCHAR", "VARCHAR"), b'a,"b"c', "field 2 continues after its closing quote"),
        (Csv(), ("VARCHAR",), b'a"b', "field 1 has a quote in it and is not in quotes"),
        (Csv(), ("VARCHAR",), b"a\nb", "more than one line is in it"),
        (Csv(), ("VARCHAR",), b"\xff", "it is not UTF-8"),
        (Json(timestamps="iso8601"), ("TIMESTAMP",), b'{"c0":"2026-01-31 10:00:00"}',
         'column c0 expects TIMESTAMP, written yyyy-MM-ddTHH:mm:ss, found the string "2026-01-31 10:00:00"'),
        (Primitive(), ("BIGINT",), b"four", "expected BIGINT in 8 bytes, found 4"),
        (Primitive(), ("VARCHAR",), b"\xff", "expected text in UTF-8, found other bytes"),
    ],
)  # fmt: skip
def test_a_bad_record_says_why(
    spark: SparkSession, layout: Format, kinds: tuple[str, ...], record: bytes, reason: str
) -> None:
    columns = Struct(tuple((f"c{number}", parse_type(kind)) for number, kind in enumerate(kinds)))
    frame = spark.createDataFrame([(bytearray(record),)], "record BINARY")
    (decoded,) = frame.selectExpr(f"{layout.read('record', columns)} AS decoded").collect()[0]
    assert (decoded.value, decoded.reason) == (None, reason)


def test_csv_is_read_as_others_write_it(spark: SparkSession) -> None:
    columns = Struct(
        (("a", parse_type("VARCHAR")), ("n", parse_type("INTEGER")), ("b", parse_type("VARCHAR")))
    )
    lines = [b'"say ""hi""",007,x\r\n', b',,""', b'"a\nb",-0,"1,5"\n']
    frame = spark.createDataFrame([(bytearray(line),) for line in lines], "record BINARY")
    read = frame.selectExpr(f"{Csv().read('record', columns)} AS decoded").collect()
    assert [tuple(row.decoded.value) for row in read] == [
        ('say "hi"', 7, "x"),
        (None, None, ""),
        ("a\nb", 0, "1,5"),
    ]


def opened(spark: SparkSession, name: str, **properties: str) -> None:
    """The driver's JVM knows the registry."""
    settings = spark._jvm.java.util.HashMap()
    for key, text in properties.items():
        settings.put({"ca": "tls.ca_cert_file", "verify": "tls.verify_server_hostname"}.get(key, key), text)
    spark._jvm.io.headrace.spark.SchemaRegistry.open(name, settings)


def schema_server(schema: str, **more: Any) -> RegistryFront:
    answer = json.dumps({"schema": schema}).encode()
    return RegistryFront(
        answer=lambda path: (200, {}, answer) if path == "/schemas/ids/7" else (404, {}, b"{}"), **more
    )


def test_avro_is_read_back_by_the_schema_that_it_names(spark: SparkSession) -> None:
    columns = SINGLE | NESTED
    struct = Struct(tuple(columns.items()))
    layout = Avro(registry="all", schema_text=generated_schema(struct, "all-value"), schema_id=7)
    nested = ([1, None], {"k": 1.5, "": None}, Row(x=None, Y=[Row(z='"'), None]))
    given = [(*row, *nested) for row in rows(SINGLE)]
    types = ", ".join(f"{name} {spark_type(kind)}" for name, kind in columns.items())
    fields = [(name, name_sql(name), kind) for name, kind in columns.items()]
    with schema_server(layout.schema_text or "") as server:
        opened(spark, "all", uris=server.url(), auth="none")
        records = spark.createDataFrame(given, types).selectExpr(f"{layout.written(fields)} AS record")
        read = records.selectExpr(f"{layout.read('record', struct)} AS decoded").collect()
        assert server.paths == ["/schemas/ids/7"]
    assert [(row.decoded.reason, tuple(row.decoded.value)) for row in read] == [(None, row) for row in given]


@pytest.mark.parametrize(
    ("host", "trusted", "verify", "reads"),
    [
        ("localhost", True, "TRUE", True),
        ("127.0.0.1", True, "TRUE", False),
        ("127.0.0.1", True, "FALSE", True),
        ("localhost", False, "TRUE", False),
        ("localhost", False, "FALSE", False),
    ],
)
def test_a_registry_is_asked_over_tls_with_a_token(
    spark: SparkSession, tmp_path: Path, host: str, trusted: bool, verify: str, reads: bool
) -> None:
    authority = Authority()
    certificate = tmp_path / "server.pem"
    certificate.write_bytes(authority.key_and_certificate("localhost"))
    name = f"tls-{host}-{trusted}-{verify}"
    known = (authority if trusted else Authority()).pem
    columns = Struct((("n", parse_type("BIGINT")),))
    layout = Avro(registry=name, schema_text=generated_schema(columns, "n"), schema_id=7)
    with schema_server(
        layout.schema_text or "", certificate=certificate, authorization="Bearer t0ken"
    ) as server:
        opened(spark, name, uris=server.url(host), auth="token", token="t0ken", ca=known, verify=verify)
        frame = spark.range(1).selectExpr(f"{layout.written([('n', 'id', columns.fields[0][1])])} AS record")
        read = frame.selectExpr(f"{layout.read('record', columns)} AS decoded")
        if reads:
            assert read.collect()[0].decoded.value.n == 0
            return
        with pytest.raises(Py4JJavaError) as caught:
            read.collect()
        (said,) = set(re.findall(r"HEADRACE_REGISTRY:([^:]+):", str(caught.value)))
        assert json.loads(base64.b64decode(said))["registry"] == name
        assert server.paths == []


def test_a_registry_is_shown_a_certificate_where_it_asks_for_one(spark: SparkSession, tmp_path: Path) -> None:
    authority = Authority()
    certificate = tmp_path / "server.pem"
    certificate.write_bytes(authority.key_and_certificate("localhost"))
    pem = authority.key_and_certificate("anna").decode()
    end = pem.index("-----BEGIN CERTIFICATE-----")
    columns = Struct((("n", parse_type("BIGINT")),))
    layout = Avro(registry="mutual", schema_text=generated_schema(columns, "n"), schema_id=7)
    with schema_server(layout.schema_text or "", certificate=certificate, clients=authority.pem) as server:
        own = {"tls.client.key_file": pem[:end], "tls.client.cert_file": pem[end:]}
        opened(spark, "mutual", uris=server.url("localhost"), auth="none", ca=authority.pem, **own)
        frame = spark.range(1).selectExpr(f"{layout.written([('n', 'id', columns.fields[0][1])])} AS record")
        assert (
            frame.selectExpr(f"{layout.read('record', columns)} AS decoded").collect()[0].decoded.value.n == 0
        )


def test_a_type_that_a_format_lacks_is_refused() -> None:
    of = {
        text: Struct((("c", parse_type(text)),))
        for text in ("ARRAY<BIGINT>", "BOOLEAN", "MAP<BIGINT, BIGINT>", "VARCHAR")
    }
    assert (
        Csv().refusal(of["ARRAY<BIGINT>"])
        == "does not support an ARRAY<BIGINT>: its fields are single values"
    )
    assert Json().refusal(of["MAP<BIGINT, BIGINT>"]) is not None
    assert Primitive().refusal(of["BOOLEAN"]) is not None
    assert Raw().refusal(of["VARCHAR"]) is not None
    assert Primitive().refusal(Struct((("a", Timestamp()), ("b", Timestamp())))) is not None


@pytest.mark.prove
def test_a_malformed_uuid_is_known_at_any_depth(spark: SparkSession) -> None:
    given = "0A1b2c3d-0000-4000-8000-00000000000f"
    nested = {
        "type": "struct",
        "fields": [
            {"name": "n", "type": "long"},
            {
                "name": "of ours",
                "type": {"type": "map", "key": "string", "value": {"type": "list", "element": "uuid"}},
            },
        ],
    }
    for text, malformed in (
        (given, False),
        ("1-1-1-1-1", True),
        (f"{given}\n", True),
        (given[:-1] + "g", True),
        (None, False),
    ):
        row = spark.createDataFrame(
            [(text, (1, {"k": [given, text]}))],
            "a STRING, b STRUCT<n: BIGINT, `of ours`: MAP<STRING, ARRAY<STRING>>>",
        )
        for name, kind in (("a", "uuid"), ("b", nested)):
            (is_refused,) = row.selectExpr(f"coalesce({malformed_uuid_sql(name, kind)}, false)").first() or ()
            assert is_refused is malformed, (name, text)
    assert malformed_uuid_sql("b", {"type": "struct", "fields": [{"name": "n", "type": "long"}]}) is None
