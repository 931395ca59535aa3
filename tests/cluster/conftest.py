"""Fixtures of this folder's tests: one cluster of two workers, which its tests do not leave whole, so that each gets its own driver."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.spark_cluster import SparkCluster
from tests.driver.conftest import topic
from tests.faults.conftest import random_source

__all__ = ["random_source", "topic"]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A master and two workers."""
    with SparkCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster
