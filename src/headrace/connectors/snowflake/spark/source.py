"""A table of Snowflake's as it is at one time: see `connectors.table_scan`."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headrace.connectors import table_scan
from headrace.connectors.snowflake import tables, types
from headrace.connectors.snowflake.client import Snowflake, literal, quoted
from headrace.connectors.streaming import TableRequest
from headrace.connectors.table_scan import Scan, ScannedTable, TableReader
from headrace.core.errors import UserError
from headrace.core.schema import Schema
from headrace.core.sqlstate import SqlState
from headrace.core.types import Array, DataType, Map, Struct, Timestamp
from headrace.formats.types import name_sql, spark_type, text_sql

_COMPARABLE = ("NUMBER", "DATE", "BOOLEAN")


def frame(session: SparkSession, request: TableRequest) -> DataFrame:
    """See `table` of `connectors.streaming`. Raises UserError 3D007, 42703 or 42P16."""
    with Snowflake(request.properties) as snowflake:
        table = tables.find(snowflake, request.entity)
    tables.check_readable(table, request.entity, Schema(request.columns))
    column_types = {column.name: table.columns[column.name] for column in request.columns}
    scan = Scan(
        request.properties,
        table.name,
        tuple(
            types.read_sql(column_types[column.name].name, column.type, column_types[column.name].type)
            for column in request.columns
        ),
        {
            name: quoted(column.name)
            for name, column in column_types.items()
            if types.name_of(column.type) in _COMPARABLE
        },
    )
    schema = ", ".join(
        f"{name_sql(column.name)} {spark_type(types.fetched(column.type))}" for column in request.columns
    )
    return table_scan.frame(session, SnowflakeTable, scan, schema).selectExpr(
        *(f"{_value_sql(column.name, column.type)} AS {name_sql(column.name)}" for column in request.columns)
    )


def _value_sql(name: str, kind: DataType) -> str:
    value = name_sql(name)
    match kind:
        case Timestamp():
            return f"timestamp_micros({value})"
        case Array() | Map() | Struct():
            return f"from_json({value}, {text_sql(spark_type(kind))})"
    return value


class SnowflakeReader(TableReader):
    """The rows of a query of Snowflake's."""

    def rows(self, statement: str) -> Iterator[pa.RecordBatch]:
        with Snowflake(self.scan.store) as snowflake:
            for part in snowflake.arrow(statement):
                arrays = [_cast(part.column(number), one) for number, one in enumerate(self.schema)]
                yield from pa.table(arrays, schema=self.schema).to_batches()

    def literal(self, value: Any) -> str | None:
        match value:
            case bool():
                return "TRUE" if value else "FALSE"
            case int():
                return str(value)
            case decimal.Decimal() if value.is_finite():
                return format(value, "f")
            case datetime.datetime():
                return None
            case datetime.date():
                return f"{literal(value.isoformat())}::DATE"
        return None


class SnowflakeTable(ScannedTable):
    """Spark's side of it."""

    table_reader = SnowflakeReader

    @classmethod
    def name(cls) -> str:
        return "headrace_snowflake"


def _cast(values: pa.ChunkedArray, target: pa.Field) -> pa.ChunkedArray:
    try:
        if pa.types.is_decimal(target.type) and pa.types.is_integer(values.type):
            values = values.cast(pa.decimal128(38, 0))
        return values.cast(target.type)
    except pa.ArrowInvalid:
        raise UserError(
            SqlState.NUMERIC_VALUE_OUT_OF_RANGE,
            f"a value of the column {target.name} does not fit the type that the relation has there",
            hint="Create the relation again, with the types that DESCRIBE ENTITY shows.",
        ) from None
