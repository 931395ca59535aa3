"""Pools on a standalone cluster of two workers with one core each, and two servers on one catalog."""

# ruff: noqa: S608 - the names in these statements are made here

from __future__ import annotations

import base64
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
from confluent_kafka import Producer

from benchmarks.delivery import compared
from benchmarks.driver_rig import DriverRig, plan_of
from benchmarks.lifecycle import RATE, outage_s
from benchmarks.records import PARTITIONS, Receiver, Record, Sink, SteadyProducer, preload
from benchmarks.rig import Figures, Rig, batch_ends_s, first_batch_s
from benchmarks.shapes import SHAPES, START_MS, Shape, orders_definition
from harness.postgresql import PostgresServer
from harness.process import HeadraceProcess
from harness.spark_cluster import SparkCluster

MEASURED = ("projection", "group_by")
WIDE = 8
"""Partitions of the topics, and of the output, of which each has its own transaction."""
KILLS = 3
TASKS = (4, 64)
QUERIES = 8
UNIT_S = 15.0
_WITHIN_S = 300.0
_TRICKLE_S = 0.25


def cluster_throughput(rig: Rig) -> Figures:
    """Run a stateless and a grouped query in batches, with two tasks at a time on this machine and on two workers; measure both rates,
    and the start of the pool on the workers. Of two runs on each the second counts: the first one also compiles."""
    shapes = [shape for shape in SHAPES if shape.name in MEASURED]
    for shape in shapes:
        for source in shape.sources:
            rig.filled(source)
    figures: Figures = {}
    with _server(rig, {"HEADRACE_SPARK_MASTER": "local[2]"}) as server:
        local = {shape.name: _rate(rig, server, shape) for shape in shapes}
    with _cluster(rig) as cluster, _server(rig, cluster.environment) as server:
        figures["pool_warm_s"] = _warm_s(rig, server)
        for shape in shapes:
            rate = _rate(rig, server, shape)
            figures[f"{shape.name}_local_records_per_s"] = local[shape.name]
            figures[f"{shape.name}_records_per_s"] = rate
            figures[f"{shape.name}_ratio"] = rate / local[shape.name]
    return figures


def cluster_delivery(rig: Rig) -> Figures:
    """Milliseconds a batch of 50,000 records on two workers, with a transaction for each of `WIDE` partitions of the output, and
    without transactions."""
    topic = f"bench_{rig.name('wide')}"
    rig.kafka.create(topic, partitions=WIDE)
    preload(rig.bootstrap, topic, _spread(rig.sizes.delivery_records))
    name = rig.name("wide_orders")
    rig.execute(orders_definition(name, topic))
    sql = f"CREATE STREAM {rig.name('wide_delivered')} AS SELECT at, id, item, price, note FROM {name}"
    plan = plan_of(rig, sql)
    with _cluster(rig) as cluster:
        driver = DriverRig(rig, **_on(cluster), shuffle_partitions=WIDE)
        return compared(rig, driver, plan, partitions=WIDE)


def cluster_recovery(rig: Rig) -> Figures:
    """Kill a worker with its executor under an exactly-once query; measure the time until the output of a record that was sent after the
    kill."""
    topic = rig.topic("bench_steady_cluster")
    outages = []
    with _cluster(rig) as cluster, _server(rig, cluster.environment) as server:
        sink = _survivor(rig, server, topic)
        with SteadyProducer(rig.bootstrap, topic, rate=RATE):
            for number in range(KILLS):
                rig.until(lambda: len(cluster.executors()) == 2)
                worker = number % 2
                outages.append(outage_s(rig, sink, lambda worker=worker: _lose(cluster, worker)))  # type: ignore[misc]
                cluster.start_worker(worker)
    return {"worker_killed_s": statistics.median(outages), "worker_killed_longest_s": max(outages)}


def take_over(rig: Rig) -> Figures:
    """Kill the leading one of two servers; measure the time until the other one leads, and until it has output for a record that was
    sent after the kill."""
    folder = rig.folder / rig.name("pair")
    topic = rig.topic("bench_steady_pair")
    took, outages = [], []
    with ExitStack() as stack:
        (folder / "database").mkdir(parents=True)
        (folder / "shared").mkdir()
        database = stack.enter_context(PostgresServer(folder / "database", 16, wal_level="replica"))
        environment = {
            "HEADRACE_CATALOG_URL": database.catalog_url(),
            "HEADRACE_CATALOG_KEY": base64.b64encode(bytes(32)).decode(),
            "HEADRACE_SHARED_DIR": str(folder / "shared"),
        }
        leader, other = (HeadraceProcess(folder / name, environment=environment) for name in "ab")
        for server in (leader, other):
            stack.callback(server.stop)
            server.start()
        rig.prepare(leader)
        sink = _survivor(rig, leader, topic)
        stack.enter_context(SteadyProducer(rig.bootstrap, topic, rate=RATE))
        for _ in range(KILLS):
            began = 0.0

            def kill(leader: HeadraceProcess = leader, other: HeadraceProcess = other) -> None:
                nonlocal began
                began = time.monotonic()
                leader.kill()
                rig.until(lambda: _leads(other))
                took.append(time.monotonic() - began)

            outages.append(outage_s(rig, sink, kill))
            leader.start()
            leader, other = other, leader
    return {
        "take_over_s": statistics.median(took),
        "take_over_longest_s": max(took),
        "take_over_output_s": statistics.median(outages),
    }


def cluster_units(rig: Rig) -> Figures:
    """Measure what grows with tasks and queries: processor time of the driver.

    Records come to all partitions of a topic four times a second, so that a batch has a task for each. Executors do not count.
    """
    figures: Figures = {}
    with _cluster(rig) as cluster:
        driver = DriverRig(rig, **_on(cluster))
        try:
            costs = {tasks: _batch_cpu_s(rig, driver, tasks) for tasks in TASKS}
            few, many = TASKS
            task = (costs[many] - costs[few]) / (many - few)
            figures["driver_task_cpu_ms"] = task * 1000
            figures["driver_batch_cpu_ms"] = (costs[few] - task * few) * 1000
            figures["driver_idle_query_cpu_ms"] = _idle_query_cpu_s(rig, driver) * 1000
        finally:
            driver.close()
    return figures


def _batch_cpu_s(rig: Rig, driver: DriverRig, tasks: int) -> float:
    """Return the driver's processor time for a batch of a stateless query with so many tasks."""
    topic = rig.name("bench_tasks")
    rig.kafka.create(topic, partitions=tasks)
    plan = plan_of(rig, _copy_of(rig, topic))
    with (
        driver.running(plan, rig.name("bench_tasks_out"), "at_least_once") as checkpoint,
        _trickle(rig, topic, tasks),
    ):
        rig.until(lambda: len(_ends(checkpoint)) >= 5)
        cpu, batches = driver.cpu_s(), len(_ends(checkpoint))
        time.sleep(UNIT_S)
        return (driver.cpu_s() - cpu) / (len(_ends(checkpoint)) - batches)


def _idle_query_cpu_s(rig: Rig, driver: DriverRig) -> float:
    """Return the driver's processor time in a second for a query whose topic has no new records."""
    topic = rig.name("bench_idle")
    rig.kafka.create(topic, partitions=TASKS[0])
    plan = plan_of(rig, _copy_of(rig, topic))
    alone = _cpu_per_s(driver.cpu_s)
    with ExitStack() as stack:
        for _ in range(QUERIES):
            stack.enter_context(driver.running(plan, rig.name("bench_idle_out"), "at_least_once"))
        time.sleep(5)
        return (_cpu_per_s(driver.cpu_s) - alone) / QUERIES


def _cpu_per_s(cpu_s: Callable[[], float]) -> float:
    before, began = cpu_s(), time.monotonic()
    time.sleep(UNIT_S)
    return (cpu_s() - before) / (time.monotonic() - began)


def _rate(rig: Rig, server: HeadraceProcess, shape: Shape) -> float:
    for source in shape.sources:
        rig.execute(source.headrace(rig.filled(source)), server)
    return [_run(rig, server, shape) for _ in range(2)][-1]


def _run(rig: Rig, server: HeadraceProcess, shape: Shape) -> float:
    name = rig.name(f"{shape.name}_placed")
    query = rig.start(shape.headrace(name), server, execution_mode="micro_batch")
    sink = Sink(rig.bootstrap, name, PARTITIONS)
    try:
        output = shape.finished(sink, rig.sizes, within=_WITHIN_S, every=lambda: rig.check(query, server))
    finally:
        sink.close()
    rate = shape.records(rig.sizes) / (output.last_s - first_batch_s(rig.checkpoint(query, server)))
    rig.execute(f"TERMINATE QUERY {query};", server)
    rig.until(lambda: rig.facts(query, server)["state"] == "terminated")
    return rate


def _warm_s(rig: Rig, server: HeadraceProcess) -> float:
    """Return the seconds from START of a pool until it runs, with its executors and after the warm-up."""
    rig.execute("STOP COMPUTE_POOL default_pool;", server)
    rig.until(lambda: rig.pool_state(server) == "stopped")
    began = time.monotonic()
    rig.execute("START COMPUTE_POOL default_pool;", server)
    rig.until(lambda: rig.pool_state(server) == "running")
    return time.monotonic() - began


def _survivor(rig: Rig, server: HeadraceProcess, topic: str) -> str:
    """Create an exactly-once query over records with their time, and return its topic when it has output."""
    sink = rig.name("survivor")
    rig.execute(
        f"CREATE STREAM steady (sent BIGINT, id BIGINT, note VARCHAR) WITH ('topic' = '{topic}', 'value.format' = JSON);",
        server,
    )
    rig.execute(
        f"CREATE STREAM {sink} WITH ('delivery.guarantee' = exactly_once) AS SELECT sent, id, note FROM steady;",
        server,
    )
    with SteadyProducer(rig.bootstrap, topic, rate=RATE):
        receiver = Receiver(rig.bootstrap, sink, PARTITIONS)
        try:
            receiver.first_sent_after(0)
        finally:
            receiver.close()
    return sink


def _lose(cluster: SparkCluster, worker: int) -> None:
    """kill -9 of a worker and its executor."""
    for executor in cluster.executors(worker):
        executor.kill()
    cluster.kill_worker(worker)


def _copy_of(rig: Rig, topic: str) -> str:
    name = rig.name("trickle")
    rig.execute(orders_definition(name, topic))
    return f"CREATE STREAM {rig.name('trickled')} AS SELECT at, id, item, price, note FROM {name}"


@contextmanager
def _trickle(rig: Rig, topic: str, partitions: int) -> Iterator[None]:
    """Write a record to each partition now and then."""
    producer = Producer({"bootstrap.servers": rig.bootstrap, "linger.ms": 5})
    is_over = threading.Event()

    def write() -> None:
        while not is_over.wait(_TRICKLE_S):
            for partition in range(partitions):
                producer.produce(topic, _order(partition), partition=partition)
            producer.poll(0)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        producer.flush(10)


def _order(number: int) -> bytes:
    return (
        b'{"at":%d,"id":%d,"item":"item-%04d","price":%d.5,"note":"a record of about one hundred and twenty bytes"}'
        % (START_MS + number, number, number % 10_000, number % 100)
    )


def _spread(count: int) -> list[Iterator[Record]]:
    """Return records for each of `WIDE` partitions."""
    return [((None, _order(number)) for number in range(first, count, WIDE)) for first in range(WIDE)]


def _ends(checkpoint: Path) -> list[float]:
    return batch_ends_s(checkpoint) if (checkpoint / "commits").is_dir() else []


def _on(cluster: SparkCluster) -> dict[str, Any]:
    """Return the options of a driver with two executors."""
    executors = {"executors": 2, "cores": 1, "memory": "1g"}
    secret = {"HEADRACE_SPARK_SECRET": cluster.secret}
    return {"environment": secret, "spark_master": cluster.master, "cluster": executors}


def _leads(server: HeadraceProcess) -> bool:
    try:
        return httpx.get(f"{server.url}/readyz", timeout=5).text == "ok\n"
    except httpx.TransportError:
        return False


@contextmanager
def _cluster(rig: Rig) -> Iterator[SparkCluster]:
    with SparkCluster(rig.folder / rig.name("cluster")) as cluster:
        yield cluster


@contextmanager
def _server(rig: Rig, environment: Mapping[str, str]) -> Iterator[HeadraceProcess]:
    with HeadraceProcess(rig.folder / rig.name("placed"), environment=environment) as server:
        rig.prepare(server)
        yield server


CLUSTER: dict[str, Callable[[Rig], Figures]] = {
    "cluster_throughput": cluster_throughput,
    "cluster_delivery": cluster_delivery,
    "cluster_recovery": cluster_recovery,
    "cluster_units": cluster_units,
    "take_over": take_over,
}
"""The measurements of this module by their names."""
