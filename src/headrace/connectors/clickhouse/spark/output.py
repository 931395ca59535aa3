"""Rows of a query into a table, each batch in a few large INSERTs.

Spark writes a batch into files beside the checkpoint first. What is sent are these files: so a batch that comes again after a crash is
sent in the same parts, each under the name that it had, by which ClickHouse knows it again. ADR 23 says why.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from pyarrow import parquet
from pyspark.sql import DataFrame

from headrace.connectors.carried_errors import carried_text
from headrace.connectors.clickhouse import tables, types
from headrace.connectors.clickhouse.client import ClickHouse, identifier
from headrace.connectors.clickhouse.tables import Table
from headrace.connectors.clickhouse.types import Type
from headrace.connectors.streaming import RowSinkRequest
from headrace.core.errors import UserError
from headrace.core.names import path_text
from headrace.core.schema import Column, Schema
from headrace.core.sqlstate import SqlState
from headrace.formats.types import name_sql, text_sql
from headrace.runtime.fail_points import fail_point

ROWS_PER_INSERT = 250_000
_FOLDER = "clickhouse"
_GONE = "__deleted"
_SETTINGS = {
    "async_insert": 0,
    "insert_deduplicate": 1,
    "deduplicate_blocks_in_dependent_materialized_views": 1,
    # A file is one block: of each of the table's partitions it is there as a whole, or not at all.
    "min_insert_block_size_rows": ROWS_PER_INSERT,
    "min_insert_block_size_bytes": 0,
    "max_insert_threads": 1,
    "input_format_null_as_default": 0,
}


def writer(request: RowSinkRequest) -> Callable[[DataFrame, int], None]:
    """See `write_rows` of `connectors.streaming`. Raises UserError 3D007, 42703 or 42P16 when the table is not what it was."""
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
        self._selected = [_selected(column, table.types[column.name], request) for column in request.columns]
        names = [column.name for column in request.columns]
        if request.upsert:
            self._selected.append(f"CAST({_GONE} AS TINYINT) AS {name_sql(str(table.deleted))}")
            names += [str(table.deleted), str(table.version)]
        self._target = f"{table.name} ({', '.join(map(identifier, names))})"
        self._journal = _Journal(Path(request.checkpoint, _FOLDER))

    def write(self, batch: DataFrame, epoch: int) -> None:
        """Returns when ClickHouse has the rows of an epoch."""
        if not self._journal.has(epoch):
            self._keep(batch, epoch)
        for file in self._journal.left():
            token = f"{self._query}/{epoch}/{file.name}"
            self._clickhouse.insert(self._target, file, {**_SETTINGS, "insert_deduplication_token": token})
            fail_point("inside_transaction")
            file.unlink()

    def _keep(self, batch: DataFrame, epoch: int) -> None:
        version = self._next_version() if self._upsert else 0
        rows = batch.selectExpr(*self._selected)
        if self._upsert:
            rows = rows.selectExpr("*", f"{version}L AS {name_sql(str(self._table.version))}")
        rows.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        # Few large parts are what ClickHouse merges well, whatever the tasks of a query are.
        files = rows.repartition(1).write.option("maxRecordsPerFile", ROWS_PER_INSERT)
        files.parquet(str(self._journal.begin(epoch)))
        self._journal.complete(epoch, version)

    def _next_version(self) -> int:
        """Above all that the table has, of whichever query, and above those of this one, even if a clock is set back."""
        last = self._journal.version
        if last is None:
            last = tables.newest_version(self._clickhouse, self._table)
        return max(last + 1, time.time_ns() // 1000)


@dataclass(frozen=True)
class _Kept:
    """The last epoch that was kept as a whole, the version of its rows, and its files in order. One that is not there was sent."""

    epoch: int
    version: int
    files: list[str]


class _Journal:
    """The files of an epoch, and what there is of them still to send, in a folder that outlives the driver."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._state = folder / "state.json"
        folder.mkdir(parents=True, exist_ok=True)
        self._kept = _Kept(**json.loads(self._state.read_text())) if self._state.exists() else None

    @property
    def version(self) -> int | None:
        """That of the last epoch."""
        return None if self._kept is None else self._kept.version

    def has(self, epoch: int) -> bool:
        """Whether an epoch was kept, and perhaps sent, before."""
        return self._kept is not None and self._kept.epoch >= epoch

    def begin(self, epoch: int) -> Path:
        """A folder for the files of an epoch, which is not there yet; of another epoch nothing is left."""
        for folder in self._folder.iterdir():
            if folder.is_dir():
                shutil.rmtree(folder)
        return self._files(epoch)

    def complete(self, epoch: int, version: int) -> None:
        """Returns when the files of an epoch, and that they are all of them, are on the disk."""
        files = sorted(
            file for file in self._files(epoch).glob("*.parquet") if parquet.read_metadata(file).num_rows
        )
        for file in files:
            _sync(file)
        _sync(self._files(epoch))
        self._kept = _Kept(epoch, version, [file.name for file in files])
        new = self._state.with_suffix(".new")
        new.write_text(json.dumps(asdict(self._kept)))
        _sync(new)
        new.replace(self._state)
        _sync(self._folder)

    def left(self) -> Iterator[Path]:
        """The files of the last epoch that are still to be sent."""
        if self._kept is not None:
            files = (self._files(self._kept.epoch) / name for name in self._kept.files)
            yield from (file for file in files if file.exists())

    def _files(self, epoch: int) -> Path:
        return self._folder / str(epoch)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _selected(column: Column, found: Type, request: RowSinkRequest) -> str:
    """A column as Spark SQL that fails for a value that ClickHouse would take as another one without a word."""
    name = value = name_sql(column.name)
    refused = types.refused_sql(name, column.type, found)
    if refused is not None:
        refusal = carried_text(
            UserError(
                SqlState.NUMERIC_VALUE_OUT_OF_RANGE,
                f"a value of the column {column.name} does not fit: the table {path_text(request.entity)} has {found} there",
                hint="Leave such rows out with WHERE, or change the column in ClickHouse.",
            )
        )
        value = f"IF({refused}, raise_error({text_sql(refusal)}), {name})"
    nothing = types.default(column.type)
    if request.upsert and nothing is not None and not found.nullable and column.name not in request.key:
        # Of a row that has ended there may be no more than its key.
        value = f"IF({_GONE}, coalesce({value}, {nothing}), {value})"
    return f"{value} AS {name}"
