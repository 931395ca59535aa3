"""Time of the tasks of each query, measured by the extension's listener (`TaskTimes.scala`)."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter
from pyspark.sql import SparkSession

from headrace.engine.driver.jvm import jvm
from headrace.engine.protocol import TaskTime

_QUERY_PROPERTY = "headrace.query"
_TIMES = TypeAdapter(dict[str, TaskTime])


def attribute_jobs(session: SparkSession, query_id: str) -> None:
    """Count the tasks of the jobs that this thread starts from now on, and of the streaming queries, as those of a query."""
    session.sparkContext.setLocalProperty(_QUERY_PROPERTY, query_id)


class TaskTimes:
    """Measures the tasks of a session from now on."""

    def __init__(self, session: SparkSession) -> None:
        context: Any = session.sparkContext._jsc.sc()
        self._times: Any = jvm(session).org.apache.spark.headrace.TaskTimes.measure(context)

    def take(self) -> dict[str, TaskTime]:
        """Return the time since the last call by query, without queries that ran no task."""
        return _TIMES.validate_json(self._times.take())
