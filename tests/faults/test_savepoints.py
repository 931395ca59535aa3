"""An application that continues from savepoints under a steady stream of records: no record is lost or doubled in any of its parts."""

from __future__ import annotations

import json
import random
import time
import uuid
from collections import Counter

import pytest

from harness.kafka import KafkaClient
from harness.patience import until
from harness.process import HeadraceProcess
from headrace.testing.door import RestDoor
from tests.faults.workload import GROUPS, ONCE, PARTITIONS, SOURCE, SteadyProducer, differences

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.faults]

MOVES = 2
"""How often the application continues from a savepoint."""


class Chain:
    """An application with a query that reads what another one writes, and with a view, over one stream."""

    def __init__(self, kafka: KafkaClient, door: RestDoor, name: str) -> None:
        self._kafka = kafka
        self._door = door
        self._name = name
        self.producer = SteadyProducer(kafka.bootstrap, f"chained_{name}")

    def start(self) -> None:
        """Declare everything in the door's present database and store, and start the application."""
        layout = f"'topic.partitions' = {PARTITIONS}, 'topic.replicas' = 1"
        self._door.execute(
            f"CREATE STREAM chained (n BIGINT, g BIGINT, t BIGINT) WITH ('topic' = 'chained_{self._name}', {layout}, "
            "'value.format' = JSON);"
        )
        self._begin("CREATE STREAM doubled WITH ('topic' = 'doubled_{name}', {once})", "", "earliest")

    def move(self) -> None:
        """End the application with a savepoint, and let another one continue from it."""
        application = f"chain_{self._name}"
        self._door.execute(f"TERMINATE QUERY {application} WITH SAVEPOINT {application};")
        until(lambda: self.state == "terminated", lambda: f"the end of {application}: {self.state}")
        self._door.execute("DROP MATERIALIZED VIEW chain_sums;")
        self._begin("INSERT INTO doubled WITH ({once})", f"'resume.from.savepoint' = {application}", "latest")
        self._door.execute(f"DROP SAVEPOINT {application};")

    @property
    def state(self) -> str | None:
        """The state of the newest application."""
        facts = self._door.execute(f"DESCRIBE QUERY chain_{self._name};")
        return {str(row[0]): row[1] for row in facts}["state"]

    def written(self) -> int:
        """Return how many records the last query of the chain has committed; 0 until each part has a position."""
        rows = self._door.execute("SELECT g, count FROM chain_sums;")
        return len(self._kafka.consume(f"large_{self._name}")) if rows and self._counts() else 0

    def faults(self) -> list[str]:
        """Return missing and superfluous records as texts; empty when all is right."""
        numbers = range(self.producer.count)
        groups = Counter(number % GROUPS for number in numbers)
        rows = self._door.execute("SELECT g, count FROM chain_sums;")
        return differences(
            [
                ("doubled", Counter(2 * n for n in numbers), self._values("doubled", "twice")),
                ("large", Counter(2 * n for n in numbers if n % 3 == 0), self._values("large", "twice")),
                ("view", Counter(groups.items()), Counter((int(g or -1), int(n or -1)) for g, n in rows)),
                ("counts", Counter(groups.items()), self._counts()),
            ]
        )

    def _begin(self, doubled: str, properties: str, position: str) -> None:
        """Run the application, whose first statement begins with `doubled`. A query that continues does not heed the position."""
        large, counts = doubled.replace("doubled", "large"), doubled.replace("doubled", "chain_counts")
        counts = counts.replace("CREATE STREAM", "CREATE CHANGELOG")
        source = SOURCE.replace("earliest", position)
        text = (
            f"BEGIN APPLICATION chain_{self._name} "
            f"{doubled} AS SELECT n, n * 2 AS twice FROM chained {source}; "
            f"{large} AS SELECT twice FROM doubled WHERE n % 3 = 0; "
            f"{counts} AS SELECT g, COUNT(*) AS count FROM chained {source} GROUP BY g; "
            f"CREATE MATERIALIZED VIEW chain_sums AS SELECT g, COUNT(*) AS count FROM chained {source} GROUP BY g; "
            f"END APPLICATION{f' WITH ({properties})' if properties else ''};"
        )
        text = text.replace("{once}", ONCE).replace("{name}", self._name)
        self._door.execute(text.replace(") AS SELECT", ") SELECT") if "INSERT" in doubled else text)

    def _values(self, relation: str, column: str) -> Counter[object]:
        values = (json.loads(value or "") for _, value in self._kafka.consume(f"{relation}_{self._name}"))
        return Counter(value[column] for value in values)

    def _counts(self) -> Counter[object]:
        """Return the last record of each group; all records of a group are in one partition."""
        last = dict(self._kafka.consume(f"chain_counts_{self._name}"))
        return Counter((value["g"], value["count"]) for value in map(json.loads, filter(None, last.values())))


def test_an_application_that_continues_from_savepoints_loses_and_doubles_no_record(
    kafka: KafkaClient, door: RestDoor, server: HeadraceProcess, random_source: random.Random
) -> None:
    chain = Chain(kafka, door, uuid.uuid4().hex[:8])
    chain.start()

    def strike() -> None:
        for _ in range(MOVES):
            before = chain.written()
            until(lambda before=before: chain.written() > before, "the chain is at work")
            time.sleep(random_source.uniform(0.2, 3.0))
            chain.move()
        until(lambda: chain.state == "running", "the application runs")
        server.kill_driver()

    chain.producer.produce_during(strike)
    until(lambda: not chain.faults(), chain.faults)
