"""The streaming source as Spark uses it, without Spark: an uncommitted batch is repeated unchanged."""

from __future__ import annotations

import json
import random
import uuid
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from harness.kinesis import ACCESS_KEY, SECRET_KEY
from harness.patience import until
from harness.postgresql import PostgresServer
from harness.s3 import S3Client
from headrace.connectors.carried_errors import carried
from headrace.connectors.checkpoint_bucket import Login, S3Folder
from headrace.connectors.checkpoint_store import CheckpointStore, LocalFolder, facts_of
from headrace.connectors.postgresql.changes import Table
from headrace.connectors.postgresql.rows import Layout
from headrace.connectors.postgresql.spark.source import Offset, Reading, TableStream
from headrace.core.errors import UserError
from headrace.core.schema import Column
from headrace.core.types import parse_type

Store = dict[str, str]


def reading(store: Store, slot: str, table: Table, kept: CheckpointStore, **columns: str) -> Reading:
    given = tuple(Column(name, parse_type(kind)) for name, kind in columns.items())
    layout = Layout(given, upsert=False, entity="shop.t", database="postgres")
    return Reading(store, None, slot, (table,), layout, with_rows=True, per_read=7, kept=facts_of(kept))


@pytest.fixture(params=("folder", "bucket"))
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> CheckpointStore:
    """The place of the rows that Spark has not committed."""
    if request.param == "folder":
        return LocalFolder(tmp_path / "rows")
    s3: S3Client = request.getfixturevalue("s3")
    return S3Folder(
        Login(s3.server.uri, "us-east-1", ACCESS_KEY, SECRET_KEY), s3.bucket, f"rows_{uuid.uuid4().hex}"
    )


def rows_of(batches: list[pa.RecordBatch]) -> list[dict[str, object]]:
    return [row for batch in batches for row in batch.to_pylist()]


def test_batches_are_repeated_unchanged(
    postgresql: PostgresServer,
    store: Store,
    schema: str,
    slot: str,
    kept: CheckpointStore,
    seed: str,
) -> None:
    """The table changes meanwhile: rows of an ended snapshot, and changes, each from a worker that only knows the offsets."""
    postgresql.execute(
        f'CREATE TABLE "{schema}".t (id int PRIMARY KEY, n int)',
        f'INSERT INTO "{schema}".t SELECT id, 0 FROM generate_series(1, 30) AS id',
    )
    table = Table(schema, "t", ("id", "n"), ("id",))
    setting = reading(store, slot, table, kept, op="VARCHAR", after="STRUCT<id INT, n INT>")
    setting = Reading.from_json(setting.to_json())
    chance = random.Random(seed)
    stream = TableStream(setting)
    offset: Offset = json.loads(json.dumps(stream.initialOffset()))
    received: list[dict[str, object]] = []

    def are_all_read() -> bool:
        nonlocal stream, offset
        a = chance.randint(1, 30)
        postgresql.execute(f'UPDATE "{schema}".t SET n = n + 1 WHERE id BETWEEN {a} AND {a + 2}')
        given, end = stream.read(offset)
        batches, end = list(given), json.loads(json.dumps(end))
        if end != offset and chance.random() < 0.7:  # killed before the batch was committed
            stream.stop()
            stream = TableStream(setting)
            assert rows_of(list(stream.readBetweenOffsets(offset, end))) == rows_of(batches)
        received.extend(rows_of(batches))
        if end != offset:
            stream.commit(end)
        offset = end
        return len(received) >= 80

    until(are_all_read, lambda: f"80 changes, found {len(received)}")
    stream.stop()
    assert [row["__headrace_sequence"] for row in received] == list(range(len(received)))
    known: dict[int, int] = {}
    for row in received:
        after = row["after"]
        assert isinstance(after, dict)
        assert row["op"] == ("u" if after["id"] in known else "r")
        assert after["n"] == known.get(after["id"], after["n"] - 1) + 1
        known[after["id"]] = after["n"]
    assert len(known) == 30
    assert not kept.exists(), "what was committed is not kept"


def read_rows(stream: TableStream, offset: Offset, count: int) -> tuple[list[dict[str, object]], Offset]:
    """The next rows, at least `count`, and where they end."""
    rows: list[dict[str, object]] = []

    def enough() -> bool:
        nonlocal offset
        batches, offset = stream.read(offset)
        rows.extend(rows_of(list(batches)))
        return len(rows) >= count

    until(enough, lambda: f"{count} rows, found {rows}")
    return rows, offset


def test_rows_of_several_tables_are_json_with_the_columns_of_the_time(
    postgresql: PostgresServer, store: Store, schema: str, slot: str, tmp_path: Path
) -> None:
    postgresql.execute(
        f'CREATE TABLE "{schema}".a (id int PRIMARY KEY, price numeric(10, 2), ok bool)',
        f'CREATE TABLE "{schema}".b (name text PRIMARY KEY)',
        f'INSERT INTO "{schema}".a VALUES (1, 1.5, true)',
        f"""INSERT INTO "{schema}".b VALUES ('x"y')""",
    )
    tables = tuple(
        Table(schema, name, (), key, whole=True) for name, key in (("a", ("id",)), ("b", ("name",)))
    )
    columns = {"before": "BYTES", "after": "VARCHAR", "source": 'STRUCT<"table" VARCHAR>'}
    stream = TableStream(
        replace(reading(store, slot, tables[0], LocalFolder(tmp_path), **columns), tables=tables)
    )
    rows, offset = read_rows(stream, stream.initialOffset(), 2)
    postgresql.execute(
        f'ALTER TABLE "{schema}".a ADD COLUMN more text',
        f'DELETE FROM "{schema}".a',
        f'TRUNCATE "{schema}".b',
    )
    rows += read_rows(stream, offset, 2)[0]
    stream.stop()
    assert [(row["source"], row["before"], row["after"]) for row in rows] == [
        ({"table": "a"}, None, '{"id":1,"price":1.50,"ok":true}'),
        ({"table": "b"}, None, '{"name":"x\\"y"}'),
        ({"table": "a"}, b'{"id":1,"price":null,"ok":null,"more":null}', None),
        ({"table": "b"}, None, None),
    ]


def test_a_changelog_has_the_last_row_of_each_key_and_refuses_to_guess(
    postgresql: PostgresServer, store: Store, schema: str, slot: str, tmp_path: Path
) -> None:
    postgresql.execute(
        f'CREATE TABLE "{schema}".t (id int PRIMARY KEY, n int)', f'INSERT INTO "{schema}".t VALUES (1, 1)'
    )
    plain = reading(
        store, slot, Table(schema, "t", ("id", "n"), ("id",)), LocalFolder(tmp_path), id="INTEGER", n="BIGINT"
    )
    stream = TableStream(replace(plain, layout=replace(plain.layout, upsert=True)))
    rows, offset = read_rows(stream, stream.initialOffset(), 1)
    postgresql.execute(
        f'UPDATE "{schema}".t SET n = 2', f'UPDATE "{schema}".t SET id = 3', f'DELETE FROM "{schema}".t'
    )
    changes, offset = read_rows(stream, offset, 4)
    assert [(row["id"], row["n"], row["__headrace_deleted"]) for row in rows + changes] == [
        (1, 1, False),
        (1, 2, False),
        (1, None, True),
        (3, 2, False),
        (3, None, True),
    ]
    postgresql.execute(f'TRUNCATE "{schema}".t')
    error = None
    try:
        read_rows(stream, offset, 1)
    except RuntimeError as caught:
        error = carried(str(caught))
    stream.stop()
    assert isinstance(error, UserError)
    assert "was truncated, and PostgreSQL does not report which keys a changelog must delete" in error.message


def test_a_value_of_another_type_is_reported_with_its_column(
    postgresql: PostgresServer, store: Store, schema: str, slot: str, tmp_path: Path
) -> None:
    postgresql.execute(
        f'CREATE TABLE "{schema}".t (id int PRIMARY KEY, n text)',
        f"""INSERT INTO "{schema}".t VALUES (1, 'x')""",
    )
    table = Table(schema, "t", ("id", "n"), ("id",))
    stream = TableStream(reading(store, slot, table, LocalFolder(tmp_path), after="STRUCT<n INT>"))
    try:
        stream.read(stream.initialOffset())
        error = None
    except RuntimeError as caught:
        error = carried(f"org.apache.spark.SparkException: {caught}\n\tat somewhere")
    stream.stop()
    assert isinstance(error, UserError)
    assert error.message.startswith(f"a value of column n of {schema}.t is not an INTEGER: ")
    assert "VARCHAR" in str(error.hint)


def test_an_offset_of_an_older_version_gets_an_identity_by_an_empty_batch(
    postgresql: PostgresServer, store: Store, schema: str, slot: str, tmp_path: Path
) -> None:
    """The checkpoint has the identity then, also of a table without changes; and the batch can be repeated."""
    postgresql.execute(f'CREATE TABLE "{schema}".t (id int PRIMARY KEY, n int)')
    setting = reading(
        store, slot, Table(schema, "t", ("id", "n"), ("id",)), LocalFolder(tmp_path), op="VARCHAR"
    )
    stream = TableStream(setting)
    _, offset = stream.read(stream.initialOffset())
    progress = json.loads(offset["shop.t"]["0"])
    assert progress.pop("identity")["tables"]
    old: Offset = {"shop.t": {"0": json.dumps(progress)}}
    stream.stop()
    stream = TableStream(setting)
    batches, adopted = stream.read(old)
    assert list(batches) == []
    assert json.loads(adopted["shop.t"]["0"])["identity"]["tables"]
    assert rows_of(list(stream.readBetweenOffsets(old, adopted))) == []
    postgresql.execute(f'INSERT INTO "{schema}".t VALUES (1, 1)')
    rows, _ = read_rows(stream, adopted, 1)
    assert [row["op"] for row in rows] == ["c"]
    stream.stop()
