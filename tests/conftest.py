"""Fixtures shared by the suites that need the real thing: one broker and one server for the session."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from harness.apicurio import Apicurio
from harness.clickhouse import ClickHouseServer
from harness.databricks import Workspace
from harness.iceberg import Lake
from harness.kafka import KafkaClient
from harness.kinesis import KinesisClient, KinesisServer, MotoServer
from harness.postgresql import PostgresServer
from harness.process import HeadraceProcess
from harness.s3 import S3Client
from harness.snowflake import SnowflakeServer
from headrace.runtime.kafka_broker import KafkaBroker

# An example takes as long as a busy machine lets it.
settings.register_profile("headrace", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("headrace")


LONGEST = ("tests/slt/", "tests/properties/", "tests/faults/", "tests/stores/", "tests/demo/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the longest items first, so that no worker is left alone with a long file at the end."""
    ranks = {folder: rank for rank, folder in enumerate(LONGEST)}
    items.sort(
        key=lambda item: ranks.get(item.nodeid[: item.nodeid.find("/", len("tests/")) + 1], len(ranks))
    )


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaClient]:
    """A real broker (KRaft) on loopback, and a client for it."""
    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as broker:
        yield KafkaClient(broker.bootstrap)


@pytest.fixture(scope="session", params=[16, 18], ids=lambda version: f"postgresql{version}")
def postgresql(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PostgresServer]:
    """The oldest and the newest PostgreSQL that there is for the tests, in turns."""
    with PostgresServer(tmp_path_factory.mktemp("postgresql"), request.param) as server:
        yield server


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apicurio]:
    """A real schema registry on loopback."""
    with Apicurio(tmp_path_factory.mktemp("registry")) as registry:
        yield registry


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
    with SnowflakeServer(tmp_path_factory.mktemp("snowflake")) as server:
        yield server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Client]:
    """A stand-in for AWS S3 on loopback, and a client for a bucket of it."""
    with MotoServer() as server:
        yield S3Client(server, "lake")


@pytest.fixture(scope="session")
def databricks(tmp_path_factory: pytest.TempPathFactory, s3: S3Client) -> Iterator[Workspace]:
    """A SQL warehouse over the bucket, on loopback."""
    with Workspace(tmp_path_factory.mktemp("databricks"), s3) as workspace:
        yield workspace


@pytest.fixture(scope="session")
def lake() -> Iterator[Lake]:
    """An Iceberg catalog, Glue, and the bucket under both, on loopback."""
    with Lake() as lake:
        yield lake


@pytest.fixture(scope="session")
def headrace_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeadraceProcess]:
    """A real `headrace up`, shared by the tests that do not kill it."""
    process = HeadraceProcess(Path(tmp_path_factory.mktemp("headrace")))
    process.start()
    yield process
    process.stop()


@pytest.fixture
def seed() -> str:
    """A text that makes names unique to one test."""
    return uuid.uuid4().hex[:8]
