"""A query of each kind at once, and one fault after the other: no row is lost or doubled, and states are those of a batch.

The recorded data directory of a landed release is in `test_landed_directory.py`. With `HEADRACE_LANDED`, the folder of a checkout of such a
release, its server runs first, and the first fault is that it is killed and the present one takes its data directory over.
"""

from __future__ import annotations

import os
import random
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from harness.kafka import KafkaClient
from harness.patience import PATIENCE_S
from harness.postgresql import PostgresServer
from harness.process import HeadraceProcess
from headrace.runtime.kafka_broker import KafkaBroker
from headrace.testing.door import RestDoor
from headrace.testing.processes import running_after
from tests.faults.grid import Grid

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.faults]

LANDED = os.environ.get("HEADRACE_LANDED")


@dataclass(frozen=True)
class Scene:
    """The queries, and everything that a fault may strike."""

    broker: KafkaBroker
    server: HeadraceProcess
    door: RestDoor
    grid: Grid

    def restart(self, end: Callable[[], None]) -> None:
        """End the server by `end`, and start it again with short delays of restarts."""
        end()
        self.server.start(HEADRACE_RESTART_BACKOFF_MAX_MS="4000")


@pytest.fixture(scope="module")
def grid_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeadraceProcess]:
    server = HeadraceProcess(Path(tmp_path_factory.mktemp("grid")))
    server.start(**({"PYTHONPATH": f"{LANDED}/src"} if LANDED else {}))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with PostgresServer(tmp_path_factory.mktemp("grid_tables"), 18) as server:
        yield server


@pytest.fixture(scope="module")
def running(
    broker: KafkaBroker, grid_server: HeadraceProcess, tables: PostgresServer
) -> Iterator[tuple[RestDoor, Grid]]:
    """The queries, which run through all faults, and their session."""
    door = RestDoor(grid_server)
    door.execute(
        f"CREATE DATABASE d; USE DATABASE d; CREATE STORE k WITH ('type' = KAFKA, 'uris' = '{broker.bootstrap}', "
        "'tls.disabled' = TRUE); USE STORE k;"
    )
    grid = Grid(KafkaClient(broker.bootstrap), door, tables, uuid.uuid4().hex[:8])
    grid.start()
    yield door, grid
    door.close()


@pytest.fixture
def scene(
    broker: KafkaBroker, grid_server: HeadraceProcess, running: tuple[RestDoor, Grid]
) -> Iterator[Scene]:
    yield Scene(broker, grid_server, *running)
    broker.start()


def _kill_driver(scene: Scene) -> None:
    scene.server.kill_driver()


def _kill_jvm(scene: Scene) -> None:
    drivers = [psutil.Process(pid) for pid in scene.server.driver_pids()]
    scene.server.kill_jvm()
    alive = running_after(drivers, PATIENCE_S)
    assert not alive


def _kill_server(scene: Scene) -> None:
    scene.restart(scene.server.kill)


def _restart_broker(scene: Scene) -> None:
    scene.broker.stop()
    time.sleep(2)
    scene.broker.start()


def _restart_server(scene: Scene) -> None:
    scene.restart(scene.server.stop)


def _restart_pool(scene: Scene) -> None:
    scene.door.execute("STOP COMPUTE_POOL default_pool;")
    scene.grid.until_state("stopped")
    scene.door.execute("START COMPUTE_POOL default_pool;")


def _move(scene: Scene) -> None:
    scene.grid.move()


def _replace(scene: Scene) -> None:
    scene.grid.replace()


FAULTS: dict[str, Callable[[Scene], None]] = {
    **({"upgraded": _kill_server} if LANDED else {}),
    "driver killed": _kill_driver,
    "savepoint and restore": _move,
    "server killed": _kill_server,
    "replaced": _replace,
    "JVM killed": _kill_jvm,
    "pool stopped and started": _restart_pool,
    "broker restarted": _restart_broker,
    "server stopped and started": _restart_server,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_no_kind_of_query_loses_or_doubles_a_row(
    fault: str, scene: Scene, random_source: random.Random
) -> None:
    scene.grid.until_state("running")

    def strike() -> None:
        scene.grid.until_written()
        time.sleep(random_source.uniform(0.2, 4.0))
        FAULTS[fault](scene)
        scene.grid.until_state("running")
        scene.grid.until_written()

    scene.grid.sources.produce_during(strike)
    scene.grid.sources.close()
    scene.grid.until_exact()
    assert scene.grid.failed_versions() == []
