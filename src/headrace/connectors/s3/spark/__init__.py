"""The driver half of the S3 store type. `connectors.streaming` describes the contract of each function.

boto3 and pyarrow are imported in functions: every driver loads this module, and few drivers use S3.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from headrace.connectors.carried_errors import carried
from headrace.core.errors import HeadraceError
from headrace.core.names import path_text
from headrace.core.properties import secret_values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.connectors.streaming import RowRequest, RowSinkRequest, TableRequest

__all__ = [
    "CLASSES",
    "NOISY_LOGGERS",
    "classify",
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
    """Return the rows of present and future files. Raises UserError 3D007 for a missing bucket."""
    from headrace.connectors.checkpoint_store import facts_of
    from headrace.connectors.s3.client import s3
    from headrace.connectors.s3.failures import classified
    from headrace.connectors.s3.options import DISCOVERY, folder_of
    from headrace.connectors.s3.spark.reading import Folder, rows_of
    from headrace.connectors.s3.spark.source import READING, FolderSource, Watching

    store = dict(request.properties)
    bucket, prefix = folder_of(store, request.entity)
    with classified(store, bucket):
        s3(store).list_objects_v2(Bucket=bucket, Prefix=prefix, MaxKeys=1)
    watching = Watching(
        store=store,
        bucket=bucket,
        prefix=prefix,
        interval_s=int(request.options[DISCOVERY.name]),
        with_present=request.starting_position == "earliest",
        kept=facts_of(request.kept) if request.kept is not None else None,
    )
    session.dataSource.register(FolderSource)
    parts = (
        session.readStream.format(FolderSource.name()).option(READING, json.dumps(asdict(watching))).load()
    )
    folder = Folder.of(store, bucket, path_text(request.entity), request.columns, request.options)
    return rows_of(parts, folder, on_error=request.on_error)


def table(session: SparkSession, request: TableRequest) -> DataFrame:
    """Return the rows of the files that the folder has now. Raises UserError 3D007 for a missing bucket; ExternalError 57015."""
    from headrace.connectors.s3.spark.reading import frame

    return frame(session, request)


def write_rows(request: RowSinkRequest) -> Callable[[DataFrame, int], None]:
    """Return a writer of files, all of a batch or none. Raises UserError 3D007 for a missing bucket; ExternalError 57015."""
    from headrace.connectors.s3.spark.writing import writer

    return writer(request)


def splits(request: RowRequest) -> dict[str, list[int]]:
    """Return a single split: the folder."""
    return {path_text(request.entity): [0]}


def probe(properties: Mapping[str, str]) -> Callable[[], None]:
    """Request the bucket, or the list of buckets."""
    from headrace.connectors.s3.admin import asks

    return asks(properties)


def classify(text: str) -> HeadraceError | None:
    """Return the classified error in a text of Spark's. Errors of botocore are classified where they are raised."""
    return carried(text)


def secrets(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return values to mask in logs and errors."""
    from headrace.connectors.s3.options import PROPERTIES

    return secret_values(properties, PROPERTIES)
