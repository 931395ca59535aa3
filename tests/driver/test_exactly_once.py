"""Exactly-once output through kills of every process of the driver, and leftovers of a driver."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from harness.faults import some
from harness.kafka import KafkaClient
from harness.patience import PATIENCE_S
from headrace.planner.physical import SparkPlan
from headrace.testing.processes import running_after
from headrace.testing.topics import Pair
from tests.driver.control import DriverControl
from tests.driver.plans import STORE, plan, read, results, sql, watermark, write

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

ROWS = 20_000
PER_BATCH = 4_000


def _values(records: list[Pair]) -> Counter[int]:
    return Counter(json.loads(value or "")["v"] for _, value in records)


@pytest.mark.parametrize(
    ("place", "last", "sinks"),
    some([("inside_transaction:4", signal.SIGKILL, 2), ("after_sink_before_commit:4", signal.SIGTERM, 1)]),
)
def test_nothing_is_lost_or_doubled_when_the_driver_is_killed(
    kafka: KafkaClient,
    tmp_path: Path,
    topic: Callable[..., str],
    place: str,
    last: signal.Signals,
    sinks: int,
) -> None:
    """Nothing stays of a driver whose Python alone is terminated or killed either. Of two sinks with a common source the first one has
    the batch already."""
    source, target, other = topic(2), topic(2), topic(1)
    kafka.produce(source, [(str(n), json.dumps({"v": n})) for n in range(ROWS)])
    written = write(target, "a", "v BIGINT", guarantee="exactly_once")
    steps = plan(*read(source, "v BIGINT"), *written)
    if sinks == 2:
        before_it = write(other, "even", "v BIGINT", guarantee="exactly_once", name="first")
        even = sql("even", ["a"], "SELECT v FROM a WHERE v % 2 = 0")
        steps = SparkPlan(
            steps=[*read(source, "v BIGINT"), even, *before_it, *written], outputs=["first", "sink"]
        )
    stores = {STORE: {"uris": kafka.bootstrap, "tls.disabled": "TRUE"}}

    def run(name: str, environment: dict[str, str]) -> DriverControl:
        driver = DriverControl(tmp_path / name, environment=environment, records_per_batch=PER_BATCH)
        driver.start(steps, checkpoint=tmp_path / "checkpoint", stores=stores, query_id=f"eo-{target}")
        return driver

    killed = run("killed", {"HEADRACE_FAIL_POINT": place})
    processes = killed.processes()
    assert killed.process.wait(PATIENCE_S) == -signal.SIGKILL
    assert not running_after(processes, PATIENCE_S)
    killed.close()
    before = _values(kafka.consume(target))
    assert 0 < sum(before.values()) < ROWS

    survivor = run("survivor", {})
    try:
        deadline = time.monotonic() + PATIENCE_S
        while sum((values := _values(kafka.consume(target))).values()) < ROWS and time.monotonic() < deadline:
            time.sleep(0.2)
        time.sleep(1)
        values = _values(kafka.consume(target))
        assert sorted(values) == list(range(ROWS))
        assert set(values.values()) == {1}
        if sinks == 2:
            assert _values(kafka.consume(other)) == Counter(range(0, ROWS, 2))
        processes = survivor.processes()
        assert any("java" in process.name() for process in processes)
        os.kill(survivor.process.pid, last)
        survivor.process.wait(PATIENCE_S)
        assert not running_after(processes, PATIENCE_S)
    finally:
        survivor.close()


@pytest.mark.faults
def test_a_window_on_arrival_time_is_the_same_after_a_kill_and_closes_without_another_row(
    kafka: KafkaClient, tmp_path: Path, topic: Callable[..., str], consumed: Callable[..., list[Pair]]
) -> None:
    source, target = topic(2), topic()
    kafka.produce(source, [(None, '{"v":1}')])
    counts = (
        "SELECT unix_millis(window.start) AS at, count(*) AS n "
        "FROM (SELECT window(__headrace_rowtime, '1 second') AS window FROM w) GROUP BY window"
    )
    steps = plan(
        *read(source, "v BIGINT", arrival=True),
        watermark("w", "a", window_ms=1000, advance_ms=1000, clock_step_ms=1000),
        sql("b", ["w"], counts),
        *write(target, "b", "at BIGINT; n BIGINT", guarantee="exactly_once"),
    )
    stores = {STORE: {"uris": kafka.bootstrap, "tls.disabled": "TRUE"}}

    checkpoint = tmp_path / "checkpoint"

    def run(name: str) -> DriverControl:
        driver = DriverControl(tmp_path / name)
        driver.start(steps, checkpoint=checkpoint, stores=stores, query_id=f"arrival-{target}")
        return driver

    killed = run("killed")
    # Spark writes it when a batch begins, with the time of the batch.
    offsets = checkpoint / "offsets" / "0"
    killed.until(offsets.exists)
    processes = killed.processes()
    for process in processes:
        process.kill()
    assert not running_after(processes, PATIENCE_S)
    killed.close()
    read_ms = json.loads(offsets.read_text().splitlines()[1])["batchTimestampMs"]
    survivor = run("survivor")
    try:
        ((_, value),) = consumed(target, 1)
        assert json.loads(value or "") == {"at": read_ms // 1000 * 1000, "n": 1}
    finally:
        survivor.close()


def test_what_a_transaction_aborted_is_never_read(
    driver: DriverControl, kafka: KafkaClient, topic: Callable[..., str], checkpoint: Path
) -> None:
    from confluent_kafka import Producer

    source = topic()
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": source})
    producer.init_transactions(PATIENCE_S)
    for value, keep in ((1, True), (2, False), (3, True)):
        producer.begin_transaction()
        producer.produce(source, json.dumps({"v": value}))
        producer.flush(PATIENCE_S)
        producer.commit_transaction(PATIENCE_S) if keep else producer.abort_transaction(PATIENCE_S)
    query = driver.start(
        plan(*read(source, "v BIGINT"), results("a", "v BIGINT")),
        checkpoint=checkpoint,
        stores={STORE: {"uris": kafka.bootstrap, "tls.disabled": "TRUE"}},
    )
    assert driver.rows(query, 2) == [["1"], ["3"]]
    assert driver.stop(query).error is None


def test_a_marker_is_the_number_of_the_next_batch(
    driver: DriverControl,
    kafka: KafkaClient,
    topic: Callable[..., str],
    checkpoint: Path,
    consumed: Callable[..., list[Pair]],
) -> None:
    from confluent_kafka import TopicPartition

    source, target = topic(), topic()
    kafka.produce(source, [(None, '{"v":1}'), (None, '{"v":2}')])
    steps: SparkPlan = plan(
        *read(source, "v BIGINT"), *write(target, "a", "v BIGINT", guarantee="exactly_once")
    )
    stores = {STORE: {"uris": kafka.bootstrap, "tls.disabled": "TRUE"}}
    query = driver.start(steps, checkpoint=checkpoint, stores=stores)
    assert len(consumed(target, 2)) == 2
    driver.until(lambda: (checkpoint / "commits" / "0").exists())
    driver.stop(query)
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": f"headrace-{query}"})
    (marker,) = consumer.committed([TopicPartition(target, 0)], timeout=PATIENCE_S)
    consumer.close()
    assert marker.offset == 1


@pytest.fixture
def written(
    driver: DriverControl,
    kafka: KafkaClient,
    topic: Callable[..., str],
    checkpoint: Path,
    stores: dict[str, dict[str, str]],
    consumed: Callable[..., list[Pair]],
) -> tuple[Callable[[], str], str]:
    """A query that has written three batches and stopped: how to start it again, and its topic."""
    source, target = topic(), topic()
    steps = plan(*read(source, "v BIGINT"), *write(target, "a", "v BIGINT", guarantee="exactly_once"))

    def start() -> str:
        return driver.start(steps, checkpoint=checkpoint, stores=stores, query_id=f"eo-{target}")

    # A query that starts over an empty topic has a batch without records first.
    kafka.produce(source, [(None, '{"v":0}')])
    query = start()
    for batch in range(3):
        if batch:
            kafka.produce(source, [(None, f'{{"v":{batch}}}')])
        assert len(consumed(target, batch + 1)) == batch + 1
        driver.until((checkpoint / "commits" / str(batch)).exists)
    driver.stop(query)
    driver.messages.clear()
    return start, target


def test_a_checkpoint_that_is_older_than_the_output_is_refused(
    driver: DriverControl, kafka: KafkaClient, checkpoint: Path, written: tuple[Callable[[], str], str]
) -> None:
    """A restore of yesterday's files would write again what was written since."""
    start, target = written
    for batch in (1, 2):
        (checkpoint / "offsets" / str(batch)).unlink()
        (checkpoint / "commits" / str(batch)).unlink()
    ended = driver.ended(start())
    assert "the checkpoint is older than the output" in (ended.error or "")
    assert (ended.domain, ended.hint is None) == ("user", False)
    assert len(kafka.consume(target)) == 3


@pytest.mark.parametrize("days", [1, 8])
def test_a_batch_whose_marker_may_have_expired_is_not_written(
    driver: DriverControl,
    kafka: KafkaClient,
    checkpoint: Path,
    written: tuple[Callable[[], str], str],
    consumed: Callable[..., list[Pair]],
    days: int,
) -> None:
    """A query was killed in a batch and starts again days later; the broker no longer has its marker."""
    start, target = written
    (checkpoint / "commits" / "2").unlink()
    planned = checkpoint / "offsets" / "2"
    then = time.time() - days * 24 * 3600
    os.utime(planned, (then, then))
    group = f"headrace-eo-{target}"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.delete_consumer_groups([group])[group].result(PATIENCE_S)
    query = start()
    if days < 7:  # no marker after a day: that attempt was not committed
        assert len(consumed(target, 4)) == 4
        driver.stop(query)
    else:
        ended = driver.ended(query)
        assert "its marker may have expired" in (ended.error or "")
        assert (ended.domain, ended.hint is None) == ("user", False)
        assert len(kafka.consume(target)) == 3
