"""Exactly-once output through kills of every process of the driver, and what a driver leaves behind."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer

from headrace.planner.physical import SparkPlan
from tests.driver.control import DriverControl
from tests.driver.plans import STORE, plan, read, results, write
from tests.harness.kafka import KafkaClient, Pair

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

ROWS = 20_000
PER_BATCH = 4_000


def _gone(processes: list[psutil.Process], within: float = 20) -> bool:
    _, alive = psutil.wait_procs(processes, timeout=within)
    return not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


def _values(records: list[Pair]) -> Counter[int]:
    return Counter(json.loads(value or "")["v"] for _, value in records)


@pytest.mark.parametrize(
    ("place", "last"),
    [("inside_transaction:4", signal.SIGKILL), ("after_sink_before_commit:4", signal.SIGTERM)],
)
def test_nothing_is_lost_or_doubled_when_the_driver_is_killed(
    kafka: KafkaClient, tmp_path: Path, topic: Callable[..., str], place: str, last: signal.Signals
) -> None:
    """And nothing stays of a driver whose Python alone is told to go, or killed."""
    source, target = topic(2), topic(2)
    kafka.produce(source, [(str(n), json.dumps({"v": n})) for n in range(ROWS)])
    steps = plan(*read(source, "v BIGINT"), *write(target, "a", "v BIGINT", guarantee="exactly_once"))
    stores = {STORE: {"uris": kafka.bootstrap, "tls.disabled": "TRUE"}}

    def run(name: str, environment: dict[str, str]) -> DriverControl:
        driver = DriverControl(tmp_path / name, environment=environment, records_per_batch=PER_BATCH)
        driver.start(steps, checkpoint=tmp_path / "checkpoint", stores=stores, query_id=f"eo-{target}")
        return driver

    killed = run("killed", {"HEADRACE_FAIL_POINT": place})
    processes = killed.processes()
    assert killed.process.wait(60) == -signal.SIGKILL
    assert _gone(processes)
    killed.close()
    before = _values(kafka.consume(target))
    assert 0 < sum(before.values()) < ROWS

    survivor = run("survivor", {})
    try:
        deadline = time.monotonic() + 60
        while sum((found := _values(kafka.consume(target))).values()) < ROWS and time.monotonic() < deadline:
            time.sleep(0.2)
        time.sleep(1)
        found = _values(kafka.consume(target))
        assert sorted(found) == list(range(ROWS))
        assert set(found.values()) == {1}
        processes = survivor.processes()
        assert any("java" in process.name() for process in processes)
        os.kill(survivor.process.pid, last)
        survivor.process.wait(20)
        assert _gone(processes)
    finally:
        survivor.close()


def test_what_a_transaction_aborted_is_never_read(
    driver: DriverControl, kafka: KafkaClient, topic: Callable[..., str], checkpoint: Path
) -> None:
    from confluent_kafka import Producer

    source = topic()
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": source})
    producer.init_transactions(20)
    for value, keep in ((1, True), (2, False), (3, True)):
        producer.begin_transaction()
        producer.produce(source, json.dumps({"v": value}))
        producer.flush(10)
        producer.commit_transaction(10) if keep else producer.abort_transaction(10)
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
    (marker,) = consumer.committed([TopicPartition(target, 0)], timeout=10)
    consumer.close()
    assert marker.offset == 1
