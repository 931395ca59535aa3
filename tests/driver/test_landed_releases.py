"""A query of a landed release continues from the checkpoint that it left."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.kafka import KafkaClient
from headrace.catalog.catalog import Catalog
from headrace.connectors.kafka.spark import identify
from headrace.planner.physical import SparkPlan
from headrace.testing.topics import Pair
from tests.driver.control import DriverControl
from tests.releases import LANDED, RECORDS, SINK, SOURCE, WINDOWED, restore, restore_checkpoint

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]


@pytest.mark.parametrize("version", LANDED)
def test_an_exactly_once_window_continues_from_its_positions_and_its_state(
    version: str,
    driver: DriverControl,
    kafka: KafkaClient,
    checkpoint: Path,
    tmp_path: Path,
    consumed: Callable[..., list[Pair]],
) -> None:
    for topic in (SOURCE, SINK):
        kafka.create(topic)
    # Records in the place of those that were read: if the query read them again, or without its state, the sums would differ.
    kafka.produce(
        SOURCE,
        [(None, '{"id": 0, "customer": "a", "amount": 1000.0, "at": "2026-01-01 00:00:01"}')] * len(RECORDS),
    )
    restore(version, tmp_path)
    catalog = Catalog.open(tmp_path)
    query = catalog.query_by_name(WINDOWED)
    assert query is not None
    store = {"uris": kafka.bootstrap, "tls.disabled": "TRUE"}
    answer = identify(store)
    restore_checkpoint(version, checkpoint, {**answer((SOURCE,)), **answer((SINK,))})
    plan = SparkPlan.from_json(query.plan)
    catalog.close()
    driver.start(plan, checkpoint=checkpoint, stores={"kafka": store}, query_id=query.id)
    # A second record of the open window, and one that closes it.
    kafka.produce(
        SOURCE,
        [
            (None, '{"id": 4, "customer": "a", "amount": 10.0, "at": "2026-01-01 00:00:40"}'),
            (None, '{"id": 5, "customer": "c", "amount": 1.0, "at": "2026-01-01 00:02:00"}'),
        ],
    )
    windows = [json.loads(value or "") for _, value in consumed(SINK, 2)]
    driver.stop(query.id)
    kafka.drop([SOURCE, SINK])  # The next release has the same topics.
    assert sorted((row["customer"], row["n"], row["total"]) for row in windows) == [
        ("a", 3, 14.0),
        ("b", 1, 4.0),
    ]
