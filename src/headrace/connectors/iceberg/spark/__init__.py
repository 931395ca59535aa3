"""The driver half of Iceberg's store types. `connectors.streaming` describes the contract of each function.

Iceberg's jars are added to the class path by the first query that needs them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from headrace.connectors.carried_errors import carried
from headrace.core.errors import HeadraceError
from headrace.core.names import EntityPath, path_text
from headrace.core.properties import secret_values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.connectors.streaming import OptimizeRequest, RowRequest, RowSinkRequest, TableRequest

__all__ = [
    "CLASSES",
    "NOISY_LOGGERS",
    "classify",
    "identify",
    "optimize",
    "poll_ms",
    "probe",
    "rows",
    "secrets",
    "splits",
    "table",
    "write_rows",
]

CLASSES: tuple[str, ...] = ()
NOISY_LOGGERS: tuple[str, ...] = ("org.apache.iceberg",)
_OURS = re.compile(
    r"org\.apache\.iceberg|software\.amazon\.awssdk|TABLE_OR_VIEW_NOT_FOUND|INCOMPATIBLE_DATA_FOR_TABLE|Cannot process \w+ snapshot"
    r"|Table UUID does not match|snapshot was expired or removed|not an ancestor of table's current snapshot"
)


def rows(session: SparkSession, request: RowRequest) -> DataFrame:
    """Return the rows that commits append; raises UserError 3D007 for a missing table."""
    from headrace.connectors.iceberg.spark.reading import appended

    return appended(session, request)


def poll_ms(request: RowRequest) -> int:
    """Return the polling interval: each batch sends a request to the catalog, and each commit causes at most one batch."""
    from headrace.connectors.iceberg.options import MONITOR_INTERVAL

    return int(request.options[MONITOR_INTERVAL.name])


def splits(request: RowRequest) -> dict[str, list[int]]:
    """Return a single split: the table's history."""
    return {path_text(request.entity): [0]}


def table(session: SparkSession, request: TableRequest) -> DataFrame:
    """Return a table's rows. Files and row groups excluded by a filter are not read; raises UserError 3D007 for a missing table."""
    from headrace.connectors.iceberg.spark.reading import frame

    return frame(session, request)


def write_rows(request: RowSinkRequest) -> Callable[[DataFrame, int], None]:
    """Return a writer: each batch is one commit of the table, at most one per commit interval."""
    from headrace.connectors.iceberg.spark.writing import writer

    return writer(request)


def optimize(session: SparkSession, request: OptimizeRequest) -> tuple[int, ...]:
    """Compact small files and delete files, remove old snapshots, and return the counts."""
    from headrace.connectors.iceberg.spark.maintenance import optimized

    return optimized(session, request)


def probe(properties: Mapping[str, str]) -> Callable[[], None]:
    """Check a REST catalog without a token, since the check runs every few seconds; check Glue with the store's keys."""
    from headrace.connectors.iceberg.glue import GlueCatalog
    from headrace.connectors.iceberg.options import WAREHOUSE
    from headrace.connectors.iceberg.rest import reach

    return GlueCatalog(properties).reach if WAREHOUSE.name in properties else lambda: reach(properties)


def identify(properties: Mapping[str, str]) -> Callable[[EntityPath], dict[str, str]]:
    """Identify a table by its UUID, which Iceberg itself compares while a table is read."""
    from headrace.connectors.iceberg.admin import uuid

    return lambda entity: uuid(properties, entity)


def classify(text: str) -> HeadraceError | None:
    """Return the error by the class of Iceberg's or AWS's exception, or of Spark's over a table; None for others."""
    from headrace.connectors.iceberg.failures import classify as of_iceberg

    own = carried(text)
    if own is None and _OURS.search(text):
        own = of_iceberg(text)
    return own


def secrets(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return values to mask in logs and errors."""
    from headrace.connectors.iceberg.options import GLUE, REST

    return secret_values(properties, (*REST, *(spec for spec in GLUE if spec not in REST)))
