"""A compute pool with its checkpoints in S3: its queries continue on a machine that has lost everything but the catalog."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from harness.kafka import KafkaClient
from harness.kinesis import ACCESS_KEY, SECRET_KEY
from harness.patience import until
from harness.postgresql import PostgresServer
from harness.process import HeadraceProcess
from harness.s3 import S3Client
from headrace.testing.door import RestDoor
from headrace.testing.runner import StatementError
from tests.faults.workload import ONCE, SELECTS, Workload

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.faults]

RECORDS = 1500


@pytest.fixture
def environment(s3: S3Client, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Settings of a server with its catalog in PostgreSQL and its checkpoints in S3: all that is left when its machine is lost."""
    (tmp_path / "database").mkdir()
    with PostgresServer(tmp_path / "database", 16) as database:
        yield {
            "HEADRACE_CATALOG_URL": database.catalog_url(),
            "HEADRACE_CATALOG_KEY": base64.b64encode(bytes(32)).decode(),
            "HEADRACE_CHECKPOINT_FOLDERS": f"s3://{s3.bucket}/headrace",
            "HEADRACE_CHECKPOINT_S3_ENDPOINT": s3.server.uri,
            "HEADRACE_CHECKPOINT_S3_ACCESS_KEY_ID": ACCESS_KEY,
            "HEADRACE_CHECKPOINT_S3_SECRET_ACCESS_KEY": SECRET_KEY,
        }


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
    workload.start()
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
    kafka: KafkaClient, s3: S3Client, environment: dict[str, str], seed: str, tmp_path: Path
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
        workload = Workload(kafka, door, seed, with_view=False)
        run_on_first(first, workload, lambda: any(key.endswith(".zip") for key in s3.keys(folder)))
        door.execute(f"CREATE SAVEPOINT kept ON QUERY windows_{seed}")
        with pytest.raises(StatementError, match=r"0A000: .*materialized view"):
            door.execute("CREATE MATERIALIZED VIEW v AS SELECT n FROM numbers")
        commands = str([each.info["cmdline"] for each in psutil.process_iter(["cmdline"])])
        producer = workload.producer
        producer.produce(RECORDS, meanwhile=lambda: (first.kill_driver(), first.kill()))
        logs = lose(tmp_path / "first")

        second.start()
        survivor = RestDoor(second)
        survivor.execute(context)
        workload = Workload(kafka, survivor, seed, with_view=False)
        workload.producer = producer
        producer.produce(RECORDS, meanwhile=lambda: None)
        until(lambda: not workload.faults(), lambda: f"{workload.faults()}\n{second.log()[-3000:]}")
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
    finally:
        first.stop()
        second.stop()
