"""The driver half of the Snowflake store type. `connectors.streaming` describes the contract of each function.

Imports are in functions: every driver loads this module, and few drivers use Snowflake.
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
    from headrace.connectors.snowflake.spark.source import frame

    return frame(session, request)


def write_rows(request: RowSinkRequest) -> Callable[[DataFrame, int], None]:
    """Raise UserError 3D007, 42703 or 42P16 if the table has changed; ExternalError 57015."""
    from headrace.connectors.snowflake.spark.output import writer

    return writer(request)


def probe(properties: Mapping[str, str]) -> Callable[[], None]:
    """Check only the TCP connection: a statement every two seconds would cost money."""
    from headrace.connectors.snowflake.client import reach

    return lambda: reach(properties)


def identify(properties: Mapping[str, str]) -> Callable[[EntityPath], dict[str, str]]:
    """Identify a table by its time of creation: Snowflake shows the id to administrators only, and hours late."""
    from headrace.connectors.snowflake.client import Snowflake
    from headrace.connectors.snowflake.tables import creation

    def ask(entity: EntityPath) -> dict[str, str]:
        with Snowflake(properties) as snowflake:
            return creation(snowflake, entity)

    return ask


def classify(text: str) -> HeadraceError | None:
    """Return the classified error in a text of Spark's. Errors of other libraries are classified where they are raised."""
    return carried(text)


def secrets(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return values to mask in logs and errors."""
    from headrace.connectors.snowflake.options import PROPERTIES

    return secret_values(properties, PROPERTIES)
