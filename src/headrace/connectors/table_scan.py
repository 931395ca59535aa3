"""A table as it is at one time, as a batch data source of Spark's in Python: one statement of the store's, whose rows come as Arrow.

Spark tells which rows it wants; the store is asked for these alone where both mean the same by it, and Spark looks at them again.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, datasource
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from headrace.connectors.carried_errors import carrying_errors

ROWS_PER_BATCH = 20_000
# What Spark shows of options it shows without the values of those whose names say that they are secret.
_SCAN = "secret_scan"
_COMPARISONS = {
    datasource.EqualTo: "=",
    datasource.GreaterThan: ">",
    datasource.GreaterThanOrEqual: ">=",
    datasource.LessThan: "<",
    datasource.LessThanOrEqual: "<=",
}


@dataclass(frozen=True)
class Scan:
    """All that a worker must know, as the store's SQL: the table, an expression for each column of the schema in its order, and expressions
    of those columns, by their names, that the store compares as Spark does.
    """

    store: Mapping[str, str] = field(repr=False)
    table: str
    columns: Sequence[str]
    comparable: Mapping[str, str]

    def statement(self, conditions: Sequence[str]) -> str:
        """Return a SELECT of the rows for which all of these hold."""
        # A column must not hide behind the expression of the same name.
        columns = ", ".join(f"{sql} AS c{number}" for number, sql in enumerate(self.columns))
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"SELECT {columns} FROM {self.table}{where}"  # noqa: S608


class TableReader(DataSourceReader, ABC):
    """Reader of a store type's tables; a single partition, so that all rows belong to the same moment."""

    def __init__(self, scan: Scan, schema: StructType) -> None:
        self.scan = scan
        self.schema = to_arrow_schema(schema, timestamp_utc=True)
        self._conditions: list[str] = []

    @abstractmethod
    def rows(self, statement: str) -> Iterator[pa.RecordBatch]:
        """Yield the store's answer, by `schema`; raises its errors as ours."""

    @abstractmethod
    def literal(self, value: Any) -> str | None:
        """Return a value of Spark's as the store's SQL; None if it may mean something else there."""

    def condition(self, filtered: Filter, column: str) -> str | None:
        """Return a filter on an expression as the store's SQL; None if it may mean something else there."""
        if isinstance(filtered, datasource.IsNull):
            return f"{column} IS NULL"
        if isinstance(filtered, datasource.IsNotNull):
            return f"{column} IS NOT NULL"
        if isinstance(filtered, datasource.In):
            known = [literal for one in filtered.value if (literal := self.literal(one)) is not None]
            return (
                f"{column} IN ({', '.join(known)})" if known and len(known) == len(filtered.value) else None
            )
        sign, literal = _COMPARISONS.get(type(filtered)), self.literal(getattr(filtered, "value", None))
        return None if sign is None or literal is None else f"{column} {sign} {literal}"

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        for one in filters:
            name: Any = getattr(one, "attribute", ())
            column = self.scan.comparable.get(name[0]) if len(name) == 1 else None
            condition = None if column is None else self.condition(one, column)
            if condition is not None:
                self._conditions.append(condition)
        return filters

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        with carrying_errors():
            yield from self.rows(self.scan.statement(self._conditions))


class ScannedTable(DataSource):
    """Spark's side of it; a store type's own gives it a name and a reader."""

    table_reader: ClassVar[type[TableReader]]

    def schema(self) -> str:
        return self.options["schema"]

    def reader(self, schema: StructType) -> DataSourceReader:
        return self.table_reader(Scan(**json.loads(self.options[_SCAN])), schema)


def frame(session: SparkSession, source: type[ScannedTable], scan: Scan, schema: str) -> DataFrame:
    """Return the rows when Spark requests them; `schema` is the scan's columns in Spark SQL."""
    session.dataSource.register(source)
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    return (
        session.read.format(source.name())
        .option("schema", schema)
        .option(_SCAN, json.dumps(asdict(scan)))
        .load()
    )
