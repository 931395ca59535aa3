"""Unreadable and late records in their topics: complete, with origin and reason, and never lost."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from harness.kafka import KafkaClient
from harness.patience import PATIENCE_S
from headrace.planner.physical import SparkPlan, WriteEntity
from tests.driver.control import DriverControl
from tests.driver.plans import STORE, read, sql, watermark, write

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

Stores = dict[str, dict[str, str]]
Topic = Callable[..., str]
DECLARED = "id BIGINT; name VARCHAR"
SENT_MS = 1_700_000_000_000


def _plan(source: str, target: str, dead: str, *, mode: str, guarantee: str = "at_least_once") -> SparkPlan:
    letters = WriteEntity(id="letters", input="a", store=STORE, connector="kafka", entity=(dead,))
    steps = [
        *read(source, DECLARED, on_error="letters"),
        letters,
        *write(target, "a", DECLARED, guarantee=guarantee),
    ]
    return SparkPlan(steps=steps, outputs=["sink", "letters"], mode=mode)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mode", "guarantee"),
    [
        ("micro_batch", "at_least_once"),
        ("micro_batch", "exactly_once"),
        ("real_time", "at_least_once"),
    ],
)
def test_a_bad_record_is_in_its_topic_as_it_came(
    driver: DriverControl,
    kafka: KafkaClient,
    stores: Stores,
    topic: Topic,
    checkpoint: Path,
    mode: str,
    guarantee: str,
) -> None:
    source, target, dead = topic(), topic(), topic()
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for value in (b'{"id":1}', b'{"id":"one"}', b"\xff\x00", b'{"id":2}'):
        producer.produce(source, value, b"k\xfe", headers=[("trace", b"7")], timestamp=SENT_MS)
    producer.flush(PATIENCE_S)
    steps = _plan(source, target, dead, mode=mode, guarantee=guarantee)
    query = driver.start(steps, checkpoint=checkpoint, stores=stores, checkpoint_interval_ms=20_000)

    driver.until(lambda: len(_letters(kafka, dead)) == 2)
    driver.until(lambda: sum(progress.bad_records for progress in driver.progress(query)) == 2)
    driver.until(lambda: len(kafka.consume(target)) == 2)
    assert driver.stop(query).error is None
    assert [value for _, value in kafka.consume(target)] == ['{"id":1,"name":null}', '{"id":2,"name":null}']
    letters = _letters(kafka, dead)
    assert [(letter.key(), letter.value()) for letter in letters] == [
        (b"k\xfe", b'{"id":"one"}'),
        (b"k\xfe", b"\xff\x00"),
    ]
    assert {letter.timestamp()[1] for letter in letters} == {SENT_MS}
    first = dict(letters[0].headers() or [])
    assert first.pop("headrace.error") == b'column id expects BIGINT, found the string "one"'
    assert first == {
        "trace": b"7",
        "headrace.topic": source.encode(),
        "headrace.partition": b"0",
        "headrace.offset": b"1",
        "headrace.timestamp_type": b"CreateTime",
        "headrace.query": query.encode(),
    }


def test_a_bad_record_that_its_topic_does_not_take_is_not_lost(
    driver: DriverControl, kafka: KafkaClient, stores: Stores, topic: Topic, checkpoint: Path
) -> None:
    source, target, dead = topic(), topic(), topic()
    _take(kafka, dead, 500)
    kafka.produce(source, [(None, "x" * 2000), (None, '{"id":1}')])
    steps = _plan(source, target, dead, mode="micro_batch")
    ended = driver.ended(driver.start(steps, checkpoint=checkpoint, stores=stores))
    assert "larger than the Kafka broker takes" in (ended.error or "")
    assert not _letters(kafka, dead)

    _take(kafka, dead, 100_000)
    query = driver.start(steps, checkpoint=checkpoint, stores=stores)
    driver.until(lambda: bool(_letters(kafka, dead)))
    driver.until(lambda: bool(kafka.consume(target)))
    assert driver.stop(query).error is None
    assert [letter.value() for letter in _letters(kafka, dead)] == [b"x" * 2000]


def test_a_late_row_is_in_its_topic_as_it_came_though_its_batch_failed(
    driver: DriverControl, kafka: KafkaClient, stores: Stores, topic: Topic, checkpoint: Path
) -> None:
    source, target, late = topic(), topic(), topic()
    counts = (
        "SELECT window.start AS at, count(*) AS n FROM (SELECT window(__headrace_rowtime, '10 seconds') AS window FROM w) "
        "GROUP BY window"
    )
    steps = SparkPlan(
        steps=[
            *read(source, "ts BIGINT", timestamp="ts", carries_record=True),
            WriteEntity(id="late", input="a0", store=STORE, connector="kafka", entity=(late,)),
            watermark("w", "a", window_ms=10_000, advance_ms=10_000, late="late"),
            sql("b", ["w"], counts),
            *write(target, "b", "at TIMESTAMP; n BIGINT"),
        ],
        outputs=["sink", "late"],
    )
    kafka.produce(source, [(None, f'{{"ts":{SENT_MS}}}'), (None, f'{{"ts":{SENT_MS + 60_000}}}')])
    query = driver.start(steps, checkpoint=checkpoint, stores=stores)
    driver.until(lambda: len(kafka.consume(target)) == 1)
    _take(kafka, late, 500)
    record = f'{{"ts":{SENT_MS + 1}}}'.ljust(2000)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(source, record, b"k\xfe", headers=[("trace", b"7")], timestamp=SENT_MS)
    producer.flush(PATIENCE_S)
    assert "larger than the Kafka broker takes" in (driver.ended(query).error or "")
    assert not _letters(kafka, late)

    _take(kafka, late, 100_000)
    driver.messages.clear()
    driver.start(steps, checkpoint=checkpoint, stores=stores, query_id=query)
    driver.until(lambda: sum(progress.late_rows for progress in driver.progress(query)) == 1)
    assert driver.stop(query).error is None
    (letter,) = _letters(kafka, late)
    assert (letter.key(), letter.value(), letter.timestamp()[1]) == (b"k\xfe", record.encode(), SENT_MS)
    assert dict(letter.headers() or []) == {
        "trace": b"7",
        "headrace.topic": source.encode(),
        "headrace.partition": b"0",
        "headrace.offset": b"2",
        "headrace.timestamp_type": b"CreateTime",
        "headrace.query": query.encode(),
        "headrace.event.time": b"1700000000001000",
        "headrace.window.end": b"1700000010000000",
        "headrace.watermark": b"1700000060000000",
    }


def _take(kafka: KafkaClient, topic: str, bytes_max: int) -> None:
    """Lets the topic take records of up to so many bytes."""
    entry = ConfigEntry("max.message.bytes", str(bytes_max), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)


def _letters(kafka: KafkaClient, topic: str) -> list[Message]:
    """The records of a topic of one partition, with their headers."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": str(uuid.uuid4())})
    try:
        place = TopicPartition(topic, 0, 0)
        _, end = consumer.get_watermark_offsets(place, timeout=PATIENCE_S)
        consumer.assign([place])
        letters: list[Message] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(letters) < end and time.monotonic() < deadline:
            letters += consumer.consume(end - len(letters), 0.5)
        return letters
    finally:
        consumer.close()
