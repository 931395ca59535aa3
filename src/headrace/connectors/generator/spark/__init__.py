"""The driver half of the generator store type. `connectors.streaming` describes the contract of each function.

numpy and pyarrow are imported in functions: every driver loads this module, and few drivers generate rows.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from headrace.connectors.carried_errors import carried
from headrace.core.errors import HeadraceError
from headrace.core.names import path_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.connectors.streaming import RowRequest

__all__ = ["CLASSES", "NOISY_LOGGERS", "classify", "probe", "rows", "secrets", "splits"]

CLASSES: tuple[str, ...] = ()
NOISY_LOGGERS: tuple[str, ...] = ()


def rows(session: SparkSession, request: RowRequest) -> DataFrame:
    """Return the rows of a stream; "latest" is the moment of this call. Raises UserError 42804 for a distribution that does not fit."""
    from headrace.connectors.generator.options import BAD_RATIO, START
    from headrace.connectors.generator.rows import GeneratedRows, check
    from headrace.connectors.generator.spark.stream import BAD, REQUEST, GeneratorSource, admitted

    check(request.columns, request.options)
    generated = GeneratedRows(request.columns, request.options, int(request.properties[START.name]))
    position: str | int = request.starting_position
    if position == "timestamp":
        position = request.starting_timestamp_ms or 0
    asked = {
        "entity": path_text(request.entity),
        "columns": [[column.name, str(column.type), column.nullable] for column in request.columns],
        "given": dict(request.options),
        "started_ms": generated.started_ms,
        "starts": generated.starts(position, int(time.time() * 1000)),  # type: ignore[arg-type]  # a plan has the words as str
        "most": request.records_per_batch,
    }
    session.dataSource.register(GeneratorSource)
    frame = session.readStream.format(GeneratorSource.name()).option(REQUEST, json.dumps(asked)).load()
    if float(request.options[BAD_RATIO.name]) == 0:
        return frame.drop(BAD)
    return admitted(frame, request.columns, request.on_error)


def splits(request: RowRequest) -> dict[str, list[int]]:
    """Return the splits of a stream."""
    from headrace.connectors.generator.options import SPLITS

    return {path_text(request.entity): list(range(int(request.options[SPLITS.name])))}


def probe(_properties: Mapping[str, str]) -> Callable[[], None]:
    """Return a function that does nothing: there is no system that could be silent."""
    return lambda: None


def classify(text: str) -> HeadraceError | None:
    """Return the classified error in a text of Spark's."""
    return carried(text)


def secrets(_properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return no values: the store has no secrets."""
    return ()
