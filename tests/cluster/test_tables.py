"""Batches into tables from tasks on two workers: each row once, though an executor is killed inside the first batch, and the driver inside
the second one."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from harness.kafka import KafkaClient
from harness.kinesis import ACCESS_KEY, SECRET_KEY
from harness.patience import PATIENCE_S, until
from harness.s3 import S3Client
from harness.spark_cluster import SparkCluster
from headrace.connectors.checkpoint_bucket import Login
from headrace.connectors.checkpoint_store import store_at
from headrace.testing.processes import running_after
from tests.stores.pipeline import TablePipeline

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.faults,
    pytest.mark.xdist_group("tests/cluster"),
]


@pytest.mark.parametrize(
    ("kind", "place"), [("snowflake", "folder"), ("snowflake", "s3"), ("databricks", "folder")]
)
def test_nothing_is_lost_or_doubled_when_executor_and_driver_are_killed_inside_batches(
    kind: str,
    place: str,
    request: pytest.FixtureRequest,
    cluster: SparkCluster,
    kafka: KafkaClient,
    s3: S3Client,
    tmp_path: Path,
    seed: str,
) -> None:
    login = Login(s3.server.uri, key_id=ACCESS_KEY, secret=SECRET_KEY)
    folder = f"s3://{s3.bucket}/tables" if place == "s3" else str(tmp_path / "checkpoints")
    checkpoint = store_at(folder, login).at(seed)
    pipeline = TablePipeline(
        kind,
        request.getfixturevalue(kind),
        kafka,
        tmp_path,
        seed,
        partitions=2,
        checkpoint=checkpoint.uri,
        options={"spark_master": cluster.master, "warm_up": False, "checkpoints": folder},
        environment={"HEADRACE_SPARK_SECRET": cluster.secret, **login.variables()},
        is_slow=True,
    )

    def kill_executor() -> None:
        """Stop an executor while the tasks of the first batch run, so that its task cannot end, and kill it."""
        until(lambda: len(cluster.executors()) == 2, "two executors")
        until(lambda: checkpoint.names("offsets"), "a batch whose input is fixed")
        executor = cluster.executors()[0]
        executor.suspend()
        time.sleep(1)
        assert not checkpoint.names("commits")
        executor.kill()
        running_after([executor], PATIENCE_S)

    pipeline.check_death(meanwhile=kill_executor)
