"""A table as a batch source of Spark's, in Python: a task for each part."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from headrace.connectors.carried_errors import carrying_errors
from headrace.connectors.postgresql import batch
from headrace.connectors.postgresql.batch import Condition, Reading
from headrace.connectors.postgresql.connection import connect
from headrace.connectors.postgresql.failures import classified
from headrace.connectors.postgresql.spark.source import READING
from headrace.connectors.streaming import TableRequest, tasks
from headrace.formats.types import name_sql, spark_type

_OPERATORS = {EqualTo: "=", LessThan: "<", LessThanOrEqual: "<=", GreaterThan: ">", GreaterThanOrEqual: ">="}


def frame(session: SparkSession, request: TableRequest) -> DataFrame:
    """See `table` of `connectors.streaming`."""
    with classified(request.properties):
        connection = connect(request.properties, *request.entity[:-2])
    # The snapshot is there for as long as its transaction.
    request.resources.callback(connection.close)
    parts = tasks(session)
    reading = batch.begin(connection, request.properties, request.entity, request.columns, parts)
    session.dataSource.register(TableBatches)
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    schema = ", ".join(f"{name_sql(column.name)} {spark_type(column.type)}" for column in request.columns)
    source = session.read.format(TableBatches.name()).option("schema", schema)
    return source.option(READING, json.dumps(reading.to_data())).load()


class TableBatches(DataSource):
    """Spark's side of it; takes the options `READING`, as text, and `schema`."""

    @classmethod
    def name(cls) -> str:
        return "headrace_postgresql_table"

    def schema(self) -> str:
        return self.options["schema"]

    def reader(self, schema: object) -> DataSourceReader:  # noqa: ARG002
        return _Reader(Reading.from_data(json.loads(self.options[READING])))


class _Part(InputPartition):
    """A part by its number."""


class _Reader(DataSourceReader):
    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._conditions: list[Condition] = []

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802
        """Keep the filters that PostgreSQL cannot apply; Spark checks every row again all the same."""
        conditions = (_condition(item) for item in filters)
        self._conditions = [item for item in conditions if item and batch.can_choose(self._reading, item)]
        return iter(filters)

    def partitions(self) -> list[InputPartition]:
        return [_Part(number) for number in range(len(self._reading.parts))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with carrying_errors():
            yield from batch.read(self._reading, self._reading.parts[partition.value], self._conditions)


def _condition(filtered: Filter) -> Condition | None:
    attribute: Any = getattr(filtered, "attribute", ())
    if len(attribute) != 1:
        return None
    if isinstance(filtered, In):
        return Condition(attribute[0], "=", tuple(filtered.value))
    operator = _OPERATORS.get(type(filtered))
    return Condition(attribute[0], operator, (filtered.value,)) if operator else None  # type: ignore[attr-defined]
