"""Each kind of step, by a small query over real records."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from harness.kafka import KafkaClient
from harness.patience import PATIENCE_S
from headrace.core.types import parse_type
from headrace.engine.protocol import Ack, Rows
from headrace.formats.json import Json
from headrace.formats.known import AnyFormat
from headrace.formats.primitive import Primitive
from headrace.planner.physical import SparkPlan, Spool, TemporalJoin
from headrace.testing.topics import Pair
from tests.driver.control import DriverControl
from tests.driver.plans import columns, plan, read, results, sql, view, watermark, write

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

Stores = dict[str, dict[str, str]]
Topic = Callable[..., str]
Consumed = Callable[..., list[Pair]]


def _records(*values: object) -> list[Pair]:
    return [(None, json.dumps(value)) for value in values]


def _bytes(bootstrap: str, topic: str, records: list[tuple[bytes | None, bytes | None]]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for key, value in records:
        producer.produce(topic, value, key)
    producer.flush(10)


@pytest.fixture
def shown(driver: DriverControl, stores: Stores, checkpoint: Path) -> Callable[..., list[list[str | None]]]:
    """Return a function that runs steps as an interactive query and returns its first `count` rows."""

    def show(steps: list[object], declared: str, count: int) -> list[list[str | None]]:
        last = steps[-1].id  # type: ignore[attr-defined]
        query = driver.start(plan(*steps, results(last, declared)), checkpoint=checkpoint, stores=stores)  # type: ignore[arg-type]
        rows = driver.rows(query, count)
        assert driver.stop(query).error is None
        return rows

    return show


def test_a_projection_goes_from_topic_to_topic(
    driver: DriverControl,
    kafka: KafkaClient,
    stores: Stores,
    topic: Topic,
    checkpoint: Path,
    consumed: Consumed,
) -> None:
    source, target = topic(2), topic(2)
    kafka.produce(source, _records(*({"id": n, "name": f"n{n}"} for n in range(6))))
    query = driver.start(
        plan(
            *read(source, "id BIGINT; name VARCHAR"),
            sql("b", ["a"], "SELECT id + 1 AS id, upper(name) AS name FROM a WHERE id >= 2"),
            *write(target, "b", "id BIGINT; name VARCHAR", key=Json(), key_columns=["id"]),
        ),
        checkpoint=checkpoint,
        stores=stores,
    )
    messages = consumed(target, 4)
    assert sorted(messages) == [(f'{{"id":{n + 1}}}', f'{{"id":{n + 1},"name":"N{n}"}}') for n in range(2, 6)]
    driver.until(lambda: sum(progress.input_rows for progress in driver.progress(query)) == 6)
    reports = driver.progress(query)
    # Of the records without a key that were read, and of those with a key that were written.
    assert sum(report.input_bytes or 0 for report in reports) == 6 * len('{"id": 0, "name": "n0"}')
    assert sum(report.output_bytes or 0 for report in reports) == 4 * len('{"id":3}{"id":3,"name":"N2"}')
    assert reports[-1].checkpoint_bytes
    committed = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    assert reports[-1].committed_at_ms == round(committed.stat().st_mtime * 1000)
    assert driver.stop(query).error is None


def test_every_type_is_read_and_shown(
    kafka: KafkaClient, topic: Topic, shown: Callable[..., list[list[str | None]]]
) -> None:
    source = topic()
    value = {
        "b": True, "i": 7, "l": 1 << 40, "d": 1.5, "dec": 3.14, "day": "2019-12-26", "raw": "aG93ZHk=",
        "t": "2011-12-03 10:15:30", "z": "2021-05-31T16:15:14.528Z", "s": {"nested": [1, 2]}, "n": 12,
        "list": [1, 2], "st": {"x": 1, "Y": "z"}, "m": {"k": 2}, "extra": 1,
    }  # fmt: skip
    kafka.produce(source, _records(value))
    declared = (
        "b BOOLEAN; i INTEGER; l BIGINT; d DOUBLE; dec DECIMAL(5, 2); day DATE; raw BYTES; t TIMESTAMP; z TIMESTAMP_LTZ;"
        's VARCHAR; n VARCHAR; list ARRAY<INTEGER>; st STRUCT<x INTEGER, "Y" VARCHAR>; m MAP<VARCHAR, INTEGER>; missing BIGINT'
    )
    rows = shown(read(source, declared), declared, 1)
    assert rows == [
        ["true", "7", str(1 << 40), "1.5", "3.14", "2019-12-26", "aG93ZHk=", "2011-12-03 10:15:30.000",
         "2021-05-31 16:15:14.528Z", '{"nested": [1, 2]}', "12", "[1,2]", '{"x":1,"Y":"z"}', '{"k":2}', None]
    ]  # fmt: skip


def test_every_type_is_written(
    driver: DriverControl,
    kafka: KafkaClient,
    stores: Stores,
    topic: Topic,
    checkpoint: Path,
    consumed: Consumed,
) -> None:
    source, target = topic(), topic()
    kafka.produce(
        source, _records({"t": "2011-12-03 10:15:30.123456", "dec": 1.10, "raw": "aG93ZHk=", "st": {"x": 1}})
    )
    declared = "t TIMESTAMP; z TIMESTAMP_LTZ; dec DECIMAL(5, 2); raw BYTES; st STRUCT<x INTEGER, y VARCHAR>; none DOUBLE"
    query = driver.start(
        plan(
            *read(
                source,
                "t TIMESTAMP; dec DECIMAL(5, 2); raw BYTES; st STRUCT<x INTEGER, y VARCHAR>; none DOUBLE",
            ),
            sql("b", ["a"], "SELECT *, t AS z FROM a"),
            *write(target, "b", declared, value=Json(timestamps="iso8601")),
        ),
        checkpoint=checkpoint,
        stores=stores,
    )
    ((_, value),) = consumed(target, 1)
    assert json.loads(value or "") == {
        "t": "2011-12-03T10:15:30.123456", "z": "2011-12-03T10:15:30.123456Z", "dec": 1.1, "raw": "aG93ZHk=",
        "st": {"x": 1, "y": None}, "none": None,
    }  # fmt: skip
    driver.stop(query)


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        ("VARCHAR", "é".encode(), "é"),
        ("SMALLINT", struct.pack(">h", -2), "-2"),
        ("INTEGER", struct.pack(">i", -3), "-3"),
        ("BIGINT", struct.pack(">q", -(1 << 62)), str(-(1 << 62))),
        ("DOUBLE", struct.pack(">d", -1.5), "-1.5"),
        *((kind, b"\xff", None) for kind in ("VARCHAR", "SMALLINT", "INTEGER", "BIGINT", "DOUBLE")),
    ],
)
def test_a_primitive_key_is_read_and_written_as_kafka_does(
    driver: DriverControl,
    stores: Stores,
    topic: Topic,
    kafka: KafkaClient,
    checkpoint: Path,
    kind: str,
    data: bytes,
    text: str | None,
) -> None:
    """A byte that is no such key stands for NULL."""
    source = topic()
    _bytes(kafka.bootstrap, source, [(data, b'{"v":1}')])
    declared = f"k {kind}; encoded BYTES; again BYTES"
    # The encoder's key, read back as bytes beside the decoded value.
    steps = read(source, "v BIGINT", key=Primitive(), key_type=kind)
    again = Primitive().written_key([("k", "__headrace_rowkey", parse_type(kind))])
    shown = sql(
        "b", ["a", "a0"], f"SELECT __headrace_rowkey AS k, {again} AS encoded, {again} AS again FROM a"
    )
    query = driver.start(plan(*steps, shown, results("b", declared)), checkpoint=checkpoint, stores=stores)
    import base64

    expected = base64.b64encode(data).decode()
    assert driver.rows(query, 1) == [[text, expected, expected]]
    driver.stop(query)


def test_a_tombstone_of_an_upsert_relation_is_a_deletion_with_its_key(
    kafka: KafkaClient, topic: Topic, shown: Callable[..., list[list[str | None]]]
) -> None:
    source = topic()
    kafka.produce(source, [('{"id":1}', '{"id":1,"v":"a"}'), ('{"id":1}', None)])
    steps = read(
        source,
        "id BIGINT; v VARCHAR",
        upsert=True,
        key=Json(),
        key_type="STRUCT<id BIGINT>",
        key_columns=["id"],
    )
    assert shown(steps, "id BIGINT; v VARCHAR; __headrace_deleted BOOLEAN", 2) == [
        ["1", "a", "false"],
        ["1", None, "true"],
    ]


@pytest.mark.parametrize(
    ("key_format", "key_type", "key"),
    [(Primitive(), "VARCHAR", "k"), (Json(), "VARCHAR", '"k"'), (Json(), "STRUCT<id BIGINT>", '{"id":1}')],
)
@pytest.mark.parametrize("carried", ["__headrace_key", "__headrace_rowkey"])
def test_a_key_is_carried_through(
    driver: DriverControl,
    stores: Stores,
    topic: Topic,
    kafka: KafkaClient,
    consumed: Consumed,
    checkpoint: Path,
    key_format: AnyFormat,
    key_type: str,
    key: str,
    carried: str,
) -> None:
    """Plans of release 0.1 carry the decoded key, and run on."""
    source, target = topic(), topic()
    kafka.produce(source, [(key, '{"v":1}')])
    steps = read(
        source, "v BIGINT", key=key_format, key_type=key_type, carries_key=carried == "__headrace_key"
    )
    kept = sql("b", ["a"], f"SELECT v, {carried} FROM a")
    sink = write(target, "b", "v BIGINT", key=key_format, key_expression=carried)
    query = driver.start(plan(*steps, kept, *sink), checkpoint=checkpoint, stores=stores)
    assert consumed(target, 1) == [(key, '{"v":1}')]
    assert driver.stop(query).error is None


def test_a_record_without_a_value_is_skipped_where_it_deletes_nothing(
    kafka: KafkaClient, topic: Topic, shown: Callable[..., list[list[str | None]]]
) -> None:
    source = topic()
    kafka.produce(source, [("k", None), ("k", '{"v":1}')])
    assert shown(read(source, "v BIGINT"), "v BIGINT", 1) == [["1"]]


def test_where_a_record_stands_is_told_to_new_plans_and_to_old_ones(
    driver: DriverControl, kafka: KafkaClient, stores: Stores, topic: Topic, checkpoint: Path
) -> None:
    source = topic()
    kafka.produce(source, _records({"id": 1}, {"id": 2}))
    old = "SELECT __topic AS a, __partition AS b, __offset AS c, __timestamp_type AS d FROM old WHERE id = 2"
    new = (
        "SELECT __headrace_metadata.topic AS a, __headrace_metadata.partition AS b, __headrace_sequence AS c, 0 AS d FROM new "
        "WHERE id = 2 AND __headrace_metadata.timestamp_type = 'CreateTime' "
        "AND __headrace_entity = __headrace_metadata.topic AND __headrace_split = 0"
    )
    steps = plan(
        *read(source, "id BIGINT", name="old", flat_metadata=True),
        *read(source, "id BIGINT", name="new"),
        sql("b", ["old", "new"], f"{old} UNION ALL {new}"),
        results("b", "a VARCHAR; b INTEGER; c BIGINT; d INTEGER", limit=2),
    )
    query = driver.start(steps, checkpoint=checkpoint, stores=stores)
    assert driver.rows(query, 2) == [[source, "0", "1", "0"]] * 2
    driver.ended(query)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("BIGINT", 1700000000123),
        ("TIMESTAMP(3)", "2023-11-14 22:13:20.123"),
        ("TIMESTAMP_LTZ(3)", "2023-11-14T22:13:20.123Z"),
    ],
)
def test_the_timestamp_column_gives_the_row_its_time(
    kafka: KafkaClient, topic: Topic, shown: Callable[..., list[list[str | None]]], kind: str, value: object
) -> None:
    source = topic()
    kafka.produce(source, _records({"ts": value}))
    rows = shown(read(source, f"ts {kind}", timestamp="ts"), "__headrace_rowtime TIMESTAMP(3)", 1)
    assert rows == [["2023-11-14 22:13:20.123"]]


def test_windows_close_by_the_slowest_partition(
    driver: DriverControl, kafka: KafkaClient, stores: Stores, topic: Topic, checkpoint: Path
) -> None:
    source = topic(2)

    def at(second: int, partition: int) -> None:
        kafka.produce(source, _records({"ts": 1_700_000_000_000 + second * 1000}), partition=partition)

    at(1, 0)
    at(100, 0)
    query = driver.start(
        plan(
            *read(source, "ts BIGINT", timestamp="ts"),
            watermark("w", "a"),
            sql(
                "b",
                ["w"],
                "SELECT window.start AS at, count(*) AS n FROM (SELECT window(__headrace_rowtime, '10 seconds') AS window FROM w) "
                "GROUP BY window",
            ),
            results("b", "at TIMESTAMP; n BIGINT"),
        ),
        checkpoint=checkpoint,
        stores=stores,
    )
    driver.until(lambda: any(progress.input_rows == 2 for progress in driver.progress(query)))
    at(2, 1)  # an hour-long lag would be no different: the partition was never heard of
    at(50, 1)
    assert driver.rows(query, 1) == [["2023-11-14 22:13:20.000", "2"]]
    driver.until(lambda: driver.progress(query)[-1].watermark_ms == 1_700_000_050_000)
    detail = driver.progress(query)[-1].detail["watermark"]
    assert isinstance(detail, dict)
    assert [one["maxEventTimeMs"] for one in detail["sources"][0]["partitions"]] == [
        1_700_000_100_000,
        1_700_000_050_000,
    ]
    assert driver.stop(query).error is None


def test_late_timeless_and_future_rows_are_counted_and_move_nothing(
    driver: DriverControl, kafka: KafkaClient, stores: Stores, topic: Topic, checkpoint: Path
) -> None:
    source, start = topic(), 1_700_000_000_000

    def steps(on_error: str) -> SparkPlan:
        return plan(
            *read(source, "ts BIGINT", timestamp="ts", on_error=on_error, ahead_ms=86_400_000),
            watermark("w", "a", window_ms=10_000, advance_ms=10_000),
            sql(
                "b",
                ["w"],
                "SELECT window.start AS at, count(*) AS n FROM (SELECT window(__headrace_rowtime, '10 seconds') AS window FROM w) "
                "GROUP BY window",
            ),
            results("b", "at TIMESTAMP; n BIGINT"),
        )

    def total(name: str) -> int:
        return sum(getattr(progress, name) for progress in driver.progress(query))

    soon = int(time.time() * 1000) + 3_600_000
    kafka.produce(source, _records({"ts": start}, {"ts": start + 60_000}))
    query = driver.start(steps("ignore"), checkpoint=checkpoint, stores=stores)
    assert driver.rows(query, 1) == [["2023-11-14 22:13:20.000", "1"]]
    far = {"ts": 4_102_444_800_000}
    kafka.produce(source, _records(far, *({"ts": start + 5_000} for _ in range(500)), {"ts": None}, {}))
    driver.until(lambda: total("timeless_rows") == 2)
    driver.until(lambda: total("late_rows") == 500)
    assert driver.progress(query)[-1].watermark_ms == start + 60_000
    # What is a little ahead of the clock counts.
    kafka.produce(source, _records({"ts": soon}, {"ts": soon}))
    assert len(driver.rows(query, 2)) == 2
    driver.stop(query)
    assert [total(name) for name in ("late_rows", "timeless_rows", "future_rows", "bad_records")] == [
        500,
        2,
        1,
        0,
    ]
    # Counted with the batches that they are in, and not again after a restart.
    driver.messages.clear()
    driver.start(steps("ignore"), checkpoint=checkpoint, stores=stores, query_id=query)
    kafka.produce(source, _records({"ts": start}))
    driver.until(lambda: total("late_rows") == 1)
    driver.stop(query)
    ended = driver.ended(
        driver.start(steps("terminate"), checkpoint=checkpoint.with_name("other"), stores=stores)
    )
    assert ended.sqlstate == "22P02"
    assert f"topic {source}, partition 0, offset 2: its event time 2100-01-01 00:00:00 is more than" in (
        ended.error or ""
    )


def test_a_temporal_join_takes_the_version_of_the_rows_own_time(
    driver: DriverControl, kafka: KafkaClient, stores: Stores, topic: Topic, checkpoint: Path
) -> None:
    orders, rates = topic(), topic()
    second = 1_700_000_000_000
    kafka.produce(
        rates,
        [("e", json.dumps({"c": "e", "rate": rate, "ts": second + at})) for at, rate in ((0, 1), (5000, 2))],
    )
    kafka.produce(orders, _records(*({"c": "e", "ts": second + at} for at in (1000, 6000, 60_000))))
    kafka.produce(rates, [("x", json.dumps({"c": "x", "rate": 9, "ts": second + 60_000}))])
    steps = [
        *read(orders, "c VARCHAR; ts BIGINT", timestamp="ts", name="o"),
        *read(rates, "c VARCHAR; rate BIGINT; ts BIGINT", timestamp="ts", name="r", upsert=True,
              key=Primitive(), key_type="VARCHAR", key_columns=["c"]),
        watermark("ow", "o"),
        watermark("rw", "r"),
        TemporalJoin(
            id="j", left="ow", right="rw", left_keys=["c"], right_keys=["c"], right_name="v", right_deleted="__headrace_deleted",
            how="left",
        ),
        sql("b", ["j"], "SELECT ts, v.rate AS rate FROM j"),
        results("b", "ts BIGINT; rate BIGINT"),
    ]  # fmt: skip
    query = driver.start(plan(*steps), checkpoint=checkpoint, stores=stores)
    assert driver.rows(query, 2) == [[str(second + 1000), "1"], [str(second + 6000), "2"]]
    assert driver.stop(query).error is None


def test_a_view_gets_the_last_row_of_each_key_and_its_deletion(
    driver: DriverControl, kafka: KafkaClient, stores: Stores, topic: Topic, checkpoint: Path
) -> None:
    source = topic()
    kafka.produce(source, [("a", '{"v":1}'), ("b", '{"v":2}'), ("a", '{"v":3}'), ("b", None)])
    steps = read(
        source,
        "k VARCHAR; v BIGINT",
        upsert=True,
        key=Primitive(),
        key_type="VARCHAR",
        key_columns=["k"],
    )
    shaped = sql(
        "b", ["a"], "SELECT __headrace_rowkey AS k, v, __headrace_rowtime AS at, __headrace_deleted FROM a"
    )
    driver.views.clear()
    query = driver.start(
        plan(
            *steps,
            shaped,
            view("b", "k VARCHAR; v BIGINT; at TIMESTAMP", key_columns=["k"], deleted="__headrace_deleted"),
        ),
        checkpoint=checkpoint,
        stores=stores,
    )
    driver.until(lambda: bool(driver.views))
    (table,) = driver.views["view"]
    assert table.select(["k", "v", "__headrace_deleted"]).to_pylist() == [
        {"k": "a", "v": 3, "__headrace_deleted": False},
        {"k": "b", "v": None, "__headrace_deleted": True},
    ]
    assert str(table.schema.field("at").type) == "timestamp[us]"
    assert driver.stop(query).error is None


def test_an_unwindowed_aggregate_updates_its_view(
    driver: DriverControl, kafka: KafkaClient, stores: Stores, topic: Topic, checkpoint: Path
) -> None:
    source = topic()
    kafka.produce(source, _records({"k": "a"}, {"k": "a"}, {"k": "b"}))
    driver.views.clear()
    query = driver.start(
        plan(
            *read(source, "k VARCHAR"),
            sql("b", ["a"], "SELECT k, count(*) AS n FROM a GROUP BY k"),
            view("b", "k VARCHAR; n BIGINT", key_columns=["k"]),
            output_mode="update",
        ),
        checkpoint=checkpoint,
        stores=stores,
    )
    driver.until(lambda: bool(driver.views))
    assert sorted(driver.views["view"][0].to_pylist(), key=str) == [{"k": "a", "n": 2}, {"k": "b", "n": 1}]
    driver.until(lambda: bool(driver.progress(query)))
    assert driver.progress(query)[-1].state_rows == 2
    latencies = [latency for each in driver.progress(query) for latency in each.latencies_ms]
    # The records were produced a moment ago.
    assert latencies
    assert all(0 < latency < PATIENCE_S * 1000 for latency in latencies)
    assert driver.stop(query).error is None


def test_latest_means_the_moment_of_the_start(
    driver: DriverControl, kafka: KafkaClient, stores: Stores, topic: Topic, checkpoint: Path
) -> None:
    source = topic()
    kafka.produce(source, _records({"v": 1}))
    query = driver.start(
        plan(*read(source, "v BIGINT", start="latest"), results("a", "v BIGINT")),
        checkpoint=checkpoint,
        stores=stores,
    )
    driver.started(query)
    kafka.produce(source, _records({"v": 2}))
    assert driver.rows(query, 1) == [["2"]]
    driver.stop(query)


@pytest.mark.parametrize("limit", [3, 0])
def test_a_limit_ends_the_query(
    driver: DriverControl, kafka: KafkaClient, stores: Stores, topic: Topic, checkpoint: Path, limit: int
) -> None:
    source = topic()
    kafka.produce(source, _records(*({"v": n} for n in range(10))))
    query = driver.start(
        plan(*read(source, "v BIGINT"), results("a", "v BIGINT", limit=limit)),
        checkpoint=checkpoint,
        stores=stores,
    )
    assert driver.ended(query).error is None
    assert driver.rows(query, limit) == [["0"], ["1"], ["2"]][:limit]


def test_a_slow_reader_slows_the_query_and_can_be_left(
    driver: DriverControl, kafka: KafkaClient, stores: Stores, topic: Topic, checkpoint: Path
) -> None:
    source = topic()
    kafka.produce(source, _records(*({"v": n} for n in range(5000))))
    held: list[Rows] = []

    def hold(message: Rows) -> Ack | None:
        held.append(message)
        return None

    driver.on_rows = hold
    try:
        query = driver.start(
            plan(*read(source, "v BIGINT"), results("a", "v BIGINT")), checkpoint=checkpoint, stores=stores
        )
        driver.until(lambda: bool(held))
        time.sleep(0.5)
        assert len(held) == 1
        assert driver.stop(query).error is None
    finally:
        driver.on_rows = lambda message: Ack(sequence=message.sequence)


def test_a_bounded_plan_ends_with_everything_out(
    driver: DriverControl, kafka: KafkaClient, stores: Stores, topic: Topic, checkpoint: Path
) -> None:
    source = topic(2)
    kafka.produce(source, _records(*({"ts": 1_700_000_000_000 + n * 1000} for n in range(100))))
    text = (
        "SELECT window.start AS at, count(*) AS n FROM (SELECT window(__headrace_rowtime, '10 seconds') AS window FROM w) "
        "GROUP BY window"
    )
    query = driver.start(
        plan(
            *read(source, "ts BIGINT", timestamp="ts"),
            watermark("w", "a"),
            sql("b", ["w"], text),
            results("b", "at TIMESTAMP; n BIGINT"),
            bounded=True,
        ),
        checkpoint=checkpoint,
        stores=stores,
    )
    assert driver.ended(query).error is None
    assert sum(int(n or 0) for _, n in driver.rows(query, 10)) == 100


def test_a_stopped_query_goes_on_from_its_checkpoint(
    driver: DriverControl,
    kafka: KafkaClient,
    stores: Stores,
    topic: Topic,
    checkpoint: Path,
    consumed: Consumed,
) -> None:
    source, target = topic(), topic()
    steps = plan(*read(source, "v BIGINT"), *write(target, "a", "v BIGINT"))
    kafka.produce(source, _records({"v": 1}))
    query = driver.start(steps, checkpoint=checkpoint, stores=stores)
    assert len(consumed(target, 1)) == 1
    driver.until(lambda: (checkpoint / "commits" / "0").exists())
    assert driver.stop(query).error is None
    kafka.produce(source, _records({"v": 2}))
    query = driver.start(steps, checkpoint=checkpoint, stores=stores)
    assert [value for _, value in consumed(target, 2)] == ['{"v":1}', '{"v":2}']
    driver.stop(query)


def test_real_time_mode_writes_what_it_reads(
    driver: DriverControl,
    kafka: KafkaClient,
    stores: Stores,
    topic: Topic,
    checkpoint: Path,
    consumed: Consumed,
) -> None:
    source, target = topic(2), topic(2)
    query = driver.start(
        plan(
            *read(source, "v BIGINT", start="latest"),
            sql("b", ["a"], "SELECT v * 2 AS v FROM a WHERE v > 0"),
            *write(target, "b", "v BIGINT"),
            mode="real_time",
        ),
        checkpoint=checkpoint,
        stores=stores,
        checkpoint_interval_ms=5000,
    )
    driver.started(query)
    kafka.produce(source, _records(*({"v": n} for n in range(50))))
    assert sorted(json.loads(value or "")["v"] for _, value in consumed(target, 49)) == [
        2 * n for n in range(1, 50)
    ]
    assert driver.stop(query).error is None


def test_columns_of_the_same_letters_differ_by_case(
    kafka: KafkaClient, topic: Topic, shown: Callable[..., list[list[str | None]]]
) -> None:
    source = topic()
    kafka.produce(source, _records({"id": 1, "ID": 2}))
    assert shown(read(source, "id BIGINT; ID BIGINT"), "id BIGINT; ID BIGINT", 1) == [["1", "2"]]
    assert [column.name for column in columns("id BIGINT; ID BIGINT")] == ["id", "ID"]


def test_rows_that_end_are_stored_once_and_a_later_start_writes_none_of_them_again(
    driver: DriverControl,
    kafka: KafkaClient,
    stores: Stores,
    topic: Topic,
    checkpoint: Path,
    consumed: Consumed,
) -> None:
    """Values that differ each time, and a time before 1582, are those of the first start."""
    target = topic(1)
    rows = sql(
        "b", [], "SELECT id, uuid() AS `a b`, TIMESTAMP '0001-02-03 04:05:06' AS at FROM range(0, 50, 1, 5)"
    )
    steps = [rows, Spool(id="c", input="b")]
    declared = "id BIGINT; at TIMESTAMP(3)"
    written = write(target, "c", declared, guarantee="exactly_once")
    query = driver.start(plan(*steps, *written, bounded=True), checkpoint=checkpoint, stores=stores)
    assert driver.ended(query).error is None
    expected = sorted(f'{{"id":{n},"at":"0001-02-03 04:05:06.000"}}' for n in range(50))
    assert sorted(value for _, value in consumed(target, 50)) == expected
    assert [path.name for path in (checkpoint / "spool").iterdir()] == ["c"]
    assert list((checkpoint / "spool" / "c").glob("*part-*")) == []
    again = driver.start(plan(*steps, *written, bounded=True), checkpoint=checkpoint, stores=stores)
    assert driver.ended(again).error is None
    assert len(kafka.consume(target)) == 50
