"""Each row once, though a driver is killed inside its second batch: Spark's own batches, and the table as another tool reads it.

PostgreSQL has its own in `tests/faults`, where moments are many; `test_faults.py` is about batches without Spark, and
`tests/cluster/test_tables.py` about tasks on other machines.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.faults import some
from harness.kafka import KafkaClient
from tests.stores.pipeline import DEATHS, TablePipeline

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]


@pytest.mark.parametrize("kind", some(DEATHS))
def test_nothing_is_lost_or_doubled_when_the_driver_is_killed_inside_a_batch(
    kind: str, request: pytest.FixtureRequest, kafka: KafkaClient, tmp_path: Path, seed: str
) -> None:
    TablePipeline(
        kind,
        request.getfixturevalue(kind),
        kafka,
        tmp_path,
        seed,
        partitions=DEATHS[kind].partitions,
        checkpoint=str(tmp_path / "checkpoint"),
    ).check_death()
