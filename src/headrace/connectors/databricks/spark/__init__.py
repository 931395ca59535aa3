"""The driver half of the Databricks store type. `connectors.streaming` describes the contract of each function.

Imports are in functions: every driver loads this module, and few drivers use Databricks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from headrace.connectors.carried_errors import carried
from headrace.core.errors import HeadraceError
from headrace.core.names import EntityPath
from headrace.core.properties import secret_values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.connectors.streaming import RowSinkRequest, TableRequest

__all__ = ["CLASSES", "NOISY_LOGGERS", "classify", "identify", "probe", "secrets", "table", "write_rows"]

CLASSES: tuple[str, ...] = ()
NOISY_LOGGERS: tuple[str, ...] = ()


def table(session: SparkSession, request: TableRequest) -> DataFrame:
    """Raise UserError 3D007 for a missing table, 42703 and 42P16 for columns that differ from the table's."""
    from headrace.connectors.databricks.spark.source import frame

    return frame(session, request)


def write_rows(request: RowSinkRequest) -> Callable[[DataFrame, int], None]:
    """Raise UserError 3D007, 42703 or 42P16 if the table has changed."""
    from headrace.connectors.databricks.spark.output import writer

    return writer(request)


def probe(properties: Mapping[str, str]) -> Callable[[], None]:
    """Check that the workspace's port is open. A statement would keep its warehouse running, which costs money."""
    from headrace.connectors.databricks.warehouse import reach

    return lambda: reach(properties)


def identify(properties: Mapping[str, str]) -> Callable[[EntityPath], dict[str, str]]:
    """Identify a Delta table by its id."""
    from headrace.connectors.databricks.tables import delta_id
    from headrace.connectors.databricks.warehouse import Warehouse

    def ask(entity: EntityPath) -> dict[str, str]:
        with Warehouse(properties) as warehouse:
            return delta_id(warehouse, entity)

    return ask


def classify(text: str) -> HeadraceError | None:
    """Return the classified error in a text of Spark's. Errors of other libraries are classified where they are raised."""
    return carried(text)


def secrets(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return values to mask in logs and errors."""
    from headrace.connectors.databricks.options import PROPERTIES

    return secret_values(properties, PROPERTIES)
