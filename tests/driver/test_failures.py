"""Failures of queries: their messages, their causes, and secrets that messages must not contain."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from harness.kafka import KafkaClient
from harness.patience import PATIENCE_S
from headrace.connectors.checkpoint_bucket import Login
from headrace.connectors.schema_registry.options import CONFLUENT, CONFLUENT_CLOUD, connection
from headrace.connectors.tls import TLS_CLIENT_KEY
from headrace.core.errors import InternalError, UserError
from headrace.core.sqlstate import SqlState
from headrace.engine.driver import failures
from headrace.engine.driver.failures import classify
from headrace.engine.protocol import QueryEnded, StartQuery
from headrace.formats.primitive import Primitive
from headrace.planner.lowering.changes import UNKNOWN_CHANGE
from headrace.planner.physical import ReadEntity, ReadRows, SparkPlan
from headrace.planner.target import Target
from headrace.testing.topics import Pair
from tests.driver.control import DriverControl
from tests.driver.plans import STORE, plan, read, results, sql, write

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

Stores = dict[str, dict[str, str]]
Topic = Callable[..., str]


@pytest.fixture
def failure(driver: DriverControl, stores: Stores, checkpoint: Path) -> Callable[[SparkPlan], QueryEnded]:
    """Runs a plan to its end, which must be an error without a trace in it."""

    def run(steps: SparkPlan) -> QueryEnded:
        ended = driver.ended(driver.start(steps, checkpoint=checkpoint, stores=stores))
        assert ended.error
        assert "\n" not in ended.error
        assert "org.apache" not in ended.error
        return ended

    return run


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ('{"id":"a:é"}', 'column id expects BIGINT, found the string "a:é"'),
        ('{"id":11}{"id":12}', "more follows the JSON value, at byte 9"),
        ("null", "expected a JSON object, found null"),
        (" ", "expected JSON, found nothing"),
        (
            '{"t":"10:00:00"}',
            'column t expects TIMESTAMP, written yyyy-MM-dd HH:mm:ss, found the string "10:00:00"',
        ),
        ('{"s":{"x":"y"}}', 'column s.x expects INTEGER, found the string "y"'),
    ],
)
def test_a_record_that_cannot_be_read_ends_the_query_and_is_named(
    failure: Callable[[SparkPlan], QueryEnded], kafka: KafkaClient, topic: Topic, value: str, reason: str
) -> None:
    source = topic()
    kafka.produce(source, [(None, '{"id":1}'), (None, value)])
    ended = failure(
        plan(*read(source, "id BIGINT; t TIMESTAMP; s STRUCT<x INTEGER>"), results("a", "id BIGINT"))
    )
    assert ended.error == f"cannot read the record at topic {source}, partition 0, offset 1: {reason}"
    assert (ended.sqlstate, ended.domain) == ("22P02", "user")
    assert "source.deserialization.error.handling" in (ended.hint or "")


def test_a_key_that_cannot_be_read_ends_the_query(
    failure: Callable[[SparkPlan], QueryEnded], kafka: KafkaClient, topic: Topic
) -> None:
    source = topic()
    # Also where it is all that the record has.
    kafka.produce(source, [("abc", None)])
    keyed = read(source, "v BIGINT", key=Primitive(), key_type="BIGINT", upsert=True, key_columns=["v"])
    ended = failure(plan(*keyed, results("a", "v BIGINT")))
    assert ended.sqlstate == "22P02"
    assert "its key is not of the declared 'key.type': found 3 bytes" in (ended.error or "")


@pytest.mark.parametrize("mode", ["micro_batch", "real_time"])
def test_such_records_are_skipped_and_counted_when_asked(
    driver: DriverControl, stores: Stores, kafka: KafkaClient, topic: Topic, checkpoint: Path, mode: str
) -> None:
    source, target = topic(), topic()
    kafka.produce(source, [(None, text) for text in ('{"id":"abc"}', "no", '{"id":7,"Name":"x"}')])
    declared = "id BIGINT; name VARCHAR"
    steps = plan(*read(source, declared, on_error="ignore"), *write(target, "a", declared), mode=mode)
    query = driver.start(steps, checkpoint=checkpoint, stores=stores, checkpoint_interval_ms=5000)

    def skipped() -> int:
        return sum(progress.bad_records for progress in driver.progress(query))

    driver.until(lambda: skipped() >= 2)
    kafka.produce(source, [(None, "no")])
    driver.until(lambda: skipped() >= 3)
    driver.until(lambda: bool(kafka.consume(target)))
    assert driver.progress(query)[-1].detail["fields_that_differ_in_case"] == {"Name": "name"}
    driver.stop(query)
    assert skipped() == 3
    assert kafka.consume(target) == [(None, '{"id":7,"name":null}')]


def test_a_filter_on_another_column_does_not_hide_a_bad_record(
    failure: Callable[[SparkPlan], QueryEnded], kafka: KafkaClient, topic: Topic
) -> None:
    source = topic()
    kafka.produce(source, [(None, '{"id":"abc","v":0}')])
    where = sql("b", ["a"], "SELECT v FROM a WHERE v > 0")
    assert (
        failure(plan(*read(source, "id BIGINT; v BIGINT"), where, results("b", "v BIGINT"))).sqlstate
        == "22P02"
    )


@pytest.mark.parametrize(
    ("expression", "state"),
    [("10 / v", "22012"), ("CAST(s AS BIGINT)", "22000"), ("9223372036854775807L + v - 1 + 2", "22003")],
)
def test_an_expression_that_fails_on_data_is_the_users_fault(
    failure: Callable[[SparkPlan], QueryEnded], kafka: KafkaClient, topic: Topic, expression: str, state: str
) -> None:
    source = topic()
    kafka.produce(source, [(None, '{"v":0,"s":"x"}')])
    text = sql("b", ["a"], f"SELECT {expression} AS r FROM a")
    ended = failure(plan(*read(source, "v BIGINT; s VARCHAR"), text, results("b", "r VARCHAR")))
    assert (ended.sqlstate, ended.domain) == (state, "user")
    assert "spark." not in (ended.error or "")
    assert "try_" not in f"{ended.error} {ended.hint}"


def test_an_expression_that_fails_while_writing_a_topic_is_reported_the_same_way(
    failure: Callable[[SparkPlan], QueryEnded], kafka: KafkaClient, topic: Topic
) -> None:
    source, target = topic(), topic()
    kafka.produce(source, [(None, '{"v":0}')])
    text = sql("b", ["a"], "SELECT 10 / v AS r FROM a")
    for guarantee in ("at_least_once", "exactly_once"):
        steps = plan(*read(source, "v BIGINT"), text, *write(target, "b", "r DOUBLE", guarantee=guarantee))
        assert failure(steps).sqlstate == "22012"


def test_a_missing_topic_is_named(failure: Callable[[SparkPlan], QueryEnded], topic: Topic) -> None:
    ended = failure(plan(*read("nowhere", "v BIGINT"), results("a", "v BIGINT")))
    assert (ended.sqlstate, ended.domain) == ("3D007", "user")
    assert "'nowhere'" in (ended.error or "")
    ended = failure(plan(*read(topic(), "v BIGINT"), *write("nowhere-else", "a", "v BIGINT")))
    assert ended.sqlstate == "3D007"


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
@pytest.mark.parametrize(
    ("setting", "columns", "reason"),
    [
        ("cleanup.policy=compact", "v VARCHAR", "compacted, and such a topic takes no record without a key"),
        ("max.message.bytes=200", "v VARCHAR", "a record is larger than the Kafka broker takes"),
    ],
)
def test_a_record_that_the_broker_refuses_ends_the_query(
    failure: Callable[[SparkPlan], QueryEnded],
    kafka: KafkaClient,
    topic: Topic,
    guarantee: str,
    setting: str,
    columns: str,
    reason: str,
) -> None:
    source, target = topic(), f"refusing-{guarantee}-{setting.partition('.')[0]}"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    new = NewTopic(target, num_partitions=1, replication_factor=1, config=dict([setting.split("=")]))
    admin.create_topics([new])[target].result(PATIENCE_S)
    kafka.produce(source, [(None, json.dumps({"v": "x" * 500}))])
    ended = failure(plan(*read(source, columns), *write(target, "a", columns, guarantee=guarantee)))
    assert reason in (ended.error or "")
    assert (ended.sqlstate, ended.domain) == ("22000", "user")
    assert ended.hint


def test_a_full_disk_is_reported_and_waited_for(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoints" / "q"
    checkpoint.parent.mkdir()
    start = StartQuery(
        query_id="q", generation=1, plan=plan(results("a", "v BIGINT")), checkpoint=str(checkpoint)
    )
    with pytest.raises(OSError, match="No space left") as caught:
        Path("/dev/full").write_bytes(b"x")
    classified = classify(caught.value, start)
    assert (
        "no space is left on the server's disk: that of the compute pool's scratch files"
        in classified.message
    )
    assert (classified.sqlstate, classified.domain) == ("53000", "external")
    text = f"java.io.FileNotFoundException: {checkpoint}/offsets/.3.tmp (No space left on device)"
    assert "checkpoints/ in the data directory" in classify(RuntimeError(text), start).message
    # DuckDB's, which comes back from the server.
    view = InternalError('IO Error: Could not write file "/d/views.duckdb.wal": No space left on device')
    assert "views.duckdb" in classify(view, start).message


@pytest.mark.parametrize("problem", ["No space left on device", "Disk quota exceeded", "File too large"])
def test_a_full_disk_of_a_worker_is_reported_with_its_name_and_waited_for(problem: str) -> None:
    trace = (
        "Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 7.0 failed 4 times, most recent "
        f"failure: Lost task 0.3 in stage 7.0 (TID 29) (worker-1.example.com executor 3): java.io.IOException: {problem}"
    )
    on_cluster = plan(results("a", "v BIGINT"), target=Target(master="standalone"))
    start = StartQuery(query_id="q", generation=1, plan=on_cluster, checkpoint="/mnt/o/q")
    classified = classify(RuntimeError(trace), start)
    assert classified.message == "no space is left on a disk that the worker at worker-1.example.com uses"
    assert (classified.sqlstate, classified.domain) == ("53000", "external")


def test_a_bucket_of_checkpoints_that_is_away_is_reported_and_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(failures, "driver_login", lambda: Login(secret="key of the bucket"))
    trace = "org.apache.hadoop.fs.s3a.AWSClientIOException: Writing Object on o/q/offsets/3: SdkClientException: Connection refused"
    start = StartQuery(
        query_id="q", generation=1, plan=plan(results("a", "v BIGINT")), checkpoint="s3://streams/o/q"
    )
    classified = classify(RuntimeError(trace), start)
    assert (classified.sqlstate, classified.domain) == ("57015", "external")
    assert "the query's checkpoint in s3://streams/o/q cannot be read or written" in classified.message
    elsewhere = classify(RuntimeError(trace), start.model_copy(update={"checkpoint": "/data/checkpoints/q"}))
    assert elsewhere.domain == "internal"
    # The worker of a source has the login among its options.
    shown = classify(UserError(SqlState.DATA_EXCEPTION, "options: key of the bucket"), start)
    assert (shown.message, "key of the bucket" in shown.trace) == ("options: ****", False)


def test_a_machine_too_busy_for_a_process_is_reported_and_retried() -> None:
    """`tests/kinesis/test_slow_machine.py` has such a machine."""
    start = StartQuery(query_id="q", generation=1, plan=plan(results("a", "v BIGINT")), checkpoint="")
    classified = classify(RuntimeError("SparkException: Python worker failed to connect back."), start)
    assert (classified.sqlstate, classified.domain) == ("53000", "external")
    assert "the Python process that reads the query's source has not started" in classified.message


def test_a_change_of_an_unknown_kind_is_the_datas_fault() -> None:
    start = StartQuery(query_id="q", generation=1, plan=plan(results("a", "v BIGINT")), checkpoint="")
    raised = (
        f"org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] {UNKNOWN_CHANGE} SQLSTATE: P0001"
    )
    classified = classify(RuntimeError(raised), start)
    assert (classified.sqlstate, classified.domain) == ("22000", "user")
    assert classified.message == f"a value does not fit the query: {UNKNOWN_CHANGE}"


def test_a_store_and_a_registry_without_a_password_leave_the_error_as_it_is() -> None:
    read_rows = ReadRows(id="t", store=STORE, connector="clickhouse", entity=("t",), columns=[])
    start = StartQuery(
        query_id="q",
        generation=1,
        plan=plan(read_rows, results("t", "v BIGINT")),
        checkpoint="",
        stores={STORE: {"clickhouse.password": ""}},
        registries={"r": {"password": ""}},
    )
    assert classify(UserError(SqlState.DATA_EXCEPTION, "no value"), start).message == "no value"


def test_no_secret_of_a_registry_is_revealed() -> None:
    kept = [
        {CONFLUENT.credentials[0].name: "u", CONFLUENT.credentials[1].name: "hunter2"},
        {CONFLUENT_CLOUD.credentials[0].name: "k", CONFLUENT_CLOUD.credentials[1].name: "hunter3"},
        {"confluent.token": "hunter4", TLS_CLIENT_KEY.name: "hunter5"},
    ]
    start = StartQuery(
        query_id="q",
        generation=1,
        plan=plan(*read("t", "v BIGINT"), results("a", "v BIGINT")),
        checkpoint="",
        stores={},
        registries={str(number): connection(properties) for number, properties in enumerate(kept)},
    )
    classified = classify(UserError(SqlState.DATA_EXCEPTION, "hunter2 hunter3 hunter4 hunter5"), start)
    assert classified.message == "**** **** **** ****"
    assert "hunter" not in classified.trace


def test_records_that_expired_before_they_were_read_end_the_query(
    driver: DriverControl, stores: Stores, kafka: KafkaClient, topic: Topic, checkpoint: Path
) -> None:
    """Continuing would lose them silently."""
    source = topic()
    steps = plan(*read(source, "v BIGINT"), results("a", "v BIGINT"))
    kafka.produce(source, [(None, '{"v":1}')])
    query = driver.start(steps, checkpoint=checkpoint, stores=stores)
    assert driver.rows(query, 1) == [["1"]]
    driver.until((checkpoint / "commits" / "0").exists)
    driver.stop(query)
    driver.messages.clear()
    kafka.produce(source, [(None, '{"v":2}'), (None, '{"v":3}')])
    expired = TopicPartition(source, 0, 2)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.delete_records([expired])[expired].result(PATIENCE_S)
    ended = driver.ended(driver.start(steps, checkpoint=checkpoint, stores=stores, query_id=query))
    assert (ended.sqlstate, ended.domain) == ("22000", "user")
    assert "were removed from the" in (ended.error or "")


def test_a_log_that_ends_before_a_querys_place_is_not_read_on(
    driver: DriverControl,
    stores: Stores,
    kafka: KafkaClient,
    topic: Topic,
    checkpoint: Path,
    consumed: Callable[..., list[Pair]],
) -> None:
    """Simulate the election of a leader that was behind: the next records have offsets that the query has read already."""
    source, target = topic(), topic()
    steps = plan(*read(source, "v BIGINT"), *write(target, "a", "v BIGINT"))
    kafka.produce(source, [(None, '{"v":1}')])
    query = driver.start(steps, checkpoint=checkpoint, stores=stores)
    assert len(consumed(target, 1)) == 1
    driver.stop(query)
    driver.messages.clear()
    offsets = max((checkpoint / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
    text, (place, further) = offsets.read_text(), (f'{{"{source}":{{"0":{n}}}}}' for n in (1, 9))
    assert place in text
    offsets.write_text(text.replace(place, further))
    (checkpoint / "offsets" / f".{offsets.name}.crc").unlink(missing_ok=True)
    ended = driver.ended(driver.start(steps, checkpoint=checkpoint, stores=stores, query_id=query))
    assert (ended.sqlstate, ended.domain) == ("22000", "user")
    assert "were removed from the" in (ended.error or "")


@pytest.mark.parametrize("mode", ["micro_batch", "real_time"])
def test_a_topic_that_came_to_match_is_read_from_what_it_still_has(
    driver: DriverControl,
    stores: Stores,
    kafka: KafkaClient,
    topic: Topic,
    checkpoint: Path,
    consumed: Callable[..., list[Pair]],
    mode: Literal["micro_batch", "real_time"],
) -> None:
    first, target = topic(), topic()
    steps = plan(*read(f"{first}*", "v BIGINT"), *write(target, "a", "v BIGINT"), mode=mode)
    kafka.produce(first, [(None, '{"v":1}')])
    query = driver.start(steps, checkpoint=checkpoint, stores=stores)
    assert len(consumed(target, 1)) == 1
    driver.stop(query)
    driver.messages.clear()
    old = f"{first}-old"
    kafka.create(old)
    kafka.produce(old, [(None, f'{{"v":{n}}}') for n in (2, 3, 4)])
    expired = TopicPartition(old, 0, 2)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.delete_records([expired])[expired].result(PATIENCE_S)
    query = driver.start(steps, checkpoint=checkpoint, stores=stores, query_id=query)
    driver.until(lambda: '{"v":4}' in {value for _, value in kafka.consume(target)})
    assert {value for _, value in kafka.consume(target)} == {'{"v":1}', '{"v":4}'}
    assert driver.stop(query).error is None


def test_a_broker_that_does_not_answer_is_an_external_failure_without_the_password(
    driver: DriverControl, checkpoint: Path
) -> None:
    password = 'pa"ss\\word'
    store = {
        "uris": "127.0.0.1:1",
        "tls.disabled": "TRUE",
        "kafka.sasl.hash_function": "PLAIN",
        "kafka.sasl.username": "u",
        "kafka.sasl.password": password,
    }
    steps = plan(*read("t", "v BIGINT"), results("a", "v BIGINT"))
    ended = driver.ended(driver.start(steps, checkpoint=checkpoint, stores={STORE: store}))
    assert (ended.sqlstate, ended.domain) == ("57015", "external")
    assert password not in driver.log()
    assert json.dumps(password)[1:-1] not in driver.log()


def test_a_column_that_is_not_there_is_the_statements_fault(
    failure: Callable[[SparkPlan], QueryEnded], topic: Topic
) -> None:
    ended = failure(
        plan(*read(topic(), "v BIGINT"), sql("b", ["a"], "SELECT w FROM a"), results("b", "w BIGINT"))
    )
    assert (ended.sqlstate, ended.domain) == ("42703", "user")


def test_a_query_whose_failure_cannot_be_classified_is_over_all_the_same(
    failure: Callable[[SparkPlan], QueryEnded],
) -> None:
    source = ReadEntity(id="a", store=STORE, connector="nowhere", entity=("t",), starting_position="latest")
    assert failure(plan(source, results("a", "v BIGINT"))).sqlstate == "XX000"


def test_stopping_what_does_not_run_is_answered(driver: DriverControl) -> None:
    assert driver.stop("00000000-0000-0000-0000-000000000000").error is None


def test_a_query_that_is_stopped_in_a_batch_ends_in_peace(
    driver: DriverControl, stores: Stores, checkpoint: Path, topic: Topic, kafka: KafkaClient
) -> None:
    source = topic()
    slow = "SELECT v FROM a WHERE v = 0 OR java_method('java.lang.Thread', 'sleep', 600000L) IS NULL"
    query = driver.start(
        plan(*read(source, "v BIGINT"), sql("b", ["a"], slow), results("b", "v BIGINT")),
        checkpoint=checkpoint,
        stores=stores,
    )
    driver.started(query)
    kafka.produce(source, [(None, '{"v":0}')])
    driver.rows(query, 1)
    kafka.produce(source, [(None, '{"v":1}')])
    # Nothing tells when the task sleeps; if it does not yet, the test sees less.
    time.sleep(2)
    assert driver.stop(query).error is None
    assert "java.util.regex" not in driver.log()
