"""A table as a batch source of Spark's, in Python: a task for each part.

Spark passes its filters. Oracle evaluates the filters that both evaluate alike, and Spark evaluates all of them again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, datasource
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from headrace.connectors.carried_errors import carrying_errors
from headrace.connectors.oracle import reading, types
from headrace.connectors.oracle.reading import Condition, Reading
from headrace.connectors.streaming import TableRequest, tasks
from headrace.core.types import Array, DataType, Map, Struct
from headrace.formats.types import name_sql, spark_type, text_sql

READING = "secret_reading"
"""What Spark shows of options it shows without the values of those whose names say that they are secret."""
_OPERATORS = {
    datasource.EqualTo: "=",
    datasource.LessThan: "<",
    datasource.LessThanOrEqual: "<=",
    datasource.GreaterThan: ">",
    datasource.GreaterThanOrEqual: ">=",
}


def frame(session: SparkSession, request: TableRequest) -> DataFrame:
    """See `table` of `connectors.streaming`."""
    plan = reading.begin(request.properties, request.entity, request.columns, tasks(session))
    session.dataSource.register(OracleTable)
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    schema = ", ".join(
        f"{name_sql(column.name)} {spark_type(types.fetched(column.type))}" for column in request.columns
    )
    source = session.read.format(OracleTable.name()).option("schema", schema)
    return (
        source.option(READING, json.dumps(plan.to_data()))
        .load()
        .selectExpr(
            *(
                f"{_value_sql(column.name, column.type)} AS {name_sql(column.name)}"
                for column in request.columns
            )
        )
    )


def _value_sql(name: str, kind: DataType) -> str:
    value = name_sql(name)
    nested = isinstance(kind, Array | Map | Struct)
    return f"from_json({value}, {text_sql(spark_type(kind))})" if nested else value


class OracleTable(DataSource):
    """Spark's side of it; takes the options `READING`, as text, and `schema`."""

    @classmethod
    def name(cls) -> str:
        return "headrace_oracle"

    def schema(self) -> str:
        return self.options["schema"]

    def reader(self, schema: StructType) -> DataSourceReader:
        return TableReader(Reading.from_data(json.loads(self.options[READING])), schema)


class _Part(InputPartition):
    """A part by its number."""


class TableReader(DataSourceReader):
    """A partition for each part."""

    def __init__(self, reading: Reading, schema: StructType) -> None:
        self._reading = reading
        self._schema = to_arrow_schema(schema, timestamp_utc=True)
        self._conditions: list[Condition] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        self._conditions = [condition for one in filters if (condition := _condition(one)) is not None]
        return filters

    def partitions(self) -> list[InputPartition]:
        return [_Part(number) for number in range(len(self._reading.parts))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with carrying_errors():
            part = self._reading.parts[partition.value]
            yield from reading.read(self._reading, part, self._conditions, self._schema)


def _condition(filtered: Filter) -> Condition | None:
    name: Any = getattr(filtered, "attribute", ())
    if len(name) != 1:
        return None
    if isinstance(filtered, datasource.IsNull | datasource.IsNotNull):
        return Condition(name[0], "IS NULL" if isinstance(filtered, datasource.IsNull) else "IS NOT NULL")
    if isinstance(filtered, datasource.In):
        return Condition(name[0], "=", tuple(filtered.value))
    operator = _OPERATORS.get(type(filtered))
    return Condition(name[0], operator, (filtered.value,)) if operator else None  # type: ignore[attr-defined]
