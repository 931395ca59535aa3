from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from harness.spark import spark_session


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Yield the session of all tests of functions."""
    with spark_session(tmp_path_factory.mktemp("spark")) as session:
        yield session
