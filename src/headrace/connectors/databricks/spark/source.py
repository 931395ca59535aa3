"""A table of Databricks' as it is at one time: see `connectors.table_scan`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headrace.connectors import table_scan
from headrace.connectors.databricks import tables, types
from headrace.connectors.databricks.warehouse import Warehouse
from headrace.connectors.streaming import TableRequest
from headrace.connectors.table_scan import ROWS_PER_BATCH, Scan, ScannedTable, TableReader
from headrace.core.schema import Schema
from headrace.core.types import BOOLEAN, INTEGRAL, Varchar
from headrace.formats.types import name_sql, text_sql


def frame(session: SparkSession, request: TableRequest) -> DataFrame:
    """See `table` of `connectors.streaming`. Raises UserError 3D007, 42703 or 42P16."""
    with Warehouse(request.properties) as warehouse:
        table = tables.find(warehouse, request.entity)
    tables.check_readable(table, request.entity, Schema(request.columns))
    sent = {column.name: types.sent_sql(column.name, column.type) for column in request.columns}
    comparable = {
        column.name: sent[column.name]
        for column in request.columns
        if column.type in (BOOLEAN, *INTEGRAL) or isinstance(column.type, Varchar)
    }
    scan = Scan(request.properties, table.name, tuple(sent.values()), comparable)
    schema = ", ".join(
        f"{name_sql(column.name)} {types.sent_type(column.type)}" for column in request.columns
    )
    received = [
        f"{types.received_sql(column.name, column.type)} AS {name_sql(column.name)}"
        for column in request.columns
    ]
    return table_scan.frame(session, DatabricksTable, scan, schema).selectExpr(*received)


class DatabricksReader(TableReader):
    """The rows of a statement of the warehouse's."""

    def rows(self, statement: str) -> Iterator[pa.RecordBatch]:
        with Warehouse(self.scan.store) as warehouse:
            # TIMESTAMPs without a zone are asked for by what they are in UTC.
            warehouse.execute("SET TIME ZONE 'UTC'")
            for part in warehouse.columns(statement, ROWS_PER_BATCH):
                arrays = list(map(_array, part, self.schema))
                yield from pa.Table.from_arrays(arrays, schema=self.schema).to_batches()

    def literal(self, value: Any) -> str | None:
        match value:
            case bool():
                return "true" if value else "false"
            case int():
                return str(value)
            case str():
                return text_sql(value)
        return None


class DatabricksTable(ScannedTable):
    """Spark's side of it."""

    table_reader = DatabricksReader

    @classmethod
    def name(cls) -> str:
        return "headrace_databricks"


def _array(values: Any, target: pa.Field) -> pa.Array | pa.ChunkedArray:
    return values.cast(target.type) if isinstance(values, pa.ChunkedArray) else pa.array(values, target.type)
