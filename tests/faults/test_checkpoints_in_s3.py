"""A compute pool with its checkpoints in S3: its queries continue on a machine that has lost everything but the catalog."""

from __future__ import annotations

import base64
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psutil
import pytest

from harness import clickhouse as clickhouses
from harness import postgresql
from harness.clickhouse import ClickHouseServer
from harness.kafka import KafkaClient
from harness.kinesis import SECRET_KEY
from harness.patience import until
from harness.postgresql import PostgresServer
from harness.process import HeadraceProcess
from harness.s3 import S3Client
from headrace.testing.door import RestDoor
from headrace.testing.runner import StatementError
from tests.faults.workload import GROUPS, ONCE, SELECTS, SOURCE, Workload

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.faults]

RECORDS = 1500


@pytest.fixture
def database(tmp_path: Path) -> Iterator[PostgresServer]:
    (tmp_path / "database").mkdir()
    with PostgresServer(tmp_path / "database", 16) as database:
        yield database


@pytest.fixture
def environment(
    s3: S3Client, database: PostgresServer, clickhouse: ClickHouseServer, seed: str
) -> dict[str, str]:
    """Settings of a server with its catalog in PostgreSQL, its views in ClickHouse, and its checkpoints in S3: all that is left when its
    machine is lost."""
    clickhouse.execute(f"CREATE DATABASE views_{seed}", f"CREATE DATABASE tables_{seed}")
    return {
        "HEADRACE_CATALOG_URL": database.catalog_url(),
        "HEADRACE_CATALOG_KEY": base64.b64encode(bytes(32)).decode(),
        "HEADRACE_VIEWS": f"clickhouse+http://{quote(clickhouses.USER)}@127.0.0.1:{clickhouse.port}/views_{seed}",
        "HEADRACE_VIEWS_PASSWORD": clickhouses.PASSWORD,
        **s3.checkpoints("headrace"),
    }


@dataclass(frozen=True)
class Tables:
    """Tables that queries over the workload's stream write exactly once, a stream of a table's changes, and an application."""

    database: PostgresServer
    clickhouse: ClickHouseServer
    kafka: KafkaClient
    seed: str

    def start(self, door: RestDoor) -> None:
        """Create the stores, and start the queries."""
        seed = self.seed
        self.database.execute(
            f"CREATE TABLE shop_{seed} (id BIGINT PRIMARY KEY)",
            f"INSERT INTO shop_{seed} SELECT * FROM generate_series(0, 999)",
        )
        password, other = (each.PASSWORD.replace("'", "''") for each in (postgresql, clickhouses))
        door.execute(
            f"""
            CREATE STORE pg WITH ('type' = POSTGRESQL, 'uris' = '{self.database.uri}', 'postgres.username' = '{postgresql.USER}',
                'postgres.password' = '{password}', 'tls.disabled' = TRUE);
            CREATE STORE ch WITH ('type' = CLICKHOUSE, 'uris' = '{self.clickhouse.uri}', 'clickhouse.username' = '{clickhouses.USER}',
                'clickhouse.password' = '{other}', 'tls.disabled' = TRUE);
            CREATE TABLE stored_pg WITH ('store' = 'pg', 'postgresql.schema.name' = 'public', {ONCE}) AS SELECT n, g FROM numbers {SOURCE};
            CREATE TABLE stored_ch WITH ('store' = 'ch', 'clickhouse.db.name' = 'tables_{seed}', {ONCE}) AS
                SELECT n, g FROM numbers {SOURCE};
            CREATE STREAM shop (op VARCHAR, "after" STRUCT<id BIGINT>) WITH ('store' = 'pg', 'value.format' = 'json',
                'postgresql.schema.name' = 'public', 'postgresql.table.name' = 'shop_{seed}');
            CREATE STREAM sold WITH ('store' = 'k', 'topic' = 'sold_{seed}', 'topic.partitions' = 1, 'topic.replicas' = 1, {ONCE}) AS
                SELECT "after"->id AS id FROM shop WITH ('postgresql.slot.name' = 'shop_{seed}');
            BEGIN APPLICATION two_{seed}
              CREATE STREAM some WITH ('topic' = 'some_{seed}', {ONCE}) AS SELECT n FROM numbers {SOURCE} WHERE g < 10;
              CREATE CHANGELOG totals WITH ('topic' = 'totals_{seed}', {ONCE}) AS SELECT g, COUNT(*) AS n FROM numbers {SOURCE} GROUP BY g;
            END APPLICATION;
            """
        )

    def sell(self, count: int) -> None:
        """Insert rows into the table that is read."""
        self.database.execute(
            f"INSERT INTO shop_{self.seed} SELECT max(id) + i FROM shop_{self.seed}, generate_series(1, {count}) i GROUP BY i"
        )

    def faults(self, count: int) -> list[str]:
        """Return the outputs that differ from what `count` records are to result in."""
        rows = sorted((n, n % GROUPS) for n in range(count))
        (sold,) = self.database.execute(f"SELECT count(*) FROM shop_{self.seed}")[0]
        some = [json.loads(value or "")["n"] for _, value in self.kafka.consume(f"some_{self.seed}")]
        totals = {
            row["g"]: row["n"]
            for row in (json.loads(value or "{}") for _, value in self.kafka.consume(f"totals_{self.seed}"))
        }
        changes = [json.loads(value or "")["id"] for _, value in self.kafka.consume(f"sold_{self.seed}")]
        compared = {
            "PostgreSQL": (sorted(self.database.execute("SELECT n, g FROM stored_pg")), rows),
            "ClickHouse": (
                sorted(
                    (int(n), int(g))
                    for n, g in self.clickhouse.execute(f"SELECT n, g FROM tables_{self.seed}.stored_ch")
                ),
                rows,
            ),
            "the table's changes": (sorted(changes), list(range(sold))),
            "the application's stream": (sorted(some), [n for n, g in rows if g < 10]),
            "the application's changelog": (totals, Counter(g for _, g in rows)),
        }
        return [
            f"{name}: {len(seen)} of {len(expected)}"
            for name, (seen, expected) in compared.items()
            if seen != expected
        ]


def newest(kafka: KafkaClient, relation: str, seed: str) -> str:
    return max(
        (json.loads(value or "")["window_start"] for _, value in kafka.consume(f"{relation}_{seed}")),
        default="",
    )


def queries_in(s3: S3Client, folder: str) -> set[str]:
    """Return the folders of the queries that have planned a batch."""
    return {key.partition("/offsets/")[0] for key in s3.keys(folder) if "/offsets/" in key}


def update(door: RestDoor) -> bool:
    """Move the stopped pool to the data directory. Return False while its process ends."""
    try:
        door.execute("UPDATE COMPUTE_POOL far WITH ('compute_pool.checkpoints' = NULL);")
    except StatementError as error:
        if "3E004" not in str(error):
            raise
        return False
    return True


def lose(machine: Path) -> str:
    """Delete the data directory of a server. Return its logs."""
    logs = "".join(path.read_text(errors="replace") for path in machine.rglob("*.log*"))
    assert not list((machine / "checkpoints").glob("[!i]*"))
    shutil.rmtree(machine)
    return logs


def run_on_first(server: HeadraceProcess, workload: Workload, has_snapshot: Callable[[], bool]) -> None:
    """Let the driver die, wait for a snapshot of the state, and let driver and server die."""
    workload.producer.produce(RECORDS, meanwhile=lambda: None)
    workload.until_exact()
    workload.producer.produce(RECORDS, meanwhile=server.kill_driver)
    workload.until_exact()

    def continues() -> bool:
        workload.producer.produce(200, meanwhile=lambda: None)
        return has_snapshot()

    # The state is then restored from a snapshot and the changes since.
    until(continues, "a snapshot of the state")


def continue_from_savepoints(door: RestDoor, kafka: KafkaClient, workload: Workload, seed: str) -> None:
    """Continue from a savepoint of the lost machine, and let all queries be replaced by others that continue from theirs."""
    door.execute(
        f"CREATE CHANGELOG again WITH ('topic' = 'again_{seed}', {ONCE}) AS {SELECTS['windows']} "
        f"QUERY WITH ('query.name' = again_{seed}, 'resume.from.savepoint' = kept);"
    )
    workload.move()
    workload.producer.produce(RECORDS, meanwhile=lambda: None)
    workload.until_exact()
    until(lambda: newest(kafka, "again", seed) == newest(kafka, "windows", seed), "the newest window")
    again, windows = (kafka.consume(f"{name}_{seed}") for name in ("again", "windows"))
    assert len(again) < len(windows)
    assert {value for _, value in again} <= {value for _, value in windows}
    door.execute(f"DROP SAVEPOINT kept; TERMINATE QUERY again_{seed};")
    state = "SELECT current_state FROM deltastream.sys.queries WHERE name = 'again_" + seed + "';"
    until(
        lambda: [cell for (cell,) in door.execute(state)] == ["terminated"], lambda: str(door.execute(state))
    )


def test_queries_continue_exactly_on_an_empty_disk_and_leave_s3(
    kafka: KafkaClient,
    s3: S3Client,
    environment: dict[str, str],
    database: PostgresServer,
    clickhouse: ClickHouseServer,
    seed: str,
    tmp_path: Path,
) -> None:
    folder = f"headrace/pool_{seed}"
    context = "USE DATABASE d; USE STORE k; USE COMPUTE_POOL far;"
    first = HeadraceProcess(tmp_path / "first", environment=environment).start()
    adopting = {**environment, "HEADRACE_ADOPT_DATA_DIR": "true"}
    second = HeadraceProcess(tmp_path / "second", environment=adopting)
    try:
        door = RestDoor(first)
        with pytest.raises(StatementError, match="a place in s3:"):
            door.execute("CREATE COMPUTE_POOL no WITH ('compute_pool.checkpoints' = 's3://other/headrace')")
        door.execute(
            f"STOP COMPUTE_POOL default_pool; CREATE COMPUTE_POOL far WITH ('compute_pool.checkpoints' = 's3://{s3.bucket}/{folder}'); "
            f"CREATE DATABASE d; CREATE STORE k WITH ('type' = KAFKA, 'uris' = '{kafka.bootstrap}', 'tls.disabled' = TRUE); {context}"
        )
        workload = Workload(kafka, door, seed)
        workload.start()
        tables = Tables(database, clickhouse, kafka, seed)
        tables.start(door)
        run_on_first(first, workload, lambda: any(key.endswith(".zip") for key in s3.keys(folder)))
        until(
            lambda: not tables.faults(workload.producer.count),
            lambda: str(tables.faults(workload.producer.count)),
        )
        door.execute(f"CREATE SAVEPOINT kept ON QUERY windows_{seed}")
        commands = str([each.info["cmdline"] for each in psutil.process_iter(["cmdline"])])
        producer = workload.producer
        tables.sell(500)
        producer.produce(RECORDS, meanwhile=lambda: (first.kill_driver(), first.kill()))
        tables.sell(500)
        logs = lose(tmp_path / "first")

        second.start()
        survivor = RestDoor(second)
        survivor.execute(context)
        workload = Workload(kafka, survivor, seed)
        workload.producer = producer
        producer.produce(RECORDS, meanwhile=lambda: None)
        until(lambda: not workload.faults(), lambda: f"{workload.faults()}\n{second.log()[-3000:]}")
        until(
            lambda: not tables.faults(producer.count),
            lambda: f"{tables.faults(producer.count)}\n{second.log()[-3000:]}",
        )
        assert SECRET_KEY not in commands + logs
        continue_from_savepoints(survivor, kafka, workload, seed)
        assert not [key for key in s3.keys(folder) if "/savepoints/" in key]
        before = queries_in(s3, folder)
        survivor.execute("DROP CHANGELOG again;")
        # A snapshot of the state may still be on its way.
        until(lambda: len(queries_in(s3, folder)) == len(before) - 1, lambda: str(queries_in(s3, folder)))

        survivor.execute("STOP COMPUTE_POOL far;")
        until(lambda: update(survivor), "the end of the pool's process")
        assert queries_in(s3, folder) == set()
        survivor.execute("START COMPUTE_POOL far;")
        producer.produce(RECORDS, meanwhile=lambda: None)
        workload.until_exact()
        until(lambda: not tables.faults(producer.count), lambda: str(tables.faults(producer.count)))
    finally:
        first.stop()
        second.stop()
