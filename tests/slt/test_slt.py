"""Every `.slt` file, over REST to a real server or in process; see `harness/slt.py` for the format.

Over REST each file is a group of its own, and each worker has a server for the files that it takes. In process they are one group.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField, UUIDType

from harness import clickhouse as clickhouse_server
from harness import snowflake as snowflake_server
from harness.apicurio import Registry
from harness.clickhouse import ClickHouseServer
from harness.databricks import CATALOG, TOKEN, WAREHOUSE, Workspace
from harness.doors import InProcessDoor
from harness.iceberg import Lake
from harness.kafka import KafkaClient
from harness.kinesis import SECRET_KEY, KinesisClient, MotoServer
from harness.kinesis.front import KinesisFront
from harness.patience import until
from harness.postgresql import PASSWORD, USER, PostgresServer
from harness.process import HeadraceProcess
from harness.registry_front import RegistryFront
from harness.s3 import S3Client
from harness.slt import Runner
from harness.snowflake import SnowflakeServer
from harness.spark_cluster import SparkCluster
from headrace.testing.door import RestDoor
from headrace.testing.runner import StatementError

POSTGRESQL = [Path(__file__).with_name(name) for name in ("postgresql.slt", "postgresql_changes.slt")]
POSTGRESQL_TABLES = Path(__file__).with_name("postgresql_tables.slt")
POSTGRESQL_LOOKUPS = Path(__file__).with_name("postgresql_lookups.slt")
CLICKHOUSE = Path(__file__).with_name("clickhouse.slt")
DATABRICKS = [Path(__file__).with_name(name) for name in ("databricks.slt", "databricks_tables.slt")]
SNOWFLAKE = Path(__file__).with_name("snowflake.slt")
EVERY_STORE = Path(__file__).with_name("every_store.slt")
VIEWS = [
    Path(__file__).with_name(f"{name}.slt")
    for name in ("views", "view_queries", "savepoints_of_applications")
]
ICEBERG = sorted(Path(__file__).parent.glob("iceberg*.slt"))
FILES = sorted(
    set(Path(__file__).parent.glob("*.slt"))
    - {*POSTGRESQL, POSTGRESQL_TABLES, POSTGRESQL_LOOKUPS, CLICKHOUSE, *DATABRICKS, SNOWFLAKE, EVERY_STORE}
    - {*ICEBERG}
)
IN_PROCESS = [
    Path(__file__).with_name(f"{name}.slt")
    for name in ("entities", "group_by", "projection", "queries", "stores")
]
"""What a file proves lies behind the doors, so that some of each kind are enough to show that no door does any of it."""

LONG = {"kinesis_faults", "kinesis_reshards", "s3_tables"}
"""Files over REST of minutes each. `make test` proves what they are about in `tests/kinesis`, `tests/s3` and the shorter files."""

NOT_ON_CLUSTERS = {
    "compute_pools": "its pools need more executors than the cluster has",
}
"""Files that HEADRACE_POOL=cluster and cluster-s3 leave out, with the reason."""


POOL = os.environ.get("HEADRACE_POOL")
ON_CLUSTER = POOL in ("cluster", "cluster-s3")
IN_BUCKET = POOL in ("s3", "cluster-s3")
_BUCKET_FOLDER = "slt-checkpoints"


@pytest.fixture(autouse=True)
def on_cluster(request: pytest.FixtureRequest) -> None:
    """Skip a file that cannot run on a cluster."""
    path = request.node.callspec.params.get("path") if hasattr(request.node, "callspec") else None
    if ON_CLUSTER and path is not None and path.stem in NOT_ON_CLUSTERS:
        pytest.skip(NOT_ON_CLUSTERS[path.stem])


@pytest.fixture(scope="session", autouse=True)
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A Spark cluster for the drivers of all servers, with HEADRACE_POOL=cluster (`make prove POOL=cluster`), a bucket for all
    checkpoints, with HEADRACE_POOL=s3 (`make prove POOL=s3`), or both, with HEADRACE_POOL=cluster-s3."""
    with ExitStack() as stack:
        if IN_BUCKET:
            stack.enter_context(_bucket())
        if ON_CLUSTER:
            stack.enter_context(_cluster(tmp_path_factory.mktemp("spark")))
        yield


@contextmanager
def _bucket() -> Iterator[None]:
    with MotoServer() as server, pytest.MonkeyPatch.context() as patch:
        # Not the bucket that files list.
        bucket = S3Client(server, "checkpoints")
        for name, value in bucket.checkpoints(_BUCKET_FOLDER).items():
            patch.setenv(name, value)
        yield
        assert [key for key in bucket.keys(_BUCKET_FOLDER) if "/commits/" in key], "they were somewhere else"


@contextmanager
def _cluster(folder: Path) -> Iterator[None]:
    with (
        SparkCluster(folder, drivers=3) as cluster,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in cluster.environment.items():
            patch.setenv(name, value)
        yield
        # What tasks receive does not appear in what executors and their Python log.
        logs = "".join(path.read_text(errors="replace") for path in cluster.folder.rglob("std*"))
        secrets = (
            cluster.secret,
            PASSWORD,
            clickhouse_server.PASSWORD,
            snowflake_server.PASSWORD,
            TOKEN,
            SECRET_KEY,
        )
        assert not [secret for secret in secrets if secret in logs]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeadraceProcess]:
    """A server of these files' own: some of them kill it."""
    process = HeadraceProcess(Path(tmp_path_factory.mktemp("slt-rest"))).start()
    _keep_in_bucket(RestDoor(process))
    yield process
    process.stop()


@pytest.fixture(scope="module")
def with_clickhouse(
    tmp_path_factory: pytest.TempPathFactory, clickhouse: ClickHouseServer
) -> Iterator[HeadraceProcess]:
    """A server whose views are in ClickHouse."""
    clickhouse.execute("CREATE DATABASE IF NOT EXISTS views_of_slt")
    folder = Path(tmp_path_factory.mktemp("slt-clickhouse"))
    (folder / "password").write_text(f"{clickhouse_server.PASSWORD}\n")
    address = f"clickhouse+http://{quote(clickhouse_server.USER)}@127.0.0.1:{clickhouse.port}/views_of_slt"
    environment = {"HEADRACE_VIEWS": address, "HEADRACE_VIEWS_PASSWORD_FILE": str(folder / "password")}
    process = HeadraceProcess(folder / "data", environment=environment).start()
    _keep_in_bucket(RestDoor(process))
    yield process
    process.stop()
    assert not (folder / "data" / "views.duckdb").exists()
    tables = clickhouse.execute("SELECT count() FROM system.tables WHERE database = 'views_of_slt'")
    assert tables > [(0,)], "the views were somewhere else"


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessDoor]:
    door = InProcessDoor(Path(tmp_path_factory.mktemp("slt-in-process")))
    _keep_in_bucket(door)
    yield door
    door.close()


def _keep_in_bucket(door: RestDoor | InProcessDoor) -> None:
    """Let the default pool keep its checkpoints in the bucket, with HEADRACE_POOL=s3 or cluster-s3."""
    if not IN_BUCKET:
        return
    place = f"{os.environ['HEADRACE_CHECKPOINT_FOLDERS']}/{uuid.uuid4().hex}"
    door.execute("STOP COMPUTE_POOL default_pool;")

    def is_moved() -> bool:
        try:
            door.execute(
                f"UPDATE COMPUTE_POOL default_pool WITH ('compute_pool.checkpoints' = '{place}'); START COMPUTE_POOL default_pool;"
            )
        except StatementError as error:
            if "3E004" not in str(error):
                raise
            return False
        return True

    until(is_moved, "the end of the pool's process")


@pytest.fixture
def kinesis_front(kinesis: KinesisClient) -> Iterator[KinesisFront]:
    with KinesisFront(kinesis.server.uri) as front:
        yield front


@pytest.fixture
def registry_front(registry: Registry) -> Iterator[RegistryFront]:
    with RegistryFront(registry.url) as front:
        yield front


@pytest.fixture
def rest(server: HeadraceProcess) -> Iterator[RestDoor]:
    door = RestDoor(server)
    yield door
    _terminate_queries(door)
    door.close()


@pytest.fixture
def in_process(services: InProcessDoor) -> Iterator[InProcessDoor]:
    yield services
    _terminate_queries(services)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            path,
            id=path.stem,
            marks=[pytest.mark.xdist_group(path.name), *([pytest.mark.prove] if path.stem in LONG else [])],
        )
        for path in FILES
    ],
)
def test_over_rest(
    path: Path, rest: RestDoor, kafka: KafkaClient, seed: str, request: pytest.FixtureRequest
) -> None:
    Runner(rest, kafka, seed=seed, **_servers(path, request)).run(path)


@pytest.mark.parametrize("path", IN_PROCESS, ids=lambda path: path.stem)
def test_in_process(
    path: Path, in_process: InProcessDoor, kafka: KafkaClient, seed: str, request: pytest.FixtureRequest
) -> None:
    Runner(in_process, kafka, seed=seed, **_servers(path, request)).run(path)


def _servers(path: Path, request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return the servers that a file needs besides the broker: addresses, and for Kinesis a client and its front."""
    text = path.read_text()
    servers: dict[str, Any] = {}
    if "${registry}" in text:
        registry = request.getfixturevalue("registry")
        servers |= {"registry": registry.url, "registry_server": registry.server}
    if "${registry_front}" in text:
        registry_front = request.getfixturevalue("registry_front")
        servers |= {"registry_front": registry_front.url(), "stop_registry": registry_front.close}
    if "${kinesis}" in text:
        streams, front = request.getfixturevalue("kinesis"), request.getfixturevalue("kinesis_front")
        servers |= {"kinesis": front.uri(), "streams": streams, "front": front}
    if "${s3}" in text:
        bucket = request.getfixturevalue("s3")
        servers |= {"s3": bucket.uri, "bucket": bucket, "s3_server": bucket.server.uri}
    return servers


# The oldest version gives what the newest gives.
@pytest.mark.parametrize("postgresql", [pytest.param(16, marks=pytest.mark.prove), 18], indirect=True)
@pytest.mark.parametrize("path", POSTGRESQL, ids=lambda path: path.stem)
def test_postgresql(
    path: Path, in_process: InProcessDoor, kafka: KafkaClient, postgresql: PostgresServer, seed: str
) -> None:
    _run_with(postgresql, path, in_process, kafka, seed)


@pytest.mark.parametrize("postgresql", [18], indirect=True)
def test_postgresql_tables(
    in_process: InProcessDoor, kafka: KafkaClient, postgresql: PostgresServer, seed: str
) -> None:
    _run_with(postgresql, POSTGRESQL_TABLES, in_process, kafka, seed)


@pytest.mark.xdist_group(POSTGRESQL_LOOKUPS.name)
@pytest.mark.parametrize("postgresql", [16], indirect=True)
def test_postgresql_lookups(
    rest: RestDoor, kafka: KafkaClient, postgresql: PostgresServer, seed: str
) -> None:
    """The test kills the driver, and so runs over REST."""
    _run_with(postgresql, POSTGRESQL_LOOKUPS, rest, kafka, seed)


def _run_with(
    postgresql: PostgresServer, path: Path, door: InProcessDoor | RestDoor, kafka: KafkaClient, seed: str
) -> None:
    postgresql.execute(f'CREATE SCHEMA "Shop {seed}"')
    user = {"user": USER, "password": PASSWORD.replace("'", "''")}
    runner = Runner(door, kafka, seed=seed, uri=postgresql.uri, **user)
    runner.postgresql = postgresql.execute
    runner.run(path)


def test_clickhouse(
    in_process: InProcessDoor, kafka: KafkaClient, clickhouse: ClickHouseServer, seed: str
) -> None:
    clickhouse.execute(f"CREATE DATABASE `Shop {seed}`")
    user = {"user": clickhouse_server.USER, "password": clickhouse_server.PASSWORD.replace("'", "''")}
    runner = Runner(in_process, kafka, seed=seed, uri=clickhouse.uri, **user)
    runner.clickhouse = clickhouse.execute
    runner.run(CLICKHOUSE)


@pytest.mark.xdist_group("views in clickhouse")
@pytest.mark.parametrize(
    "path",
    # Minutes each, most of them for queries that the store of views has no part in; `tests/views` runs its promises over both stores.
    [pytest.param(path, id=path.stem, marks=pytest.mark.prove) for path in VIEWS],
)
def test_views_in_clickhouse(
    path: Path, with_clickhouse: HeadraceProcess, kafka: KafkaClient, seed: str
) -> None:
    """The files restart the server, and so run over REST."""
    door = RestDoor(with_clickhouse)
    Runner(door, kafka, seed=seed).run(path)
    _terminate_queries(door)
    door.close()


@pytest.mark.parametrize(
    "path",
    # The stand-in for a warehouse is a Spark of its own, so that each statement costs seconds. `tests/databricks` and `tests/stores` run
    # in every run.
    [pytest.param(path, id=path.stem, marks=pytest.mark.prove) for path in DATABRICKS],
)
def test_databricks(
    path: Path,
    in_process: InProcessDoor,
    kafka: KafkaClient,
    databricks: Workspace,
    seed: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As SQL warehouses do: what Delta does for a session that may have its settings, test_exactly_once.py has.
    monkeypatch.setattr(databricks.front, "settings", False)
    databricks.execute(f"CREATE SCHEMA {CATALOG}.s{seed}")
    at = {"port": str(databricks.front.port), "token": TOKEN, "warehouse": WAREHOUSE}
    runner = Runner(in_process, kafka, seed=seed, keys=databricks.keys, **at)
    runner.databricks = databricks.execute
    runner.run(path)
    appended = [text for text in databricks.front.statements if f"s{seed}`.`sold` (`id`" in text]
    assert {text.partition(" INTO")[0] for text in appended if not text.startswith("CREATE")} == {"COPY"}


def test_snowflake(
    in_process: InProcessDoor, kafka: KafkaClient, snowflake: SnowflakeServer, seed: str
) -> None:
    snowflake.execute(f"CREATE DATABASE SHOP_{seed}", f"CREATE SCHEMA SHOP_{seed}.TILL_{seed}")
    user = {"user": snowflake_server.USER, "password": snowflake_server.PASSWORD.replace("'", "''")}
    runner = Runner(in_process, kafka, seed=seed, SEED=seed.upper(), uri=snowflake.uri, **user)
    runner.snowflake = snowflake.execute
    runner.run(SNOWFLAKE)


@pytest.mark.parametrize("path", ICEBERG, ids=lambda path: path.stem)
def test_iceberg(path: Path, in_process: InProcessDoor, kafka: KafkaClient, lake: Lake, seed: str) -> None:
    runner = Runner(
        in_process, kafka, seed=seed, catalog=lake.catalog, aws=lake.aws.uri, keys=lake.keys, key=lake.key
    )
    runner.iceberg = lake.snapshot
    # Another tool's table: CREATE ENTITY does not create columns of UUIDs.
    columns = NestedField(1, "id", UUIDType(), required=True), NestedField(2, "n", IntegerType())
    lake.tables().create_namespace(f"u{seed}")
    lake.tables().create_table(f"u{seed}.ids", Schema(*columns, identifier_field_ids=[1]))
    runner.run(path)


@pytest.mark.prove  # each store has tests of its own; all at once take six minutes
@pytest.mark.parametrize("postgresql", [18], indirect=True)
def test_every_store_in_one_pool(
    in_process: InProcessDoor,
    kafka: KafkaClient,
    postgresql: PostgresServer,
    clickhouse: ClickHouseServer,
    snowflake: SnowflakeServer,
    databricks: Workspace,
    lake: Lake,
    seed: str,
    request: pytest.FixtureRequest,
) -> None:
    clickhouse.execute(f"CREATE DATABASE all_{seed}")
    snowflake.execute(f"CREATE DATABASE all_{seed}", f"CREATE SCHEMA all_{seed}.s")
    databricks.execute(f"CREATE SCHEMA {CATALOG}.all_{seed}")
    addresses = {
        **{"postgresql": postgresql.uri, "clickhouse": clickhouse.uri, "snowflake": snowflake.uri},
        **{"catalog": lake.catalog, "aws": lake.aws.uri, "keys": lake.keys},
    }
    users = {
        **{"postgresql_user": USER, "postgresql_password": PASSWORD},
        **{"clickhouse_user": clickhouse_server.USER, "clickhouse_password": clickhouse_server.PASSWORD},
        **{"snowflake_user": snowflake_server.USER, "snowflake_password": snowflake_server.PASSWORD},
    }
    at = {
        **{"databricks_port": str(databricks.front.port), "databricks_token": TOKEN},
        **{"databricks_warehouse": WAREHOUSE, "databricks_keys": databricks.keys},
    }
    quoted = {name: text.replace("'", "''") for name, text in users.items()}
    servers = _servers(EVERY_STORE, request)
    runner = Runner(in_process, kafka, seed=seed, **servers, **addresses, **quoted, **at)
    runner.postgresql, runner.clickhouse = postgresql.execute, clickhouse.execute
    runner.snowflake, runner.databricks, runner.iceberg = (
        snowflake.execute,
        databricks.execute,
        lake.snapshot,
    )
    runner.run(EVERY_STORE)


def _terminate_queries(door: RestDoor | InProcessDoor) -> None:
    """Terminate a file's queries, which would slow the next file's."""
    for row in door.execute("LIST QUERIES;"):
        if row[3] == "running":
            door.execute(f"TERMINATE QUERY {row[0]};")
