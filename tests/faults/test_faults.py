"""Guarantees to users when processes, brokers, topics and records fail."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import httpx
import psutil
import pytest
from confluent_kafka.admin import AdminClient

from harness.faults import some
from harness.kafka import KafkaClient, brokers_of
from harness.patience import PATIENCE_S, until
from harness.process import HeadraceProcess
from headrace.connectors.kafka.connection import REFUSED_TIMEOUT_S
from headrace.runtime.kafka_broker import KafkaBroker
from headrace.testing.door import RestDoor
from headrace.testing.processes import running_after
from headrace.testing.runner import StatementError
from tests.faults.workload import Workload

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

RECORDS = 2_000
UNREACHABLE = "57015"
AWAY_S = float(os.environ.get("HEADRACE_BROKER_AWAY_S", "0"))
"""How long a lost broker is away at least, once its loss is told; 120 shows what Spark's clients do when they give up."""


@dataclass(frozen=True)
class Scene:
    """Everything that a fault may strike."""

    broker: KafkaBroker
    server: HeadraceProcess
    door: RestDoor
    workload: Workload
    random_source: random.Random

    def facts(self, query: str) -> dict[str, str]:
        """DESCRIBE QUERY by name."""
        return {str(row[0]): row[1] or "" for row in self.door.execute(f"DESCRIBE QUERY {query};")}

    def events(self, query: str) -> str:
        """DESCRIBE QUERY EVENTS, as text."""
        return str(self.door.execute(f"DESCRIBE QUERY EVENTS {query};"))

    def until_fact(self, query: str, fact: str, value: str) -> dict[str, str]:
        """Waits for it; the query's facts then."""
        facts: dict[str, str] = {}

        def is_reached() -> bool:
            facts.update(self.facts(query))
            return facts[fact] == value

        until(is_reached, lambda: f"{fact} of {query} is {value}, but {facts}")
        return facts

    def until_running(self) -> None:
        """The workload's queries run."""
        for query in self.workload.queries:
            self.until_fact(query, "state", "running")

    def start_server(self, **environment: str) -> None:
        """Queries that wait for their store are to notice soon that it is back."""
        self.server.start(HEADRACE_RESTART_BACKOFF_MAX_MS="4000", **environment)

    def soon(self) -> None:
        """A moment that differs from run to run, within a batch or between two."""
        time.sleep(self.random_source.uniform(0.2, 2.0))


@pytest.fixture
def scene(
    broker: KafkaBroker,
    server: HeadraceProcess,
    door: RestDoor,
    workload: Workload,
    random_source: random.Random,
) -> Iterator[Scene]:
    scene = Scene(broker, server, door, workload, random_source)
    yield scene
    broker.start()


def _kill_driver(scene: Scene) -> None:
    scene.server.kill_driver()


def _kill_jvm(scene: Scene) -> None:
    """The driver's Python cannot continue, and reports that."""
    driver = [psutil.Process(pid) for pid in scene.server.driver_pids()]
    scene.server.kill_jvm()
    alive = running_after(driver, PATIENCE_S)
    assert not alive
    query = scene.workload.queries[0]
    until(lambda: "JVM of Spark was killed by signal 9" in scene.events(query), lambda: scene.events(query))


def _kill_server(scene: Scene) -> None:
    scene.server.kill()
    scene.start_server()


def _kill_both(scene: Scene) -> None:
    """The server cannot know the state of the driver, which died first."""
    scene.server.kill_driver()
    scene.server.kill()
    scene.start_server()


def _stop_server(scene: Scene) -> None:
    processes = [psutil.Process(scene.server.pid), *scene.server.descendants()]
    scene.server.stop()
    assert not [process for process in processes if process.is_running()]
    scene.start_server()


def _restart_broker(scene: Scene) -> None:
    scene.broker.stop()
    time.sleep(2)
    scene.broker.start()


def _lose_broker(scene: Scene) -> None:
    """Queries that wait for it report it: a reader's query by ending, the others by their state, until it is back."""
    with pytest.raises(StatementError) as caught:
        scene.door.stream("SELECT n FROM numbers;", count=1_000_000, when_live=scene.broker.stop)
    stopped = time.monotonic()
    assert caught.value.sqlstate == UNREACHABLE
    for query in scene.workload.queries:
        facts = scene.until_fact(query, "state", "restarting")
        assert facts["sqlstate"] == UNREACHABLE, facts
        assert "'broker'" in facts["message"], facts
        assert scene.broker.bootstrap in facts["message"], facts
    until(lambda: time.monotonic() > stopped + AWAY_S, "the broker has been away for long enough")
    scene.broker.start()


def _start_without_broker(scene: Scene) -> None:
    """The driver dies while the broker is away: its queries fail to start with a reason, and start again once the broker is back."""
    scene.broker.stop()
    scene.server.kill_driver()
    for query in scene.workload.queries:
        facts = scene.until_fact(query, "sqlstate", UNREACHABLE)
        assert facts["state"] in ("restarting", "starting"), facts
        assert scene.broker.bootstrap in facts["message"], facts
        assert facts["intended_state"] == "running", facts
    scene.broker.start()


FAULTS: dict[str, Callable[[Scene], None]] = {
    "both killed": _kill_both,
    "broker lost": _lose_broker,
    "JVM killed": _kill_jvm,
    "driver killed": _kill_driver,
    "server killed": _kill_server,
    "server stopped": _stop_server,
    "broker restarted": _restart_broker,
    "broker away": _start_without_broker,
}


@pytest.mark.parametrize("fault", some(FAULTS))
def test_nothing_is_lost_or_doubled(fault: str, scene: Scene) -> None:
    scene.until_running()
    before = scene.workload.written()

    def strike() -> None:
        until(lambda: scene.workload.written() > before, "the queries are at work")
        scene.soon()
        FAULTS[fault](scene)

    scene.workload.producer.produce(RECORDS, meanwhile=strike)
    scene.workload.until_exact()
    scene.until_running()


def test_nothing_is_lost_or_doubled_when_other_queries_continue_from_savepoints(scene: Scene) -> None:
    scene.until_running()
    before = scene.workload.written()

    def move() -> None:
        until(lambda: scene.workload.written() > before, "the queries are at work")
        scene.workload.move()
        scene.soon()
        scene.workload.move()

    scene.workload.producer.produce(RECORDS, meanwhile=move)
    scene.workload.until_exact()
    scene.until_running()


@pytest.mark.faults  # tests/driver/test_exactly_once.py kills a driver there in `make test`
@pytest.mark.parametrize("place", ["inside_transaction:2", "after_sink_before_commit:2"])
def test_nothing_is_lost_or_doubled_when_the_driver_dies_inside_a_batch(place: str, scene: Scene) -> None:
    """The second batch that a driver writes kills it, and also its successors, until a server without the fail point takes over."""
    scene.server.stop()
    scene.start_server(HEADRACE_FAIL_POINT=place)
    restarts = int(scene.facts(scene.workload.queries[0])["restarts"])

    def strike() -> None:
        until(
            lambda: int(scene.facts(scene.workload.queries[0])["restarts"]) > restarts,
            "the driver has died",
        )

    scene.workload.producer.produce(RECORDS, meanwhile=strike)
    scene.server.stop()
    scene.start_server()
    scene.workload.until_exact()


@pytest.mark.faults
def test_a_query_that_restarts_often_is_reported(scene: Scene) -> None:
    scene.until_running()
    query = scene.workload.queries[0]

    def restarts() -> int:
        return int(scene.facts(query)["restarts"])

    def codes() -> list[object]:
        return [row[0] for row in scene.door.execute(f"EXPLAIN WHY {query};")]

    for count in range(restarts() + 1, 4):
        assert "restarts_often" not in codes()
        scene.server.kill_driver()
        until(lambda count=count: restarts() >= count, lambda: scene.events(query))
        scene.until_fact(query, "state", "running")
    until(lambda: "restarts_often" in codes(), lambda: f"the finding, but {codes()}")


def test_a_statement_waits_for_a_broker_that_is_busy(scene: Scene, seed: str) -> None:
    """The statement waits longer than for an absent broker: a topic may take seconds to create."""
    (broker,) = brokers_of(scene.broker.log.parent)
    broker.suspend()
    resume = threading.Timer(REFUSED_TIMEOUT_S + 3, broker.resume)
    resume.start()
    try:
        scene.door.execute(
            f"CREATE STREAM late_{seed} (id BIGINT) WITH ('topic' = 'late_{seed}', 'topic.partitions' = 1, "
            "'topic.replicas' = 1, 'value.format' = JSON);"
        )
    finally:
        resume.join()
    scene.door.execute(f"DESCRIBE ENTITY late_{seed}; DROP STREAM late_{seed};")


@pytest.mark.faults  # bad_records.slt stops a query in `make test`
def test_a_record_that_cannot_be_read_stops_its_query_each_time_and_no_other(
    scene: Scene, kafka: KafkaClient, seed: str
) -> None:
    source = "WITH ('starting.position' = 'earliest'"
    scene.door.execute(
        f"""
        CREATE STREAM readings_{seed} (id BIGINT) WITH ('topic' = 'readings_{seed}', 'topic.partitions' = 1,
            'topic.replicas' = 1, 'value.format' = JSON);
        CREATE STREAM strict_{seed} WITH ('delivery.guarantee' = 'exactly_once') AS
            SELECT id FROM readings_{seed} {source}) QUERY WITH ('query.name' = 'strict_{seed}');
        CREATE STREAM lenient_{seed} AS SELECT id FROM readings_{seed} {source},
            'source.deserialization.error.handling' = IGNORE) QUERY WITH ('query.name' = 'lenient_{seed}');
        CREATE MATERIALIZED VIEW view_{seed} AS SELECT id FROM readings_{seed} {source})
            QUERY WITH ('query.name' = 'view_{seed}');
        """
    )
    kafka.produce(f"readings_{seed}", [(None, '{"id": 1}')])
    until(lambda: kafka.consume(f"strict_{seed}") == [(None, '{"id":1}')], "the good record")
    kafka.produce(f"readings_{seed}", [(None, '{"id": "two"}'), (None, '{"id": 3}')])
    first = scene.until_fact(f"strict_{seed}", "state", "errored")
    assert first["sqlstate"] == "22P02"
    assert f"topic readings_{seed}, partition 0, offset 1" in first["message"]
    in_view = scene.until_fact(f"view_{seed}", "state", "errored")
    assert (in_view["sqlstate"], in_view["message"]) == (first["sqlstate"], first["message"])
    scene.door.execute(f"RESTART QUERY strict_{seed};")
    until(lambda: scene.facts(f"strict_{seed}")["updated_at"] > first["updated_at"], "it starts again")
    again = scene.until_fact(f"strict_{seed}", "state", "errored")
    assert again["message"] == first["message"]
    until(lambda: len(kafka.consume(f"lenient_{seed}")) == 2, "the records that can be read")
    assert scene.facts(f"lenient_{seed}")["state"] == "running"
    assert kafka.consume(f"strict_{seed}") == [(None, '{"id":1}')]
    for query in ("strict", "lenient", "view"):
        scene.door.execute(f"TERMINATE QUERY {query}_{seed};")


@pytest.mark.parametrize("deleted", some(["source", "sink"]))
def test_a_query_names_its_deleted_topic(deleted: str, scene: Scene, kafka: KafkaClient, seed: str) -> None:
    source, sink, query = f"from_{seed}", f"to_{seed}", f"copy_{seed}"
    scene.door.execute(
        f"""
        CREATE STREAM a_{seed} (id BIGINT) WITH ('topic' = '{source}', 'topic.partitions' = 1, 'topic.replicas' = 1,
            'value.format' = JSON);
        CREATE STREAM b_{seed} WITH ('topic' = '{sink}', 'delivery.guarantee' = 'exactly_once') AS
            SELECT id FROM a_{seed} WITH ('starting.position' = 'earliest') QUERY WITH ('query.name' = '{query}');
        """
    )
    kafka.produce(source, [(None, '{"id": 1}')])
    until(lambda: kafka.consume(sink), "the first record")
    gone = source if deleted == "source" else sink
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.delete_topics([gone])[gone].result()
    if deleted == "sink":
        kafka.produce(source, [(None, '{"id": 2}')])
    facts = scene.until_fact(query, "state", "errored")
    assert facts["sqlstate"] == "3D007", facts
    assert gone in facts["message"], facts
    scene.door.execute(f"TERMINATE QUERY {query};")


def test_a_token_that_is_not_valid_and_a_request_too_large_are_refused(server: HeadraceProcess) -> None:
    address = f"{server.url}/v2/statements"
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": server.token}):
        answer = httpx.post(address, json={"statement": "LIST QUERIES;"}, headers=headers, timeout=PATIENCE_S)
        assert answer.status_code == 403
        assert "token" in answer.json()["message"]
        assert server.token not in answer.text
    limit = 16 * 1024 * 1024
    body = b'{"statement": "' + b"x" * limit + b'"}'
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
    for content in (body, iter([body[: limit // 2], body[limit // 2 :]])):
        refused = httpx.post(address, content=content, headers=headers, timeout=PATIENCE_S)
        assert refused.status_code == 400
        assert str(limit) in refused.json()["message"]
    answer = httpx.post(address, json={"statement": "LIST QUERIES;"}, headers=headers, timeout=PATIENCE_S)
    assert answer.status_code == 200
