"""Fixtures of this folder's tests: one broker and one driver."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.kafka import KafkaClient
from harness.patience import PATIENCE_S
from headrace.testing.processes import running_after
from headrace.testing.topics import Pair
from tests.driver.control import DriverControl
from tests.driver.plans import STORE

Stores = dict[str, dict[str, str]]


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DriverControl]:
    """A warm driver, shared by the tests that do not kill it."""
    control = DriverControl(tmp_path_factory.mktemp("driver"), progress_interval_ms=200)
    yield control
    processes = control.processes()
    control.close()
    alive = running_after(processes, PATIENCE_S)
    assert not alive, "a driver whose server is gone must leave no process"


@pytest.fixture
def stores(kafka: KafkaClient) -> Stores:
    """The properties of the one store."""
    return {STORE: {"uris": kafka.bootstrap, "tls.disabled": "TRUE"}}


@pytest.fixture
def topic(kafka: KafkaClient) -> Callable[..., str]:
    """Creates a topic with a unique name."""

    def make(partitions: int = 1) -> str:
        name = f"t-{uuid.uuid4().hex[:8]}"
        kafka.create(name, partitions=partitions)
        return name

    return make


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Return the folder of a query's progress."""
    return tmp_path / "checkpoint"


@pytest.fixture
def consumed(kafka: KafkaClient) -> Callable[..., list[Pair]]:
    """Reads a topic until it has `count` committed records."""

    def consume(name: str, count: int) -> list[Pair]:
        deadline = time.monotonic() + PATIENCE_S
        while len(messages := kafka.consume(name)) < count and time.monotonic() < deadline:
            time.sleep(0.2)
        return messages

    return consume
