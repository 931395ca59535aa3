"""One Spark session in this process for the whole folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.harness.kafka import KafkaClient
from tests.watermarks.streams import Lab, start_spark


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Ended with each module, so that the JVM of one does not take the memory of the next suite."""
    session = start_spark(tmp_path_factory.mktemp("spark"))
    yield session
    for query in session.streams.active:
        query.stop()
    session.stop()


@pytest.fixture
def lab(kafka: KafkaClient, spark: SparkSession, tmp_path: Path) -> Iterator[Lab]:
    """The queries of a test end with it."""
    yield Lab(kafka, spark, tmp_path)
    for query in spark.streams.active:
        query.stop()
