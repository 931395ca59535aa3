"""Rows of a query into a table, each batch in a few large INSERTs.

Spark first writes a batch into files next to the checkpoint, and then sends these files. A batch that is repeated after a crash is
therefore sent in the same parts under the same names, by which ClickHouse deduplicates them. ADR 23 gives the reasons.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from pyspark.sql import DataFrame

from headrace.connectors.carried_errors import carried_text
from headrace.connectors.clickhouse import tables, types
from headrace.connectors.clickhouse.client import ClickHouse, identifier
from headrace.connectors.clickhouse.tables import Table
from headrace.connectors.clickhouse.types import Type
from headrace.connectors.journal import Journal
from headrace.connectors.streaming import RowSinkRequest
from headrace.core.errors import UserError
from headrace.core.internal_columns import DELETED
from headrace.core.names import path_text
from headrace.core.schema import Column, Schema
from headrace.core.sqlstate import SqlState
from headrace.formats.types import name_sql, text_sql
from headrace.runtime.fail_points import fail_point

ROWS_PER_INSERT = 250_000
_FOLDER = "clickhouse"
_SETTINGS = {
    "async_insert": 0,
    "insert_deduplicate": 1,
    "deduplicate_blocks_in_dependent_materialized_views": 1,
    # A file is one block: in each of the table's partitions, ClickHouse inserts all of its rows or none.
    "min_insert_block_size_rows": ROWS_PER_INSERT,
    "min_insert_block_size_bytes": 0,
    "max_insert_threads": 1,
    "input_format_null_as_default": 0,
}


def writer(request: RowSinkRequest) -> Callable[[DataFrame, int], None]:
    """See `write_rows` of `connectors.streaming`. Raises UserError 3D007, 42703 or 42P16 if the table has changed."""
    clickhouse = request.resources.enter_context(ClickHouse(request.properties))
    table = tables.find(clickhouse, request.entity)
    tables.check(table, request.entity, Schema(request.columns, request.key), upsert=request.upsert)
    if request.guarantee == "exactly_once" and not request.upsert and table.window == 0:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"the table {path_text(request.entity)} does not know an INSERT again that comes twice",
            hint=f"In ClickHouse: ALTER TABLE … MODIFY SETTING non_replicated_deduplication_window = {tables.DEDUPLICATED_INSERTS}; "
            "or use 'delivery.guarantee' = at_least_once.",
        )
    return _Output(request, clickhouse, table).write


class _Output:
    """A query's output into a table."""

    def __init__(self, request: RowSinkRequest, clickhouse: ClickHouse, table: Table) -> None:
        self._query = request.query_id
        self._clickhouse = clickhouse
        self._table = table
        self._upsert = request.upsert
        self._selected = [selected(column, table.types[column.name], request) for column in request.columns]
        names = [column.name for column in request.columns]
        if request.upsert:
            self._selected.append(f"CAST({DELETED} AS TINYINT) AS {name_sql(str(table.deleted))}")
            names += [str(table.deleted), str(table.version)]
        self._target = f"{table.name} ({', '.join(map(identifier, names))})"
        self._journal = Journal(request.checkpoint.at(_FOLDER), request.resources)

    def write(self, batch: DataFrame, epoch: int) -> None:
        """Returns when ClickHouse has the rows of an epoch."""
        if not self._journal.contains(epoch):
            self._keep(batch, epoch)
        for file in self._journal.left():
            token = f"{self._query}/{epoch}/{file.name}"
            self._clickhouse.insert(self._target, file, {**_SETTINGS, "insert_deduplication_token": token})
            fail_point("inside_transaction")
            self._journal.sent(file)

    def _keep(self, batch: DataFrame, epoch: int) -> None:
        version = self._next_version() if self._upsert else 0
        rows = batch.selectExpr(*self._selected)
        if self._upsert:
            rows = rows.selectExpr("*", f"{version}L AS {name_sql(str(self._table.version))}")
        rows.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        # ClickHouse merges few large parts best, so their number must not depend on the tasks of a query.
        self._journal.keep(rows.repartition(1), epoch, version, rows_per_file=ROWS_PER_INSERT)

    def _next_version(self) -> int:
        """Return a version greater than all versions in the table and all of this query's, even if a clock was set back."""
        last = self._journal.version
        if last is None:
            last = tables.newest_version(self._clickhouse, self._table)
        return max(last + 1, time.time_ns() // 1000)


def selected(column: Column, stored: Type, request: RowSinkRequest) -> str:
    """Return Spark SQL of a column that fails for a value that ClickHouse would store as another one without an error."""
    name = value = name_sql(column.name)
    ended = request.upsert and column.name not in request.key
    refused = types.refused_sql(name, column.type, stored)
    if refused is not None:
        null_hint = "Replace a NULL list, map or struct by a value with COALESCE. " if stored.parts else ""
        refusal = carried_text(
            UserError(
                SqlState.NUMERIC_VALUE_OUT_OF_RANGE,
                f"a value of the column {column.name} does not fit: the table {path_text(request.entity)} has {stored} there",
                hint=f"{null_hint}Leave such rows out with WHERE, or change the column in ClickHouse.",
            )
        )
        refused = f"{refused} AND NOT {DELETED}" if ended else refused
        value = f"IF({refused}, raise_error({text_sql(refusal)}), {name})"
    nothing = types.default(column.type)
    if ended and nothing is not None and not stored.nullable:
        # Of a row that has ended there may be no more than its key.
        value = f"IF({DELETED}, coalesce({value}, {nothing}), {value})"
    return f"{value} AS {name}"
