"""The JVM's processor time for planning a query.

Processor time, since time on the clock says little while a driver that was just started plans all its queries at once.
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.engine.driver.jvm import jvm


class PlanningTime:
    """Counts the JVM's work for the thread that creates it and, after `begun`, Spark's work to plan batches."""

    def __init__(self, session: SparkSession) -> None:
        self._clock = jvm(session).io.headrace.spark.ProcessorTime
        self._caller = self._clock.currentThread()
        self._before_ms = self._clock.usedMs(self._caller)
        self._query: StreamingQuery | None = None

    def started(self, query: StreamingQuery) -> None:
        """Start counting for a query that was started, before its first batch is planned."""
        self._query = query

    def used_ms(self) -> int | None:
        """Return the sum so far; None once a batch is done, which shows that there is an end to it."""
        used = self._clock.usedMs(self._caller) - self._before_ms
        if self._query is not None:
            if self._query.lastProgress is not None:
                return None
            used += self._clock.usedMs(self._clock.batchThread(self._query._jsq))
        return int(used)
