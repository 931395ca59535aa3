"""The number of partitions of a query's state, which its first batch writes into the checkpoint. ADR 97."""

from __future__ import annotations

from pyspark.sql import SparkSession

_SETTING = "spark.sql.shuffle.partitions"


def divide_state(session: SparkSession, partitions: int | None) -> None:
    """Let the state of a new query that is started in a session have that many partitions; None: as many as the server's setting.

    Spark takes the number of an existing checkpoint from the checkpoint.
    """
    if partitions is not None:
        session.conf.set(_SETTING, str(partitions))
