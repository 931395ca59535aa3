"""A compute pool on a cluster of two workers, from CREATE COMPUTE_POOL to the rows of a windowed aggregate."""

from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest

from harness.folders import logs_below
from harness.kafka import KafkaClient
from harness.patience import until
from harness.process import HeadraceProcess
from harness.spark_cluster import SparkCluster
from headrace.testing.door import RestDoor
from headrace.testing.runner import StatementError

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.xdist_group("tests/cluster"),
]

WINDOWS = """CREATE CHANGELOG {name} WITH ('topic' = '{name}_{seed}') AS
SELECT window_start, window_end, page, COUNT(*) AS clicks, SUM(ms) AS total
FROM TUMBLE(clicks, SIZE 10 SECONDS) WITH ('starting.position' = 'earliest')
GROUP BY window_start, window_end, page"""


def test_a_pool_on_two_workers_runs_a_windowed_aggregate(
    cluster: SparkCluster, kafka: KafkaClient, tmp_path: Path, seed: str
) -> None:
    mount = tmp_path / "mount"
    mount.mkdir()
    server = HeadraceProcess(
        tmp_path / "data",
        environment={"HEADRACE_SPARK_SECRET": cluster.secret, "HEADRACE_CHECKPOINT_FOLDERS": str(mount)},
    ).start()
    try:
        door = RestDoor(server)
        door.execute(
            f"STOP COMPUTE_POOL default_pool; CREATE COMPUTE_POOL far WITH ('compute_pool.master' = '{cluster.master}', "
            "'compute_pool.executors.min' = 2, 'compute_pool.executors.max' = 3, "
            f"'compute_pool.executor.memory' = '512m', 'compute_pool.checkpoints' = 'file:{mount}'); "
            f"USE COMPUTE_POOL far; CREATE DATABASE d; USE DATABASE d; "
            f"CREATE STORE k WITH ('type' = KAFKA, 'uris' = '{kafka.bootstrap}', 'tls.disabled' = TRUE); USE STORE k; "
            f"CREATE STREAM clicks (at BIGINT, page VARCHAR, ms INTEGER) WITH ('topic' = 'clicks_{seed}', 'topic.partitions' = 2, "
            "'topic.replicas' = 1, 'value.format' = JSON, 'timestamp' = 'at')"
        )
        door.execute(WINDOWS.format(name="far_away", seed=seed))
        for partition in (0, 1):
            rows = [
                {"at": at, "page": page, "ms": partition + 1}
                for at in range(0, 40_000, 1000)
                for page in "ab"
            ]
            kafka.produce(f"clicks_{seed}", [(None, json.dumps(row)) for row in rows], partition=partition)
        expected = {(end, page): (20, 30) for end in (10, 20, 30) for page in "ab"}

        def written() -> dict[tuple[int, str], tuple[int, int]]:
            values = [json.loads(value or "") for _, value in kafka.consume(f"far_away_{seed}")]
            return {
                (int(row["window_end"][17:19]), row["page"]): (row["clicks"], row["total"]) for row in values
            }

        until(lambda: written() == expected, lambda: f"{written()}\n{server.log()[-2000:]}")
        # The cluster has room for two executors. The driver reports them from time to time.
        until(
            lambda: dict(_described(door)).items() >= {"Executors": "2", "Slots": "2"}.items(),
            lambda: str(_described(door)),
        )
        pool = dict(_described(door))
        assert (pool["ExecutorsMin"], pool["ExecutorsMax"]) == ("2", "3")
        assert list(mount.glob("*/*/state/*/*/*.changelog")), "the state is elsewhere"
        assert not (tmp_path / "data" / "checkpoints").exists() or not list(
            (tmp_path / "data" / "checkpoints").iterdir()
        )
        with pytest.raises(StatementError, match=r"0A000: .*on a cluster"):
            door.execute(
                "CREATE STREAM fast AS SELECT page FROM clicks QUERY WITH ('execution.mode' = 'real_time')"
            )
        assert not [
            each.pid
            for each in psutil.process_iter(["cmdline"])
            if cluster.secret in str(each.info["cmdline"])
        ]
        assert cluster.secret not in "".join(
            path.read_text(errors="replace") for path in logs_below(tmp_path / "data")
        )
        door.close()
    finally:
        server.stop()


def _described(door: RestDoor) -> list[tuple[str, str | None]]:
    names = ("Name", "Executors", "Slots", "ExecutorsMin", "ExecutorsMax")
    (row,) = door.execute(
        "SELECT name, executors, slots, executors_min, executors_max FROM deltastream.sys.compute_pools WHERE name = 'far'"
    )
    return list(zip(names, row, strict=True))
