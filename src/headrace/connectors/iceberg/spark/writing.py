"""Batches of a query into a table: one commit each, which carries the epoch in the summary of its snapshot."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame

from headrace.connectors.commit_interval import CommitInterval
from headrace.connectors.iceberg.options import COMMIT_INTERVAL
from headrace.connectors.iceberg.spark.catalog import stored_type, table_name
from headrace.connectors.marks import BEFORE_ANY, is_written
from headrace.connectors.streaming import RowSinkRequest
from headrace.core.errors import UserError
from headrace.core.internal_columns import DELETED
from headrace.core.names import path_text
from headrace.core.schema import Column
from headrace.core.sqlstate import SqlState
from headrace.formats.types import name_sql, text_sql

QUERY, EPOCH = "headrace.query", "headrace.epoch"
_SUMMARY = "spark.sql.iceberg.snapshot-property."
_BATCH = "headrace_batch"
_COMMIT_INTERVAL_MS = 10_000
_UUID = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"


def writer(request: RowSinkRequest) -> Callable[[DataFrame, int], None]:
    """See `write_rows` of `connectors.streaming`."""
    started = time.time()
    interval = CommitInterval(request, int(request.options.get(COMMIT_INTERVAL.name, _COMMIT_INTERVAL_MS)))
    columns: list[str] = []
    malformed: dict[str, str] = {}

    def write(batch: DataFrame, epoch: int) -> None:
        interval.wait()
        session = batch.sparkSession
        table = table_name(session, request.properties, request.entity)
        if request.guarantee == "exactly_once" and _is_written(batch, table, request, epoch, started):
            return
        if not columns:
            kinds = _types(batch, table)
            columns.extend(_selected(column, kinds.get(column.name)) for column in request.columns)
            tests = ((column, malformed_uuid_sql(name_sql(column), kind)) for column, kind in kinds.items())
            malformed.update({column: test for column, test in tests if test is not None})
        session.conf.set(_SUMMARY + QUERY, request.query_id)
        session.conf.set(_SUMMARY + EPOCH, str(epoch))
        rows = batch.selectExpr(*columns, *([DELETED] if request.upsert else []))
        if request.upsert or malformed:
            # MERGE and the test read the rows more than once. In a copy-on-write table MERGE refuses a plan that is not deterministic,
            # such as the numbering of rows by which the last of each key was kept; a checkpoint has no plan.
            rows = rows.localCheckpoint()
        try:
            _refuse_malformed_uuids(rows, malformed, request)
            if request.upsert:
                rows.createOrReplaceTempView(_BATCH)
                session.sql(merge_sql(request, table))
            else:
                rows.writeTo(table).option("fanout-enabled", "true").append()
        finally:
            if request.upsert or malformed:
                _release(rows)
        interval.committed()

    return write


def _release(rows: Any) -> None:
    """Free a local checkpoint, which Spark would keep until Java's collector finds it unused."""
    rows._jdf.queryExecution().analyzed().rdd().unpersist(False)


def _types(batch: DataFrame, table: str) -> dict[str, Any]:
    """Return the types of a table's columns, in Iceberg's JSON."""
    session: Any = batch.sparkSession
    tables = session.sparkContext._jvm.io.headrace.iceberg.StoreTables
    fields = json.loads(tables.schema(session._jsparkSession, table))["fields"]
    return {field["name"]: field["type"] for field in fields}


def _selected(column: Column, kind: Any) -> str:
    """Return Spark SQL of a column whose type in the table is `kind`; UUIDs in lower case, as Spark reads them and MERGE compares them."""
    name = name_sql(column.name)
    value = f"lower({name})" if kind == "uuid" else f"CAST({name} AS {stored_type(column.type)})"
    return f"{value} AS {name}"


def _refuse_malformed_uuids(rows: DataFrame, malformed: Mapping[str, str], request: RowSinkRequest) -> None:
    """Raise UserError 22000 if a condition of `malformed`, by column, is true for a row.

    Java parses '1-1-1-1-1' as a UUID, too: the table would contain another text. The test is a query of its own, since MERGE refuses
    rows that depend on raise_error.
    """
    for column, condition in malformed.items():
        if column in rows.columns and not rows.where(condition).isEmpty():
            raise UserError(
                SqlState.DATA_EXCEPTION,
                f"a value of {column} is not a UUID, which the column's type in {path_text(request.entity)} requires",
                hint="Filter such rows out with WHERE: a UUID has 8-4-4-4-12 hexadecimal digits.",
            )


def malformed_uuid_sql(value: str, kind: Any, depth: int = 0) -> str | None:
    """Return Spark SQL that is true if a text is not a UUID where Iceberg's type requires one; None if the type contains no UUID."""
    item = f"item{depth}"
    match kind:
        case "uuid":
            return f"NOT (char_length({value}) = 36 AND {value} RLIKE {text_sql(_UUID)})"
        case {"type": "list", "element": element}:
            inner = malformed_uuid_sql(item, element, depth + 1)
            return inner and f"exists({value}, {item} -> {inner})"
        case {"type": "map", "key": key, "value": of_key}:
            parts = [
                f"exists({entries}({value}), {item} -> {inner})"
                for entries, part in (("map_keys", key), ("map_values", of_key))
                if (inner := malformed_uuid_sql(item, part, depth + 1)) is not None
            ]
        case {"type": "struct", "fields": fields}:
            inside = (
                malformed_uuid_sql(f"{value}.{name_sql(field['name'])}", field["type"], depth)
                for field in fields
            )
            parts = [part for part in inside if part is not None]
        case _:
            return None
    return f"({' OR '.join(parts)})" if parts else None


def _is_written(batch: DataFrame, table: str, request: RowSinkRequest, epoch: int, started: float) -> bool:
    """Return True if the table's history contains a query's epoch. Raises UserError 22000 when the history was cut off.

    A new epoch was never written. An epoch that is repeated may have been written by a snapshot that has expired since.
    """
    session: Any = batch.sparkSession
    tables = session.sparkContext._jvm.io.headrace.iceberg.StoreTables
    history = f"the snapshots of {path_text(request.entity)}"
    last = int(tables.lastEpoch(session._jsparkSession, table, QUERY, EPOCH, request.query_id))
    if last != BEFORE_ANY:
        return is_written(last, epoch, history)
    offsets_at = request.checkpoint.written_at(f"offsets/{epoch}")
    if offsets_at is None or (
        offsets_at < started and not tables.reaches(session._jsparkSession, table, int(offsets_at * 1000))
    ):
        return is_written(None, epoch, history)
    return False


def merge_sql(request: RowSinkRequest, table: str) -> str:
    """Return the MERGE that upserts and deletes by the key; each key is in a batch once."""
    names = [name_sql(column.name) for column in request.columns]
    same = " AND ".join(f"t.{name_sql(name)} = s.{name_sql(name)}" for name in request.key)
    return (
        f"MERGE INTO {table} AS t USING {_BATCH} AS s ON {same} "  # noqa: S608 - the names are quoted
        f"WHEN MATCHED AND s.{DELETED} THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {', '.join(f't.{name} = s.{name}' for name in names)} "
        f"WHEN NOT MATCHED AND NOT s.{DELETED} THEN "
        f"INSERT ({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})"
    )
