"""Backups of a server under load, restored on another data directory after the original was killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.kafka import KafkaClient
from harness.patience import until
from harness.process import HeadraceProcess
from headrace.testing.door import RestDoor
from tests.faults.workload import GROUPS, SOURCE, SteadyProducer, Workload

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.faults]

RECORDS = 1200


def headrace(*arguments: str) -> str:
    """Run the command line; return what it prints on standard error."""
    command = [sys.executable, "-m", "headrace.cli", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ})
    assert done.returncode == 0, done.stderr
    return done.stderr


class Place:
    """A server on one data directory, with a session in it."""

    def __init__(self, data_dir: Path, kafka: KafkaClient, name: str) -> None:
        self.server = HeadraceProcess(data_dir)
        self.server.start()
        self.door = RestDoor(self.server)
        self.workload = Workload(kafka, self.door, name)

    def back_up(self, folder: Path) -> str:
        return headrace("backup", str(folder), "--url", self.server.url, "--token", self.server.token)

    def end(self) -> None:
        self.door.close()
        self.server.kill()


@pytest.fixture
def places(kafka: KafkaClient, seed: str) -> Iterator[Callable[[Path], Place]]:
    made: list[Place] = []

    def place(data_dir: Path) -> Place:
        made.append(Place(data_dir, kafka, seed))
        return made[-1]

    yield place
    for each in made:
        each.server.stop()


def application_is_exact(place: Place, producer: SteadyProducer) -> bool:
    sums = Counter({group: len(range(group, producer.count, GROUPS)) for group in range(GROUPS)})
    rows = place.door.execute("SELECT g, count FROM app_sums;")
    return Counter({int(group or -1): int(count or -1) for group, count in rows}) == sums


def test_queries_continue_from_a_backup_that_was_taken_while_they_ran(
    places: Callable[[Path], Place], kafka: KafkaClient, seed: str, tmp_path: Path
) -> None:
    first = places(tmp_path / "first")
    context = f"USE DATABASE d_{seed}; USE STORE k_{seed};"
    first.door.execute(
        f"CREATE DATABASE d_{seed}; CREATE STORE k_{seed} WITH ('type' = KAFKA, 'uris' = '{kafka.bootstrap}', 'tls.disabled' = TRUE); "
        + context
    )
    first.workload.start()
    first.door.execute(
        f"BEGIN APPLICATION app_{seed} CREATE MATERIALIZED VIEW app_sums AS SELECT g, COUNT(*) AS count FROM numbers {SOURCE} GROUP BY g; "
        f"CREATE STREAM app_copy WITH ('topic' = 'app_copy_{seed}') AS SELECT n FROM numbers {SOURCE}; END APPLICATION;"
    )
    producer = first.workload.producer
    producer.produce(RECORDS // 4, meanwhile=lambda: None)
    first.workload.until_exact()
    until(lambda: application_is_exact(first, producer), "the application to be exact")

    # While records come: views continue exactly, and streams without a loss. The original writes on after the backup.
    def back_up() -> None:
        assert "contains 4 queries, 2 materialized views" in first.back_up(tmp_path / "backup")

    producer.produce(RECORDS, meanwhile=back_up)
    first.workload.until_exact()
    first.end()
    headrace("restore", str(tmp_path / "backup"), "--data-dir", str(tmp_path / "second"))
    second = places(tmp_path / "second")
    second.door.execute(context)
    second.workload.producer = producer
    until(lambda: second.workload.view_faults() == [], second.workload.view_faults)
    until(lambda: application_is_exact(second, producer), "the application to be exact")
    producer.produce(RECORDS // 2, meanwhile=lambda: None)
    until(lambda: second.workload.missing() == [], second.workload.missing)
    until(lambda: second.workload.view_faults() == [], second.workload.view_faults)

    # While no record comes: streams continue exactly, too.
    before, repeated = producer.count, second.workload.written()
    second.back_up(tmp_path / "quiet")
    second.end()
    headrace("restore", str(tmp_path / "quiet"), "--data-dir", str(tmp_path / "third"))
    third = places(tmp_path / "third")
    third.door.execute(context)
    third.workload.producer = producer
    producer.produce(RECORDS // 2, meanwhile=lambda: None)
    until(lambda: third.workload.missing() == [], third.workload.missing)
    until(lambda: third.workload.view_faults() == [], third.workload.view_faults)
    assert third.workload.written() - repeated == producer.count - before
