"""A table of ClickHouse's as it is at one time: see `connectors.table_scan`."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, datasource
from pyspark.sql.datasource import Filter

from headrace.connectors import table_scan
from headrace.connectors.clickhouse import tables, types
from headrace.connectors.clickhouse.client import ClickHouse, identifier, literal
from headrace.connectors.clickhouse.failures import of_network
from headrace.connectors.streaming import TableRequest
from headrace.connectors.table_scan import ROWS_PER_BATCH, Scan, ScannedTable, TableReader
from headrace.core.schema import Schema
from headrace.formats.types import name_sql, spark_type

_SETTINGS: Mapping[str, str | int] = {
    "output_format_arrow_string_as_string": 1,
    "output_format_arrow_low_cardinality_as_dictionary": 0,
    "output_format_arrow_compression_method": "lz4_frame",
    "max_block_size": ROWS_PER_BATCH,
}


def frame(session: SparkSession, request: TableRequest) -> DataFrame:
    """See `table` of `connectors.streaming`. Raises UserError 3D007, 42703 or 42P16."""
    with ClickHouse(request.properties) as clickhouse:
        table = tables.find(clickhouse, request.entity)
    tables.check_readable(table, request.entity, Schema(request.columns))
    column_types = {column.name: table.readable[column.name] for column in request.columns}
    scan = Scan(
        request.properties,
        table.name + table.final,
        tuple(
            types.read_sql(column.name, column.type, column_types[column.name]) for column in request.columns
        ),
        {name: identifier(name) for name, kind in column_types.items() if types.compares(kind)},
    )
    schema = ", ".join(f"{name_sql(column.name)} {spark_type(column.type)}" for column in request.columns)
    return table_scan.frame(session, ClickHouseTable, scan, schema)


class ClickHouseReader(TableReader):
    """The rows of a query of ClickHouse's."""

    def rows(self, statement: str) -> Iterator[pa.RecordBatch]:
        with ClickHouse(self.scan.store) as clickhouse:
            try:
                with clickhouse.arrow(statement, _SETTINGS) as content, pa.ipc.open_stream(content) as stream:
                    for batch in stream:
                        table = pa.Table.from_batches([batch]).rename_columns(self.schema.names)
                        yield from table.cast(self.schema).to_batches()
            except pa.ArrowInvalid:
                # An error in the middle of the rows comes as its text.
                raise of_network(httpx.ReadError("the rows ended early"), clickhouse.server) from None

    def condition(self, filtered: Filter, column: str) -> str | None:
        if isinstance(filtered, datasource.StringStartsWith):
            return f"startsWith({column}, {literal(filtered.value)})"
        return super().condition(filtered, column)

    def literal(self, value: Any) -> str | None:
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


class ClickHouseTable(ScannedTable):
    """Spark's side of it."""

    table_reader = ClickHouseReader

    @classmethod
    def name(cls) -> str:
        return "headrace_clickhouse"
