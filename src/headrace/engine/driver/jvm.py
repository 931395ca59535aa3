"""Access to Spark's JVM where pyspark has no Python interface."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def jvm(session: SparkSession) -> Any:
    """Return the JVM's packages, through py4j; raises RuntimeError if the JVM has ended."""
    gateway = session.sparkContext._jvm
    if gateway is None:
        raise RuntimeError("the JVM of this driver ended")
    return gateway
