"""A table as it is at one time, as a batch data source of Spark's in Python: one statement of the warehouse's.

Spark tells which rows it wants; the warehouse is asked for these alone where both mean the same by it, and Spark looks at them again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, datasource
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from headrace.connectors.carried_errors import carrying_errors
from headrace.connectors.databricks import tables, types
from headrace.connectors.databricks.warehouse import Warehouse
from headrace.connectors.streaming import TableRequest
from headrace.core.schema import Schema
from headrace.core.types import BOOLEAN, INTEGRAL, Varchar
from headrace.formats.types import name_sql, text_sql

READING = "secret_reading"
"""What Spark shows of options it shows without the values of those whose names say that they are secret."""
ROWS_PER_BATCH = 20_000
_COMPARISONS = {
    datasource.EqualTo: "=",
    datasource.GreaterThan: ">",
    datasource.GreaterThanOrEqual: ">=",
    datasource.LessThan: "<",
    datasource.LessThanOrEqual: "<=",
}


@dataclass(frozen=True)
class Reading:
    """All that a worker must know: of each column an expression, and those whose expressions compare as Spark does."""

    store: Mapping[str, str] = field(repr=False)
    source: str
    columns: Mapping[str, str]
    comparable: tuple[str, ...]

    def to_json(self) -> str:
        """As text, with the secrets of the store."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Reading:
        """The opposite of `to_json`."""
        return cls(**json.loads(text))


def frame(session: SparkSession, request: TableRequest) -> DataFrame:
    """See `table` of `connectors.streaming`. Raises UserError 3D007, 42703 or 42P16."""
    with Warehouse(request.properties) as warehouse:
        table = tables.find(warehouse, request.entity)
    tables.check_readable(table, request.entity, Schema(request.columns))
    reading = Reading(
        dict(request.properties),
        table.name,
        {column.name: types.sent_sql(column.name, column.type) for column in request.columns},
        tuple(
            column.name
            for column in request.columns
            if column.type in (BOOLEAN, *INTEGRAL) or isinstance(column.type, Varchar)
        ),
    )
    session.dataSource.register(DatabricksTable)
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    sent = ", ".join(f"{name_sql(column.name)} {types.sent_type(column.type)}" for column in request.columns)
    source = session.read.format(DatabricksTable.name()).option("schema", sent)
    received = [
        f"{types.received_sql(column.name, column.type)} AS {name_sql(column.name)}"
        for column in request.columns
    ]
    return source.option(READING, reading.to_json()).load().selectExpr(*received)


class DatabricksTable(DataSource):
    """Spark's side of it; takes the options `READING`, as text, and `schema`."""

    @classmethod
    def name(cls) -> str:
        return "headrace_databricks"

    def schema(self) -> str:
        return self.options["schema"]

    def reader(self, schema: StructType) -> DataSourceReader:
        return TableReader(Reading.from_json(self.options[READING]), schema)


class TableReader(DataSourceReader):
    """One partition, so that the rows are of one moment."""

    def __init__(self, reading: Reading, schema: StructType) -> None:
        self._reading = reading
        self._schema = to_arrow_schema(schema, timestamp_utc=True)
        self._conditions: list[str] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        for one in filters:
            found = condition(one, self._reading)
            if found is not None:
                self._conditions.append(found)
        return filters

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        # A column must not hide behind the expression of the same name.
        columns = ", ".join(
            f"{sql} AS c{number}" for number, sql in enumerate(self._reading.columns.values())
        )
        wanted = f" WHERE {' AND '.join(self._conditions)}" if self._conditions else ""
        with carrying_errors(), Warehouse(self._reading.store) as warehouse:
            # TIMESTAMPs without a zone are asked for by what they are in UTC.
            warehouse.execute("SET TIME ZONE 'UTC'")
            statement = f"SELECT {columns} FROM {self._reading.source}{wanted}"  # noqa: S608
            for part in warehouse.columns(statement, ROWS_PER_BATCH):
                yield from pa.Table.from_arrays(
                    list(map(self._array, part, self._schema)), schema=self._schema
                ).to_batches()

    def _array(self, values: Any, wanted: pa.Field) -> pa.Array | pa.ChunkedArray:
        return (
            values.cast(wanted.type) if isinstance(values, pa.ChunkedArray) else pa.array(values, wanted.type)
        )


def condition(wanted: Filter, reading: Reading) -> str | None:
    """As the warehouse's SQL; None for what is not sure to mean the same there."""
    name: Any = getattr(wanted, "attribute", ())
    if len(name) != 1 or name[0] not in reading.comparable:
        return None
    column = reading.columns[name[0]]
    if isinstance(wanted, datasource.IsNull):
        return f"{column} IS NULL"
    if isinstance(wanted, datasource.IsNotNull):
        return f"{column} IS NOT NULL"
    if isinstance(wanted, datasource.In):
        known = [found for one in wanted.value if (found := _literal(one)) is not None]
        return f"{column} IN ({', '.join(known)})" if known and len(known) == len(wanted.value) else None
    sign, value = _COMPARISONS.get(type(wanted)), _literal(getattr(wanted, "value", None))
    return None if sign is None or value is None else f"{column} {sign} {value}"


def _literal(value: Any) -> str | None:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case str():
            return text_sql(value)
    return None
