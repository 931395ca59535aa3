"""Fixtures of the folder: one broker, one server and one door; its tests kill both, and leave them running."""

from __future__ import annotations

import os
import random
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.kafka import KafkaClient
from harness.process import HeadraceProcess
from headrace.runtime.kafka_broker import KafkaBroker
from headrace.testing.door import RestDoor
from tests.faults.workload import Workload


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker that may be stopped: not the session's."""
    with KafkaBroker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture(scope="package")
def kafka(broker: KafkaBroker) -> KafkaClient:
    return KafkaClient(broker.bootstrap)


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeadraceProcess]:
    process = HeadraceProcess(Path(tmp_path_factory.mktemp("faults")))
    process.start()
    yield process
    process.stop()


@pytest.fixture(scope="package")
def door(server: HeadraceProcess, broker: KafkaBroker) -> Iterator[RestDoor]:
    """A session with a separate database and store."""
    door = RestDoor(server)
    door.execute(
        f"CREATE DATABASE faults; USE DATABASE faults; CREATE STORE broker WITH ('type' = KAFKA, "
        f"'uris' = '{broker.bootstrap}', 'tls.disabled' = TRUE); USE STORE broker;"
    )
    yield door
    door.close()


@pytest.fixture(scope="package")
def workload(kafka: KafkaClient, door: RestDoor) -> Workload:
    """Queries that run through all faults."""
    workload = Workload(kafka, door, uuid.uuid4().hex[:8])
    workload.start()
    return workload


@pytest.fixture
def random_source(request: pytest.FixtureRequest) -> random.Random:
    """Seeded; the seed is printed, and `HEADRACE_SEED` runs with that one."""
    number = os.environ.get("HEADRACE_SEED") or str(random.randrange(1 << 32))
    sys.stdout.write(f"HEADRACE_SEED={number}\n")
    return random.Random(f"{number} {request.node.name}")
