"""Queries under a steady stream of records, and their required results after any fault."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from confluent_kafka import Producer

from harness.kafka import KafkaClient
from harness.patience import PATIENCE_S, until
from headrace.testing.door import RestDoor

PARTITIONS = 2
GROUPS = 20
START_MS = 1_700_000_000_000
WINDOW_MS = 5_000
RECORDS_PER_SECOND = 400
STEP_MS = 10
SOURCE = "WITH ('starting.position' = 'earliest')"
ONCE = "'delivery.guarantee' = 'exactly_once'"
Compared = tuple[str, Counter[object], Counter[object]]
SELECTS = {
    "once": f"SELECT n, n * 2 AS twice FROM numbers {SOURCE}",
    "windows": "SELECT window_start, window_end, g, COUNT(*) AS count, SUM(n) AS total "
    f"FROM TUMBLE(numbers, SIZE {WINDOW_MS // 1000} SECONDS) {SOURCE} GROUP BY window_start, window_end, g",
    "last": "SELECT a.n, a.g, m.window_start FROM "
    f"TUMBLE(numbers, SIZE {WINDOW_MS // 1000} SECONDS) AS a {SOURCE} JOIN (SELECT MAX(n) AS n, window_start, window_end FROM "
    f"TUMBLE(numbers, SIZE {WINDOW_MS // 1000} SECONDS) {SOURCE} GROUP BY window_start, window_end) AS m "
    "ON a.window_start = m.window_start AND a.window_end = m.window_end AND a.n = m.n",
}
"""The queries that write into Kafka, by their relations."""


def record(number: int) -> dict[str, int]:
    """The record of that number: its time grows with it, and is never the bound of a window."""
    return {"n": number, "g": number % GROUPS, "t": START_MS + STEP_MS * number + 3}


def partition_of(number: int) -> int:
    """Uneven, so that partitions which were taken for each other show."""
    return int(number % 3 > 0)


class SteadyWriter:
    """Sends `send(number)` for growing numbers at a steady pace from a thread, through whatever becomes of the broker."""

    def __init__(self, bootstrap: str, *, per_second: int = RECORDS_PER_SECOND) -> None:
        # Idempotent: records that are sent again after the broker was away must not be in the source twice.
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20, "log_level": 0}
        )
        self._pause_s = 1 / per_second
        self._failures: list[str] = []
        self.count = 0

    def send(self, number: int) -> None:
        """Write the records of a number, by `write`."""
        raise NotImplementedError

    def write(
        self, topic: str, value: dict[str, object] | None, partition: int, key: str | None = None
    ) -> None:
        """Write a record; a value of None is a tombstone."""
        self._producer.produce(
            topic,
            None if value is None else json.dumps(value),
            key,
            partition=partition,
            on_delivery=lambda error, _message: self._failures.append(str(error)) if error else None,
        )

    def produce(self, count: int, *, meanwhile: Callable[[], None]) -> None:
        """Write `count` more records and call `meanwhile` in their midst; return when both are done."""
        end = self.count + count
        self._run(lambda: self.count < end, meanwhile)

    def produce_during(self, action: Callable[[], None]) -> None:
        """Write records until `action` has returned."""
        ended = threading.Event()

        def act() -> None:
            try:
                action()
            finally:
                ended.set()

        self._run(lambda: not ended.is_set(), act)

    def flush(self) -> None:
        """Wait until the broker has all records."""
        assert self._producer.flush(PATIENCE_S) == 0, "records that the broker did not take"
        assert not self._failures, self._failures

    def _run(self, continues: Callable[[], bool], meanwhile: Callable[[], None]) -> None:
        writing = threading.Thread(target=self._write, args=(continues,), name="producer")
        writing.start()
        try:
            meanwhile()
        finally:
            writing.join()
        self.flush()

    def _write(self, continues: Callable[[], bool]) -> None:
        while continues():
            self.send(self.count)
            self._producer.poll(0)
            self.count += 1
            time.sleep(self._pause_s)


class SteadyProducer(SteadyWriter):
    """Writes `record(number)` into a topic."""

    def __init__(self, bootstrap: str, topic: str, *, per_second: int = RECORDS_PER_SECOND) -> None:
        super().__init__(bootstrap, per_second=per_second)
        self._topic = topic

    def send(self, number: int) -> None:
        """Write one record."""
        self.write(self._topic, {**record(number)}, partition_of(number))


class Workload:
    """A filter, a window and a join of a window with its maximum into Kafka, exactly once, and mostly a view, over one stream."""

    def __init__(
        self,
        kafka: KafkaClient,
        door: RestDoor,
        name: str,
        *,
        with_view: bool = True,
        per_second: int = RECORDS_PER_SECOND,
    ) -> None:
        self._with_view = with_view
        self._kafka = kafka
        self._door = door
        self._name = name
        self.producer = SteadyProducer(kafka.bootstrap, f"numbers_{name}", per_second=per_second)

    def start(self) -> None:
        """Declare everything, in the door's present database and store, and start the queries."""
        topic, once = f"_{self._name}", ONCE
        self._door.execute(
            f"""
            CREATE STREAM numbers (n BIGINT, g BIGINT, t BIGINT) WITH ('topic' = 'numbers{topic}',
                'topic.partitions' = {PARTITIONS}, 'topic.replicas' = 1, 'value.format' = JSON, 'timestamp' = 't');
            CREATE STREAM once WITH ('topic' = 'once{topic}', {once}) AS
                {SELECTS["once"]} QUERY WITH ('query.name' = 'once{topic}');
            CREATE CHANGELOG windows WITH ('topic' = 'windows{topic}', {once}) AS
                {SELECTS["windows"]} QUERY WITH ('query.name' = 'windows{topic}');
            CREATE STREAM last WITH ('topic' = 'last{topic}', {once}) AS
                {SELECTS["last"]} QUERY WITH ('query.name' = 'last{topic}');
            """
        )
        if self._with_view:
            self._door.execute(
                f"CREATE MATERIALIZED VIEW sums AS SELECT g, COUNT(*) AS count, SUM(n) AS total FROM numbers {SOURCE} "
                f"GROUP BY g QUERY WITH ('query.name' = 'sums{topic}');"
            )

    def move(self) -> None:
        """End the queries that write into Kafka, and let others of the same names continue from savepoints."""
        for relation, select in SELECTS.items():
            query = f"{relation}_{self._name}"
            self._door.execute(f"TERMINATE QUERY {query} WITH SAVEPOINT {query};")
            until(lambda query=query: self._state(query) == "terminated", f"the end of {query}")
            self._door.execute(
                f"INSERT INTO {relation} WITH ({ONCE}) {select} QUERY WITH ('query.name' = {query}, 'resume.from.savepoint' = {query}); "
                f"DROP SAVEPOINT {query};"
            )

    def _state(self, query: str) -> str | None:
        facts = {str(row[0]): row[1] for row in self._door.execute(f"DESCRIBE QUERY {query};")}
        return facts["state"]

    @property
    def queries(self) -> list[str]:
        """The names of the queries."""
        return [f"{relation}_{self._name}" for relation in (*SELECTS, *(["sums"] if self._with_view else []))]

    def written(self) -> int:
        """Return how many records of the filter are committed."""
        return len(self._kafka.consume(f"once_{self._name}"))

    def until_exact(self) -> None:
        """Assert that every produced record had its effect exactly once."""
        until(lambda: not self.faults(), self.faults)

    def faults(self) -> list[str]:
        """Return missing and superfluous records as texts; empty when all is right."""
        return differences(self.compared())

    def compared(self) -> list[Compared]:
        """Return each query's name, its required rows and its rows."""
        topics = [("filter", *self._filter()), ("windows", *self._windows()), ("last", *self._last())]
        return [*topics, ("view", *self._view())] if self._with_view else topics

    def view_faults(self) -> list[str]:
        """Return missing and superfluous rows of the view as texts."""
        return differences([("view", *self._view())])

    def missing(self) -> list[str]:
        """Return missing records as texts, whether or not others were repeated."""
        compared = (("filter", *self._filter()), ("windows", *self._windows()), ("last", *self._last()))
        return [
            f"{name}: missing {_some(expected - seen)}"
            for name, expected, seen in compared
            if expected - seen
        ]

    def _filter(self) -> tuple[Counter[object], Counter[object]]:
        values = [json.loads(value or "") for _, value in self._kafka.consume(f"once_{self._name}")]
        seen = Counter[object]((value["n"], value["twice"]) for value in values)
        return Counter((number, 2 * number) for number in range(self.producer.count)), seen

    def _windows(self) -> tuple[Counter[object], Counter[object]]:
        windows: dict[tuple[int, int], list[int]] = {}
        for start, number in self._closed():
            windows.setdefault((start, record(number)["g"]), []).append(number)
        values = [json.loads(value or "") for _, value in self._kafka.consume(f"windows_{self._name}")]
        return (
            Counter((text(start), g, len(of), sum(of)) for (start, g), of in windows.items()),
            Counter((value["window_start"], value["g"], value["count"], value["total"]) for value in values),
        )

    def _last(self) -> tuple[Counter[object], Counter[object]]:
        last = dict(self._closed())
        values = [json.loads(value or "") for _, value in self._kafka.consume(f"last_{self._name}")]
        return (
            Counter((text(start), number, number % GROUPS) for start, number in last.items()),
            Counter((value["window_start"], value["n"], value["g"]) for value in values),
        )

    def _closed(self) -> Iterator[tuple[int, int]]:
        """Yield the start of the window and the number of each record whose window is closed: the watermark, the least of the partitions'
        last times, has passed it."""
        numbers = range(self.producer.count)
        last = {partition_of(number): number for number in numbers}
        watermark = record(min(last.values()))["t"]
        for number in numbers:
            start = record(number)["t"] // WINDOW_MS * WINDOW_MS
            if start + WINDOW_MS <= watermark:
                yield start, number

    def _view(self) -> tuple[Counter[object], Counter[object]]:
        groups: dict[int, list[int]] = {}
        for number in range(self.producer.count):
            groups.setdefault(number % GROUPS, []).append(number)
        rows = self._door.execute("SELECT g, count, total FROM sums;")
        seen = Counter[object](tuple(int(cell or -1) for cell in row) for row in rows)
        return Counter((g, len(of), sum(of)) for g, of in groups.items()), seen


class WindowsOnly(Workload):
    """The windowed aggregate of the workload."""

    def start(self) -> None:
        topic = f"_{self._name}"
        self._door.execute(
            f"""
            CREATE STREAM numbers (n BIGINT, g BIGINT, t BIGINT) WITH ('topic' = 'numbers{topic}',
                'topic.partitions' = {PARTITIONS}, 'topic.replicas' = 1, 'value.format' = JSON, 'timestamp' = 't');
            CREATE CHANGELOG windows WITH ('topic' = 'windows{topic}', {ONCE}) AS
                {SELECTS["windows"]} QUERY WITH ('query.name' = 'windows{topic}');
            """
        )

    def written(self) -> int:
        return len(self._kafka.consume(f"windows_{self._name}"))

    def faults(self) -> list[str]:
        expected, seen = self._windows()
        return [] if expected == seen else [f"missing {expected - seen}, too much {seen - expected}"]

    def until_more(self, when: str) -> None:
        """Wait until another window is written."""
        written = self.written()
        until(lambda: self.written() >= written + GROUPS, f"output {when}")


@contextmanager
def streaming(producer: SteadyProducer) -> Iterator[None]:
    """Write records all the time."""
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            producer.produce(100, meanwhile=lambda: None)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(PATIENCE_S)
    assert not thread.is_alive()


def differences(compared: list[Compared]) -> list[str]:
    return [
        f"{name}: missing {_some(expected - seen)}, too much {_some(seen - expected)}"
        for name, expected, seen in compared
        if expected != seen
    ]


def text(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.000")


def _some(rows: Counter[object]) -> str:
    return f"{rows.total()} {sorted(rows, key=str)[:3]}"
