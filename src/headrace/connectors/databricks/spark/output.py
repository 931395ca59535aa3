"""Rows of a query into a Delta table: files into the store's bucket, then one statement for a batch.

Spark first writes a batch into files next to the checkpoint, and then sends these files, so a batch that is repeated after a crash is
identical. ADR 32 explains why the table contains each batch only once.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame

from headrace.connectors.commit_interval import CommitInterval
from headrace.connectors.databricks import tables
from headrace.connectors.databricks.options import COMMIT_INTERVAL, LOCATION, staging_folder
from headrace.connectors.databricks.staging import Staging
from headrace.connectors.databricks.types import to_delta
from headrace.connectors.databricks.warehouse import Warehouse
from headrace.connectors.journal import Journal
from headrace.connectors.streaming import RowSinkRequest, tasks
from headrace.core.internal_columns import DELETED
from headrace.core.schema import Schema
from headrace.formats.types import name_sql, text_sql
from headrace.runtime.fail_points import fail_point

ROWS_PER_FILE = 2_000_000
_FOLDER = "databricks"
_TXN = "spark.databricks.delta.write.txn"


def writer(request: RowSinkRequest) -> Callable[[DataFrame, int], None]:
    """See `write_rows` of `connectors.streaming`. Each batch is committed once, for either delivery guarantee."""
    store, schema = request.properties, Schema(request.columns, request.key)
    with Warehouse(store) as warehouse:
        table = tables.find(warehouse, request.entity)
    tables.check(table, request.entity, schema, request.options.get(LOCATION.name))
    interval = CommitInterval(request, int(request.options[COMMIT_INTERVAL.name]))
    staging, journal = Staging(store), Journal(request.checkpoint.at(_FOLDER), request.resources)
    # Generated names: column names may be invalid in Parquet.
    written = [
        f"CAST({name_sql(column.name)} AS {to_delta(column.type)}) AS c{number}"
        for number, column in enumerate(request.columns)
    ]
    if request.upsert:
        written.append(DELETED)

    def write(batch: DataFrame, epoch: int) -> None:
        interval.wait()
        if not journal.contains(epoch):
            batch.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
            rows = batch.selectExpr(*written).coalesce(tasks(batch.sparkSession))
            journal.keep(rows, epoch, 0, rows_per_file=ROWS_PER_FILE)
        files = list(journal.left())
        if not files:
            return
        folder = staging_folder(request.query_id, epoch)
        staging.upload(files, folder)
        with Warehouse(store) as warehouse:
            known = _is_transaction(warehouse, request.query_id, epoch)
            warehouse.execute(statement(request, table.name, staging.uri(folder), known=known))
        fail_point("inside_transaction")
        for file in files:
            journal.sent(file)
        staging.delete((file.name for file in files), folder)
        interval.committed()

    return write


def _is_transaction(warehouse: Warehouse, query: str, epoch: int) -> bool:
    """Let Delta commit this session's writes as a query's epoch, once; False if it knows the epoch."""
    return warehouse.sets(f"{_TXN}AppId", f"headrace-{query}") and warehouse.sets(
        f"{_TXN}Version", str(epoch)
    )


def statement(request: RowSinkRequest, table: str, folder: str, *, known: bool) -> str:
    """Return the statement that writes the files of a folder into a table; idempotent unless Delta recognizes the epoch."""
    names = [name_sql(column.name) for column in request.columns]
    sent = [f"c{number}" for number in range(len(names))]
    files = f"parquet.{name_sql(folder)}"
    if request.upsert:
        pairs = dict(zip((column.name for column in request.columns), sent, strict=True))
        same = " AND ".join(f"t.{name_sql(name)} = s.{pairs[name]}" for name in request.key)
        return (
            f"MERGE INTO {table} AS t USING (SELECT * FROM {files}) AS s ON {same} "  # noqa: S608 - the names are quoted
            f"WHEN MATCHED AND s.{DELETED} THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f't.{name} = s.{one}' for name, one in zip(names, sent, strict=True))} "
            f"WHEN NOT MATCHED AND NOT s.{DELETED} THEN INSERT ({', '.join(names)}) VALUES ({', '.join(f's.{one}' for one in sent)})"
        )
    if known:
        return f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(sent)} FROM {files}"  # noqa: S608
    return f"COPY INTO {table} ({', '.join(names)}) FROM (SELECT {', '.join(sent)} FROM {text_sql(folder)}) FILEFORMAT = PARQUET"  # noqa: S608
