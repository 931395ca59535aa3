"""A table as it is at one time, as a batch data source of Spark's in Python: one query of ClickHouse's, whose rows come as Arrow.

Spark tells which rows it wants; ClickHouse is asked for these alone where both mean the same by it, and Spark looks at them again.
"""

from __future__ import annotations

import datetime
import decimal
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import httpx
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, datasource
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from headrace.connectors.carried_errors import carrying_errors
from headrace.connectors.clickhouse import tables, types
from headrace.connectors.clickhouse.client import ClickHouse, identifier, literal
from headrace.connectors.clickhouse.failures import of_network
from headrace.connectors.streaming import TableRequest
from headrace.core.schema import Schema
from headrace.formats.types import name_sql, spark_type

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
_SETTINGS: Mapping[str, str | int] = {
    "output_format_arrow_string_as_string": 1,
    "output_format_arrow_low_cardinality_as_dictionary": 0,
    "output_format_arrow_compression_method": "lz4_frame",
    "max_block_size": ROWS_PER_BATCH,
}


@dataclass(frozen=True)
class Reading:
    """All that a worker must know: of each column an expression, and those that filters may name as they are."""

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
    with ClickHouse(request.properties) as clickhouse:
        table = tables.find(clickhouse, request.entity)
    tables.check_readable(table, request.entity, Schema(request.columns))
    reading = Reading(
        request.properties,
        table.name + table.final,
        {
            column.name: types.read_sql(column.name, column.type, table.readable[column.name])
            for column in request.columns
        },
        tuple(column.name for column in request.columns if types.compares(table.readable[column.name])),
    )
    session.dataSource.register(ClickHouseTable)
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    schema = ", ".join(f"{name_sql(column.name)} {spark_type(column.type)}" for column in request.columns)
    source = session.read.format(ClickHouseTable.name()).option("schema", schema)
    return source.option(READING, reading.to_json()).load()


class ClickHouseTable(DataSource):
    """Spark's side of it; takes the options `READING`, as text, and `schema`."""

    @classmethod
    def name(cls) -> str:
        return "headrace_clickhouse"

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
            found = condition(one, self._reading.comparable)
            if found is not None:
                self._conditions.append(found)
        return filters

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        with carrying_errors():
            yield from self._rows()

    def _rows(self) -> Iterator[pa.RecordBatch]:
        # A column must not hide behind the expression of the same name.
        columns = ", ".join(
            f"{sql} AS c{number}" for number, sql in enumerate(self._reading.columns.values())
        )
        wanted = f" WHERE {' AND '.join(self._conditions)}" if self._conditions else ""
        statement = f"SELECT {columns} FROM {self._reading.source}{wanted}"  # noqa: S608
        with ClickHouse(self._reading.store) as clickhouse:
            try:
                with clickhouse.arrow(statement, _SETTINGS) as content, pa.ipc.open_stream(content) as stream:
                    for batch in stream:
                        table = pa.Table.from_batches([batch]).rename_columns(self._schema.names)
                        yield from table.cast(self._schema).to_batches()
            except pa.ArrowInvalid:
                # An error in the middle of the rows comes as its text.
                raise of_network(httpx.ReadError("the rows ended early"), clickhouse.server) from None


def condition(wanted: Filter, comparable: Iterable[str]) -> str | None:
    """As ClickHouse's SQL; None for what is not sure to mean the same there."""
    name: Any = getattr(wanted, "attribute", ())
    if len(name) != 1 or name[0] not in comparable:
        return None
    column = identifier(name[0])
    value = getattr(wanted, "value", None)
    if isinstance(wanted, datasource.IsNull):
        return f"{column} IS NULL"
    if isinstance(wanted, datasource.IsNotNull):
        return f"{column} IS NOT NULL"
    if isinstance(wanted, datasource.StringStartsWith):
        return f"startsWith({column}, {literal(wanted.value)})"
    if isinstance(wanted, datasource.In):
        known = [found for one in wanted.value if (found := _literal(one)) is not None]
        return f"{column} IN ({', '.join(known)})" if known and len(known) == len(wanted.value) else None
    sign, found = _COMPARISONS.get(type(wanted)), _literal(value)
    return None if sign is None or found is None else f"{column} {sign} {found}"


def _literal(value: Any) -> str | None:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case str():
            return literal(value)
        case decimal.Decimal() if value.is_finite():
            scale = max(0, -int(value.as_tuple().exponent))
            return f"CAST({literal(format(value, 'f'))}, 'Decimal(76, {scale})')"
        case datetime.datetime() if value.tzinfo is not None:
            since = value - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
            return f"fromUnixTimestamp64Micro({since // datetime.timedelta(microseconds=1)}, 'UTC')"
        case datetime.datetime():
            return None
        case datetime.date():
            return f"toDate32({literal(value.isoformat())})"
    return None
