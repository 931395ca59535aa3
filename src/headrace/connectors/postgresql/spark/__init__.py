"""The driver half of the PostgreSQL store type. `connectors.streaming` describes the contract of each function.

psycopg and pyarrow are imported in functions: every driver loads this module, and few drivers use PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from headrace.connectors.carried_errors import carried
from headrace.core.errors import HeadraceError
from headrace.core.internal_columns import DELETED, ENTITY, ROW_KEY, ROW_METADATA, ROW_TIME, SEQUENCE, SPLIT
from headrace.core.names import EntityPath, path_text
from headrace.core.properties import secret_values
from headrace.formats.types import name_sql, spark_type

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from headrace.connectors.streaming import LookupRequest, RowRequest, RowSinkRequest, TableRequest

__all__ = [
    "CLASSES",
    "NOISY_LOGGERS",
    "backlog",
    "classify",
    "identify",
    "lookup",
    "probe",
    "rows",
    "secrets",
    "splits",
    "table",
    "write_rows",
]

CLASSES: tuple[str, ...] = ()
NOISY_LOGGERS: tuple[str, ...] = ()


def rows(session: SparkSession, request: RowRequest) -> DataFrame:
    """Raises UserError 3D007 for a missing table, 42703 for a missing column; ExternalError 57015."""
    from headrace.connectors.postgresql.rows import METADATA
    from headrace.connectors.postgresql.spark.reading import reading
    from headrace.connectors.postgresql.spark.source import READING, TableSource

    schema = [
        *(f"{name_sql(column.name)} {spark_type(column.type)}" for column in request.columns),
        f"{ROW_TIME} TIMESTAMP, {ROW_KEY} STRING, {DELETED} BOOLEAN, {ENTITY} STRING, {SPLIT} INT, {SEQUENCE} BIGINT",
        f"{ROW_METADATA} {spark_type(METADATA)}",
    ]
    session.dataSource.register(TableSource)
    stream = session.readStream.format(TableSource.name()).option("schema", ", ".join(schema))
    return stream.option(READING, reading(request).to_json()).load()


def table(session: SparkSession, request: TableRequest) -> DataFrame:
    """Raises UserError 3D007 for a missing table, 42703 for a missing column; ExternalError 57015."""
    from headrace.connectors.postgresql.spark.batch import frame

    return frame(session, request)


def lookup(request: LookupRequest) -> Callable[[pa.Table], pa.Table]:
    """Raises UserError 3D007 for a missing table, 42703 for a missing column; ExternalError 57015."""
    from headrace.connectors.postgresql.lookup import prepare

    return prepare(request)


def write_rows(request: RowSinkRequest) -> Callable[[DataFrame, int], None]:
    """Raises UserError 3D007 for a schema that is missing; ExternalError 57015, also where the table of marks may not be made."""
    from headrace.connectors.postgresql.spark.writing import writer

    return writer(request)


def backlog(request: RowRequest) -> Callable[[], int]:
    """Return a function for the retained log of the query's slot; each call connects."""
    from headrace.connectors.postgresql.spark.reading import slot_lag

    return lambda: slot_lag(request)


def splits(request: RowRequest) -> dict[str, list[int]]:
    """Return a single split: the log."""
    return {path_text(request.entity): [0]}


def probe(properties: Mapping[str, str]) -> Callable[[], None]:
    """Opens a new connection each time, which does not disturb the query's connections."""
    from headrace.connectors.postgresql.admin import test

    return lambda: test(properties)


def identify(properties: Mapping[str, str]) -> Callable[[EntityPath], dict[str, str]]:
    """Identify a table by its oid; positions in the log carry more (ADR 50)."""
    from headrace.connectors.postgresql.writing import oid

    return lambda entity: oid(properties, entity)


def classify(text: str) -> HeadraceError | None:
    """Return the classified error in a text of Spark's. Errors of psycopg are classified where they are raised."""
    return carried(text)


def secrets(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return values to mask in logs and errors."""
    from headrace.connectors.postgresql.options import PROPERTIES

    return secret_values(properties, PROPERTIES)
