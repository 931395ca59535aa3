"""Kills at random moments, one after the other, under an exactly-once pipeline: each record is there once for readers of committed records.

`HEADRACE_SOAK_KILLS` is the number of kills. With `HEADRACE_POOLS_STANDBY=1` they follow faster, if there are processors for a second JVM.
The test reports how often a kill met a transaction, so that it is known to have bitten.
"""

from __future__ import annotations

import os
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from harness.kafka import KafkaClient
from harness.kafka_log import transactions
from harness.patience import until
from harness.process import HeadraceProcess
from headrace.runtime.kafka_broker import KafkaBroker
from headrace.testing.door import RestDoor
from tests.faults.workload import SELECTS, Workload

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.faults]

KILLS = int(os.environ.get("HEADRACE_SOAK_KILLS", "6"))
FURTHER_KILLS = 30
"""At most so many more, until one of them has met a transaction."""
PER_SECOND = 200
EARLY = 0.3
"""Share of the kills that do not wait until the queries have written something since the last one."""
LONGEST_S = 3.0
REPEATED = re.compile(r".*batch \d+ is in topic .* already.*")


class Soaked(HeadraceProcess):
    """A server that is killed, or a part of it."""

    def strike(self, victim: str) -> bool:
        """Kill the server, the driver's process or its JVM. Return False if there is no driver at the moment."""
        if victim == "server":
            self.kill()
            self.start()
            return True
        with suppress(psutil.NoSuchProcess):
            jvm = self.jvm()
            target = jvm if victim == "JVM" or jvm is None else jvm.parent()
            if target is not None:
                target.kill()
                return True
        return False

    def jvm(self) -> psutil.Process | None:
        """Return the JVM of the pool's driver, which is the oldest one: the other one is on standby."""
        jvms = [process for process in self.descendants() if process.name() == "java"]
        return min(jvms, key=psutil.Process.create_time, default=None)

    def memory(self) -> dict[str, int]:
        """Return the resident memory of the server and of the processes of the pool's driver, in MiB."""
        jvm = self.jvm()
        driver = None if jvm is None else jvm.parent()
        parts = {"server": psutil.Process(self.pid), "driver": driver, "JVM": jvm}
        return {
            name: process.memory_info().rss >> 20 for name, process in parts.items() if process is not None
        }

    def repeated(self) -> set[str]:
        """Return the lines about repeated batches of the logs that are there: each successor of a driver takes the place of its log."""
        lines = set()
        for path in (self.data_dir / "logs").glob("*.log*"):
            with suppress(FileNotFoundError):
                lines |= set(REPEATED.findall(path.read_text(errors="replace")))
        return lines


class Soak:
    """The kills of a run and what they met."""

    def __init__(self, server: Soaked, broker: KafkaBroker, workload: Workload, name: str) -> None:
        self._server = server
        self._broker = broker
        self._kafka = KafkaClient(broker.bootstrap)
        self.workload = workload
        self._topics = [f"{relation}_{name}" for relation in SELECTS]
        self.kills: Counter[str] = Counter()
        self.repeated: set[str] = set()

    def aborted(self) -> int:
        """Return how many transactions were aborted."""
        data = self._broker.log.parent / "data"
        return sum(transactions(data, topic).aborted for topic in self._topics)

    def committed(self) -> int:
        """Return how many transactions were committed."""
        data = self._broker.log.parent / "data"
        return sum(transactions(data, topic).committed for topic in self._topics)

    def superfluous(self) -> int:
        """Return how many records of aborted transactions the topics contain, which readers of committed records do not see."""
        return sum(
            len(self._kafka.consume(topic, isolation="read_uncommitted")) - len(self._kafka.consume(topic))
            for topic in self._topics
        )

    def run(self, chance: random.Random) -> None:
        """Kill as often as it is set, and then until a kill has met a transaction."""
        while self.kills.total() < KILLS or (
            not self.aborted() + len(self.repeated) and self.kills.total() < KILLS + FURTHER_KILLS
        ):
            if chance.random() >= EARLY:
                self._until_written()
            time.sleep(chance.uniform(0, LONGEST_S))
            self.repeated |= self._server.repeated()
            victim = chance.choice(("driver", "JVM", "server"))
            if self._server.strike(victim):
                self.kills[victim] += 1
                sys.stdout.write(f"{time.strftime('%X')} kill {self.kills.total()}: {victim}\n")
        self._until_written()
        self.repeated |= self._server.repeated()

    def _until_written(self) -> None:
        topic = self._topics[0]
        before = sum(self._kafka.ends(topic).values())
        # The end of a transaction that was aborted takes one place.
        until(lambda: sum(self._kafka.ends(topic).values()) > before + 2, self._server.driver_logs)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Soaked]:
    server = Soaked(tmp_path / "soak", environment={"HEADRACE_RESTART_BACKOFF_MAX_MS": "4000"})
    server.start()
    yield server
    server.stop()


@pytest.fixture
def soak(server: Soaked, broker: KafkaBroker, kafka: KafkaClient, seed: str) -> Iterator[Soak]:
    door = RestDoor(server)
    door.execute(
        f"CREATE DATABASE d; USE DATABASE d; CREATE STORE k WITH ('type' = KAFKA, 'uris' = '{broker.bootstrap}', 'tls.disabled' = TRUE); "
        "USE STORE k;"
    )
    workload = Workload(kafka, door, seed, with_view=False, per_second=PER_SECOND)
    workload.start()
    yield Soak(server, broker, workload, seed)
    door.close()


def report(soak: Soak, before: dict[str, int], after: dict[str, int], seconds: float) -> str:
    """Return what the kills met, as text."""
    lines = (
        "",
        f"{soak.kills.total()} kills in {seconds:.0f} s: {dict(soak.kills)}",
        f"{soak.workload.producer.count} records, {soak.committed()} transactions committed, "
        f"{soak.aborted()} aborted with {soak.superfluous()} records",
        f"{len(soak.repeated)} repeated batches recognized by their markers",
        f"memory in MiB at the start {before}, at the end {after}",
        "",
    )
    return "\n".join(lines)


def test_each_record_is_there_once_after_many_kills(
    soak: Soak, server: Soaked, random_source: random.Random, capsys: pytest.CaptureFixture[str]
) -> None:
    workload, began = soak.workload, time.monotonic()
    workload.producer.produce(1000, meanwhile=lambda: None)
    workload.until_exact()
    before = server.memory()
    workload.producer.produce_during(lambda: soak.run(random_source))
    workload.until_exact()
    with capsys.disabled():
        sys.stdout.write(report(soak, before, server.memory(), time.monotonic() - began))
    assert soak.aborted() + len(soak.repeated) > 0
