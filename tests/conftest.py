"""Fixtures shared by the suites that need the real thing, and how a run spreads over workers.

The clients of some stores take seconds to import. So the fixtures of their servers import them, which most workers never use.

With `--dist loadgroup` a group of tests runs on one worker. A group is a file, unless its tests set another (`pytest.mark.xdist_group`)
or use one of the fixtures of `GROUPS`. The longest group runs first.
"""

from __future__ import annotations

import gc
import os
import uuid
from collections.abc import Generator, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from harness.apicurio import Registry
from harness.clickhouse import ClickHouseServer
from harness.kafka import KafkaClient
from harness.kinesis import KinesisClient, KinesisServer, MotoServer
from harness.kubernetes import KubernetesServer, Namespace
from harness.postgresql import PostgresServer
from harness.process import HeadraceProcess
from harness.world import World, address
from headrace.runtime.ports import free_port
from tests.failures import Failures
from tests.seconds import Seconds, lengths_of

if TYPE_CHECKING:
    from harness.databricks import Workspace
    from harness.iceberg import Lake
    from harness.s3 import S3Client
    from harness.snowflake import SnowflakeServer
    from tests.unit.engine.kubernetes_api import StandInApi

# Pytest imports the folders tests/databricks and tests/snowflake under the names of these libraries, if it is the first to import them.
for _library in ("databricks", "snowflake"):
    import_module(_library)

# No deadline: a busy machine delays examples.
settings.register_profile("headrace", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("headrace")


GROUPS = {
    "in_process": "in process",
    "databricks": "databricks",
    "driver": "driver",
    "spark": "spark",
    "headrace_server": "server",
}
"""Fixture to the name of the group of all tests that ask for it, since starting one costs a worker ten seconds of a processor, and a
warehouse seventy."""

LEFT_OUT = {"faults": "HEADRACE_FAULTS", "prove": "HEADRACE_PROVE"}
"""Marker of the tests that `make test` leaves out, to the setting that runs them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--seconds",
        type=Path,
        help="report what each folder took, and write the seconds of each test to this file",
    )
    parser.addoption("--failures", type=Path, help="write each failed test with its error to this file")


def pytest_configure(config: pytest.Config) -> None:
    is_worker = hasattr(config, "workerinput")
    if not is_worker:
        config.add_cleanup(World().start().stop)
        if config.option.failures:
            config.pluginmanager.register(Failures(config.option.failures))
    if config.option.seconds:
        config.pluginmanager.register(Seconds(config.option.seconds, reports=not is_worker))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Keep modules and tests out of later garbage collections: to look at them took a quarter of the unit tests' processor time."""
    gc.disable()
    result = yield
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    gc.enable()
    # Libraries in C++ report objects that still exist when the process ends.
    session.config.add_cleanup(gc.unfreeze)
    return result


@pytest.hookimpl(wrapper=True)  # around xdist, which reads the groups, and pytest's own order
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, None, None]:
    for marker, setting in LEFT_OUT.items():
        if not os.environ.get(setting):
            others = [item for item in items if item.get_closest_marker(marker)]
            config.hook.pytest_deselected(items=others)
            items[:] = [item for item in items if item not in others]
    groups = {item: _group(item) for item in items}
    lengths = lengths_of(groups)
    for item, group in groups.items():
        item.add_marker(pytest.mark.xdist_group(group))
    yield
    # With versions of pytest and xdist that do not fit, all tests pass, each worker starts every server, and a run takes twice as long.
    if getattr(config.option, "loadgroup", False) and not all("@" in item.nodeid for item in items):
        raise pytest.UsageError("pytest-xdist does not see the groups of tests")
    # The files of tests/slt run first, so that each worker starts a single server for all of its files.
    items.sort(key=lambda item: (item.path.parent.name != "slt", -lengths[_group(item)], _group(item)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
    """Collect the sockets that a library left unclosed while their warnings are ignored: the warnings of the next file are not."""
    yield
    is_last = nextitem is None or nextitem.path != item.path
    if is_last and any("ResourceWarning" in mark.args[0] for mark in item.iter_markers("filterwarnings")):
        gc.collect()


def _group(item: pytest.Item) -> str:
    """Return the name of the group of tests that must run on one worker, one after the other."""
    if mark := item.get_closest_marker("xdist_group"):
        return str(mark.args[0])
    fixtures = getattr(item, "fixturenames", ())
    return next(
        (group for fixture, group in GROUPS.items() if fixture in fixtures), item.nodeid.split("::")[0]
    )


@pytest.fixture(scope="session")
def kafka() -> KafkaClient:
    """A client for the run's broker."""
    return KafkaClient(address("kafka")["bootstrap"])


@pytest.fixture(scope="session")
def registry() -> Registry:
    """The run's schema registry."""
    return Registry(address("registry")["server"])


@pytest.fixture(
    scope="session",
    params=[
        pytest.param(16, id="postgresql16", marks=pytest.mark.prove),
        pytest.param(18, id="postgresql18"),
    ],
)
def postgresql(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PostgresServer]:
    """Yield the newest PostgreSQL, and for `make prove` also the oldest one."""
    with PostgresServer(tmp_path_factory.mktemp("postgresql"), request.param) as server:
        yield server


@pytest.fixture(scope="session")
def kinesis() -> Iterator[KinesisClient]:
    """A stand-in for Amazon Kinesis on loopback, and a client for it."""
    with KinesisServer() as server:
        yield KinesisClient(server)


@pytest.fixture(scope="session")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseServer]:
    """ClickHouse's engine on loopback."""
    with ClickHouseServer(tmp_path_factory.mktemp("clickhouse")) as server:
        yield server


@pytest.fixture(scope="session")
def snowflake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SnowflakeServer]:
    """A stand-in for Snowflake on loopback."""
    from harness.snowflake import SnowflakeServer

    with SnowflakeServer(tmp_path_factory.mktemp("snowflake")) as server:
        yield server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Client]:
    """A stand-in for AWS S3 on loopback, and a client for a bucket of it."""
    from harness.s3 import S3Client

    with MotoServer() as server:
        yield S3Client(server, "lake")


@pytest.fixture
def kubernetes_api(tmp_path: Path) -> Iterator[StandInApi]:
    """A stand-in for the API of a Kubernetes cluster, without pods."""
    # Only here: the schemas of the API take long to import.
    from tests.driver.kubelet import served_api

    with served_api(tmp_path) as api:
        yield api


@pytest.fixture(scope="session")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesServer]:
    """A real kube-apiserver on loopback. Without Go, it cannot be compiled, and its tests fail."""
    with KubernetesServer(tmp_path_factory.mktemp("kubernetes")) as server:
        yield server


@pytest.fixture
def namespace(kubernetes: KubernetesServer, seed: str) -> Iterator[Namespace]:
    """A namespace of the kube-apiserver that contains the objects of the Helm chart."""
    # Only here: Helm's library takes long to import.
    from tests.unit.deploy.chart import installed

    with installed(kubernetes, f"headrace-{seed}") as namespace:
        yield namespace


@pytest.fixture(scope="session")
def s3_mock() -> Iterator[S3Client]:
    """Another stand-in for AWS S3 on loopback, and a client for a bucket of it."""
    from harness.s3 import S3Client, S3MockServer

    with S3MockServer() as server:
        yield S3Client(server, "lake")


@pytest.fixture(scope="session")
def databricks(tmp_path_factory: pytest.TempPathFactory, s3: S3Client) -> Iterator[Workspace]:
    """A SQL warehouse over the bucket, on loopback."""
    from harness.databricks import Workspace

    with Workspace(tmp_path_factory.mktemp("databricks"), s3) as workspace:
        yield workspace


@pytest.fixture(scope="session")
def lake() -> Iterator[Lake]:
    """An Iceberg catalog, Glue, and the bucket under both, on loopback."""
    from harness.iceberg import Lake

    with Lake() as lake:
        yield lake


@pytest.fixture(scope="session")
def headrace_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeadraceProcess]:
    """A real `headrace up`, shared by the tests that do not kill it."""
    process = HeadraceProcess(Path(tmp_path_factory.mktemp("headrace")))
    process.start(HEADRACE_POSTGRES_PORT="0")
    yield process
    process.stop()


@pytest.fixture
def unused_tcp_port() -> int:
    """Replace pytest-asyncio's fixture, whose port an outgoing connection may take before a server does."""
    return free_port()


@pytest.fixture
def seed() -> str:
    """Return a text that makes names unique to one test."""
    return uuid.uuid4().hex[:8]
