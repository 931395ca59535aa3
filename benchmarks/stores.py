"""Other stores than Kafka, and formats: streams of a Kinesis stand-in, changes of a PostgreSQL table, what a codec costs."""

# ruff: noqa: S608 - the names in these statements are made here

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.latency import percentiles
from benchmarks.records import PARTITIONS, Output, Receiver, Sink, preload
from benchmarks.rig import Figures, Rig
from harness.apicurio import Apicurio
from harness.kinesis import KinesisClient, MotoServer
from harness.postgresql import PASSWORD, USER, PostgresServer

SHARDS = 4
# moto copies the list of all records that a shard has for each that it takes: into few shards it measures itself.
SHARDS_WRITTEN = 32
FORMATS = ("json", "csv", "avro")
_ORDER = "id BIGINT, item VARCHAR, price DOUBLE, at TIMESTAMP(3), note VARCHAR"
_INTO_KAFKA = f"'topic.partitions' = {PARTITIONS}, 'topic.replicas' = 1"
_LIVE_RATE = 50
_WARM_UP_S = 5
_WITHIN_S = 240.0


def kinesis(rig: Rig) -> Figures:
    """JSON records of about 200 bytes from a stream of four shards to Kafka, and from Kafka to one of 32; moto beside them."""
    count = rig.sizes.kinesis_records
    with MotoServer() as server:
        streams, name = KinesisClient(server), rig.name("kinesis")
        streams.create(f"{name}_read", shards=SHARDS)
        streams.create(f"{name}_written", shards=SHARDS_WRITTEN)
        streams.put(f"{name}_read", ((str(at), record.decode()) for at, record in enumerate(_orders(count))))
        rig.execute(server.store(name))
        rig.execute(
            f"CREATE STREAM {name}_read ({_ORDER}) WITH ('store' = '{name}', 'value.format' = JSON, 'starting.position' = 'earliest');"
        )
        copied = _copied(rig, f"{name}_copy", f"{name}_read", count, with_=_INTO_KAFKA)
        written = rig.start(
            f"CREATE STREAM {name}_written WITH ('store' = '{name}', 'kinesis.shards' = {SHARDS_WRITTEN}) AS "
            f"SELECT * FROM {name}_copy WITH ('starting.position' = 'earliest') PARTITION BY id"
        )
        rig.until(lambda: _read_of(rig, written) >= count, within=_WITHIN_S)
        rig.terminate(written)
        arrivals = _arrivals_s(streams, f"{name}_written")
    return {
        "source_records_per_s": _rate(copied),
        "sink_records_per_s": len(arrivals) / (max(arrivals) - min(arrivals)),
    }


def postgresql(rig: Rig) -> Figures:
    """The rows that a table has, then changes that a slot has kept, then single rows as they are committed: each into Kafka."""
    count = rig.sizes.postgresql_rows
    name = rig.name("postgresql")
    with PostgresServer(_folder(rig, name), 18) as server:
        server.execute(
            f"CREATE TABLE {name} (id bigint PRIMARY KEY, sent bigint, item text, price numeric(10, 2), at timestamptz)",
            f"INSERT INTO {name} {_rows(1, count)}",
        )
        rig.execute(
            f"CREATE STORE {name} WITH ('type' = POSTGRESQL, 'uris' = '{server.uri}', 'postgres.username' = '{USER}', "
            f"""'postgres.password' = '{PASSWORD.replace("'", "''")}', 'tls.disabled' = TRUE);"""
        )
        row = "id BIGINT, sent BIGINT, item VARCHAR, price DECIMAL(10, 2), at TIMESTAMP_LTZ(6)"
        rig.execute(
            f"""CREATE STREAM {name} (op VARCHAR, "after" STRUCT<{row}>) """
            f"WITH ('store' = '{name}', 'value.format' = JSON, 'postgresql.table.name' = '{name}');"
        )
        reading = f"""SELECT op, "after"->id AS id, "after"->sent AS sent, "after"->item AS item, "after"->price AS price FROM {name}"""
        with_ = f"'store' = 'broker', {_INTO_KAFKA}"
        slot = f"'postgresql.slot.name' = '{name}'"

        def read(sink: str, position: str, expected: int) -> float:
            query = rig.start(
                f"CREATE STREAM {sink} WITH ({with_}) AS {reading} WITH ({slot}, 'starting.position' = '{position}')"
            )
            output = _output(rig, sink, query, expected)
            rig.terminate(query)
            return _rate(output)

        rows = read(f"{name}_rows", "earliest", count)
        server.execute(
            f"UPDATE {name} SET price = price + 1 WHERE id <= {count // 2}",
            f"INSERT INTO {name} {_rows(count + 1, count + count // 2)}",
        )
        changes = read(f"{name}_changes", "latest", count)
        live = rig.running(
            f"CREATE STREAM {name}_live WITH ({with_}) AS {reading} WITH ({slot}, 'starting.position' = 'latest')"
        )
        receiver = Receiver(rig.bootstrap, f"{name}_live", PARTITIONS)
        try:
            with _steady_inserts(server, name, count * 2):
                begin = receiver.first_sent_after(time.time()) + _WARM_UP_S
                latencies = receiver.latencies(since=begin, until=begin + rig.sizes.latency_seconds)
        finally:
            receiver.close()
            rig.terminate(live)
    return {
        "snapshot_rows_per_s": rows,
        "changes_per_s": changes,
        **percentiles("live", latencies),
    }


def codecs(rig: Rig) -> Figures:
    """Measure the compute pool's cost of reading and writing a record of five columns, in each format; the first time from JSON."""
    count = rig.sizes.codec_records
    topic = rig.topic(
        "bench_codec_json", lambda name: preload(rig.bootstrap, name, [list(_orders(count // 2))] * 2)
    )
    figures: Figures = {}
    store = rig.name("codecs")
    with Apicurio(_folder(rig, store)) as registry:
        rig.execute(
            f"CREATE SCHEMA_REGISTRY {store} WITH ('type' = CONFLUENT, 'uris' = '{registry.url}'); "
            f"CREATE STORE {store} WITH ('type' = KAFKA, 'uris' = '{rig.bootstrap}', 'tls.disabled' = TRUE, "
            f"'schema_registry.name' = {store});"
        )
        rig.execute(
            f"CREATE STREAM {store} ({_ORDER}) WITH ('store' = '{store}', 'topic' = '{topic}', 'value.format' = JSON);"
        )
        for layout in FORMATS:
            source = store
            for turn in ("from_json", "again"):
                name, cpu = rig.name(f"{store}_{layout}"), rig.driver_cpu_s()
                output = _copied(
                    rig, name, source, count, with_=f"'store' = '{store}', 'value.format' = {layout.upper()}"
                )
                if turn == "again":
                    cost = (rig.driver_cpu_s() - cpu) / count * 1e6
                    figures[f"{layout}_driver_cpu_us_per_record"] = cost
                    figures[f"{layout}_records_per_s"] = _rate(output)
                source = name
    return figures


def _folder(rig: Rig, name: str) -> Path:
    folder = rig.folder / name
    folder.mkdir()
    return folder


def _orders(count: int) -> Iterator[bytes]:
    for number in range(count):
        order = {
            "id": number,
            "item": f"item {number % 1000}",
            "price": number % 997 / 4,
            "at": f"2026-01-02 03:04:{number % 60:02d}.123",
            "note": "x" * 110,
        }
        yield json.dumps(order).encode()


def _rows(first: int, last: int) -> str:
    return (
        "SELECT id, id, 'item ' || id % 1000, id % 997 / 4.0, '2026-01-02 03:04:05+00'::timestamptz + id * interval '1 second' "
        f"FROM generate_series({first}, {last}) AS id"
    )


def _copied(rig: Rig, sink: str, source: str, count: int, *, with_: str) -> Output:
    query = rig.start(
        f"CREATE STREAM {sink} WITH ({with_}) AS SELECT * FROM {source} WITH ('starting.position' = 'earliest')"
    )
    output = _output(rig, sink, query, count)
    rig.terminate(query)
    return output


def _output(rig: Rig, topic: str, query: str, count: int) -> Output:
    sink = Sink(rig.bootstrap, topic, PARTITIONS)
    try:
        return sink.wait(count, within=_WITHIN_S, every=lambda: rig.check(query))
    finally:
        sink.close()


def _rate(output: Output) -> float:
    return output.offsets / (output.last_s - output.first_s)


def _read_of(rig: Rig, query: str) -> int:
    """Looking at the stream would take its server's time."""
    rig.check(query)
    return int(dict(rig.execute(f"DESCRIBE QUERY METRICS {query};")).get("input_rows_total") or 0)


def _arrivals_s(streams: KinesisClient, stream: str) -> list[float]:
    """Return when each record of a stream arrived."""
    arrivals: list[float] = []
    for shard in streams.shards(stream):
        iterator = streams.boto.get_shard_iterator(
            StreamName=stream, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        while records := (answer := streams.boto.get_records(ShardIterator=iterator))["Records"]:
            arrivals += [record["ApproximateArrivalTimestamp"].timestamp() for record in records]
            iterator = answer["NextShardIterator"]
    return arrivals


@contextmanager
def _steady_inserts(server: PostgresServer, table: str, first: int) -> Iterator[None]:
    stop = threading.Event()

    def insert() -> None:
        with server.connect() as connection:
            connection.autocommit = True
            number, due = first, time.monotonic()
            while not stop.is_set():
                connection.execute(
                    f"INSERT INTO {table} VALUES (%s, %s, 'item', 1, now())", (number, time.time_ns() // 1000)
                )
                number += 1
                due += 1 / _LIVE_RATE
                time.sleep(max(0.0, due - time.monotonic()))

    thread = threading.Thread(target=insert, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
