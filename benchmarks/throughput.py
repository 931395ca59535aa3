"""Records a second: preloaded topics, read from their beginning as fast as the query can."""

# ruff: noqa: S608 - the names in these statements are made here

from __future__ import annotations

import json
import time
from collections.abc import Iterator

from benchmarks.records import preload
from benchmarks.rig import PARTITIONS, Rig, first_batch_s

Figures = dict[str, float]

START_MS = 1_700_000_000_000
WINDOW_MS = 10_000
RECORDS_PER_WINDOW_AND_KEY = 10
FAR_AHEAD_MS = START_MS + 86_400_000


def projection(rig: Rig) -> Figures:
    """A filter that passes everything and three expressions: stateless, hence real-time mode."""
    count = rig.sizes.projection_records
    topic = rig.topic("bench_orders", lambda name: preload(rig.bootstrap, name, orders(count)))
    rig.relation("orders", orders_definition("orders", topic))
    sink = rig.name("projected")
    asked, cpu = time.time(), rig.driver_cpu_s()
    query = rig.start(
        f"CREATE STREAM {sink} AS SELECT at, id, upper(item) AS item, price * 2 AS price, note "
        "FROM orders WITH ('starting.position' = 'earliest') WHERE id >= 0"
    )
    output = rig.output(sink, count, query=query)
    cpu = rig.driver_cpu_s() - cpu
    rig.terminate(query)
    return {
        "records_per_s_steady": count / (output.last_s - output.first_s),
        "records_per_s_with_start": count / (output.last_s - asked),
        "first_output_s": output.first_s - asked,
        "driver_cpu_us_per_record": cpu / count * 1e6,
    }


def tumble(rig: Rig) -> Figures:
    """COUNT and SUM per key in windows of ten seconds; each window is written once, when the watermark has closed it."""
    count, keys = rig.sizes.window_records, rig.sizes.window_keys
    topic = rig.topic("bench_clicks", lambda name: preload(rig.bootstrap, name, _clicks(count, keys)))
    rig.relation(
        "clicks",
        f"CREATE STREAM clicks (at BIGINT, page INTEGER, ms INTEGER, note VARCHAR) WITH ('topic' = '{topic}', "
        "'value.format' = JSON, 'timestamp' = 'at');",
    )
    sink, cpu = rig.name("per_page"), rig.driver_cpu_s()
    query = rig.start(
        f"CREATE CHANGELOG {sink} AS SELECT window_start, window_end, page, COUNT(*) AS clicks, SUM(ms) AS total "
        f"FROM TUMBLE(clicks, SIZE {WINDOW_MS // 1000} SECONDS) WITH ('starting.position' = 'earliest') "
        "GROUP BY window_start, window_end, page"
    )
    output = rig.output(sink, count // RECORDS_PER_WINDOW_AND_KEY, query=query)
    cpu = rig.driver_cpu_s() - cpu
    rate = count / (output.last_s - first_batch_s(rig.checkpoint(query)))
    rig.terminate(query)
    return {"records_per_s": rate, "driver_cpu_us_per_record": cpu / count * 1e6}


def temporal_join(rig: Rig) -> Figures:
    """Each stream row with its key's version; both sides' watermarks pass every row, so that none waits for the clock."""
    count, keys = rig.sizes.join_records, rig.sizes.join_keys
    rows = rig.topic("bench_trades", lambda name: preload(rig.bootstrap, name, _trades(count, keys)))
    versions = rig.topic("bench_rates", lambda name: preload(rig.bootstrap, name, _rates(keys)))
    layout = "'value.format' = JSON, 'timestamp' = 'at'"
    rig.relation(
        "trades",
        "CREATE STREAM trades (at BIGINT, id BIGINT, currency INTEGER, amount DOUBLE, note VARCHAR) "
        f"WITH ('topic' = '{rows}', {layout});",
    )
    rig.relation(
        "rates",
        "CREATE CHANGELOG rates (at BIGINT, currency INTEGER, rate DOUBLE, PRIMARY KEY (currency)) "
        f"WITH ('topic' = '{versions}', {layout});",
    )
    sink, cpu = rig.name("converted"), rig.driver_cpu_s()
    query = rig.start(
        f"CREATE STREAM {sink} AS SELECT t.id, t.amount * r.rate AS converted, t.note "
        "FROM trades AS t WITH ('starting.position' = 'earliest') "
        "LEFT JOIN rates AS r WITH ('starting.position' = 'earliest') ON t.currency = r.currency"
    )
    output = rig.output(sink, count, query=query)
    cpu = rig.driver_cpu_s() - cpu
    rate = count / (output.last_s - first_batch_s(rig.checkpoint(query)))
    rig.terminate(query)
    return {"records_per_s": rate, "driver_cpu_us_per_record": cpu / count * 1e6}


def orders_definition(name: str, topic: str) -> str:
    """A stream over records as `projection` reads them."""
    return (
        f"CREATE STREAM {name} (at BIGINT, id BIGINT, item VARCHAR, price DOUBLE, note VARCHAR) "
        f"WITH ('topic' = '{topic}', 'value.format' = JSON, 'timestamp' = 'at');"
    )


def orders(count: int) -> list[Iterator[bytes]]:
    """Records of `orders_definition`, a list of values for each partition."""

    def values(first: int) -> Iterator[bytes]:
        for number in range(first, count, PARTITIONS):
            yield (
                b'{"at":%d,"id":%d,"item":"item-%04d","price":%d.5,"note":"a record of about one hundred and twenty bytes"}'
                % (START_MS + number, number, number % 10_000, number % 100)
            )

    return [values(first) for first in range(PARTITIONS)]


def _clicks(count: int, keys: int) -> list[Iterator[bytes]]:
    """Each window holds each key ten times, over both partitions; a last record far ahead closes the last window."""
    per_window = keys * RECORDS_PER_WINDOW_AND_KEY

    def values(first: int) -> Iterator[bytes]:
        for number in range(first, count, PARTITIONS):
            at = START_MS + number * WINDOW_MS // per_window
            page, ms = number * 7919 % keys, number % 1000
            yield (
                b'{"at":%d,"page":%d,"ms":%d,"note":"a record of about one hundred bytes, note included"}'
                % (
                    at,
                    page,
                    ms,
                )
            )
        yield json.dumps({"at": FAR_AHEAD_MS, "page": -1, "ms": 0, "note": ""}).encode()

    return [values(first) for first in range(PARTITIONS)]


def _trades(count: int, keys: int) -> list[Iterator[bytes]]:
    def values(first: int) -> Iterator[bytes]:
        for number in range(first, count, PARTITIONS):
            at, key = START_MS + 1000 + number // 10, number * 7919 % keys
            yield (
                b'{"at":%d,"id":%d,"currency":%d,"amount":%d.5,"note":"a record of about one hundred bytes"}'
                % (
                    at,
                    number,
                    key,
                    number % 100,
                )
            )
        yield json.dumps({"at": FAR_AHEAD_MS, "id": -1, "currency": -1, "amount": 0, "note": ""}).encode()

    return [values(first) for first in range(PARTITIONS)]


def _rates(keys: int) -> list[Iterator[bytes]]:
    def values(first: int) -> Iterator[bytes]:
        for key in range(first, keys, PARTITIONS):
            yield json.dumps({"at": START_MS, "currency": key, "rate": 1.5}).encode()
        yield json.dumps({"at": FAR_AHEAD_MS + 1, "currency": -1 - first, "rate": 0.0}).encode()

    return [values(first) for first in range(PARTITIONS)]
