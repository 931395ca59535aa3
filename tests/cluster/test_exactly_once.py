"""Output from tasks on two workers: each row is written once, whichever process is killed, and rows that are left out are set aside."""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer, TopicPartition

from harness.faults import some
from harness.kafka import KafkaClient
from harness.kinesis import ACCESS_KEY, SECRET_KEY
from harness.patience import PATIENCE_S, until
from harness.s3 import S3Client
from harness.spark_cluster import SparkCluster
from harness.tcp_proxy import TcpProxy
from headrace.engine.pool_properties import Cluster
from headrace.engine.protocol import PoolSlots
from headrace.formats.json import Json
from headrace.planner.physical import SparkPlan, WriteEntity
from headrace.runtime.ports import free_port
from headrace.testing.processes import running_after
from tests.driver.control import DriverControl
from tests.driver.plans import STORE, read, sql, watermark, write

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.xdist_group("tests/cluster"),  # one cluster for all
]

SECONDS, PER_SECOND, KEYS = 12, 1000, 20
BEGIN_MS = 1_700_000_000_000
EXPECTED = Counter(
    (BEGIN_MS + second * 1000, key, PER_SECOND // KEYS) for second in range(SECONDS) for key in range(KEYS)
)
WINDOWS = (
    "SELECT unix_millis(window.start) AS at, k, count(*) AS n "
    "FROM (SELECT window(__headrace_rowtime, '1 second') AS window, k FROM w) GROUP BY window, k"
)


class Pipeline:
    """A windowed count from Kafka to Kafka, exactly once, whose driver may be started several times on `cluster`.

    `options` are further ones of the driver.
    """

    def __init__(
        self,
        cluster: SparkCluster,
        kafka: KafkaClient,
        folder: Path,
        topic: Callable[..., str],
        options: dict[str, Any] | None = None,
    ) -> None:
        self.cluster = cluster
        self.checkpoint = folder / "checkpoint"
        self.place = str(self.checkpoint)
        self.source, self.target, self.dead, self.late = topic(2), topic(3), topic(), topic()
        self.driver: DriverControl | None = None
        self._kafka = kafka
        self._folder = folder
        self._starts = 0
        self._options = options or {}
        self.windows = WINDOWS

    def start(self, **environment: str) -> None:
        """Start a driver and the query."""
        self._starts += 1
        self.driver = DriverControl(
            self._folder / f"driver-{self._starts}",
            environment={"HEADRACE_SPARK_SECRET": self.cluster.secret, **environment},
            spark_master=self.cluster.master,
            warm_up=False,
            **{"records_per_batch": PER_SECOND, **self._options},
        )
        aside = [
            WriteEntity(id=name, input="a", store=STORE, connector="kafka", entity=(entity,))
            for name, entity in (("dead", self.dead), ("late", self.late))
        ]
        steps = [
            *read(self.source, "k BIGINT", on_error="dead", carries_record=True),
            watermark("w", "a", window_ms=1000, advance_ms=1000, late="late"),
            sql("b", ["w"], self.windows),
            *aside,
            *write(
                self.target,
                "b",
                "at BIGINT; k BIGINT; n BIGINT",
                guarantee="exactly_once",
                key=Json(),
                key_columns=["at", "k"],
            ),
        ]
        self.driver.start(
            SparkPlan(steps=steps, outputs=["sink", "dead", "late"]),
            checkpoint=self.place,
            stores={STORE: {"uris": self._kafka.bootstrap, "tls.disabled": "TRUE"}},
            query_id=f"eo-{self.target}",
        )

    def kill_driver(self) -> None:
        """kill -9 of all processes of the driver."""
        assert self.driver is not None
        processes = self.driver.processes()
        for process in processes:
            process.kill()
        running_after(processes, PATIENCE_S)
        self.driver.close()

    def finished(self) -> int:
        """The number of finished batches."""
        return len(list(self.checkpoint.glob("commits/[0-9]*")))

    def planned(self) -> int:
        """The number of batches whose input is fixed: those that have finished, and at most one more."""
        return len(list(self.checkpoint.glob("offsets/[0-9]*")))

    def markers(self) -> list[int]:
        """The next epoch of each of the two buckets."""
        return [self._marker(f"headrace-eo-{self.target}-{bucket}") for bucket in range(2)]

    def rows(self) -> Counter[tuple[int, int, int]]:
        """The committed output."""
        values = [json.loads(value or "") for _, value in self._kafka.consume(self.target)]
        return Counter((row["at"], row["k"], row["n"]) for row in values)

    def _marker(self, group: str) -> int:
        consumer = Consumer({"bootstrap.servers": self._kafka.bootstrap, "group.id": group})
        try:
            (marker,) = consumer.committed([TopicPartition(self.target, 0)], timeout=PATIENCE_S)
            return int(marker.offset)
        finally:
            consumer.close()


def kill_executor(pipeline: Pipeline, chance: random.Random) -> None:
    """Kill an executor at some moment; Spark starts another."""
    time.sleep(chance.random())
    chance.choice(pipeline.cluster.executors()).kill()


def stop_executor_between_buckets(pipeline: Pipeline, chance: random.Random) -> tuple[int, psutil.Process]:
    """Stop an executor in the middle of a batch, of which one bucket is written and the other is not; return its worker and its process."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        time.sleep(chance.random() / 2)
        number = chance.randrange(2)
        (executor,) = pipeline.cluster.executors(number)
        executor.suspend()
        time.sleep(1)
        first, second = pipeline.markers()
        if first != second and pipeline.planned() > pipeline.finished():
            return number, executor
        executor.resume()
        assert time.monotonic() < deadline, "no moment between the commits of two buckets"


def kill_driver_between_buckets(pipeline: Pipeline, chance: random.Random) -> None:
    """Kill the driver while an executor is stopped, which continues when the next driver's tasks have its bucket."""
    _, stopped = stop_executor_between_buckets(pipeline, chance)
    pipeline.kill_driver()
    pipeline.start()
    written = pipeline.finished()
    until(lambda: pipeline.finished() > written or pipeline.rows() == EXPECTED, "output of the next driver")
    if stopped.is_running():
        stopped.resume()


def kill_worker(pipeline: Pipeline, chance: random.Random) -> None:
    """Kill a worker at some moment, and start another in its place."""
    time.sleep(chance.random())
    number = chance.randrange(2)
    pipeline.cluster.kill_worker(number)
    pipeline.cluster.start_worker(number)


def kill_driver(pipeline: Pipeline, chance: random.Random) -> None:
    """Kill the driver at some moment, and start another."""
    time.sleep(chance.random())
    pipeline.kill_driver()
    pipeline.start()


FAULTS = [kill_executor, kill_driver_between_buckets, kill_worker, kill_driver]


@pytest.mark.parametrize("fault", some(FAULTS))
def test_nothing_is_lost_or_doubled(
    cluster: SparkCluster,
    kafka: KafkaClient,
    tmp_path: Path,
    topic: Callable[..., str],
    random_source: random.Random,
    fault: Callable[[Pipeline, random.Random], None],
) -> None:
    pipeline = Pipeline(cluster, kafka, tmp_path, topic)
    _produce(kafka, pipeline.source)
    pipeline.start()
    try:
        until(lambda: pipeline.finished() >= 3, "three batches")
        fault(pipeline, random_source)
        until(lambda: pipeline.rows().total() >= EXPECTED.total(), lambda: f"{pipeline.rows().total()} rows")
        # Both workers have written, each its bucket.
        assert min(pipeline.markers()) > 0
        kafka.produce(pipeline.source, [(None, "bad")], partition=0)
        kafka.produce(pipeline.source, [(None, '{"k":1}')], partition=1, timestamp=BEGIN_MS)
        for aside in (pipeline.dead, pipeline.late):
            until(lambda aside=aside: kafka.consume(aside), f"a record in {aside}")  # type: ignore[misc]
        assert {value for _, value in kafka.consume(pipeline.dead)} == {"bad"}
        assert {value for _, value in kafka.consume(pipeline.late)} == {'{"k":1}'}
        assert pipeline.rows() == EXPECTED
    finally:
        pipeline.kill_driver()


@pytest.mark.faults
def test_a_batch_that_is_written_is_not_written_again(
    cluster: SparkCluster, kafka: KafkaClient, tmp_path: Path, topic: Callable[..., str]
) -> None:
    """A driver is killed between the last bucket's commit and Spark's."""
    pipeline = Pipeline(cluster, kafka, tmp_path, topic)
    _produce(kafka, pipeline.source)
    pipeline.start(HEADRACE_FAIL_POINT="after_sink_before_commit:4")
    assert pipeline.driver is not None
    try:
        assert pipeline.driver.process.wait(PATIENCE_S) == -signal.SIGKILL
        pipeline.driver.close()
        assert 0 < pipeline.rows().total() < EXPECTED.total()
        pipeline.start()
        until(lambda: pipeline.rows().total() >= EXPECTED.total(), lambda: f"{pipeline.rows().total()} rows")
        assert pipeline.rows() == EXPECTED
    finally:
        pipeline.kill_driver()


@pytest.mark.faults
def test_nothing_is_lost_or_doubled_if_a_worker_dies_in_the_middle_of_a_batch(
    cluster: SparkCluster,
    kafka: KafkaClient,
    tmp_path: Path,
    topic: Callable[..., str],
    random_source: random.Random,
) -> None:
    """The machine of a worker is lost when one of the two buckets of a batch is written. The other worker finishes the batch and the
    next ones, for the same driver."""
    pipeline = Pipeline(cluster, kafka, tmp_path, topic)
    _produce(kafka, pipeline.source)
    pipeline.start()
    lost = None
    try:
        until(lambda: pipeline.finished() >= 3, "three batches")
        lost, executor = stop_executor_between_buckets(pipeline, random_source)
        planned = pipeline.planned()
        executor.kill()
        cluster.kill_worker(lost)
        until(lambda: pipeline.rows().total() >= EXPECTED.total(), lambda: f"{pipeline.rows().total()} rows")
        assert pipeline.finished() >= planned
        assert pipeline.rows() == EXPECTED
        assert pipeline.driver is not None
        assert pipeline.driver.process.poll() is None
    finally:
        if lost is not None:
            cluster.start_worker(lost)
        pipeline.kill_driver()


@pytest.mark.faults
def test_nothing_is_lost_or_doubled_if_the_network_between_driver_and_workers_fails(
    cluster: SparkCluster,
    kafka: KafkaClient,
    tmp_path: Path,
    topic: Callable[..., str],
    random_source: random.Random,
) -> None:
    """The driver listens at an address that its executors reach by a proxy only. Executors that lose their driver end, and so may the
    driver when the master has started others in vain; the next one continues."""
    behind, front = "127.0.0.1", "127.0.0.9"
    ports = {"spark.driver.port": free_port(), "spark.driver.blockManager.port": free_port()}
    options = {
        "spark_options": {
            "spark.driver.bindAddress": behind,
            "spark.driver.host": front,
            **{name: str(port) for name, port in ports.items()},
        }
    }
    pipeline = Pipeline(cluster, kafka, tmp_path, topic, options)
    _produce(kafka, pipeline.source)
    with ExitStack() as stack:
        proxies = [stack.enter_context(TcpProxy(front, port, (behind, port))) for port in ports.values()]
        pipeline.start()
        stack.callback(pipeline.kill_driver)
        until(lambda: pipeline.finished() >= 3, "three batches")
        time.sleep(random_source.random())
        assert sum(proxy.connections for proxy in proxies) >= 2
        executors = cluster.executors()
        for proxy in proxies:
            proxy.cut()
        running_after(executors, PATIENCE_S)
        assert pipeline.rows().total() < EXPECTED.total()
        for proxy in proxies:
            proxy.restore()

        def is_written() -> bool:
            assert pipeline.driver is not None
            if pipeline.driver.process.poll() is not None:
                pipeline.driver.close()
                pipeline.start()
            return pipeline.rows().total() >= EXPECTED.total()

        until(is_written, lambda: f"{pipeline.rows().total()} rows")
        assert pipeline.rows() == EXPECTED


class PipelineInS3(Pipeline):
    """A pipeline whose driver and executors keep the checkpoint in a bucket."""

    def __init__(
        self, cluster: SparkCluster, kafka: KafkaClient, folder: Path, topic: Callable[..., str], s3: S3Client
    ) -> None:
        super().__init__(cluster, kafka, folder, topic, {"checkpoints": f"s3://{s3.bucket}/streams"})
        self.place = f"s3://{s3.bucket}/streams/q"
        self._s3 = s3

    def start(self, **environment: str) -> None:
        super().start(
            HEADRACE_CHECKPOINT_S3_ENDPOINT=self._s3.server.uri,
            HEADRACE_CHECKPOINT_S3_ACCESS_KEY_ID=ACCESS_KEY,
            HEADRACE_CHECKPOINT_S3_SECRET_ACCESS_KEY=SECRET_KEY,
            **environment,
        )

    def finished(self) -> int:
        return sum(key.rpartition("/")[2].isdigit() for key in self._s3.keys("streams/q/commits/"))


@pytest.mark.faults
def test_a_checkpoint_in_s3_is_shared_by_the_workers(
    cluster: SparkCluster, kafka: KafkaClient, tmp_path: Path, topic: Callable[..., str], s3: S3Client
) -> None:
    """Executors and drivers are killed, and the next ones continue from the bucket: nothing else is shared."""
    pipeline = PipelineInS3(cluster, kafka, tmp_path, topic, s3)
    _produce(kafka, pipeline.source)
    pipeline.start()
    try:
        until(lambda: pipeline.finished() >= 3, "three batches")
        cluster.executors()[0].kill()
        until(lambda: pipeline.finished() >= 5, "five batches")
        pipeline.kill_driver()
        pipeline.start()
        until(lambda: pipeline.rows().total() >= EXPECTED.total(), lambda: f"{pipeline.rows().total()} rows")
        assert pipeline.rows() == EXPECTED
        assert not pipeline.checkpoint.exists()
        assert [key for key in s3.keys("streams/q/state/") if key.endswith(".changelog")]
    finally:
        pipeline.kill_driver()


@pytest.mark.faults
def test_nothing_is_lost_or_doubled_while_executors_follow_the_load(
    cluster: SparkCluster, kafka: KafkaClient, tmp_path: Path, topic: Callable[..., str]
) -> None:
    """1, 2 and 1 executors: two under load, and one at a trickle, which leaves none of them idle for long."""
    pool = Cluster(executors=1, cores=1, memory="512m", executors_max=2)
    options = {"cluster": asdict(pool), "scale_interval_ms": 1000, "records_per_batch": 300 * KEYS}
    pipeline = Pipeline(cluster, kafka, tmp_path, topic, options)
    # A row takes about a millisecond.
    pipeline.windows = WINDOWS.replace(
        "FROM w)", "FROM w WHERE length(sha2(repeat(CAST(k AS STRING), 300000), 512)) = 128)"
    )
    pipeline.start()
    expected: Counter[tuple[int, int, int]] = Counter()
    seconds = 0

    def produce(rows: int) -> None:
        """Write so many rows for each key, in the next second."""
        nonlocal seconds
        _produce_second(kafka, pipeline.source, seconds, rows * KEYS)
        expected.update((BEGIN_MS + seconds * 1000, key, rows) for key in range(KEYS))
        seconds += 1

    def executors() -> tuple[int, int | None]:
        """The executors that are there, and those that are requested."""
        assert pipeline.driver is not None
        reports = pipeline.driver.of(PoolSlots)
        return (reports[-1].executors, reports[-1].requested) if reports else (0, None)

    def is_grown() -> bool:
        if seconds < pipeline.finished() + 3:
            produce(300)
        return executors() == (2, 2) and len(cluster.executors()) == 2

    def is_shrunk() -> bool:
        produce(2)
        time.sleep(5)
        return executors() == (1, 1) and len(cluster.executors()) == 1

    try:
        until(is_grown, lambda: f"two executors: {executors()}")
        assert pipeline.rows().total() < expected.total()
        until(is_shrunk, lambda: f"one executor: {executors()}")
        produce(300)
        _close_windows(kafka, pipeline.source, seconds)
        until(lambda: pipeline.rows().total() >= expected.total(), lambda: f"{pipeline.rows().total()} rows")
        assert pipeline.rows() == expected
    finally:
        pipeline.kill_driver()


def _produce(kafka: KafkaClient, source: str) -> None:
    """Write a row for each of KEYS keys in turn, and one in each partition that closes all windows."""
    for second in range(SECONDS):
        _produce_second(kafka, source, second, PER_SECOND)
    _close_windows(kafka, source, SECONDS)


def _produce_second(kafka: KafkaClient, source: str, second: int, count: int) -> None:
    """Write `count` rows with a time in `second` to the two partitions."""
    for partition in range(2):
        rows = [(None, f'{{"k":{n % KEYS}}}') for n in range(count // 2)]
        kafka.produce(source, rows, partition=partition, timestamp=BEGIN_MS + second * 1000)


def _close_windows(kafka: KafkaClient, source: str, seconds: int) -> None:
    """Write a row to each partition that closes all windows before it."""
    for partition in range(2):
        last = BEGIN_MS + (seconds + 10) * 1000
        kafka.produce(source, [(None, '{"k":0}')], partition=partition, timestamp=last)
