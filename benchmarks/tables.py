"""Tables of other stores: rows from Kafka into each as fast as a query can, and how long the commit of a few rows takes.

The stores are the tests' stand-ins and share the machine with everything else: what moto, chdb, fakesnow and Delta's own warehouse take
is in the speed, and not in the compute pool's processor time.
"""

# ruff: noqa: S608 - the names in these statements are made here

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from benchmarks.records import PARTITIONS, Record, preload
from benchmarks.rig import Figures, Rig, batch_ends_s, batch_seconds, first_batch_s
from harness import clickhouse, postgresql, snowflake
from harness.databricks import CATALOG, Workspace
from harness.iceberg import Lake
from harness.kinesis import MotoServer
from harness.s3 import S3Client

UPDATED_KEYS = 10
"""Of so many rows of a table one is updated."""
SMALL_COMMITS = 8
_COLD_COMMITS = 2
_SMALL_ROWS = 100
_WITHIN_S = 900.0
_ORDER = "id BIGINT, item VARCHAR, price DECIMAL(10, 2), at TIMESTAMP(3), note VARCHAR"

Place = Callable[[str], str]
"""Of a table's name: what WITH says of it."""
Store = Callable[[Rig, str], AbstractContextManager[Place]]
"""Starts a stand-in and makes a store of the name; ends it."""


def appended(prefix: str, store: Store) -> Callable[[Rig], Figures]:
    """Measure rows appended to a new table, exactly once, without a limit on the size of a commit."""

    def measure(rig: Rig) -> Figures:
        count, name = rig.sizes.table_rows, rig.name(prefix)
        source = _stream(rig, "bench_table_rows", range(count))
        with store(rig, name) as place:
            cpu = rig.driver_cpu_s()
            query = rig.start(
                f"CREATE TABLE {name} WITH ({place(name)}, 'delivery.guarantee' = 'exactly_once') AS "
                f"SELECT * FROM {source} WITH ('starting.position' = 'earliest')"
            )
            figures = _figures(rig, query, count, cpu)
            rig.terminate(query)
            return figures | {"commit_ms": _commit_ms(rig, name)}

    return measure


def iceberg_upsert(rig: Rig) -> Figures:
    """A table is filled by its key; then one row in `UPDATED_KEYS` is changed, all over it."""
    count, name = rig.sizes.upserted_rows, rig.name("iceberg_upsert")
    keys = _keyed(rig, "bench_table_keys", range(count))
    updates = _keyed(rig, "bench_table_updates", range(0, count, UPDATED_KEYS))
    with _iceberg(rig, name) as place:
        cpu = rig.driver_cpu_s()
        filling = rig.start(
            f"CREATE TABLE {name} WITH ({place(name)}) AS SELECT * FROM {keys} WITH ('starting.position' = 'earliest')"
        )
        filled = _figures(rig, filling, count, cpu)
        rig.terminate(filling)
        changed, cpu = count // UPDATED_KEYS, rig.driver_cpu_s()
        updating = rig.start(
            f"INSERT INTO {name} SELECT * FROM {updates} WITH ('starting.position' = 'earliest')"
        )
        updated = _figures(rig, updating, changed, cpu)
        rig.terminate(updating)
    return {f"fill_{figure}": value for figure, value in filled.items()} | updated


def _figures(rig: Rig, query: str, count: int, cpu_before: float) -> Figures:
    """Return the figures from the planning of the first batch to the commit of the last."""
    rig.until(lambda: _read(rig, query) >= count, within=_WITHIN_S)
    checkpoint = rig.checkpoint(query)
    return {
        "rows_per_s": count / (batch_ends_s(checkpoint)[-1] - first_batch_s(checkpoint)),
        "driver_cpu_us_per_row": (rig.driver_cpu_s() - cpu_before) / count * 1e6,
    }


def _commit_ms(rig: Rig, table: str) -> float:
    """The median of batches of a few rows, from the planning to the commit; the first ones, in which classes are loaded, left out."""
    name = _stream(rig, rig.name("few"))
    query = rig.running(f"INSERT INTO {table} SELECT * FROM {name} WITH ('starting.position' = 'earliest')")
    for turn in range(1, SMALL_COMMITS + 1):
        preload(rig.bootstrap, name, [list(_rows(range(_SMALL_ROWS)))])
        rig.until(lambda turn=turn: _read(rig, query) >= turn * _SMALL_ROWS, within=_WITHIN_S)  # type: ignore[misc]
    took = batch_seconds(rig.checkpoint(query))
    rig.terminate(query)
    return statistics.median(took[_COLD_COMMITS:]) * 1000


def _read(rig: Rig, query: str) -> int:
    """Rows of the batches that are committed."""
    rig.check(query)
    return int(dict(rig.execute(f"DESCRIBE QUERY METRICS {query};")).get("input_rows_total") or 0)


def _stream(rig: Rig, name: str, numbers: range = range(0)) -> str:
    """Create a stream of the rows with these numbers, half of them in each partition, once."""
    halves = [numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]]
    rig.topic(name, lambda topic: preload(rig.bootstrap, topic, [_rows(half) for half in halves]))
    rig.relation(name, f"CREATE STREAM {name} ({_ORDER}) WITH ('topic' = '{name}', 'value.format' = JSON);")
    return name


def _keyed(rig: Rig, name: str, numbers: range) -> str:
    """A changelog with a version of each of these keys."""
    parts = [numbers[part::PARTITIONS] for part in range(PARTITIONS)]

    def fill(topic: str) -> None:
        preload(rig.bootstrap, topic, [_keyed_rows(part) for part in parts])

    rig.topic(name, fill)
    rig.relation(
        name,
        f"CREATE CHANGELOG {name} ({_ORDER}, PRIMARY KEY (id)) WITH ('topic' = '{name}', 'value.format' = JSON);",
    )
    return name


def _rows(numbers: range) -> Iterator[bytes]:
    for number in numbers:
        order = {
            "id": number,
            "item": f"item {number % 1000}",
            "price": f"{number % 997}.25",
            "at": f"2026-01-02 03:04:{number % 60:02d}.123",
            "note": f"{number * 7919 % 1_000_003:0100d}",
        }
        yield json.dumps(order).encode()


def _keyed_rows(numbers: range) -> Iterator[Record]:
    return zip((b'{"id": %d}' % number for number in numbers), _rows(numbers), strict=True)


# --- stores


@contextmanager
def _iceberg(rig: Rig, name: str) -> Iterator[Place]:
    with Lake() as lake:
        rig.execute(lake.rest(name))
        rig.execute(f"CREATE ENTITY {name} IN STORE {name};")
        yield (
            lambda _: (
                f"'store' = '{name}', 'iceberg.namespace.name' = '{name}', 'iceberg.commit.interval.ms' = 0"
            )
        )


@contextmanager
def _s3(rig: Rig, name: str) -> Iterator[Place]:
    with MotoServer() as server:
        bucket = S3Client(server, "lake")
        rig.execute(bucket.store(name))
        yield (
            lambda table: (
                f"'store' = '{name}', 's3.uri' = 's3://lake/{table}/', 'value.format' = PARQUET, 's3.commit.interval.millis' = 0"
            )
        )


@contextmanager
def _clickhouse(rig: Rig, name: str) -> Iterator[Place]:
    with clickhouse.ClickHouseServer(_folder(rig, name)) as server:
        rig.execute(
            f"CREATE STORE {name} WITH ('type' = CLICKHOUSE, 'uris' = '{server.uri}', 'tls.disabled' = TRUE, "
            f"'clickhouse.username' = '{clickhouse.USER}', 'clickhouse.password' = {_text(clickhouse.PASSWORD)});"
        )
        yield lambda _: f"'store' = '{name}'"


@contextmanager
def _postgresql(rig: Rig, name: str) -> Iterator[Place]:
    with postgresql.PostgresServer(_folder(rig, name), 18) as server:
        rig.execute(
            f"CREATE STORE {name} WITH ('type' = POSTGRESQL, 'uris' = '{server.uri}', 'tls.disabled' = TRUE, "
            f"'postgres.username' = '{postgresql.USER}', 'postgres.password' = {_text(postgresql.PASSWORD)});"
        )
        yield lambda _: f"'store' = '{name}'"


@contextmanager
def _snowflake(rig: Rig, name: str) -> Iterator[Place]:
    with snowflake.SnowflakeServer(_folder(rig, name)) as server:
        server.execute("CREATE DATABASE BENCH", "CREATE SCHEMA BENCH.ROWS")
        rig.execute(
            f"CREATE STORE {name} WITH ('type' = SNOWFLAKE, 'uris' = '{server.uri}', 'tls.disabled' = TRUE, "
            f"'snowflake.username' = '{snowflake.USER}', 'snowflake.password' = {_text(snowflake.PASSWORD)});"
        )
        yield lambda _: f"'store' = '{name}', 'snowflake.db.name' = 'BENCH', 'snowflake.schema.name' = 'ROWS'"


@contextmanager
def _databricks(rig: Rig, name: str) -> Iterator[Place]:
    with MotoServer() as server, Workspace(_folder(rig, name), S3Client(server, "lake")) as workspace:
        workspace.execute(f"CREATE SCHEMA {CATALOG}.{name}")
        given = ", ".join(f"'{key}' = {_text(value)}" for key, value in workspace.properties().items())
        rig.execute(f"CREATE STORE {name} WITH ('type' = DATABRICKS, {given});")
        yield (
            lambda table: (
                f"'store' = '{name}', 'databricks.catalog.name' = '{CATALOG}', 'databricks.schema.name' = '{name}', "
                f"'table.data.file.location' = 's3://lake/{table}/', 'databricks.commit.interval.ms' = 0"
            )
        )


def _folder(rig: Rig, name: str) -> Path:
    folder = rig.folder / name
    folder.mkdir()
    return folder


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


TABLES: dict[str, Callable[[Rig], Figures]] = {
    "iceberg_append": appended("iceberg", _iceberg),
    "iceberg_upsert": iceberg_upsert,
    "s3_parquet": appended("s3", _s3),
    "clickhouse": appended("clickhouse", _clickhouse),
    "postgresql_append": appended("postgresql_append", _postgresql),
    "snowflake": appended("snowflake", _snowflake),
    "databricks": appended("databricks", _databricks),
}
