"""Fixtures of the gate tests: a session, a broker and a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from harness.kafka import KafkaClient
from harness.spark import spark_session
from tests.watermarks.streams import Lab


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session of each module's own, so that none finds the queries or the tables of another."""
    with spark_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture
def lab(kafka: KafkaClient, spark: SparkSession, tmp_path: Path) -> Iterator[Lab]:
    """The queries of a test end with it."""
    yield Lab(kafka, spark, tmp_path)
    for query in spark.streams.active:
        query.stop()
